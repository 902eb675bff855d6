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
                "`last` means another task after each delete: name the task, as in sterna delete {target}"
            )));
        }
        // tidy: not a table
        let (method, path, did) = match (verb, &target) {
            (Verb::Cancel, Target::Whole { kind: Kind::Task, .. }) => {
                (Method::POST, path_of(&args.remote, &target, "/cancel")?, "is cancelled")
            }
            (Verb::Stop, Target::Part(Work::Instance { .. })) => {
                (Method::POST, path_of(&args.remote, &target, "/stop")?, "ends, and restarts")
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
                "is being deleted, with its instances",
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
    /// Also free the name of the task: 7 days later `start = true` can start it again
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
        Verb::Cancel => "cancel is for tasks; use `sterna delete` to end a service",
        Verb::Stop => "stop is for one instance, as in web/3, which then restarts",
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
        "had crashed, and restarts at once"
    } else if done.changed {
        did
    } else {
        "was already so"
    }
}

/// A worker.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// Name or lock of the worker
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

/// Declare, after a restore of the store, that the list of workers is complete; if that is wrong, work may
/// run twice
///
/// After a restore, the store may not know every worker. Work that an unknown worker may still be running
/// stays blocked until you confirm, and until every worker on the list is back or declared dead. `sterna
/// why` shows this. First check `sterna ls workers`: a worker that is not listed must not be running
/// anything. The declaration holds as long as this server leads.
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
                "if a worker that is not on the list still runs something, it may now run twice; the events record this",
            );
        }
        tell(args.json, &done, "the list of workers", "is declared complete")
    })
}

/// Drain a worker: move its work away and send it no more; first show what will move, wait or be killed
#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    worker: WorkerArgs,
    /// Deadline of the drain: the worker kills what still runs then, after asking it to end one grace
    /// period earlier
    #[arg(long, value_name = "TIME", default_value = "10m")]
    within: Span,
    /// Wait until the worker is empty
    #[arg(long)]
    wait: bool,
}

/// Declare that nothing runs any more on the machine of a worker; if that is wrong, work may run twice
///
/// The server refuses this for a worker that it still hears: drain or stop that worker instead.
#[derive(Debug, clap::Args)]
pub(crate) struct DeadArgs {
    #[command(flatten)]
    worker: WorkerArgs,
    /// Declare it dead even if the server hears it: its work may then run twice
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
        out::warning("if anything still runs there, it may now run twice; the events record this");
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
    Ok("is no longer drained, and takes work as soon as it answers and is healthy")
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
        let did = if waits {
            "is empty".to_owned()
        } else {
            format!("is being drained, within {within}")
        };
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
        1 => format!("plan for the run on {worker}:"),
        count => format!("plan for the {count} runs on {worker}:"),
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
        assert_eq!([said(true, false), said(false, false)], ["ends", "was already so"]);
        assert_eq!(said(true, true), "had crashed, and restarts at once");
    }

    #[test]
    fn a_forecast_counts_as_people_do() {
        assert_eq!(said(0), "nothing runs on worker-1");
        let line = "\n  default/task/build runs on";
        assert_eq!(said(1), format!("plan for the run on worker-1:{line}"));
        assert_eq!(said(2), format!("plan for the 2 runs on worker-1:{line}{line}"));
    }
}
