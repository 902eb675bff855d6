//! `sterna cancel`, `stop`, `kill`, `delete`, `drain`, `undrain`, `declare-dead` and `forget`.

use http::Method;
use serde_json::json;
use sterna_api::rest::{Done, ForecastView};
use sterna_model::{Kind, Span, Target, Work};

use crate::{
    exit, out,
    remote::{Remote, failed, resolve, wait},
    run::pretty,
    show::path_of,
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
        let kinds = [Kind::Task, Kind::Service];
        let target = resolve(&mut client, &args.remote, &args.selector, &kinds).await?;
        let usage = exit::coded(exit::USAGE);
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
            (verb, target) => return Err(usage(not_for(verb, target))),
        };
        let done: Done = client.call(method, &path, None::<&()>).await.map_err(failed)?;
        tell(args.json, &done, &target.to_string(), did)
    })
}

fn not_for(verb: Verb, target: &Target) -> anyhow::Error {
    let remedy = match verb {
        Verb::Cancel => "cancel is for tasks; `sterna delete` ends a service",
        Verb::Stop => "stop is for one instance, as in web/3; it comes back",
        Verb::Kill => "kill is for a task or one instance, as in web/3",
        Verb::Delete => "delete is for a task that is over, or a whole service",
    };
    anyhow::anyhow!("{target}: {remedy}")
}

fn tell(is_json: bool, done: &Done, what: &str, did: &str) -> anyhow::Result<()> {
    if is_json {
        out::answer(&pretty(done)?)?;
    } else {
        out::answer(&format!("{what} {}", if done.changed { did } else { "was so already" }))?;
    }
    Ok(())
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

/// Move everything off a worker and give it no more; says first what will move, wait or be killed
#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    worker: WorkerArgs,
    /// How long it may take; what is still there then is ended
    #[arg(long, value_name = "TIME", default_value = "10m")]
    within: Span,
}

/// What to do with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerVerb {
    Undrain,
    DeclareDead,
    Forget,
}

pub(crate) fn of_worker(args: WorkerArgs, verb: WorkerVerb) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let path = format!("/v1/workers/{}", args.worker);
        let (method, path, did) = match verb {
            WorkerVerb::Undrain => (Method::POST, path + "/undrain", "takes work again"),
            WorkerVerb::DeclareDead => {
                out::warning(
                    "if anything still runs there, it may now run twice; this is kept in the events",
                );
                (Method::POST, path + "/declare-dead", "is declared dead")
            }
            WorkerVerb::Forget => (Method::DELETE, path, "is forgotten"),
        };
        let done: Done = client.call(method, &path, None::<&()>).await.map_err(failed)?;
        tell(args.json, &done, &format!("worker {}", args.worker), did)
    })
}

pub(crate) fn drain(args: DrainArgs) -> anyhow::Result<()> {
    let DrainArgs { worker: args, within } = args;
    wait(async {
        let mut client = args.remote.client()?;
        let path = format!("/v1/workers/{}", args.worker);
        if !args.json {
            let said: ForecastView =
                client.get(&format!("{path}/forecast")).await.map_err(failed)?;
            out::answer(&forecast(&said))?;
        }
        let body = json!({ "within_s": within.as_millis().div_ceil(1_000) });
        let done: Done =
            client.call(Method::POST, &(path + "/drain"), Some(&body)).await.map_err(failed)?;
        let did = format!("is drained, within {within}");
        tell(args.json, &done, &format!("worker {}", args.worker), &did)
    })
}

/// What will become of what is there.
fn forecast(said: &ForecastView) -> String {
    let worker = &said.worker;
    let head = match said.runs.len() {
        0 => return format!("nothing runs on {worker}"),
        1 => format!("what the run on {worker} will do:"),
        count => format!("what the {count} runs on {worker} will do:"),
    };
    let lines = said.runs.iter().map(|run| format!("  {} {}", run.key, run.text));
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
    fn a_forecast_counts_as_people_do() {
        assert_eq!(said(0), "nothing runs on worker-1");
        let line = "\n  default/task/build runs on";
        assert_eq!(said(1), format!("what the run on worker-1 will do:{line}"));
        assert_eq!(said(2), format!("what the 2 runs on worker-1 will do:{line}{line}"));
    }
}
