//! What runs wrote: asked of the worker that keeps it, page by page, or followed as it comes.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::header;
use serde_json::{Value, json};
use sterna_api::rest::{Code, LogLine, LogPage, Refused};
use sterna_model::{Lock, RunId, WorkKey};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    Answer, Api, bad,
    given::{Path, Query},
    not_found,
    refusal::Refusal,
    services::instance_key,
    task_key,
};
use crate::shared::Shared;

/// How long a worker may take to answer, beside what it was asked to wait.
const WITHIN: Duration = Duration::from_secs(10);
/// How long a worker waits for something new before it says that there is nothing.
const WAIT: Duration = Duration::from_secs(20);

/// When to look again for a log that is not there yet.
const SOON: Duration = Duration::from_millis(20);

/// When to ask again a worker that has no link, or a server that has just begun to lead.
const AGAIN: Duration = Duration::from_millis(100);
/// How often, before whoever follows is told.
const TRIES: u32 = 100;

/// Which lines.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only those after this place: what the page before gave as `next`.
    after: Option<String>,
    /// So many at most; 1,000 if nothing is said, and at most.
    #[param(minimum = 1)]
    limit: Option<usize>,
    /// `forward` or `backward`, from the end.
    direction: Option<String>,
    /// Only lines that match this regular expression.
    matching: Option<String>,
    /// `stdout`, `stderr`, `output` for both, or `events`; all of them if nothing is said.
    stream: Option<String>,
    /// Goes on as lines come, until the run is over: then the answer is one line of JSON for each.
    follow: Option<bool>,
}

/// Where a log is.
#[derive(Clone, Debug)]
struct Place {
    lock: Lock,
    of: Value,
}

impl Which {
    fn check(&self) -> Answer<()> {
        let is_one = |field: &str, given: &Option<String>, words: &[&str]| match given {
            Some(given) if !words.contains(&given.as_str()) => {
                Err(bad(format!("{field}: {given:?} is none of {}", words.join(", "))))
            }
            Some(_) | None => Ok(()),
        };
        if self.limit == Some(0) {
            return Err(bad("limit: 0 would be no page; ask for 1 to 1,000"));
        }
        is_one("direction", &self.direction, &["forward", "backward"])?;
        is_one("stream", &self.stream, &["stdout", "stderr", "output", "events"])
    }

    fn question(&self, place: &Place, after: Option<&str>, wait: Duration) -> Bytes {
        let question = json!({
            "logs": place.of,
            "after": after,
            "limit": self.limit.unwrap_or(1_000).min(1_000),
            "direction": self.direction,
            "matching": self.matching,
            "stream": self.stream,
            "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        });
        question.to_string().into()
    }
}

/// What a task wrote.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/tasks/{name}/logs", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), Which),
    responses((status = 200, content((LogPage = "application/json"), (LogLine = "application/x-ndjson"))), (status = "4XX", body = Refused), (status = "5XX", body = Refused)))]
pub(super) async fn of_task(
    State(shared): State<Api>,
    Path((space, name)): Path<(String, String)>,
    Query(which): Query<Which>,
) -> Answer<Response> {
    let key = task_key(&space, &name)?;
    answer(shared, key, which, &format!("task {name}")).await
}

/// What an instance wrote, and those before it on the same worker.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/services/{name}/instances/{index}/logs", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), ("index" = u32, Path), Which),
    responses((status = 200, content((LogPage = "application/json"), (LogLine = "application/x-ndjson"))), (status = "4XX", body = Refused), (status = "5XX", body = Refused)))]
pub(super) async fn of_instance(
    State(shared): State<Api>,
    Path((space, service, index)): Path<(String, String, String)>,
    Query(which): Query<Which>,
) -> Answer<Response> {
    let key = instance_key(&space, &service, &index)?;
    answer(shared, key, which, &format!("instance {service}/{index}")).await
}

async fn answer(shared: Api, key: WorkKey, which: Which, what: &str) -> Answer<Response> {
    which.check()?;
    shared.lead()?;
    if look(&shared, &key).is_none() {
        return Err(not_found(what));
    }
    if which.follow == Some(true) {
        return Ok(follow(shared, key, which));
    }
    let Some(Look { place: Some(place), .. }) = look(&shared, &key) else {
        let page = LogPage { lines: Vec::new(), next: String::new(), more: "later".to_owned() };
        return Ok(Json(page).into_response());
    };
    let question = which.question(&place, which.after.as_deref(), Duration::ZERO);
    Ok(Json(ask(&shared, place.lock, question, Duration::ZERO).await?).into_response())
}

/// What is known of a key whose log is asked for.
struct Look {
    /// Where its newest log is.
    place: Option<Place>,
    /// Whether nothing more will be written: a task that is over.
    is_over: bool,
}

fn look(shared: &Shared, key: &WorkKey) -> Option<Look> {
    let mirror = shared.mirror();
    let of_run = |run: RunId| json!({ "run": run.to_string() });
    if let Some((task, _)) = mirror.tasks.get(key) {
        let place = task.last().map(|(run, on)| Place { lock: on.lock, of: of_run(run) });
        return Some(Look { place, is_over: task.end().is_some() });
    }
    let instance = mirror.instances.get(key)?;
    let copy = instance.copies().next();
    let place =
        copy.map(|copy| Place { lock: copy.placed.on.lock, of: json!({ "key": key.to_string() }) });
    Some(Look { place, is_over: false })
}

async fn ask(
    shared: &Shared,
    lock: Lock,
    question: Bytes,
    wait: Duration,
) -> Result<LogPage, Refused> {
    let silent =
        || Refused::new(Code::WorkerSilent, "the worker that keeps the log does not answer");
    let answer = timeout(WITHIN + wait, shared.desk.aside(lock, question)).await;
    let answer = answer.map_err(|_| silent())??;
    match serde_json::from_slice::<LogPage>(&answer) {
        Ok(page) => Ok(page),
        Err(_) => {
            let said: Value = serde_json::from_slice(&answer).unwrap_or_default();
            let why = said["error"].as_str().unwrap_or("the worker's answer cannot be read");
            let code = if said["is_unknown"] == true { Code::NotFound } else { Code::BadRequest };
            Err(Refused::new(code, why))
        }
    }
}

/// A log that is followed.
struct Following {
    shared: Arc<Shared>,
    key: WorkKey,
    which: Which,
    after: Option<String>,
    /// In which log that place is.
    of: Value,
    /// How often nobody answered, in a row.
    silent: u32,
    is_over: bool,
}

/// Lines of JSON as they come. A run that has not begun is waited for.
fn follow(shared: Api, key: WorkKey, which: Which) -> Response {
    let (after, of) = (which.after.clone(), Value::Null);
    let following = Following { shared, key, which, after, of, silent: 0, is_over: false };
    let body = Body::from_stream(stream::unfold(following, |mut following| async move {
        let chunk = following.chunk().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), following))
    }));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

impl Following {
    /// What is written next; `None` when nothing more will be.
    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            let mut change = self.shared.changed(&self.key);
            let look = look(&self.shared, &self.key)?;
            let Some(place) = look.place else {
                if look.is_over {
                    return None;
                }
                // It waits for a worker.
                change.await.ok()?;
                continue;
            };
            if self.of != place.of {
                if !self.of.is_null() {
                    self.after = None;
                }
                self.of = place.of.clone();
            }
            let page = self.next(&place, look.is_over, &mut change).await;
            let page = match page {
                Some(Ok(page)) => page,
                // Its worker has not begun it, or keeps nothing of it.
                Some(Err(refused)) if refused.code == Code::NotFound => {
                    if look.is_over {
                        return None;
                    }
                    // Its end is a change.
                    drop(timeout(SOON, &mut change).await);
                    continue;
                }
                // A link that is made anew, or a reign that has just begun: the log is where it was.
                Some(Err(refused))
                    if self.silent < TRIES
                        && matches!(refused.code, Code::WorkerSilent | Code::NotReady) =>
                {
                    self.silent += 1;
                    sleep(AGAIN).await;
                    continue;
                }
                Some(Err(refused)) => {
                    self.is_over = true;
                    let text = json!({ "error": refused });
                    return Some(Bytes::from(format!("{text}\n")));
                }
                // Something has changed: look again.
                None => continue,
            };
            self.silent = 0;
            self.after = Some(page.next);
            self.is_over = page.more == "never" || look.is_over && page.more == "later";
            if !page.lines.is_empty() {
                let lines = page.lines.iter().filter_map(|line| serde_json::to_string(line).ok());
                let text: String = lines.map(|line| line + "\n").collect();
                return Some(text.into());
            }
        }
    }

    /// The next page; `None` if the key became something else first.
    async fn next(
        &self,
        place: &Place,
        is_over: bool,
        change: &mut oneshot::Receiver<()>,
    ) -> Option<Result<LogPage, Refused>> {
        let wait = if is_over { Duration::ZERO } else { WAIT };
        let question = self.which.question(place, self.after.as_deref(), wait);
        let answer = ask(&self.shared, place.lock, question, wait);
        if is_over {
            return Some(answer.await);
        }
        tokio::select! {
            page = answer => Some(page),
            _ = change => None,
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}
