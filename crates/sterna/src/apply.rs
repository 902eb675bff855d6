//! `sterna apply` and `sterna plan`.

use std::{fs, path::PathBuf};

use anyhow::Context;
use sterna_api::{
    rest::{self, Applied, Code, File, Plan, Refused, SpecProblem},
    spec::{Look, Source, read},
};

use crate::{
    exit, out,
    refusal::Refusal,
    remote::{Remote, failed, wait},
    run::pretty,
};

/// Make what runs be like what these files want
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Specs in TOML or JSON; - for standard input
    #[arg(required = true, value_name = "SPEC")]
    files: Vec<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Show exactly what applying these files would change, and change nothing
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    args: Args,
}

/// Reads files, and says everything that is wrong with them before anybody is asked.
pub(crate) fn files(paths: &[PathBuf]) -> anyhow::Result<rest::Apply> {
    let mut files = Vec::new();
    for path in paths {
        let is_input = path.as_os_str() == "-";
        let text = if is_input {
            std::io::read_to_string(std::io::stdin())
        } else {
            fs::read_to_string(path)
        };
        let text = text.with_context(|| format!("cannot read {}", path.display()));
        let text = text.map_err(exit::coded(exit::SPEC))?;
        let name = if is_input { "stdin".to_owned() } else { path.display().to_string() };
        files.push(File { name, text });
    }
    let sources: Vec<_> =
        files.iter().map(|file| Source { name: &file.name, text: &file.text }).collect();
    if let Err(problems) = read(&sources) {
        let look = match out::Paint::of(&std::io::stderr()) {
            out::Paint::Coloured => Look::Coloured,
            out::Paint::Plain => Look::Plain,
        };
        let all = problems.iter().map(SpecProblem::from).collect();
        let refused = Refused::new(Code::BadSpec, format!("{} problems", problems.count()));
        let refused = Refused { problems: all, ..refused };
        return Err(exit::coded(exit::SPEC)(Refusal::drawn(refused, problems.draw(look)).into()));
    }
    Ok(rest::Apply { files })
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let asked = files(&args.files)?;
    wait(async {
        let mut client = args.remote.client()?;
        let path = args.remote.path("apply");
        let applied: Applied =
            client.call(http::Method::POST, &path, Some(&asked)).await.map_err(failed)?;
        let text = if args.json { pretty(&applied)? } else { told(&applied) };
        answer(&text)?;
        warn(&applied.warnings);
        Ok(())
    })
}

/// What was done, line by line.
pub(crate) fn told(applied: &Applied) -> String {
    let mut lines = Vec::new();
    for service in &applied.services {
        lines.extend(changes(service, "as it was"));
    }
    for task in &applied.tasks {
        let what = if task.started {
            format!("started as {}", task.task)
        } else if task.is_only_defined {
            "only defined; `start = true` in its spec starts it".to_owned()
        } else {
            format!("as it was: {} was started before", task.task)
        };
        lines.push(format!("task {}: {what}", task.name));
    }
    lines.iter().map(|line| out::one_line(line)).collect::<Vec<_>>().join("\n")
}

/// Line by line; in these words if there is nothing to change.
fn changes(service: &rest::PlannedService, unchanged: &str) -> Vec<String> {
    let name = &service.name;
    if service.changes.is_empty() {
        return vec![format!("service {name}: {unchanged}")];
    }
    service.changes.iter().map(|change| format!("service {name}: {}", change.text)).collect()
}

pub(crate) fn plan(PlanArgs { args }: PlanArgs) -> anyhow::Result<()> {
    let asked = files(&args.files)?;
    wait(async {
        let mut client = args.remote.client()?;
        let path = args.remote.path("plan");
        let plan: Plan =
            client.call(http::Method::POST, &path, Some(&asked)).await.map_err(failed)?;
        if args.json {
            out::answer(&pretty(&plan)?)?;
            return Ok(());
        }
        let mut lines = Vec::new();
        for service in &plan.services {
            lines.extend(changes(service, "as it is"));
        }
        for task in &plan.tasks {
            let what = if task.starts {
                format!("starts as {}", task.task)
            } else {
                "as it is".to_owned()
            };
            lines.push(format!("task {}: {what}", task.name));
        }
        answer(&lines.join("\n"))?;
        warn(&plan.warnings);
        Ok(())
    })
}

/// What is waited for in vain.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        out::warning(warning);
    }
}

/// Files that want nothing are no mistake, but nobody means them.
fn answer(text: &str) -> anyhow::Result<()> {
    if text.is_empty() {
        out::note("these files have no service and no task: there is nothing to do");
        return Ok(());
    }
    out::answer(text)?;
    Ok(())
}
