//! What is planned and applied.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use axum::{Json, extract::State};
use sterna_api::{
    rest::{Applied, AppliedTask, Apply, Plan, PlannedService, PlannedTask, Refused},
    spec::{Source, Specs, TaskDefinition, read},
};
use sterna_engine::control::{self, Call, ServiceKey};
use sterna_model::{Name, Namespace, TaskIncarnation, Wants, Work, WorkKey, spec::ServiceSpec};
use sterna_store::machine::{random, wall_time};

use super::{
    Answer, Api, bad,
    described::Refusals,
    given::{Body, Path},
    namespace,
    refusal::{Refusal, changed},
    tag::Fnv,
};
use crate::{desk::OnlyIf, views};

/// The longest name from which the name of a task can be made.
const NAME_MAX: usize = 63 - 1 - 8;

fn specs(asked: &Apply) -> Answer<Specs> {
    let sources: Vec<_> =
        asked.files.iter().map(|file| Source { name: &file.name, text: &file.text }).collect();
    if sources.is_empty() {
        return Err(bad("files: there is none; send at least one"));
    }
    read(&sources).map_err(|problems| Refusal::from(&problems))
}

/// What the task of this version of a definition is called: the same as long as nothing in it changes.
fn versioned(name: &Name, task: &TaskDefinition) -> Answer<Name> {
    let mut hash = Fnv::new();
    task.spec.work.hash(&mut hash);
    format!("{:?}", (&task.spec.wants, task.spec.contract, task.spec.when_full)).hash(&mut hash);
    (&task.spec.callback, task.latest_start_after.map(sterna_model::Span::as_millis))
        .hash(&mut hash);
    let digest = hash.finish();
    if name.as_str().len() > NAME_MAX {
        let message = format!("task.{name}: its name is longer than {NAME_MAX} bytes; shorten it");
        return Err(bad(message));
    }
    let text = format!("{name}.{:08x}", digest ^ (digest >> 32) & 0xffff_ffff);
    let short = text.get(..name.as_str().len() + 9).unwrap_or(&text);
    Name::new(short).map_err(|error| bad(crate::because(&error)))
}

async fn planned(shared: &Api, space: &Namespace, specs: &Specs) -> Answer<Vec<PlannedService>> {
    let wanted: BTreeMap<_, _> = specs.services.clone();
    let space = space.clone();
    let plans = shared.desk.ask(move |leader, _| {
        let plan = |(name, spec): (Name, ServiceSpec)| {
            let key = ServiceKey { namespace: space.clone(), name };
            leader.control().plan(&key, Some(&spec))
        };
        wanted.into_iter().map(plan).collect::<Vec<control::Planned>>()
    });
    Ok(plans.await?.iter().map(view).collect())
}

/// What each thing that is to run wants, with the word for it.
fn wants(specs: &Specs) -> Vec<(String, Work, Arc<Wants>)> {
    let services = specs.services.iter().map(|(name, spec)| {
        let work = Work::Instance { service: name.clone(), index: 0 };
        (format!("service {name}"), work, Arc::clone(&spec.wants))
    });
    let tasks = specs.tasks.iter().filter(|(_, task)| task.start).map(|(name, task)| {
        (format!("task {name}"), Work::Task(name.clone()), Arc::clone(&task.spec.wants))
    });
    services.chain(tasks).collect()
}

/// What no worker could ever have, as they are now.
async fn in_vain(
    shared: &Api,
    space: &Namespace,
    wanted: Vec<(String, Work, Arc<Wants>)>,
) -> Answer<Vec<String>> {
    let space = space.clone();
    let warnings = shared.desk.ask(move |leader, now| {
        let warning = |(what, work, wants): (String, Work, Arc<Wants>)| {
            let key = WorkKey { namespace: space.clone(), work };
            leader.in_vain(now, &key, &wants).map(|why| format!("{what}: {why}"))
        };
        wanted.into_iter().filter_map(warning).collect()
    });
    Ok(warnings.await?)
}

fn view(planned: &control::Planned) -> PlannedService {
    PlannedService {
        name: planned.service.name.to_string(),
        changes: planned.changes.iter().map(views::change).collect(),
    }
}

/// Makes a service, or changes it, and gives what that changes: planned in the same step in which it is
/// done, so that of two who want the same at once only one is told that it has made it.
async fn put(shared: &Api, key: ServiceKey, spec: ServiceSpec) -> Answer<PlannedService> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let (service, wanted) = (key.clone(), spec.clone());
    let plan: OnlyIf = Box::new(move |leader| {
        // Who no longer waits needs no answer.
        drop(tell.send(leader.control().plan(&service, Some(&wanted))));
        true
    });
    let what = format!("service {}", key.name);
    let unplanned = PlannedService { name: key.name.to_string(), changes: Vec::new() };
    let answer = shared.desk.call_if(Some(plan), Call::PutService(key, spec)).await?;
    changed(answer, &what)?;
    Ok(told.await.map_or(unplanned, |planned| view(&planned)))
}

/// What applying these files would change. Nothing is done.
#[utoipa::path(post, operation_id = "planSpecs", path = "/v1/namespaces/{namespace}/plan", tag = "specs",
    params(("namespace" = String, Path)), request_body = Apply,
    responses((status = 200, description = "What would be changed.", body = Plan), Refusals))]
pub(super) async fn plan(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Body(asked): Body<Apply>,
) -> Answer<Json<Plan>> {
    let space = namespace(&space)?;
    let specs = specs(&asked)?;
    shared.lead()?;
    let services = planned(&shared, &space, &specs).await?;
    let wanted = wants(&specs);
    let versions: Vec<_> =
        specs.tasks.iter().map(|(name, task)| versioned(name, task)).collect::<Result<_, _>>()?;
    let key = |version: &Name| {
        let work = Work::Task(version.clone());
        WorkKey { namespace: space.clone(), work }
    };
    let keys: Vec<_> = versions.iter().map(key).collect();
    // A version that was started and deleted since was started.
    let taken = shared.desk.ask(move |leader, _| {
        keys.iter().map(|key| leader.control().is_taken(key)).collect::<Vec<_>>()
    });
    let taken = taken.await?;
    let tasks =
        specs.tasks.iter().zip(versions).zip(taken).map(|(((name, task), version), taken)| {
            let starts = task.start && !taken;
            PlannedTask { name: name.to_string(), task: version.to_string(), starts }
        });
    let tasks = tasks.collect();
    let warnings = in_vain(&shared, &space, wanted).await?;
    Ok(Json(Plan { services, tasks, warnings }))
}

/// Makes what is like what these files want: services are made or changed, and tasks that are to start
/// are started, once for each version. What the files do not name stays as it is.
#[utoipa::path(post, operation_id = "applySpecs", path = "/v1/namespaces/{namespace}/apply", tag = "specs",
    params(("namespace" = String, Path)), request_body = Apply,
    responses((status = 200, description = "What was changed.", body = Applied), Refusals))]
pub(super) async fn apply(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Body(asked): Body<Apply>,
) -> Answer<Json<Applied>> {
    let space = namespace(&space)?;
    let specs = specs(&asked)?;
    shared.lead()?;
    let versions: Vec<_> =
        specs.tasks.iter().map(|(name, task)| versioned(name, task)).collect::<Result<_, _>>()?;
    let wanted = wants(&specs);
    let mut services = Vec::new();
    for (name, spec) in specs.services {
        let key = ServiceKey { namespace: space.clone(), name };
        services.push(put(&shared, key, spec).await?);
    }
    let mut tasks = Vec::new();
    for ((name, task), version) in specs.tasks.into_iter().zip(versions) {
        let key = WorkKey { namespace: space.clone(), work: Work::Task(version.clone()) };
        let is_there = shared.mirror().tasks.contains_key(&key);
        let mut started = false;
        if task.start && !is_there {
            let incarnation = TaskIncarnation::from_parts(wall_time(), random());
            let spec = Arc::new(task.made_at(wall_time()));
            let made = shared.desk.call(Call::CreateTask(key, incarnation, spec)).await;
            let answer = made.map_err(|refused| up_to(&version, refused))?;
            // A version that was started and deleted since was started.
            started = !matches!(answer, control::Answer::Taken(_))
                && changed(answer, &format!("task {version}"))?;
        }
        let (name, version) = (name.to_string(), version.to_string());
        tasks.push(AppliedTask { name, task: version, started, is_only_defined: !task.start });
    }
    let warnings = in_vain(&shared, &space, wanted).await?;
    Ok(Json(Applied { services, tasks, warnings }))
}

/// Says how far it was done: what comes before in the files stands, and to apply them again is harmless.
fn up_to(task: &Name, refused: Refused) -> Refused {
    let message =
        format!("task {task} was not made, all before it was: {}", refused.message).into();
    Refused { message, ..refused }
}
