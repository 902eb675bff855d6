//! `sterna cancel`, `stop`, `kill`, `delete`, `drain`, `undrain`, `declare-dead` and `forget`.

use std::time::Duration;

use anyhow::Context;
use http::Method;
use serde_json::json;
use sterna_api::{
    client::Client,
    rest::{Done, ForecastView, WorkerView},
};
use sterna_model::{Kind, Lock, Name, Span, Target, Work};

use crate::{
    exit, out,
    remote::{Remote, failed, resolve, wait},
    run::pretty,
    show::path_of,
    table::folded,
};

/// What is meant, and how it is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// [KIND/]NAME[/INDEX], or last
    selector: String,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

/// What to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Cancel,
    Stop,
    Kill,
    Delete,
}

pub(crate) fn run(args: Args, verb: Verb) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let target = resolve(&mut client, &args.remote, &args.selector).await?;
        let usage = exit::coded(exit::USAGE);
        if verb == Verb::Delete && args.selector == "last" {
            return Err(usage(anyhow::anyhow!(
                "`last` is another task after each delete: name it, as in sterna delete {target}"
            )));
        }
        // tidy: not a table
        let (method, path, did) = match (verb, &target) {
            (Verb::Cancel, Target::Whole { kind: Kind::Task, .. }) => {
                (Method::POST, path_of(&args.remote, &target, "/cancel")?, "is cancelled")
            }
            (Verb::Stop, Target::Part(Work::Instance { .. })) => {
                (Method::POST, path_of(&args.remote, &target, "/stop")?, "ends, and comes back")
            }
            (
                Verb::Kill,
                Target::Whole { kind: Kind::Task, .. } | Target::Part(Work::Instance { .. }),
            ) => (Method::POST, path_of(&args.remote, &target, "/kill")?, "is killed"),
            (Verb::Delete, Target::Whole { kind: Kind::Task, name }) => {
                (Method::DELETE, args.remote.path(&format!("tasks/{name}")), "is forgotten")
            }
            (Verb::Delete, Target::Whole { kind: Kind::Service, name }) => (
                Method::DELETE,
                args.remote.path(&format!("services/{name}")),
                "goes, with its instances",
            ),
            (Verb::Delete, Target::Whole { kind: Kind::Definition, name }) => {
                (Method::DELETE, args.remote.path(&format!("definitions/{name}")), "is forgotten")
            }
            (verb, target) => return Err(usage(not_for(verb, target))),
        };
        let done: Done = client.call(method, &path, None::<&()>).await.map_err(failed)?;
        // As with cancel: what was asked for was not done.
        if verb == Verb::Kill && !done.changed {
            anyhow::bail!("{target} has no run to kill; `sterna why {target}` says more");
        }
        tell(args.json, &done, &target.to_string(), did)
    })
}

/// What is to be forgotten.
#[derive(Debug, clap::Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    args: Args,
    /// Forget a task with its name: what `start = true` started can be started again, 7 days later
    #[arg(long)]
    name: bool,
}

pub(crate) fn delete(DeleteArgs { args, name }: DeleteArgs) -> anyhow::Result<()> {
    if !name {
        return run(args, Verb::Delete);
    }
    wait(async {
        // It is in no list when its task has gone.
        let given = args.selector.strip_prefix("task/").unwrap_or(&args.selector);
        let given = Name::new(given).context("--name is for the name of a task");
        let given = given.map_err(exit::coded(exit::USAGE))?;
        let path = args.remote.path(&format!("tasks/{given}?name=true"));
        let mut client = args.remote.client()?;
        let done: Done = client.call(Method::DELETE, &path, None::<&()>).await.map_err(failed)?;
        tell(args.json, &done, &format!("the name of task/{given}"), "is forgotten")
    })
}

fn not_for(verb: Verb, target: &Target) -> anyhow::Error {
    let remedy = match verb {
        Verb::Cancel => "cancel is for tasks; `sterna delete` ends a service",
        Verb::Stop => "stop is for one instance, as in web/3; it comes back",
        Verb::Kill => "kill is for a task or one instance, as in web/3",
        Verb::Delete => "delete is for a task that is over, a definition, or a whole service",
    };
    anyhow::anyhow!("{target}: {remedy}")
}

fn tell(is_json: bool, done: &Done, what: &str, did: &str) -> anyhow::Result<()> {
    if is_json {
        out::answer(&pretty(done)?)?;
    } else {
        out::answer(&format!("{what} {}", became(done, did)))?;
    }
    Ok(())
}

/// What came of it, in words.
const fn became<'a>(done: &Done, did: &'a str) -> &'a str {
    if done.begins_again {
        "had crashed, and begins again at once"
    } else if done.changed {
        did
    } else {
        "was so already"
    }
}

/// A worker.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// Its name, or its lock
    worker: String,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

impl WorkerArgs {
    fn path(&self) -> anyhow::Result<String> {
        if self.worker.parse::<Lock>().is_err() {
            let named = Name::new(&self.worker).context("neither the name of a worker nor a lock");
            named.map_err(exit::coded(exit::USAGE))?;
        }
        Ok(format!("/v1/workers/{}", self.worker))
    }
}

/// Say that every worker that there was before the store was restored is on the list; said wrongly,
/// work may run twice
///
/// After a restore a worker may be missing of which the store does not know. What such a one may keep
/// waits for this word, and for everybody on the list; `sterna why` says so. Look at `sterna ls workers`
/// first: who is missing there must not be running anything. It holds as long as this server leads.
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn declare_complete(args: CompleteArgs) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let path = "/v1/roster/declare-complete";
        let done = client.call(Method::POST, path, None::<&()>).await;
        let done: Done = done.map_err(failed)?;
        if done.changed {
            out::warning(
                "if a worker that is not on the list still runs something, it may now run twice; \
                 this is kept in the events",
            );
        }
        tell(args.json, &done, "the list of workers", "is declared complete")
    })
}

/// Move everything off a worker and give it no more; says first what will move, wait or be killed
#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    worker: WorkerArgs,
    /// How long it may take; what is still there is killed then, and asked to end its grace earlier
    #[arg(long, value_name = "TIME", default_value = "10m")]
    within: Span,
    /// Wait until nothing runs there any more
    #[arg(long)]
    wait: bool,
}

/// Say that nothing runs any more on the machine of a worker; said wrongly, work may run twice
///
/// A worker that is heard is not dead, and is refused: drain it, or end it first.
#[derive(Debug, clap::Args)]
pub(crate) struct DeadArgs {
    #[command(flatten)]
    worker: WorkerArgs,
    /// Say so of a worker that is heard, too: what it runs may then run twice
    #[arg(long)]
    caution_though_heard: bool,
}

pub(crate) fn declare_dead(args: DeadArgs) -> anyhow::Result<()> {
    let DeadArgs { worker: args, caution_though_heard } = args;
    wait(async {
        let mut client = args.remote.client()?;
        let consent = if caution_though_heard { "?caution_though_heard=true" } else { "" };
        let path = args.path()? + "/declare-dead" + consent;
        let done = client.call(Method::POST, &path, None::<&()>).await;
        let done: Done = done.map_err(failed)?;
        out::warning(
            "if anything still runs there, it may now run twice; this is kept in the events",
        );
        tell(args.json, &done, &format!("worker {}", args.worker), "is declared dead")
    })
}

/// What to do with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerVerb {
    Undrain,
    Forget,
}

pub(crate) fn of_worker(args: WorkerArgs, verb: WorkerVerb) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let path = args.path()?;
        let (method, verb_path) = match verb {
            WorkerVerb::Undrain => (Method::POST, format!("{path}/undrain")),
            WorkerVerb::Forget => (Method::DELETE, path.clone()),
        };
        let done: Done = client.call(method, &verb_path, None::<&()>).await.map_err(failed)?;
        let did = match verb {
            WorkerVerb::Undrain => taking(&mut client, &path).await?,
            WorkerVerb::Forget => "is forgotten",
        };
        tell(args.json, &done, &format!("worker {}", args.worker), did)
    })
}

/// How long a worker that is heard may take to hear that it is drained no longer.
const HEARS_WITHIN: u32 = 25;

/// Waits until a worker takes work again: it must hear that first, and who drains another one meanwhile
/// would move nothing here. One that is not well may take long; it is not waited for.
async fn taking(client: &mut Client, path: &str) -> anyhow::Result<&'static str> {
    for _ in 0..HEARS_WITHIN {
        let worker: WorkerView = client.get(path).await.map_err(failed)?;
        if worker.takes_work {
            return Ok("takes work again");
        }
        if worker.health != "healthy" {
            break;
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
    Ok("is drained no longer, and takes work as soon as it is heard and well")
}

pub(crate) fn drain(args: DrainArgs) -> anyhow::Result<()> {
    let DrainArgs { worker: args, within, wait: waits } = args;
    wait(async {
        let mut client = args.remote.client()?;
        let path = args.path()?;
        let within_s = within.as_millis().div_ceil(1_000);
        let asked = format!("{path}/forecast?within_s={within_s}");
        let said: ForecastView = client.get(&asked).await.map_err(failed)?;
        if !args.json {
            out::answer(&folded(&forecast(&said), 4))?;
        }
        let body = json!({ "within_s": within_s });
        let done = client.call(Method::POST, &format!("{path}/drain"), Some(&body)).await;
        let done: Done = done.map_err(failed)?;
        if waits {
            drained(&mut client, &path).await?;
        }
        let did =
            if waits { "is empty".to_owned() } else { format!("is drained, within {within}") };
        if args.json {
            let mut all = serde_json::to_value(done)?;
            all["forecast"] = json!(said.runs);
            out::answer(&pretty(&all)?)?;
            return Ok(());
        }
        if waits {
            out::answer(&format!("worker {} {did}", args.worker))?;
            return Ok(());
        }
        tell(false, &done, &format!("worker {}", args.worker), &did)
    })
}

/// How often it is asked how far a drain has come.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Waits until a worker has nothing, and shows how far it is.
async fn drained(client: &mut Client, path: &str) -> anyhow::Result<()> {
    let progress = out::Progress::waiting();
    let mut most = 0;
    loop {
        let worker: WorkerView = client.get(path).await.map_err(failed)?;
        if worker.runs == 0 {
            return Ok(());
        }
        most = worker.runs.max(most);
        let bar = progress.bar((most - worker.runs) as u64, most as u64);
        progress.spin(&format!("{bar}{} of {most} runs left on {}", worker.runs, worker.name));
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// What will become of what is there.
fn forecast(said: &ForecastView) -> String {
    let worker = &said.worker;
    let head = match said.runs.len() {
        0 => return format!("nothing runs on {worker}"),
        1 => format!("what the run on {worker} will do:"),
        count => format!("what the {count} runs on {worker} will do:"),
    };
    let lines = said.runs.iter().map(|run| format!("  {} {}", run.key, out::one_line(&run.text)));
    format!("{head}\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use sterna_api::rest::ForecastRun;

    use super::*;

    fn said(count: usize) -> String {
        let run = ForecastRun {
            key: "default/task/build".into(),
            run: String::new(),
            fate: "runs-on".into(),
            to: None,
            ends_first: false,
            text: "runs on".into(),
        };
        forecast(&ForecastView { worker: "worker-1".into(), runs: vec![run; count] })
    }

    #[test]
    fn what_had_crashed_is_not_said_to_end() {
        let said = |changed, begins_again| became(&Done { changed, begins_again }, "ends");
        assert_eq!([said(true, false), said(false, false)], ["ends", "was so already"]);
        assert_eq!(said(true, true), "had crashed, and begins again at once");
    }

    #[test]
    fn a_forecast_counts_as_people_do() {
        assert_eq!(said(0), "nothing runs on worker-1");
        let line = "\n  default/task/build runs on";
        assert_eq!(said(1), format!("what the run on worker-1 will do:{line}"));
        assert_eq!(said(2), format!("what the 2 runs on worker-1 will do:{line}{line}"));
    }
}
