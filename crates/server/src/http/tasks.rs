//! Tasks.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use serde_json::json;
use sterna_api::{
    rest::{Code, CreateTask, Done, Page, Refused, ResultView, TaskView},
    spec::{Source, of_task, read},
};
use sterna_engine::control::{self, Call};
use sterna_model::{TaskIncarnation, TaskKey, record::TaskPhase, spec::TaskSpec};
use sterna_store::machine::{random, wall_time};
use tokio::time::{Instant, timeout_at};

use super::{
    Answer, Api, Listing, Named, bad,
    described::Refusals,
    given::{Body, Path, Query},
    namespace, not_found, page,
    refusal::{Refusal, changed, done},
    tag::{self, Matching, tagged},
    task_key,
};
use crate::views;

/// Which one of a list.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only the one of them that was made last.
    last: Option<bool>,
}

/// All tasks of a namespace, ordered by name.
#[utoipa::path(get, operation_id = "listTasks", path = "/v1/namespaces/{namespace}/tasks", tag = "tasks",
    params(("namespace" = String, Path), Listing, Named, Which),
    responses((status = 200, description = "A page of tasks.", body = Page<TaskView>), Refusals))]
pub(super) async fn list(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Query(listing): Query<Listing>,
    Query(named): Query<Named>,
    Query(Which { last }): Query<Which>,
) -> Answer<Json<Page<TaskView>>> {
    let space = namespace(&space)?;
    listing.check_phase(&TaskPhase::ALL.map(TaskPhase::as_str))?;
    shared.lead()?;
    let mirror = shared.mirror();
    let tasks = mirror
        .tasks
        .iter()
        .filter(|(key, (task, _))| key.namespace == space && listing.is_in(task.phase().as_str()));
    let all = tasks.filter(|(key, _)| named.is_asked(&key.name));
    let all = all.map(|(key, (task, spec))| (key.name.clone(), (key, task, spec)));
    if last == Some(true) {
        let newest = all.max_by_key(|(_, (_, task, _))| task.made());
        let view = newest.map(|(_, (key, task, spec))| views::task(&mirror, key, task, spec));
        return Ok(Json(Page { items: view.into_iter().collect(), next: None }));
    }
    page(&listing.paging(), all, |(key, task, spec)| views::task(&mirror, key, task, spec))
        .map(Json)
}

/// Creates a task. A retry with the same name and incarnation gives the same task; with another spec, the
/// server refuses it.
#[utoipa::path(post, operation_id = "createTask", path = "/v1/namespaces/{namespace}/tasks", tag = "tasks",
    params(("namespace" = String, Path)), request_body = CreateTask,
    responses((status = 201, description = "Created.", body = TaskView), (status = 200, description = "It existed already.", body = TaskView),
        Refusals))]
pub(super) async fn create(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Body(CreateTask { name, spec, incarnation }): Body<CreateTask>,
) -> Answer<Response> {
    let key = task_key(&space, &name)?;
    let incarnation = match incarnation {
        Some(text) => TaskIncarnation::of_client(&text).map_err(|error| {
            bad(format!("incarnation: {}", crate::because(&error as &dyn std::error::Error)))
        })?,
        None => TaskIncarnation::from_parts(wall_time(), random()),
    };
    if spec.get("start") == Some(&json!(false)) {
        return Err(bad(
            "spec.start: a task that is made is started: leave it out, or apply a file",
        ));
    }
    let text = json!({ "version": 1, "task": { name.as_str(): spec } }).to_string();
    let specs = read(&[Source { name: "request.json", text: &text }]);
    let specs = specs.map_err(|problems| Refusal::from(&problems))?;
    let task = specs.tasks.into_values().next().ok_or_else(|| bad("the spec holds no task"))?;
    let spec = Arc::new(task.made_at(wall_time()));
    let call = Call::CreateTask(key.clone(), incarnation, Arc::clone(&spec));
    let answer = shared.desk.call(call).await?;
    let is_new = changed(answer, &format!("task {name}"))?;
    if !is_new && shared.mirror().tasks.get(&key).is_some_and(|(_, made)| !is_same(made, &spec)) {
        let message = format!("task {name} was created with this incarnation and another spec");
        let remedy = "use another incarnation and another name for another task".into();
        return Err(Refusal(Refused { remedy, ..Refused::new(Code::NameTaken, message) }));
    }
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let view = view(&shared, &key).ok_or_else(|| {
        let message = format!("task {name} was created with this incarnation and has been deleted");
        Refusal(Refused::new(Code::NameTaken, message))
    })?;
    let tag = tag::named(&view.incarnation);
    Ok((status, tagged(tag, view)).into_response())
}

/// Whether the same was asked for twice. When it is to start at the latest counts from when it was asked.
fn is_same(one: &TaskSpec, two: &TaskSpec) -> bool {
    let latest_start = two.latest_start.and(one.latest_start);
    one.latest_start.is_some() == two.latest_start.is_some()
        && *one == TaskSpec { latest_start, ..two.clone() }
}

fn view(shared: &Api, key: &TaskKey) -> Option<TaskView> {
    let mirror = shared.mirror();
    let (task, spec) = mirror.tasks.get(key)?;
    let written = Some(of_task(spec, task.made()));
    Some(TaskView { spec: written, ..views::task(&mirror, key, task, spec) })
}

/// So many seconds somebody may wait for an end.
pub(super) const WAIT_MAX: u64 = 60;

/// How long to wait for an end.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Waiting {
    /// Wait until the task is over, for so many seconds at most; 60 at most.
    wait_s: Option<u64>,
}

/// A task; with `wait`, the server answers when it is over.
#[utoipa::path(get, operation_id = "getTask", path = "/v1/namespaces/{namespace}/tasks/{name}", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), Waiting),
    responses((status = 200, description = "The task.", body = TaskView, headers(("ETag" = String, description = "for `If-Match`"))), Refusals))]
pub(super) async fn get(
    State(shared): State<Api>,
    Path((space, name)): Path<(String, String)>,
    Query(Waiting { wait_s }): Query<Waiting>,
) -> Answer<Response> {
    let key = task_key(&space, &name)?;
    let reign = shared.lead()?;
    let until = wait_s.map(|seconds| Instant::now() + Duration::from_secs(seconds.min(WAIT_MAX)));
    let seen = || view(&shared, &key).ok_or_else(|| not_found(&format!("task {name}")));
    // Of a name that there is not nobody keeps that it was asked for.
    seen()?;
    loop {
        let change = shared.changed(&key.to_work());
        let view = seen()?;
        let tag = tag::named(&view.incarnation);
        let Some(until) = until.filter(|_| view.end.is_none()) else {
            return Ok(tagged(tag, view));
        };
        let change = async {
            tokio::select! {
                biased;
                change = change => change.is_ok(),
                // What is shown here may long be otherwise where another leads.
                () = shared.is_over(&reign) => false,
            }
        };
        match timeout_at(until, change).await {
            Ok(true) => {}
            Ok(false) => {
                let message = "the reign of this server ended while it waited for that task";
                return Err(Refusal(Refused::new(Code::NotReady, message)));
            }
            Err(_) => return Ok(tagged(tag, view)),
        }
    }
}

/// The result of a task: what it wrote to the file that `STERNA_RESULT` names.
#[utoipa::path(get, operation_id = "getTaskResult", path = "/v1/namespaces/{namespace}/tasks/{name}/result", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "Its result.", body = ResultView), Refusals))]
pub(super) async fn result(
    State(shared): State<Api>,
    Path((space, name)): Path<(String, String)>,
) -> Answer<Json<ResultView>> {
    let key = task_key(&space, &name)?;
    shared.lead()?;
    let view = view(&shared, &key).ok_or_else(|| not_found(&format!("task {name}")))?;
    let Some(end) = view.end else {
        let message = format!("task {name} is not over yet: it is {}", view.state_word());
        return Err(Refusal(Refused::new(Code::WrongPhase, message)));
    };
    end.result.map(Json).ok_or_else(|| not_found(&format!("result of task {name}")))
}

/// Asks the leader for something, if the task is the one that is meant.
async fn ask(
    shared: &Api,
    key: TaskKey,
    matching: Matching,
    call: fn(TaskKey) -> Call,
) -> Answer<control::Answer> {
    let only_if = matching.task(key.clone());
    Ok(shared.desk.call_if(only_if, call(key)).await?)
}

/// Cancels a task: it does not start, or ends.
#[utoipa::path(post, operation_id = "cancelTask", path = "/v1/namespaces/{namespace}/tasks/{name}/cancel", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "the `ETag` that you read: only for this very task")),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn cancel(
    State(shared): State<Api>,
    Path((space, name)): Path<(String, String)>,
    matching: Matching,
) -> Answer<Json<Done>> {
    let key = task_key(&space, &name)?;
    let answer = ask(&shared, key, matching, Call::CancelTask).await?;
    if let control::Answer::Conflict(_) = answer {
        let message = format!("task {name} is over: nothing to cancel");
        let remedy = format!("see how it ended with `sterna why task/{name}`").into();
        return Err(Refusal(Refused { remedy, ..Refused::new(Code::WrongPhase, message) }));
    }
    done(answer, &format!("task {name}"))
}

/// Kills the run of a task at once.
#[utoipa::path(post, operation_id = "killTask", path = "/v1/namespaces/{namespace}/tasks/{name}/kill", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "the `ETag` that you read: only for this very task")),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn kill(
    State(shared): State<Api>,
    Path((space, name)): Path<(String, String)>,
    matching: Matching,
) -> Answer<Json<Done>> {
    let answer =
        ask(&shared, task_key(&space, &name)?, matching, |key| Call::Kill(key.into())).await?;
    done(answer, &format!("task {name}"))
}

/// What of a task is to be forgotten.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Forgotten {
    /// With its name, if that is kept because it was started from a definition: it is free 7 days later.
    name: Option<bool>,
}

/// Deletes the record of a finished task. Its name stays taken for 7 days.
#[utoipa::path(delete, operation_id = "deleteTask", path = "/v1/namespaces/{namespace}/tasks/{name}", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), Forgotten,
        ("If-Match" = Option<String>, Header, description = "the `ETag` that you read: only for this very task")),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn delete(
    State(shared): State<Api>,
    Path((space, name)): Path<(String, String)>,
    Query(forgotten): Query<Forgotten>,
    matching: Matching,
) -> Answer<Json<Done>> {
    let call = match forgotten.name {
        Some(true) => Call::FreeName,
        Some(false) | None => Call::DeleteTask,
    };
    let answer = ask(&shared, task_key(&space, &name)?, matching, call).await?;
    done(answer, &format!("task {name}"))
}

#[cfg(test)]
mod tests {
    use sterna_engine::control::Row;
    use sterna_model::{Epoch, Revision, Term};
    use sterna_store::Memory;

    use super::*;
    use crate::{
        bounds::Bounds,
        desk::desk,
        shared::{Lead, Shared, Standing},
    };

    /// Who waited was shown what a deposed leader knew, as if it held.
    #[tokio::test]
    async fn who_waits_for_an_end_is_told_when_the_reign_is_over() {
        let (desk, _inbox) = desk();
        let (store, name) = (Arc::new(Memory::new()), "here".to_owned());
        let shared = Arc::new(Shared::new(store, desk, Bounds::default(), String::new(), name));
        let reign = Lead { cluster: String::new(), epoch: Epoch::new(1), term: Term::new(1) };
        shared.stand(Standing::Leads(reign));
        let text = "version = 1\n[task.t]\nrun = [\"true\"]\n";
        let specs = read(&[Source { name: "t.toml", text }]).unwrap();
        let spec = specs.tasks.into_values().next().unwrap().spec;
        let incarnation = TaskIncarnation::from_parts(wall_time(), random());
        let task = sterna_model::record::Task::new(incarnation, Epoch::new(1), wall_time());
        let key = task_key("default", "t").unwrap();
        shared.apply(Revision::new(1), vec![Row::Task(key, Some((task, Arc::new(spec))))]);
        let path = Path(("default".to_owned(), "t".to_owned()));
        let asked = get(State(Arc::clone(&shared)), path, Query(Waiting { wait_s: Some(30) }));
        let deposed = async {
            tokio::task::yield_now().await;
            shared.stand(Standing::Follows(None));
        };
        let (said, ()) = tokio::join!(asked, deposed);
        let Err(Refusal(refused)) = said else { panic!("it is shown as it was") };
        assert_eq!(refused.code, Code::NotReady);
    }
}
