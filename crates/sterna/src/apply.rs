//! `sterna apply` and `sterna plan`.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use sterna_api::{
    client::Client,
    rest::{self, Applied, Code, DefinitionChange, File, Plan, PlanAsk, Refused, SpecProblem},
    spec::{FILE_BYTES_MAX, Look, Source, Specs, read},
};
use sterna_model::Span;

use crate::{
    exit, out, prune,
    refusal::Refusal,
    remote::{Remote, failed, wait},
    run::pretty,
    settle,
};

/// What is given.
#[derive(Debug, clap::Args)]
struct Given {
    /// Specs in TOML or JSON; - for standard input
    #[arg(required = true, value_name = "SPEC")]
    files: Vec<PathBuf>,
    /// Also delete the services of the namespace that these files do not name
    #[arg(long)]
    prune: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Apply specs: create, update and start what they describe
///
/// If --prune would delete a service, the command shows it and asks first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
    /// Delete what --prune finds, without asking
    #[arg(long, requires = "prune")]
    yes: bool,
    /// Wait until services match their specs, tasks run, and deleted services are gone; fail if a task
    /// fails
    #[arg(long)]
    wait: bool,
    /// How long to wait at most [default: 5m]
    #[arg(long, value_name = "TIME", requires = "wait")]
    timeout: Option<Span>,
}

/// How long is waited if nobody says otherwise.
const TIMEOUT: Span = Span::from_secs(300);

/// Show what `sterna apply` would change, and change nothing
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    given: Given,
}

/// No more than shows that it is too large.
fn bounded(file: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(name: &str, error: std::io::Error) -> anyhow::Error {
    let what = format!("cannot read {name}: name a file with a spec that can be read, or `-`");
    anyhow::Error::new(error).context(what)
}

/// A spec is a text; what is cut since it is too large is refused for that.
fn text(name: &str, bytes: Vec<u8>) -> anyhow::Result<String> {
    let is_cut = bytes.len() > FILE_BYTES_MAX;
    String::from_utf8(bytes).or_else(|error| {
        let (good, _) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let (line, column) = good.iter().fold((1, 1), |(line, column), byte| match byte {
            b'\n' => (line + 1, 1),
            _ => (line, column + 1),
        });
        let byte = error.as_bytes().get(good.len()).copied().unwrap_or_default();
        anyhow::ensure!(
            is_cut,
            "{name}:{line}:{column}: the byte 0x{byte:02x} is no UTF-8: save the file as UTF-8"
        );
        Ok(String::from_utf8_lossy(error.as_bytes()).into_owned())
    })
}

/// Reads files, and says everything that is wrong with them before anybody is asked.
pub(crate) fn files(paths: &[PathBuf]) -> anyhow::Result<(rest::Apply, Specs)> {
    let mut files = Vec::new();
    for path in paths {
        let is_input = is_input(path);
        let name = if is_input { "stdin".to_owned() } else { path.display().to_string() };
        let bytes = if is_input {
            bounded(std::io::stdin())
        } else {
            fs::File::open(path).and_then(bounded)
        };
        let text = bytes.map_err(|error| unreadable(&name, error)).and_then(|it| text(&name, it));
        let text = text.map_err(exit::coded(exit::SPEC))?;
        files.push(File { name, text });
    }
    let sources: Vec<_> =
        files.iter().map(|file| Source { name: &file.name, text: &file.text }).collect();
    let specs = read(&sources).map_err(|problems| {
        let look = match out::Paint::of(&std::io::stderr()) {
            out::Paint::Coloured => Look::Coloured,
            out::Paint::Plain => Look::Plain,
        };
        let all = problems.iter().map(SpecProblem::from).collect();
        let refused = Refused::new(Code::BadSpec, format!("{} problems", problems.count()));
        let refused = Refused { problems: all, ..refused };
        exit::coded(exit::SPEC)(Refusal::drawn(refused, problems.draw(look)).into())
    })?;
    Ok((rest::Apply { files, delete: Vec::new() }, specs))
}

fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What is given, as it is asked for; with `--prune` the files must name something that stays, for one that
/// is empty by mistake would delete everything.
fn read_given(given: &Given) -> anyhow::Result<(rest::Apply, Specs)> {
    let (asked, specs) = files(&given.files)?;
    if given.prune && specs.services.is_empty() {
        return Err(exit::coded(exit::SPEC)(anyhow::anyhow!(
            "these files name no service, and --prune would delete all services; name one that stays, or delete each with `sterna delete NAME`"
        )));
    }
    Ok((asked, specs))
}

pub(crate) fn run(Args { given, yes, wait: waits, timeout }: Args) -> anyhow::Result<()> {
    let (mut asked, specs) = read_given(&given)?;
    let remote = &given.remote;
    wait(async {
        let mut client = remote.client()?;
        if given.prune {
            let planned = planned(&mut client, remote, &asked, true).await?;
            let doomed = prune::doomed(&planned);
            let is_read = given.files.iter().any(|path| is_input(path));
            prune::agree(&doomed, prune::Consent::of(yes, is_read))?;
            asked.delete = doomed.into_iter().map(|(name, _)| name).collect();
        }
        let before = match waits {
            true => settle::Before::read(&mut client, remote, specs.services.keys()).await?,
            false => settle::Before::default(),
        };
        let path = remote.path("apply");
        let applied: Applied =
            client.call(http::Method::POST, &path, Some(&asked)).await.map_err(failed)?;
        let text = if given.json { pretty(&applied)? } else { told(&applied) };
        answer(&text)?;
        warn(&applied.warnings);
        if waits {
            let within = timeout.unwrap_or(TIMEOUT);
            settle::wait(&mut client, remote, &applied, &before, within).await?;
            if !given.json {
                out::answer("everything is as its spec wants it")?;
            }
        }
        Ok(())
    })
}

async fn planned(
    client: &mut Client,
    remote: &Remote,
    asked: &rest::Apply,
    prune: bool,
) -> anyhow::Result<Plan> {
    let asked = PlanAsk { files: asked.files.clone(), prune };
    let path = remote.path("plan");
    client.call(http::Method::POST, &path, Some(&asked)).await.map_err(failed)
}

/// What was done, line by line.
pub(crate) fn told(applied: &Applied) -> String {
    let mut lines = Vec::new();
    for service in &applied.services {
        lines.extend(changes(service, "unchanged"));
    }
    for task in &applied.tasks {
        let what = if task.started {
            format!("started as {}", task.task)
        } else if let Some(change) = task.definition {
            format!("{}; to start it, set `start = true` in its spec", defined(change))
        } else if task.is_only_defined {
            // A server that stores no definitions.
            "defined, not started; to start it, set `start = true` in its spec".to_owned()
        } else {
            format!("unchanged: {} was already started", task.task)
        };
        lines.push(format!("task {}: {what}", task.name));
    }
    lines.iter().map(|line| out::one_line(line)).collect::<Vec<_>>().join("\n")
}

/// How a definition changed.
const fn defined(change: DefinitionChange) -> &'static str {
    match change {
        DefinitionChange::Created => "definition created",
        DefinitionChange::Changed => "definition changed",
        DefinitionChange::Same => "definition unchanged",
    }
}

/// Line by line; in these words if there is nothing to change.
fn changes(service: &rest::PlannedService, unchanged: &str) -> Vec<String> {
    let name = &service.name;
    if service.changes.is_empty() {
        return vec![format!("service {name}: {unchanged}")];
    }
    service.changes.iter().map(|change| format!("service {name}: {}", change.text)).collect()
}

pub(crate) fn plan(PlanArgs { given }: PlanArgs) -> anyhow::Result<()> {
    let (asked, _) = read_given(&given)?;
    wait(async {
        let mut client = given.remote.client()?;
        let plan = planned(&mut client, &given.remote, &asked, given.prune).await?;
        if given.json {
            out::answer(&pretty(&plan)?)?;
            return Ok(());
        }
        let mut lines = Vec::new();
        for service in &plan.services {
            lines.extend(changes(service, "no change"));
        }
        for task in &plan.tasks {
            let what = if task.starts {
                format!("would start as {}", task.task)
            } else {
                match task.definition {
                    Some(DefinitionChange::Created) => "would create its definition".to_owned(),
                    Some(DefinitionChange::Changed) => "would change its definition".to_owned(),
                    Some(DefinitionChange::Same) | None => "no change".to_owned(),
                }
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
        out::note("these files define no service and no task: nothing to do");
        return Ok(());
    }
    out::answer(text)?;
    Ok(())
}
