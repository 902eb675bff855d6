//! What is planned and applied.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use axum::{Json, extract::State};
use sterna_api::{
    rest::{
        Applied, AppliedTask, Apply, File, Plan, PlanAsk, PlannedService, PlannedTask, Refused,
    },
    spec::{Source, Specs, TaskDefinition, read},
};
use sterna_engine::control::{self, Call, ServiceKey};
use sterna_model::{Name, Namespace, TaskIncarnation, Wants, Work, WorkKey, spec::ServiceSpec};
use sterna_store::machine::{random, wall_time};

use super::{
    Answer, Api, bad,
    described::Refusals,
    given::{Body, Path},
    name, namespace,
    refusal::{Refusal, changed},
    tag::Fnv,
};
use crate::{desk::OnlyIf, views};

/// The longest name from which the name of a task can be made.
const NAME_MAX: usize = 63 - 1 - 8;

fn specs(files: &[File]) -> Answer<Specs> {
    let sources: Vec<_> =
        files.iter().map(|file| Source { name: &file.name, text: &file.text }).collect();
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

async fn planned(
    shared: &Api,
    space: &Namespace,
    specs: &Specs,
    prune: bool,
) -> Answer<Vec<PlannedService>> {
    let wanted = specs.services.iter().map(|(name, spec)| (name.clone(), Some(spec.clone())));
    let mut wanted: BTreeMap<_, _> = wanted.collect();
    if prune {
        let mirror = shared.mirror();
        let here = mirror.services.keys().filter(|key| key.namespace == *space);
        for key in here {
            wanted.entry(key.name.clone()).or_insert(None);
        }
    }
    let space = space.clone();
    let plans = shared.desk.ask(move |leader, _| {
        let plan = |(name, spec): (Name, Option<ServiceSpec>)| {
            let key = ServiceKey { namespace: space.clone(), name };
            (spec.is_some(), leader.control().plan(&key, spec.as_ref()))
        };
        wanted.into_iter().map(plan).collect::<Vec<(bool, control::Planned)>>()
    });
    let plans = plans.await?;
    // One that somebody else has just deleted is not spoken of.
    let told = plans.iter().filter(|(is_named, plan)| *is_named || !plan.changes.is_empty());
    Ok(told.map(|(_, plan)| view(plan)).collect())
}

/// The services that are to go. The files must not name them.
fn doomed(names: &[String], specs: &Specs) -> Answer<Vec<Name>> {
    let read = |given: &String| {
        let read = name(given)?;
        match specs.services.contains_key(&read) {
            true => Err(bad(format!("delete: the files name service {read}; leave out one"))),
            false => Ok(read),
        }
    };
    names.iter().map(read).collect()
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

/// Makes a service, changes it, or deletes it, and gives what that changes: planned in the same step in
/// which it is done, so that of two who want the same at once only one is told that it has made it.
async fn make(shared: &Api, key: ServiceKey, spec: Option<ServiceSpec>) -> Answer<PlannedService> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let (service, wanted) = (key.clone(), spec.clone());
    let plan: OnlyIf = Box::new(move |leader| {
        // Who no longer waits needs no answer.
        drop(tell.send(leader.control().plan(&service, wanted.as_ref())));
        true
    });
    let what = format!("service {}", key.name);
    let unplanned = PlannedService { name: key.name.to_string(), changes: Vec::new() };
    let is_wanted = spec.is_some();
    let call = match spec {
        Some(spec) => Call::PutService(key, spec),
        None => Call::DeleteService(key),
    };
    let answer = shared.desk.call_if(Some(plan), call).await?;
    // What is not there needs not be deleted.
    if is_wanted || answer != control::Answer::NotFound {
        changed(answer, &what)?;
    }
    Ok(told.await.map_or(unplanned, |planned| view(&planned)))
}

/// What applying these files would change. Nothing is done.
#[utoipa::path(post, operation_id = "planSpecs", path = "/v1/namespaces/{namespace}/plan", tag = "specs",
    params(("namespace" = String, Path)), request_body = PlanAsk,
    responses((status = 200, description = "What would be changed.", body = Plan), Refusals))]
pub(super) async fn plan(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Body(PlanAsk { files, prune }): Body<PlanAsk>,
) -> Answer<Json<Plan>> {
    let space = namespace(&space)?;
    let specs = specs(&files)?;
    shared.lead()?;
    let services = planned(&shared, &space, &specs, prune).await?;
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
/// are started, once for each version. What the files do not name stays as it is, but for services that are
/// to be deleted.
#[utoipa::path(post, operation_id = "applySpecs", path = "/v1/namespaces/{namespace}/apply", tag = "specs",
    params(("namespace" = String, Path)), request_body = Apply,
    responses((status = 200, description = "What was changed.", body = Applied), Refusals))]
pub(super) async fn apply(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Body(Apply { files, delete }): Body<Apply>,
) -> Answer<Json<Applied>> {
    let space = namespace(&space)?;
    let specs = specs(&files)?;
    let doomed = doomed(&delete, &specs)?;
    shared.lead()?;
    let versions: Vec<_> =
        specs.tasks.iter().map(|(name, task)| versioned(name, task)).collect::<Result<_, _>>()?;
    let wanted = wants(&specs);
    let mut services = Vec::new();
    for (name, spec) in specs.services {
        let key = ServiceKey { namespace: space.clone(), name };
        services.push(make(&shared, key, Some(spec)).await?);
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
    // At last: what takes their place stands by now, and a refusal before this deletes nothing.
    for name in doomed {
        let key = ServiceKey { namespace: space.clone(), name };
        services.push(make(&shared, key, None).await?);
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
