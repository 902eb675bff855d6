//! `sterna why`.

use sterna_api::{
    client::Client,
    rest::{Code, Explained, InstanceView, ServiceView, WorkerView},
};
use sterna_model::{Kind, Target};

use crate::{
    out,
    remote::{Remote, all, failed, resolve, wait},
    run::{age, pretty},
    show::path_of,
};

/// Say why something is not where it should be, and what happens next
///
/// Of a service, each instance that is not where it should be. Of more than 20 those are asked about that
/// look worst: what does not run, what is on a worker that is ill or drained, what is of another version.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// [KIND/]NAME[/INDEX], or last
    selector: String,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

/// So many instances of a service are asked about at most: each is a question of its own.
const ASKED_MAX: usize = 20;

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let kinds = [Kind::Task, Kind::Service];
        let target = resolve(&mut client, &args.remote, &args.selector, &kinds).await?;
        if let Target::Whole { kind: Kind::Service, name } = &target {
            let whole = Whole::ask(&mut client, &args.remote, name.as_str()).await?;
            out::answer(&if args.json { pretty(&whole)? } else { whole.text() })?;
            return Ok(());
        }
        let path = path_of(&args.remote, &target, "/why")?;
        let why: Explained = client.get(&path).await.map_err(failed)?;
        out::answer(&if args.json { pretty(&why)? } else { explained(&why.key, &[&why]) })?;
        Ok(())
    })
}

/// What holds of one thing, or of several alike: then the times are those of the first.
fn explained(key: &str, alike: &[&Explained]) -> String {
    let Some(why) = alike.first() else { return String::new() };
    let first = if alike.len() > 1 { " at the earliest" } else { "" };
    let mut lines = vec![format!("{key}: {}", why.text)];
    if let Some(since) = alike.iter().filter_map(|it| it.since.as_ref()).min() {
        lines.push(format!("  since  {since}{first}, {} ago", age(since)));
    }
    let at = alike.iter().filter_map(|it| it.at.as_ref()).min();
    let at = at.map(|at| format!(": {at}{first}")).unwrap_or_default();
    lines.push(format!("  next   {}{at}", why.next));
    lines.join("\n")
}

/// What the list of instances shows of one already; what looks worst is asked about first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Looks {
    NotRunning,
    /// Its worker is ill, drained or unknown.
    Stranded,
    /// Of another version, being ended, or with a copy beside it.
    Changing,
    Well,
}

fn looks(it: &InstanceView, workers: &[WorkerView], version: u64) -> Looks {
    let is_fit = |worker: &WorkerView| {
        let WorkerView { health, draining_until, is_declared_dead, .. } = worker;
        health == "healthy" && draining_until.is_none() && !is_declared_dead
    };
    let mut its = workers.iter().filter(|worker| Some(&worker.name) == it.worker.as_ref());
    if it.phase != "running" {
        Looks::NotRunning
    } else if !its.any(is_fit) {
        Looks::Stranded
    } else if it.version != Some(version) || it.stopping.is_some() || it.twin.is_some() {
        Looks::Changing
    } else {
        Looks::Well
    }
}

/// A service, and each instance that is not where it should be.
#[derive(Debug, serde::Serialize)]
struct Whole {
    key: String,
    wanted: u32,
    running: u32,
    is_updating: bool,
    /// Whether every instance is where its spec wants it; not if one was not asked about.
    is_well: bool,
    /// Those that are not.
    instances: Vec<Explained>,
    /// How many were asked about.
    asked: usize,
    /// How many were not.
    unasked: usize,
}

impl Whole {
    async fn ask(client: &mut Client, remote: &Remote, name: &str) -> anyhow::Result<Self> {
        let path = remote.path(&format!("services/{name}"));
        let service: ServiceView = client.get(&path).await.map_err(failed)?;
        let mut listed: Vec<InstanceView> = all(client, &format!("{path}/instances")).await?;
        let unasked = listed.len().saturating_sub(ASKED_MAX);
        if unasked > 0 {
            let workers: Vec<WorkerView> = all(client, "/v1/workers").await?;
            listed.sort_by_key(|it| (looks(it, &workers, service.version), it.index));
            listed.truncate(ASKED_MAX);
        }
        let (asked, mut instances) = (listed.len(), Vec::new());
        for it in listed {
            let path = format!("{path}/instances/{}/why", it.index);
            match client.get::<Explained>(&path).await {
                Ok(why) if why.is_well => {}
                Ok(why) => instances.push(why),
                // It has gone meanwhile.
                Err(error) if error.code() == Some(Code::NotFound) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let ServiceView { key, instances: wanted, running, is_updating, .. } = service;
        let is_well = instances.is_empty() && running == wanted && unasked == 0 && !is_updating;
        Ok(Self { key, wanted, running, is_updating, is_well, instances, asked, unasked })
    }

    fn text(&self) -> String {
        let Self { key, wanted, running, asked, .. } = self;
        let update = if self.is_updating { ", and a new version comes about" } else { "" };
        // tidy: not a table
        let mut lines = vec![match (self.is_well, wanted) {
            (true, 0) => format!("{key}: its spec wants no instances, and there are none"),
            (true, 1) => format!("{key}: its instance is where its spec wants it"),
            (true, _) => format!("{key}: all {wanted} instances are where its spec wants them"),
            (false, _) => format!("{key}: {running} of {wanted} instances run{update}"),
        }];
        for alike in alike(&self.instances) {
            lines.push(explained(&format!("{key}/{}", indices(&alike)), &alike));
        }
        if self.unasked > 0 && self.instances.is_empty() {
            lines.push(format!("the {asked} that were asked about are where its spec wants them"));
        }
        let see = "not asked about; see `sterna ls instances`";
        match self.unasked {
            0 => {}
            1 => lines.push(format!("1 more was {see}")),
            count => lines.push(format!("{count} more were {see}")),
        }
        lines.join("\n")
    }
}

/// Those of which the same is said, together.
fn alike(all: &[Explained]) -> Vec<Vec<&Explained>> {
    let mut groups: Vec<Vec<&Explained>> = Vec::new();
    for why in all {
        let is_alike = |it: &&Explained| (&it.text, &it.next) == (&why.text, &why.next);
        match groups.iter_mut().find(|group| group.first().is_some_and(is_alike)) {
            Some(group) => group.push(why),
            None => groups.push(vec![why]),
        }
    }
    groups
}

/// Which instances, in few letters: `3,5,23..29`.
fn indices(alike: &[&Explained]) -> String {
    let index = |why: &&Explained| why.key.rsplit('/').next()?.parse::<u32>().ok();
    let mut all: Vec<u32> = alike.iter().filter_map(index).collect();
    all.sort_unstable();
    let in_a_row = all.chunk_by(|one, two| one + 1 == *two);
    let words = in_a_row.map(|row| match row {
        [first, _, .., last] => format!("{first}..{last}"),
        few => few.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn why(index: u32, text: &str) -> Explained {
        let said = json!({
            "key": format!("default/service/many/{index}"), "is_well": false, "rule": "r",
            "text": text, "next": "it is tried again", "at": format!("2026-01-01T00:00:{index}Z"),
        });
        serde_json::from_value(said).unwrap()
    }

    #[test]
    fn what_holds_of_many_is_said_once() {
        let mut instances: Vec<_> = (23..=29).map(|index| why(index, "no room")).collect();
        instances.insert(2, why(40, "crashed"));
        instances.extend([why(11, "no room"), why(12, "no room")]);
        let whole = Whole {
            key: "default/service/many".into(),
            wanted: 50,
            running: 40,
            is_updating: true,
            is_well: false,
            asked: 20,
            unasked: 30,
            instances,
        };
        assert_eq!(
            whole.text(),
            "default/service/many: 40 of 50 instances run, and a new version comes about\n\
             default/service/many/11,12,23..29: no room\n  \
             next   it is tried again: 2026-01-01T00:00:11Z at the earliest\n\
             default/service/many/40: crashed\n  next   it is tried again: 2026-01-01T00:00:40Z\n\
             30 more were not asked about; see `sterna ls instances`"
        );
    }

    #[test]
    fn what_looks_worst_is_asked_about_first() {
        let worker = |name: &str, health: &str, until: Option<&str>| -> WorkerView {
            let said = json!({
                "name": name, "lock": "l", "life": 1, "health": health, "takes_work": true,
                "draining_until": until, "is_declared_dead": false, "runs": 1,
            });
            serde_json::from_value(said).unwrap()
        };
        let workers = [
            worker("fit", "healthy", None),
            worker("ill", "unhealthy", None),
            worker("drained", "healthy", Some("2026-01-01T00:00:00Z")),
        ];
        let looks = |phase: &str, worker: &str, version: u64| {
            let said = json!({
                "key": "k", "index": 0, "phase": phase, "worker": worker, "version": version,
                "crashes": 0,
            });
            looks(&serde_json::from_value(said).unwrap(), &workers, 7)
        };
        assert_eq!(looks("crashed", "fit", 7), Looks::NotRunning);
        for worker in ["ill", "drained", "unknown"] {
            assert_eq!(looks("running", worker, 7), Looks::Stranded, "{worker}");
        }
        assert_eq!(looks("running", "fit", 6), Looks::Changing);
        assert_eq!(looks("running", "fit", 7), Looks::Well);
    }
}
