//! `sterna apply --wait`: until what was applied is where its spec wants it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use sterna_api::{
    client::{Client, ClientError},
    rest::{Applied, Code, Explained, ServiceExplained, ServiceView, TaskView},
};
use sterna_model::{Name, Span};

use crate::{
    clock, exit, out,
    patience::Patience,
    prune,
    remote::{Remote, failed},
    why,
};

/// How often it is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// A task has begun when it has run for this long, so that one that fails at once is not taken for begun.
const RUNS_FOR: Duration = Duration::from_secs(1);
/// So many are explained when the time is over; the others are counted.
const EXPLAINED: usize = 3;

/// Which version of each service was taken back before anything was applied: it says nothing of what is.
#[derive(Debug, Default)]
pub(crate) struct Before(BTreeMap<String, u64>);

impl Before {
    pub(crate) async fn read<'a>(
        client: &mut Client,
        remote: &Remote,
        services: impl Iterator<Item = &'a Name>,
    ) -> anyhow::Result<Self> {
        let mut all = BTreeMap::new();
        for name in services {
            let found = service(client, remote, name.as_str()).await.map_err(failed)?;
            if let Some(taken) = found.and_then(|found| found.taken_back) {
                all.insert(name.to_string(), taken.version);
            }
        }
        Ok(Self(all))
    }
}

async fn service(
    client: &mut Client,
    remote: &Remote,
    name: &str,
) -> Result<Option<ServiceView>, ClientError> {
    match client.get(&remote.path(&format!("services/{name}"))).await {
        Ok(view) => Ok(Some(view)),
        Err(ClientError::Refused(refused)) if refused.code == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Service(String),
    /// It was deleted, and its instances end.
    Gone(String),
    /// By its name, and when it was first seen to run.
    Task(String, Option<Instant>),
}

impl Part {
    fn of(applied: &Applied) -> Vec<Self> {
        let services = applied.services.iter().map(|it| {
            let is_gone = it.changes.iter().any(|change| change.kind == prune::DELETE);
            if is_gone { Self::Gone(it.name.clone()) } else { Self::Service(it.name.clone()) }
        });
        let tasks = applied.tasks.iter().filter(|it| !it.is_only_defined);
        services.chain(tasks.map(|it| Self::Task(it.task.clone(), None))).collect()
    }

    /// The path of why it is not there.
    fn why(&self, remote: &Remote) -> String {
        match self {
            Self::Service(name) | Self::Gone(name) => remote.path(&format!("services/{name}/why")),
            Self::Task(name, _) => remote.path(&format!("tasks/{name}/why")),
        }
    }
}

/// How far one of them is.
#[derive(Debug, PartialEq, Eq)]
enum Far {
    There,
    /// In few words.
    NotYet(String),
    /// It will not come about.
    Failed(String),
}

/// Waits for everything that was applied, and shows how far it is.
///
/// # Errors
/// The time is over, with why it is not there; or it is certain that it will not be.
pub(crate) async fn wait(
    client: &mut Client,
    remote: &Remote,
    applied: &Applied,
    before: &Before,
    within: Span,
) -> anyhow::Result<()> {
    let (progress, began) = (out::Progress::waiting(), clock::instant());
    let mut patience = Patience::default();
    let mut rest = Part::of(applied);
    let all = rest.len();
    loop {
        let mut left = Vec::new();
        for mut part in std::mem::take(&mut rest) {
            let far = match look(client, remote, &mut part, before).await {
                Ok(far) => {
                    patience.heard();
                    far
                }
                Err(error) => {
                    patience.bear(error).await?;
                    Far::NotYet("the server does not answer".to_owned())
                }
            };
            match far {
                Far::There => {}
                Far::NotYet(text) => left.push((part, text)),
                Far::Failed(text) => anyhow::bail!(text),
            }
        }
        let Some((_, first)) = left.first() else { return Ok(()) };
        let done = all - left.len();
        let bar = progress.bar(done as u64, all as u64);
        progress.spin(&format!("{bar}{done} of {all} are as their specs want them; {first}"));
        rest = left.into_iter().map(|(part, _)| part).collect();
        if began.elapsed() >= within.as_duration() {
            drop(progress);
            return Err(late(client, remote, &rest, within).await);
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

async fn look(
    client: &mut Client,
    remote: &Remote,
    part: &mut Part,
    before: &Before,
) -> Result<Far, ClientError> {
    let why = part.why(remote);
    match part {
        Part::Service(name) => {
            let Some(view) = service(client, remote, name).await? else {
                return Ok(Far::Failed(format!("service {name} was deleted in the meantime")));
            };
            let far = of_service(&view, before.0.get(name).copied());
            if far != Far::There {
                return Ok(far);
            }
            // Only now: all instances are looked at one by one.
            let why: ServiceExplained = client.get(&(why + "?limit=1")).await?;
            Ok(match why.instances.first() {
                _ if why.is_well => Far::There,
                Some(one) => Far::NotYet(format!("{}: {}", one.key, out::one_line(&one.text))),
                None => Far::NotYet(format!("service {name} changes")),
            })
        }
        Part::Gone(name) => match client.get::<ServiceExplained>(&why).await {
            Ok(why) => {
                Ok(Far::NotYet(format!("service {name}: {} still end", why.instances.len())))
            }
            Err(ClientError::Refused(refused)) if refused.code == Code::NotFound => Ok(Far::There),
            Err(error) => Err(error),
        },
        Part::Task(name, runs_since) => match look_at_task(client, remote, name, &why).await {
            Ok((view, why)) => Ok(of_task(&view, why.as_ref(), runs_since, clock::instant())),
            // It was over, and somebody has forgotten it.
            Err(ClientError::Refused(refused)) if refused.code == Code::NotFound => Ok(Far::There),
            Err(error) => Err(error),
        },
    }
}

/// A task, and, while a worker has it, whether it runs.
async fn look_at_task(
    client: &mut Client,
    remote: &Remote,
    name: &str,
    why: &str,
) -> Result<(TaskView, Option<Explained>), ClientError> {
    let view: TaskView = client.get(&remote.path(&format!("tasks/{name}"))).await?;
    if view.started.is_none() || view.end.is_some() {
        return Ok((view, None));
    }
    let why = client.get(why).await?;
    Ok((view, Some(why)))
}

/// By its counts alone.
fn of_service(view: &ServiceView, taken_before: Option<u64>) -> Far {
    let ServiceView { name, running, instances, .. } = view;
    let taken = view.taken_back.as_ref().filter(|taken| Some(taken.version) != taken_before);
    if let Some(taken) = taken {
        let (version, text) = (taken.version, out::one_line(&taken.text));
        return Far::Failed(format!(
            "service {name}: version {version} was rolled back at {}; {text}; see `sterna why {name}`",
            taken.at
        ));
    }
    if running != instances {
        return Far::NotYet(format!("service {name}: {running} of {instances} run"));
    }
    match view.is_updating {
        true => Far::NotYet(format!("service {name}: an update is under way")),
        false => Far::There,
    }
}

/// A task is where its spec wants it when it has succeeded, or has run for a second. One that failed is not,
/// whether it began or not.
fn of_task(
    view: &TaskView,
    why: Option<&Explained>,
    runs_since: &mut Option<Instant>,
    now: Instant,
) -> Far {
    let name = &view.name;
    if let Some(end) = &view.end {
        let text = out::one_line(&end.text);
        // tidy: not a table
        return match (end.is_success, end.why.as_str(), &view.started) {
            (true, _, _) => Far::There,
            (false, "ran", _) => Far::Failed(format!(
                "task {name} has failed: {text}; see `sterna logs task/{name}`"
            )),
            (false, _, None) => Far::Failed(format!("task {name} did not start: {text}")),
            (false, _, Some(_)) => Far::Failed(format!("task {name} has failed: {text}")),
        };
    }
    let Some(why) = why else {
        return Far::NotYet(format!("task {name} is {}", view.state_word()));
    };
    // On a worker that is drained it runs, too.
    if !why.is_well && why.rule != "draining" {
        *runs_since = None;
        return Far::NotYet(format!("task {name}: {}", out::one_line(&why.text)));
    }
    match now.duration_since(*runs_since.get_or_insert(now)) >= RUNS_FOR {
        true => Far::There,
        false => Far::NotYet(format!("task {name} has just started")),
    }
}

/// What is not there, and why.
async fn late(client: &mut Client, remote: &Remote, rest: &[Part], within: Span) -> anyhow::Error {
    let mut text = format!("not as their specs want them within {within}: {}", rest.len());
    text += "; the changes stay applied and continue";
    for part in rest.iter().take(EXPLAINED) {
        let path = part.why(remote);
        let said = match part {
            Part::Service(_) | Part::Gone(_) => why::of_service(client, &path).await,
            Part::Task(..) => why::of_one(client, &path).await,
        };
        text += "\n";
        text += &said.unwrap_or_else(|error| error.to_string());
    }
    if rest.len() > EXPLAINED {
        text += &format!("\nand {} more; see `sterna ls`", rest.len() - EXPLAINED);
    }
    exit::coded(exit::TRY_AGAIN)(anyhow::anyhow!(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(said: serde_json::Value) -> ServiceView {
        let mut view = json!({
            "key": "default/service/web", "name": "web", "namespace": "default", "instances": 3,
            "running": 3, "run": ["x"], "version": 4, "is_updating": false, "domain": "default",
        });
        for (field, value) in said.as_object().unwrap() {
            view[field] = value.clone();
        }
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn a_service_is_there_when_all_run_and_nothing_is_of_another_version() {
        assert_eq!(of_service(&service(json!({})), None), Far::There);
        let few = of_service(&service(json!({ "running": 2 })), None);
        assert_eq!(few, Far::NotYet("service web: 2 of 3 run".to_owned()));
        let updating = of_service(&service(json!({ "is_updating": true })), None);
        assert_eq!(updating, Far::NotYet("service web: an update is under way".to_owned()));
    }

    #[test]
    fn a_version_that_is_taken_back_has_failed_and_one_that_was_before_has_not() {
        let at = "2026-01-01T00:00:00Z";
        let taken = json!({ "version": 5, "at": at, "index": 0, "text": "web/0 crashed" });
        let view = service(json!({ "taken_back": taken }));
        assert!(matches!(of_service(&view, None), Far::Failed(text) if text.contains("version 5")));
        assert!(matches!(of_service(&view, Some(4)), Far::Failed(_)));
        assert_eq!(of_service(&view, Some(5)), Far::There);
    }

    fn task(said: serde_json::Value) -> TaskView {
        let mut view = json!({
            "key": "default/task/t", "name": "t", "namespace": "default", "incarnation": "i",
            "phase": "pending", "made": "2026-01-01T00:00:00Z", "run": ["x"], "returns": 0,
        });
        for (field, value) in said.as_object().unwrap() {
            view[field] = value.clone();
        }
        serde_json::from_value(view).unwrap()
    }

    fn explained(rule: &str) -> Explained {
        let is_well = rule == "none";
        let said = json!({
            "key": "default/task/t", "is_well": is_well, "rule": rule, "text": "it is so", "next": "",
        });
        serde_json::from_value(said).unwrap()
    }

    #[test]
    fn a_task_is_there_when_it_has_run_for_a_second_or_has_succeeded() {
        let (mut since, now) = (None, clock::instant());
        let waits = of_task(&task(json!({})), None, &mut since, now);
        assert_eq!(waits, Far::NotYet("task t is waiting".to_owned()));
        let at = "2026-01-01T00:00:01Z";
        let running = task(json!({ "started": at, "phase": "running" }));
        let mut look = |rule, ms| {
            of_task(&running, Some(&explained(rule)), &mut since, now + Duration::from_millis(ms))
        };
        let loads = look("starting", 0);
        assert_eq!(loads, Far::NotYet("task t: it is so".to_owned()), "its worker has it");
        assert!(matches!(look("none", 5_000), Far::NotYet(_)), "it runs since now");
        assert!(matches!(look("draining", 5_900), Far::NotYet(_)));
        assert_eq!(look("none", 6_000), Far::There);
        let done =
            json!({ "started": at, "end": { "is_success": true, "why": "ran", "text": "" } });
        assert_eq!(of_task(&task(done), None, &mut None, now), Far::There);
    }

    #[test]
    fn a_task_that_has_failed_is_not_there_whether_it_began_or_not() {
        let at = "2026-01-01T00:00:01Z";
        let failed = |why: &str, text: &str, started: Option<&str>| {
            let end = json!({ "is_success": false, "why": why, "text": text });
            let view = task(json!({ "started": started, "end": end }));
            match of_task(&view, None, &mut None, clock::instant()) {
                Far::Failed(text) => text,
                far @ (Far::There | Far::NotYet(_)) => panic!("{far:?}"),
            }
        };
        assert_eq!(failed("no-room", "no room: x", None), "task t did not start: no room: x");
        let said = failed("ran", "failed to start: no such file", Some(at));
        assert!(
            said.starts_with("task t has failed: failed to start: no such file; see"),
            "{said}"
        );
        assert_eq!(
            failed("lost", "its worker is lost", Some(at)),
            "task t has failed: its worker is lost"
        );
    }
}
