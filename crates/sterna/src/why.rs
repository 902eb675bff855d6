//! `sterna why`.

use sterna_api::{
    client::Client,
    rest::{Explained, ServiceExplained, TakenBackView},
};
use sterna_model::{Kind, Target};

use crate::{
    out,
    remote::{Remote, failed, resolve, wait},
    run::{age, pretty},
    show::path_of,
    table::folded,
};

/// Explain why a task, an instance or a service is not as its spec wants it, and what happens next
///
/// For a service, it lists each instance that is not, and counts the others.
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

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let target = resolve(&mut client, &args.remote, &args.selector).await?;
        if let Target::Whole { kind: Kind::Service, name } = &target {
            let path = args.remote.path(&format!("services/{name}/why"));
            let whole = whole(&mut client, &path).await?;
            out::answer(&if args.json { pretty(&whole)? } else { folded(&text(&whole), 9) })?;
            return Ok(());
        }
        let path = path_of(&args.remote, &target, "/why")?;
        let why: Explained = client.get(&path).await.map_err(failed)?;
        let said = || folded(&explained(&why.key, &[&why]), 9);
        out::answer(&if args.json { pretty(&why)? } else { said() })?;
        Ok(())
    })
}

/// What is said of a whole service, by the path of its `why`.
pub(crate) async fn of_service(client: &mut Client, path: &str) -> anyhow::Result<String> {
    Ok(text(&whole(client, path).await?))
}

/// What is said of one task or instance, by the path of its `why`.
pub(crate) async fn of_one(client: &mut Client, path: &str) -> anyhow::Result<String> {
    let why: Explained = client.get(path).await.map_err(failed)?;
    Ok(explained(&why.key, &[&why]))
}

/// What holds of one thing, or of several alike: then the times are those of the first.
fn explained(key: &str, alike: &[&Explained]) -> String {
    let Some(why) = alike.first() else { return String::new() };
    let first = if alike.len() > 1 { " at the earliest" } else { "" };
    let mut lines = vec![format!("{key}: {}", out::one_line(&why.text))];
    if let Some(since) = alike.iter().filter_map(|it| it.since.as_ref()).min() {
        lines.push(format!("  since  {since}{first}, {} ago", age(since)));
    }
    let at = alike.iter().filter_map(|it| it.at.as_ref()).min();
    let at = at.map(|at| format!(": {at}{first}")).unwrap_or_default();
    lines.push(format!("  next   {}{at}", out::one_line(&why.next)));
    lines.join("\n")
}

/// The whole service, page after page, as one answer.
async fn whole(client: &mut Client, path: &str) -> anyhow::Result<ServiceExplained> {
    let mut all: Option<ServiceExplained> = None;
    loop {
        let after = all.as_ref().and_then(|all| all.next.clone()).unwrap_or_default();
        let path = format!("{path}?limit=1000&after={after}");
        let page: ServiceExplained = client.get(&path).await.map_err(failed)?;
        let all = match &mut all {
            None => all.insert(page),
            Some(all) => {
                all.well += page.well;
                all.instances.extend(page.instances);
                all.next = page.next;
                all
            }
        };
        if all.next.is_none() {
            return Ok(all.clone());
        }
    }
}

fn text(whole: &ServiceExplained) -> String {
    let ServiceExplained { key, wanted, running, well, .. } = whole;
    let update = if whole.is_updating { ", and an update is under way" } else { "" };
    // tidy: not a table
    let mut lines = vec![match (whole.is_well, wanted) {
        (false, _) if whole.is_deleted => match whole.instances.len() {
            1 => format!("{key}: it was deleted, and 1 instance still ends"),
            count => format!("{key}: it was deleted, and {count} instances still end"),
        },
        (true, 0) => format!("{key}: its spec asks for no instances, and there are none"),
        (true, 1) => format!("{key}: its instance is as its spec wants it"),
        (true, _) => format!("{key}: all {wanted} instances are as its spec wants them"),
        (false, _) => format!("{key}: {running} of {wanted} instances run{update}"),
    }];
    if let Some(taken) = &whole.taken_back {
        let TakenBackView { version, at, text, .. } = taken;
        lines.push(format!("version {version} was rolled back at {at}; {text}"));
    }
    for alike in alike(&whole.instances) {
        lines.push(explained(&format!("{key}/{}", indices(&alike)), &alike));
    }
    if !whole.instances.is_empty() {
        match well {
            0 => {}
            1 => lines.push("the other one is as its spec wants it".to_owned()),
            _ => lines.push(format!("the other {well} are as its spec wants them")),
        }
    }
    lines.join("\n")
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
        let whole = ServiceExplained {
            key: "default/service/many".into(),
            wanted: 50,
            running: 40,
            is_updating: true,
            is_deleted: false,
            is_well: false,
            well: 40,
            instances,
            next: None,
            taken_back: Some(TakenBackView {
                version: 7,
                at: "2026-01-01T00:00:00Z".into(),
                index: 4,
                text: "many/4 crashed: exited with 3".into(),
            }),
        };
        assert_eq!(
            text(&whole),
            "default/service/many: 40 of 50 instances run, and an update is under way\n\
             version 7 was rolled back at 2026-01-01T00:00:00Z; many/4 crashed: exited with 3\n\
             default/service/many/11,12,23..29: no room\n  \
             next   it is tried again: 2026-01-01T00:00:11Z at the earliest\n\
             default/service/many/40: crashed\n  next   it is tried again: 2026-01-01T00:00:40Z\n\
             the other 40 are as its spec wants them"
        );
        let ending = ServiceExplained {
            wanted: 0,
            running: 0,
            is_updating: false,
            is_deleted: true,
            well: 0,
            ..whole
        };
        let said = text(&ending);
        let first = "default/service/many: it was deleted, and 10 instances still end\n";
        assert!(said.starts_with(first), "{said}");
    }
}
