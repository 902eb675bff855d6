//! What is planned and applied.

use std::{collections::BTreeMap, hash::Hasher, sync::Arc};

use axum::{Json, extract::State};
use sterna_api::{
    rest::{
        Applied, AppliedTask, Apply, Code, DefinitionChange, File, Plan, PlanAsk, PlannedService,
        PlannedTask, Refused,
    },
    spec::{Source, Specs, TaskDefinition, of_task, read},
};
use sterna_engine::control::{self, Call, Defines, Tense};
use sterna_model::{
    DefinitionKey, Name, Namespace, ServiceKey, TaskIncarnation, TaskKey, WallTime, Wants, Work,
    spec::{Definition, ServiceSpec},
};
use sterna_store::machine::{random, wall_time};

use super::{
    Answer, Api, bad,
    described::Refusals,
    given::{Body, Path},
    name, namespace,
    refusal::{Refusal, changed},
    tag::Fnv,
};
use crate::{desk::OnlyIf, reign::fits, views};

fn specs(files: &[File]) -> Answer<Specs> {
    let sources: Vec<_> =
        files.iter().map(|file| Source { name: &file.name, text: &file.text }).collect();
    if sources.is_empty() {
        return Err(bad("files: the list is empty; send at least one file"));
    }
    read(&sources).map_err(|problems| Refusal::from(&problems))
}

/// What the task of this version of a definition is called: the same as long as nothing in it changes, in
/// every build. So it is made of what a spec says, where what is as it is by default is left out: a field
/// that a later build adds changes it only where it is used. It is longer than a name can be only for what is
/// not started: of that the reader of specs lets names have less room.
fn versioned(name: &Name, task: &TaskDefinition) -> String {
    let mut said = of_task(&task.spec, WallTime::EPOCH);
    if let Some(said) = said.as_object_mut() {
        // Whether it is started says nothing of what it is.
        said.remove("start");
        // There it is that to the second.
        let after = task.latest_start_after.map(|after| after.to_string().into());
        said.extend(after.map(|after| ("latest_start_after".to_owned(), after)));
    }
    let mut hash = Fnv::new();
    // Its fields are in the order of their names.
    hash.write(said.to_string().as_bytes());
    let digest = hash.finish();
    format!("{name}.{:08x}", (digest ^ (digest >> 32)) & 0xffff_ffff)
}

/// The key of what is started; nothing if it has no name by which it could be.
fn key_of(space: &Namespace, version: &str) -> Option<TaskKey> {
    Some(TaskKey { namespace: space.clone(), name: Name::new(version).ok()? })
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
    Ok(told.map(|(_, plan)| view(plan, Tense::Planned)).collect())
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
    let services = specs.services.iter().filter(|(_, spec)| spec.instances > 0);
    let services = services.map(|(name, spec)| {
        let work = Work::Instance { service: name.clone(), index: 0 };
        (format!("service {name}"), work, Arc::clone(&spec.wants))
    });
    let tasks = specs.tasks.iter().filter(|(_, task)| task.start).map(|(name, task)| {
        (format!("task {name}"), Work::Task(name.clone()), Arc::clone(&task.spec.wants))
    });
    services.chain(tasks).collect()
}

/// So many reasons are told; who has more has most of them for the same cause.
const REASONS: usize = 20;

/// What holds of many is said once: each reason with those of which it holds, in their order.
fn alike(all: Vec<(String, String)>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (what, why) in all {
        let at = *known.entry(why.clone()).or_insert(groups.len());
        if at == groups.len() {
            groups.push((why, Vec::new()));
        }
        groups[at].1.push(what);
    }
    let rest = groups.split_off(REASONS.min(groups.len()));
    let mut told: Vec<_> = groups.iter().map(|(why, of)| format!("{}: {why}", named(of))).collect();
    if !rest.is_empty() {
        let of: Vec<_> = rest.into_iter().flat_map(|(_, of)| of).collect();
        told.push(format!("{}: no worker could have them, either; see `sterna why`", named(&of)));
    }
    told
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
            let key = work.within(&space);
            leader.in_vain(now, &key, &wants).map(|why| (what, why.to_string()))
        };
        wanted.into_iter().filter_map(warning).collect::<Vec<_>>()
    });
    Ok(alike(warnings.await?))
}

/// At which bounds these files would be refused, with so many tasks that are to start.
async fn beyond(
    shared: &Api,
    space: &Namespace,
    specs: &Specs,
    starts: usize,
) -> Answer<Vec<String>> {
    let (space, wanted) = (space.clone(), specs.services.clone());
    let defined = specs.tasks.iter().filter(|(_, task)| !task.start);
    let defined: Vec<_> =
        defined.map(|(name, task)| (name.clone(), Arc::new(task.stored()))).collect();
    let counted = shared.desk.ask(move |leader, _| {
        let control = leader.control();
        let mut adds = control::Made::default();
        for (name, spec) in wanted {
            let key = ServiceKey { namespace: space.clone(), name };
            let more = control.adds(&Call::PutService(key, spec));
            adds.services += more.services;
            adds.instances += more.instances;
        }
        for (name, definition) in defined {
            let key = DefinitionKey { namespace: space.clone(), name };
            adds.definitions += control.adds(&Call::PutDefinition(key, definition)).definitions;
        }
        (control.made(), adds)
    });
    let (made, adds) = counted.await?;
    let (bounds, under_way) = (shared.bounds, shared.mirror().totals.under_way);
    let definitions = (made.definitions, adds.definitions);
    let all = [
        fits((made.services, adds.services), bounds.services, ("services", "--services-max")),
        fits((made.instances, adds.instances), bounds.instances, ("instances", "--instances-max")),
        fits(definitions, bounds.definitions, ("definitions", "--definitions-max")),
        fits((under_way, starts), bounds.tasks, ("tasks that are not over", "--tasks-max")),
    ];
    let refused = all.into_iter().filter_map(Result::err);
    Ok(refused
        .map(|it| format!("applying this would be refused: {}; {}", it.message, it.remedy))
        .collect())
}

fn view(planned: &control::Planned, tense: Tense) -> PlannedService {
    PlannedService {
        name: planned.service.name.to_string(),
        changes: planned.changes.iter().map(|change| views::change(change, tense)).collect(),
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
    Ok(told.await.map_or(unplanned, |planned| view(&planned, Tense::Made)))
}

fn defined(defines: Defines) -> DefinitionChange {
    match defines {
        Defines::New => DefinitionChange::Created,
        Defines::Other => DefinitionChange::Changed,
        Defines::Same => DefinitionChange::Same,
    }
}

/// Stores a definition, and gives what that changes, as [`make`] does.
async fn define(
    shared: &Api,
    key: DefinitionKey,
    task: &TaskDefinition,
) -> Answer<DefinitionChange> {
    let definition = Arc::new(task.stored());
    let (tell, told) = tokio::sync::oneshot::channel();
    let (known, wanted) = (key.clone(), Arc::clone(&definition));
    let plan: OnlyIf = Box::new(move |leader| {
        // Who no longer waits needs no answer.
        let _ = tell.send(leader.control().defines(&known, &wanted));
        true
    });
    let what = format!("definition {}", key.name);
    let answer = shared.desk.call_if(Some(plan), Call::PutDefinition(key, definition)).await?;
    let is_changed = changed(answer, &what)?;
    let unplanned = if is_changed { Defines::Other } else { Defines::Same };
    Ok(defined(told.await.unwrap_or(unplanned)))
}

/// Starts this version of a task, unless it was started before; gives whether it was started now.
async fn start(shared: &Api, key: TaskKey, task: &TaskDefinition) -> Answer<bool> {
    let what = format!("task {}", key.name);
    let incarnation = TaskIncarnation::from_parts(wall_time(), random());
    let spec = Arc::new(task.made_at(wall_time()));
    let answer = shared.desk.call(Call::CreateTask(key, incarnation, spec)).await?;
    // A version that was started and deleted since was started.
    Ok(!matches!(answer, control::Answer::Taken(_)) && changed(answer, &what)?)
}

/// The plan of each task: whether its version would be started, or its definition stored.
async fn planned_tasks(shared: &Api, space: &Namespace, specs: &Specs) -> Answer<Vec<PlannedTask>> {
    let asked = specs.tasks.iter().map(|(name, task)| {
        let definition = (!task.start).then(|| {
            (DefinitionKey { namespace: space.clone(), name: name.clone() }, task.stored())
        });
        (name.to_string(), versioned(name, task), definition)
    });
    let asked: Vec<_> = asked.collect();
    let space = space.clone();
    let planned = shared.desk.ask(move |leader, _| {
        let control = leader.control();
        let plan =
            |(name, task, definition): (String, String, Option<(DefinitionKey, Definition)>)| {
                // A version that was started and deleted since was started.
                let is_taken = key_of(&space, &task).is_some_and(|key| control.is_taken(&key));
                let starts = definition.is_none() && !is_taken;
                let definition =
                    definition.map(|(key, stored)| defined(control.defines(&key, &stored)));
                PlannedTask { name, task, starts, definition }
            };
        asked.into_iter().map(plan).collect::<Vec<_>>()
    });
    Ok(planned.await?)
}

/// Shows what applying these files would change, and changes nothing.
#[utoipa::path(post, operation_id = "planSpecs", path = "/v1/namespaces/{namespace}/plan", tag = "specs",
    params(("namespace" = String, Path)), request_body = PlanAsk,
    responses((status = 200, description = "The planned changes.", body = Plan), Refusals))]
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
    let tasks = planned_tasks(&shared, &space, &specs).await?;
    let starts = tasks.iter().filter(|task| task.starts).count();
    let mut warnings = beyond(&shared, &space, &specs, starts).await?;
    warnings.extend(in_vain(&shared, &space, wanted).await?);
    Ok(Json(Plan { services, tasks, warnings }))
}

/// Applies specs: creates and changes services, starts tasks with `start = true` once for each version, and
/// stores the other tasks as definitions. What the files do not name stays unchanged, except for the services
/// in `delete`.
#[utoipa::path(post, operation_id = "applySpecs", path = "/v1/namespaces/{namespace}/apply", tag = "specs",
    params(("namespace" = String, Path)), request_body = Apply,
    responses((status = 200, description = "The changes that were made.", body = Applied), Refusals))]
pub(super) async fn apply(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Body(Apply { files, delete }): Body<Apply>,
) -> Answer<Json<Applied>> {
    let space = namespace(&space)?;
    let specs = specs(&files)?;
    let doomed = doomed(&delete, &specs)?;
    shared.lead()?;
    let versions: Vec<_> = specs.tasks.iter().map(|(name, task)| versioned(name, task)).collect();
    let wanted = wants(&specs);
    let all = specs.services.keys().map(|name| format!("service {name}"));
    let tasks = specs.tasks.iter().zip(&versions);
    let all = all.chain(tasks.map(|((name, task), version)| named_task(name, task, version)));
    let gone = doomed.iter().map(|name| format!("the end of service {name}"));
    let all: Vec<_> = all.chain(gone).collect();
    let so_far = |what: &str, refused| {
        let at = all.iter().position(|one| one == what).unwrap_or(all.len());
        halfway(&all, at, refused)
    };
    let mut services = Vec::new();
    for (at, (name, spec)) in specs.services.into_iter().enumerate() {
        let key = ServiceKey { namespace: space.clone(), name };
        let made = make(&shared, key, Some(spec)).await;
        services.push(made.map_err(|Refusal(refused)| Refusal(halfway(&all, at, refused)))?);
    }
    let mut tasks = Vec::new();
    for ((name, task), version) in specs.tasks.into_iter().zip(versions) {
        let so_far = |Refusal(refused)| so_far(&named_task(&name, &task, &version), refused);
        let (mut started, mut definition) = (false, None);
        if task.start {
            let is_new = |key: &TaskKey| !shared.mirror().tasks.contains_key(key);
            if let Some(key) = key_of(&space, &version).filter(is_new) {
                started = start(&shared, key, &task).await.map_err(so_far)?;
            }
        } else {
            let key = DefinitionKey { namespace: space.clone(), name: name.clone() };
            definition = Some(define(&shared, key, &task).await.map_err(so_far)?);
        }
        let (name, is_only_defined) = (name.to_string(), !task.start);
        tasks.push(AppliedTask { name, task: version, started, is_only_defined, definition });
    }
    // At last: what takes their place stands by now, and a refusal before this deletes nothing.
    for name in doomed {
        let what = format!("the end of service {name}");
        let key = ServiceKey { namespace: space.clone(), name };
        let made = make(&shared, key, None).await;
        let made = made.map_err(|Refusal(refused)| Refusal(so_far(&what, refused)))?;
        // Somebody else may have deleted it.
        services.extend(Some(made).filter(|made| !made.changes.is_empty()));
    }
    let warnings = in_vain(&shared, &space, wanted).await?;
    Ok(Json(Applied { services, tasks, warnings }))
}

/// What is made of a task, in a word: one that is not started is a definition.
fn named_task(name: &Name, task: &TaskDefinition, version: &str) -> String {
    if task.start { format!("task {version}") } else { format!("definition {name}") }
}

/// So many are named of those that were done, and of those that were not.
const NAMED: usize = 5;

/// The first of them by name, and how many more there are.
fn named(of: &[String]) -> String {
    let more = of.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    of.get(..NAMED.min(of.len())).unwrap_or_default().join(", ") + &more
}

/// Says how far it was done, if that is known: this one of them has come to a bound.
fn halfway(all: &[String], at: usize, refused: Refused) -> Refused {
    let (before, rest) = all.split_at(at.min(all.len()));
    let Some((this, after)) = rest.split_first().filter(|_| refused.code == Code::TooMuch) else {
        return refused;
    };
    let mut message = format!("{this} was not created or changed, ");
    message += &match before {
        [] => "nothing was".to_owned(),
        [_, ..] => format!("only these were: {}", named(before)),
    };
    if !after.is_empty() {
        message += &format!("; not done: {}", named(after));
    }
    message += &format!(": {}", refused.message);
    Refused { message: message.into(), ..refused }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> String {
        let text = format!("version = 1\n[task.t]\nrun = [\"true\"]\nstart = true\n{text}");
        let specs = read(&[Source { name: "t.toml", text: &text }]).unwrap();
        let (name, task) = specs.tasks.into_iter().next().unwrap();
        versioned(&name, &task)
    }

    /// Never to be changed: under another name every task of a cluster that is there would start again.
    #[test]
    fn the_names_of_versions_are_the_same_in_every_build() {
        let golden = [
            ("", "t.85a5ed39"),
            ("memory = \"64MiB\"\ncpu = \"500m\"\ntags = [\"ssd\", \"big\"]", "t.9132f8a0"),
            ("env = { B = \"2\", A = \"1\" }\nwhen_full = \"fail\"", "t.7363bb7f"),
            ("callback = \"http://127.0.0.1:1/\"\nlatest_start_after = \"1500ms\"", "t.fd91e58b"),
            ("timeout = \"10m\"\nwhen_worker_exits = \"keep\"", "t.b6e50638"),
        ];
        let made: Vec<_> = golden.iter().map(|(text, _)| version(text)).collect();
        assert_eq!(made, golden.map(|(_, name)| name));
    }

    /// The names of versions that a document has of this task.
    fn named<'a>(document: &'a str, task: &'a str) -> Vec<&'a str> {
        let after = document.match_indices(task).filter_map(move |(at, _)| {
            document.get(at + task.len()..)?.strip_prefix('.')?.get(..8)
        });
        after.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit())).collect()
    }

    #[test]
    fn documents_name_the_versions_that_their_examples_have() {
        let tour = include_str!("../../../../examples/tour.toml");
        let spec = include_str!("../../../../docs/spec.md");
        let example = spec.split("```").find_map(|block| block.strip_prefix("toml\n"));
        for (text, task, document) in [
            (tour, "hello", include_str!("../../../../README.md")),
            (example.expect("an example"), "build", spec),
        ] {
            let specs = read(&[Source { name: "x.toml", text }]).unwrap();
            let (name, definition) =
                specs.tasks.iter().find(|(name, _)| name.as_str() == task).unwrap();
            let version = versioned(name, definition);
            let named = named(document, task);
            assert!(named.len() >= 2, "{task}: {named:?}");
            assert!(
                named.iter().all(|it| version == format!("{task}.{it}")),
                "{version}: {named:?}"
            );
        }
    }

    #[test]
    fn a_version_is_another_one_only_if_something_is() {
        assert_eq!(version(""), version("when_full = \"wait\""), "it is so by default");
        let all = ["", "latest_start_after = \"1500ms\"", "latest_start_after = \"1600ms\""];
        let names: std::collections::BTreeSet<_> = all.iter().map(|text| version(text)).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
    }

    #[test]
    fn what_holds_of_many_is_warned_of_once() {
        let of = |count: u32, why: fn(u32) -> String| {
            (0..count).map(|number| (format!("service s{number}"), why(number))).collect()
        };
        assert_eq!(
            alike(of(15_000, |_| "there is no worker".to_owned())),
            [
                "service s0, service s1, service s2, service s3, service s4 and 14995 more: there is \
              no worker"
            ]
        );
        let two = alike(of(3, |number| format!("no {}", number % 2)));
        assert_eq!(two, ["service s0, service s2: no 0", "service s1: no 1"]);
        let many = alike(of(15_000, |number| format!("no {number}")));
        assert_eq!(many.len(), REASONS + 1);
        let last =
            "service s20, service s21, service s22, service s23, service s24 and 14975 more: ";
        assert!(many[REASONS].starts_with(last), "{}", many[REASONS]);
    }

    #[test]
    fn a_client_sends_no_more_than_a_server_takes() {
        assert_eq!(super::super::BODY_MAX, sterna_api::rest::BODY_BYTES_MAX);
    }

    #[test]
    fn an_apply_that_stops_halfway_names_what_was_done_and_what_was_not() {
        let all: Vec<_> = (0..9).map(|number| format!("service s{number}")).collect();
        let said = |at| halfway(&all, at, Refused::new(Code::TooMuch, "full")).message.to_string();
        assert_eq!(
            said(0),
            "service s0 was not created or changed, nothing was; not done: service s1, service s2, \
             service s3, service s4, service s5 and 3 more: full"
        );
        assert_eq!(
            said(8),
            "service s8 was not created or changed, only these were: service s0, service s1, \
             service s2, service s3, service s4 and 3 more: full"
        );
        let unknown = halfway(&all, 0, Refused::new(Code::NotReady, "it may have been done"));
        assert_eq!(&*unknown.message, "it may have been done");
    }
}
