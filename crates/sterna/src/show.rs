//! `sterna ls` and `status`.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use sterna_api::{
    client::Client,
    rest::{
        Counts, DefinitionView, DomainView, InstanceView, NamespaceView, ServiceView, Status,
        TaskView, WorkerView, phase_word,
    },
};
use sterna_model::{Kind, Name, Target, Work, nearest_word, payload::Facts};

use crate::{
    exit, out,
    remote::{Chosen, Remote, all, failed, wait, with_nearest},
    run::{age, long, pretty},
    table::{Table, WORKER, folded},
};

/// List services, tasks and definitions, or another kind of object
#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// What to list
    #[arg(value_enum)]
    what: Option<What>,
    /// Only the object of this name; for instances, those of this service; for tasks, also `last`. With
    /// --json, a service, a task or a definition has its whole spec
    name: Option<String>,
    /// Print all fields as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    #[value(alias = "service")]
    Services,
    #[value(alias = "instance")]
    Instances,
    #[value(alias = "task")]
    Tasks,
    #[value(alias = "definition")]
    Definitions,
    #[value(alias = "worker")]
    Workers,
    #[value(alias = "namespace")]
    Namespaces,
    #[value(alias = "domain")]
    Domains,
}

pub(crate) fn ls(args: LsArgs) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let remote = &args.remote;
        let (mut json, mut tables) = (serde_json::Map::new(), Vec::new());
        let wants = |what| args.what.is_none_or(|asked| asked == what);
        let name = args.name.as_deref().map(Name::new).transpose();
        let name = name.map_err(|error| exit::coded(exit::USAGE)(error.into()))?;
        if wants(What::Services) {
            let services: Vec<ServiceView> =
                listed(&mut client, &remote.path("services"), name.as_ref()).await?;
            json.insert("services".to_owned(), serde_json::to_value(&services)?);
            tables.push((services.is_empty(), service_table(&services)));
        }
        if args.what == Some(What::Instances) {
            let instances = instances(&mut client, remote, name.as_ref()).await?;
            json.insert("instances".to_owned(), serde_json::to_value(&instances)?);
            tables.push((instances.is_empty(), instance_table(&instances)));
        }
        if wants(What::Tasks) {
            let newest = match args.name.as_deref() {
                Some("last") => remote.newest_task(&mut client).await?,
                Some(_) | None => None,
            };
            let name = newest.as_ref().or(name.as_ref());
            let tasks: Vec<TaskView> = listed(&mut client, &remote.path("tasks"), name).await?;
            json.insert("tasks".to_owned(), serde_json::to_value(&tasks)?);
            tables.push((tasks.is_empty(), task_table(&tasks)));
        }
        if wants(What::Definitions) {
            let definitions: Vec<DefinitionView> =
                listed(&mut client, &remote.path("definitions"), name.as_ref()).await?;
            json.insert("definitions".to_owned(), serde_json::to_value(&definitions)?);
            tables.push((definitions.is_empty(), definition_table(&definitions)));
        }
        if args.what == Some(What::Workers) {
            let workers: Vec<WorkerView> =
                listed(&mut client, "/v1/workers", name.as_ref()).await?;
            json.insert("workers".to_owned(), serde_json::to_value(&workers)?);
            tables.push((workers.is_empty(), worker_table(&workers)));
        }
        if args.what == Some(What::Domains) {
            let domains: Vec<DomainView> = all(&mut client, "/v1/domains").await?;
            let none = ("there is no domain", "domains");
            let domains = only(domains, name.as_ref(), |it| &it.name, none)?;
            json.insert("domains".to_owned(), serde_json::to_value(&domains)?);
            tables.push((domains.is_empty(), domain_table(&domains)));
        }
        if args.what == Some(What::Namespaces) {
            let spaces: Vec<NamespaceView> = all(&mut client, "/v1/namespaces").await?;
            let none = ("nothing has a name in a namespace", "namespaces");
            let spaces = only(spaces, name.as_ref(), |it| &it.name, none)?;
            json.insert("namespaces".to_owned(), serde_json::to_value(&spaces)?);
            tables.push((spaces.is_empty(), namespace_table(&spaces)));
        }
        if args.json {
            out::answer(&pretty(&json)?)?;
            return Ok(());
        }
        let drawn: Vec<_> = tables
            .iter()
            .filter(|(is_empty, _)| !is_empty)
            .map(|(_, table)| table.draw())
            .collect();
        if drawn.is_empty() {
            out::note(nothing(args.what));
            return Ok(());
        }
        out::answer(&drawn.join("\n\n"))?;
        Ok(())
    })
}

/// What is said where there is nothing to list.
const fn nothing(what: Option<What>) -> &'static str {
    match what {
        Some(What::Services) => "there is no service; `sterna apply SPEC` creates one",
        Some(What::Instances) => "there is no instance of any service",
        Some(What::Tasks) => "there is no task; try `sterna run -- echo hello`",
        Some(What::Definitions) => {
            "there is no definition; `sterna apply SPEC` creates one for each task without `start`"
        }
        Some(What::Workers) => "there is no worker; `sterna worker --join` starts one",
        Some(What::Namespaces) => "there is no namespace",
        Some(What::Domains) => "no domain but `default`, which is always fresh",
        None => "there is nothing yet; try `sterna run -- echo hello`",
    }
}

/// Everything of a list, or the one of a name.
async fn listed<T: DeserializeOwned>(
    client: &mut Client,
    list: &str,
    name: Option<&Name>,
) -> anyhow::Result<Vec<T>> {
    match name {
        None => all(client, list).await,
        Some(name) => match client.get(&format!("{list}/{name}")).await {
            Ok(one) => Ok(vec![one]),
            Err(error) => Err(with_nearest(client, error, list, name).await),
        },
    }
}

/// All instances that there are, or those of one service.
async fn instances(
    client: &mut Client,
    remote: &Remote,
    service: Option<&Name>,
) -> anyhow::Result<Vec<InstanceView>> {
    let Some(name) = service else { return all(client, &remote.path("instances")).await };
    let path = remote.path(&format!("services/{name}/instances"));
    if let Err(error) = client.get::<serde_json::Value>(&format!("{path}?limit=1")).await {
        return Err(with_nearest(client, error, &remote.path("services"), name).await);
    }
    all(client, &path).await
}

fn service_table(services: &[ServiceView]) -> Table {
    let mut table = Table::new(&["SERVICE", "RUNNING", "VERSION", "COMMAND"]);
    for it in services {
        let running = format!("{}/{}", it.running, it.instances);
        let mut version = it.version.to_string();
        if it.is_updating {
            version.push_str(" (updating)");
        }
        if let Some(taken) = &it.taken_back {
            version.push_str(&format!(" ({} was rolled back)", taken.version));
        }
        table.row([it.name.clone(), running, version, it.run.join(" ")]);
    }
    table
}

fn instance_table(instances: &[InstanceView]) -> Table {
    let table = Table::new(&["INSTANCE", "STATE", "SINCE", "CRASHES", WORKER, "LAST CRASH"]);
    let mut table = table.least(&["CRASHES", "SINCE", "LAST CRASH"]);
    for it in instances {
        let name = it.key.rsplitn(3, '/').take(2).collect::<Vec<_>>();
        let name = name.into_iter().rev().collect::<Vec<_>>().join("/");
        let since = it.since.as_deref().map(age).unwrap_or_default();
        // Its copy runs there until another does elsewhere.
        let moved = it.twin.as_ref().filter(|twin| twin.reason == "evacuating");
        let moved = moved.and_then(|twin| Some(format!("{} (moves)", twin.worker.as_ref()?)));
        let worker = it.worker.clone().or(moved).unwrap_or_default();
        let crash = it.last_crash.as_ref();
        let crash = crash.map(|crash| format!("{}, {} ago", crash.end.text, age(&crash.at)));
        let crashes = it.crashes.to_string();
        table.row([
            name,
            it.state_word().to_owned(),
            since,
            crashes,
            worker,
            crash.unwrap_or_default(),
        ]);
    }
    table
}

fn task_table(tasks: &[TaskView]) -> Table {
    let headings = ["TASK", "STATE", "AGE", "STARTED", "RAN", WORKER, "END", "COMMAND"];
    let mut table = Table::new(&headings).least(&["STARTED", "COMMAND", "AGE", WORKER, "RAN"]);
    for it in tasks {
        let started = it.started.as_deref().map(|at| format!("{} ago", age(at)));
        let so_far = it.started.as_deref().filter(|_| it.ended.is_none()).map(age);
        let ran = it.took_ms.map(long).or(so_far).unwrap_or_default();
        let ended = it.ended.as_deref().map(|at| format!(", {} ago", age(at)));
        let end = it.end.as_ref().map(|end| format!("{}{}", end.text, ended.unwrap_or_default()));
        let worker = it.worker.clone().unwrap_or_default();
        let command = it.run.join(" ").replace('\n', " ");
        let (name, state, made) = (it.name.clone(), it.state_word().to_owned(), age(&it.made));
        let (started, end) = (started.unwrap_or_default(), end.unwrap_or_default());
        table.row([name, state, made, started, ran, worker, end, command]);
    }
    table
}

fn worker_table(workers: &[WorkerView]) -> Table {
    let mut headings = vec![WORKER, "HEALTH", "WORK", "RUNS", "CORES", "MEMORY", "ZONE"];
    // Where a name is not enough its lock says which one is meant.
    let mut names = BTreeSet::new();
    let is_told_apart = workers.iter().all(|it| names.insert(it.name.as_str()));
    headings.extend((!is_told_apart).then_some("LOCK"));
    // Mostly there is none, and its column says much.
    let has_trouble = workers.iter().any(|it| it.trouble.is_some());
    headings.extend(has_trouble.then_some("TROUBLE"));
    let mut table = Table::new(&headings).least(&["CORES", "MEMORY", "ZONE", "RUNS"]);
    for it in workers {
        let facts: Facts = serde_json::from_value(it.facts.clone()).unwrap_or_default();
        // tidy: not a table
        let work = match (&it.draining_until, it.is_declared_dead, it.takes_work) {
            (_, true, _) => "declared dead".to_owned(),
            (Some(until), ..) => format!("drained by {until}"),
            (None, false, true) if facts.required_tags.is_empty() => "takes".to_owned(),
            (None, false, true) => {
                let tags: Vec<_> = facts.required_tags.iter().map(Name::as_str).collect();
                format!("takes only {}", tags.join(", "))
            }
            (None, false, false) => "takes none".to_owned(),
        };
        let cores = format!("{:.1}", facts.cpu_millicores as f64 / 1_000.0);
        let memory = format!("{:.1} GiB", facts.memory_bytes as f64 / f64::from(1 << 30));
        let zone = facts.zone.map(|zone| zone.to_string()).unwrap_or_default();
        let runs = it.runs.to_string();
        let row = [it.name.clone(), it.health.clone(), work, runs, cores, memory, zone];
        let lock = (!is_told_apart).then(|| it.lock.clone());
        table.row(row.into_iter().chain(lock).chain(it.trouble.clone()));
    }
    table
}

/// A list, or the one of a name where there is no call for one.
fn only<T>(
    mut all: Vec<T>,
    name: Option<&Name>,
    of: impl Fn(&T) -> &str,
    (none, list): (&str, &str),
) -> anyhow::Result<Vec<T>> {
    let Some(name) = name else { return Ok(all) };
    let near = nearest_word(name.as_str(), all.iter().map(&of)).map(str::to_owned);
    all.retain(|it| of(it) == name.as_str());
    if all.is_empty() {
        let near = near.map(|near| format!(": did you mean {near}?"));
        let next = near.unwrap_or_else(|| format!("; `sterna ls {list}` lists what there is"));
        anyhow::bail!("{none} {name}{next}");
    }
    Ok(all)
}

fn definition_table(definitions: &[DefinitionView]) -> Table {
    let mut table = Table::new(&["DEFINITION", "VERSION", "COMMAND"]);
    for it in definitions {
        table.row([it.name.clone(), it.version.to_string(), it.run.join(" ")]);
    }
    table
}

fn domain_table(domains: &[DomainView]) -> Table {
    let mut table = Table::new(&["DOMAIN", "FRESH", "UNTIL"]);
    for it in domains {
        let fresh = if it.is_fresh { "yes" } else { "no" };
        let until = it.until.clone().unwrap_or_else(|| "always".to_owned());
        table.row([it.name.clone(), fresh.to_owned(), until]);
    }
    table
}

fn namespace_table(spaces: &[NamespaceView]) -> Table {
    let mut table = Table::new(&["NAMESPACE", "SERVICES", "RUNNING", "TASKS"]);
    for it in spaces {
        let Counts { services, wanted, running } = it.services;
        let tasks = tasks(&it.tasks, &it.outcomes);
        let running = format!("{running}/{wanted}");
        table.row([it.name.clone(), services.to_string(), running, tasks]);
    }
    table
}

/// Tasks by what people call their state; an older server does not count outcomes.
fn tasks(phases: &BTreeMap<String, usize>, outcomes: &BTreeMap<String, usize>) -> String {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for (phase, count) in phases {
        *all.entry(phase_word(phase).to_owned()).or_default() += count;
    }
    if !outcomes.is_empty() {
        all.remove(phase_word("completed"));
        all.extend(outcomes.clone());
    }
    counted(&all)
}

/// How many of each.
fn counted(all: &BTreeMap<String, usize>) -> String {
    let all: Vec<_> = all.iter().map(|(word, count)| format!("{count} {word}")).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// Show the state of the cluster; succeed if it can start work
///
/// The counts cover all namespaces, or the one that --namespace names.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn status(args: StatusArgs) -> anyhow::Result<()> {
    wait(async {
        let (chosen, mut client) = (args.remote.choose()?, args.remote.client()?);
        let path = match args.remote.asked() {
            Some(namespace) => format!("/v1/status?namespace={}", escaped(namespace)),
            None => "/v1/status".to_owned(),
        };
        let status: Status = client.get(&path).await.map_err(failed)?;
        if args.json {
            let token_by = chosen.token_by.as_ref().map(ToString::to_string);
            let (server, server_by) = (chosen.server, chosen.server_by.to_string());
            let asked = Asked { server, server_by, token_by };
            out::answer(&pretty(&WithAsked { status: &status, asked })?)?;
        } else {
            let asked = asked_text(&chosen);
            out::answer(&folded(&format!("{}\n{asked}", status_text(&status)), 10))?;
        }
        if status.takes_work {
            return Ok(());
        }
        let error = match &status.starts_nothing {
            Some(why) => anyhow::anyhow!("{why}"),
            None => anyhow::anyhow!("{}", nobody(&all(&mut client, "/v1/workers").await?)),
        };
        Err(exit::coded(exit::TRY_AGAIN)(error))
    })
}

/// The status, and how it was asked for.
#[derive(serde::Serialize)]
struct WithAsked<'a> {
    #[serde(flatten)]
    status: &'a Status,
    asked: Asked,
}

#[derive(serde::Serialize)]
struct Asked {
    server: String,
    server_by: String,
    token_by: Option<String>,
}

fn asked_text(chosen: &Chosen) -> String {
    let Chosen { server, server_by, token_by, .. } = chosen;
    let token = match token_by {
        Some(by) if by == server_by => ", and the token".to_owned(),
        Some(by) => format!(", the token by {by}"),
        None => String::new(),
    };
    format!("asked     {server}, named by {server_by}{token}")
}

/// Why no worker takes work, and what to do.
fn nobody(workers: &[WorkerView]) -> String {
    let drained: Vec<_> = workers.iter().filter(|it| it.draining_until.is_some()).collect();
    // tidy: not a table
    match (workers, &drained[..]) {
        ([], _) => "there is no worker: start one with `sterna worker --join`".to_owned(),
        (_, [first, ..]) if drained.len() == workers.len() => {
            let name = &first.name;
            format!("every worker is drained; `sterna undrain {name}` lets {name} take work again")
        }
        (_, [] | [_, ..]) => "no worker takes work yet; see `sterna ls workers`".to_owned(),
    }
}

fn status_text(status: &Status) -> String {
    let services = status.services;
    let mut lines = vec![
        format!("cluster   {} (epoch {}, term {})", status.cluster, status.epoch, status.term),
        format!("leader    {}, sterna {}", status.leader, status.version),
        format!("store     {}, revision {}", status.store, status.revision),
        format!("workers   {}", counted(&status.workers)),
        format!(
            "services  {}, {} of {} instances running",
            services.services, services.running, services.wanted
        ),
        format!("tasks     {}", tasks(&status.tasks, &status.outcomes)),
    ];
    for service in &status.taken_back {
        lines.push(format!("reverted  {service}: see `sterna why {service}`"));
    }
    for awaited in &status.waits_for {
        let long = match awaited.seconds {
            Some(seconds) => format!("for {seconds} s at most"),
            None => "until it is back or declared dead with `sterna declare-dead`".to_owned(),
        };
        lines.push(format!("waits     for worker {}, {long}", awaited.worker));
    }
    if status.is_recovered {
        lines.push(
            "restored  the store was restored; when `sterna ls workers` lists every worker, run \
             `sterna declare-complete`"
                .to_owned(),
        );
    }
    lines.extend(status.warnings.iter().map(|warning| format!("warning   {warning}")));
    lines.iter().map(|line| out::one_line(line)).collect::<Vec<_>>().join("\n")
}

/// The path of one task or instance.
pub(crate) fn path_of(remote: &Remote, target: &Target, rest: &str) -> anyhow::Result<String> {
    Ok(match target {
        Target::Whole { kind: Kind::Task, name } => remote.path(&format!("tasks/{name}{rest}")),
        Target::Part(Work::Instance { service, index }) => {
            remote.path(&format!("services/{service}/instances/{index}{rest}"))
        }
        Target::Whole { kind: Kind::Service, name } => {
            remote.path(&format!("services/{name}/instances/0{rest}"))
        }
        other @ (Target::Whole { .. } | Target::Part(_)) => {
            anyhow::bail!("{other} is neither a task nor an instance of a service")
        }
    })
}

/// A value in a query.
pub(crate) fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_counted_by_what_became_of_them() {
        let counts = |all: &[(&str, usize)]| {
            all.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
        };
        let phases = counts(&[("pending", 2), ("completed", 3), ("resolving", 1)]);
        let outcomes = counts(&[("failed", 1), ("succeeded", 3)]);
        assert_eq!(tasks(&phases, &outcomes), "1 failed, 3 succeeded, 2 waiting");
        assert_eq!(tasks(&phases, &BTreeMap::new()), "4 over, 2 waiting", "of an older server");
        assert_eq!(tasks(&BTreeMap::new(), &BTreeMap::new()), "none");
    }
}
