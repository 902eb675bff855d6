//! What runs wrote: asked of the worker that keeps it, page by page, or followed as it comes.
//!
//! | file | what |
//! | --- | --- |
//! | `place` | where a log is kept, and how its worker is asked |
//! | `follow` | reads on as it is written |
//! | `kept` | of what has no record: all workers are asked |
//!
//! It does not know what a log looks like on a disk: a worker answers with pages.

mod follow;
pub(super) mod kept;
mod place;

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::json;
use sterna_api::rest::{Code, LogLine, LogPage, Refused};
use sterna_model::{RunId, WallTime, WorkKey};

use self::{
    follow::{Following, follow},
    kept::Wanted,
    place::{Look, Over, Place, ask, look, of_run},
};
use super::{
    Answer, Api, bad, check_limit,
    described::Refusals,
    given::{Path, Query},
    not_found,
    refusal::Refusal,
    seat::Seat,
    services::instance_key,
    task_key,
};
use crate::shared::Shared;

/// How long a worker waits for something new before it says that there is nothing.
const WAIT: Duration = Duration::from_secs(20);

/// When to ask again a worker that has no link, or a server that has just begun to lead.
const AGAIN: Duration = Duration::from_millis(100);
/// How often, before whoever follows is told.
const TRIES: u32 = 100;

/// Stands before a place that is not with the worker that has the work now.
const OF_PAST: char = '~';

/// Which lines.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only those after this place: what the page before gave as `next`.
    after: Option<String>,
    /// So many at most; 1,000 if nothing is said, and at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `forward` or `backward`, from the end.
    direction: Option<String>,
    /// Only lines that match this regular expression.
    matching: Option<String>,
    /// `stdout`, `stderr`, `output` for both, or `events`; all of them if nothing is said.
    stream: Option<String>,
    /// Only those from this moment on, such as 2026-01-01T00:00:00Z; backward, those before it.
    since: Option<String>,
    /// Only those from this number on, of the run that it has now or had last; backward, those before it.
    #[param(minimum = 1)]
    line: Option<u64>,
    /// Goes on as lines come, until the run is over: then the answer is one line of JSON for each.
    follow: Option<bool>,
    /// Of an instance, only what its last run wrote that is over.
    previous: Option<bool>,
}

impl Which {
    fn check(&self) -> Answer<()> {
        let is_one = |field: &str, given: &Option<String>, words: &[&str]| match given {
            Some(given) if !words.contains(&given.as_str()) => {
                Err(bad(format!("{field}: {given:?} is none of {}", words.join(", "))))
            }
            Some(_) | None => Ok(()),
        };
        check_limit(self.limit.unwrap_or(1_000))?;
        if (self.previous, self.follow) == (Some(true), Some(true)) {
            return Err(bad("previous: that run is over, and cannot be followed; leave one out"));
        }
        self.check_begin()?;
        is_one("direction", &self.direction, &["forward", "backward"])?;
        is_one("stream", &self.stream, &["stdout", "stderr", "output", "events"])
    }

    /// Where it is to begin, if that is said.
    fn check_begin(&self) -> Answer<()> {
        if self.since.is_some() && self.line.is_some() {
            return Err(bad("since and line: each sets the start; leave one out"));
        }
        if self.line == Some(0) {
            return Err(bad("line: lines are counted from 1 on"));
        }
        let Some(since) = &self.since else { return Ok(()) };
        let read = since.parse::<WallTime>().map(drop);
        read.map_err(|error| {
            let why = crate::because(&error);
            bad(format!("since: {since:?} is not a time: {why}; write it as 2026-01-01T00:00:00Z"))
        })
    }

    /// Where a log is begun to be read: lines are counted in each run, so a number means one of them.
    fn begun(&self, place: &Place, run: Option<RunId>, after: Option<&str>) -> Place {
        let is_begun = after.is_some_and(|after| !after.is_empty());
        match run.filter(|_| self.line.is_some() && !is_begun) {
            Some(run) => Place { lock: place.lock, of: of_run(run) },
            None => place.clone(),
        }
    }

    fn question(&self, place: &Place, after: Option<&str>, wait: Duration) -> Bytes {
        let after = after.map(|after| after.trim_start_matches(OF_PAST));
        let question = json!({
            "logs": place.of,
            "after": after,
            "limit": self.limit.unwrap_or(1_000),
            "direction": self.direction,
            "matching": self.matching,
            "since": self.since,
            "line": self.line,
            "stream": self.stream,
            "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        });
        question.to_string().into()
    }
}

/// The log of a task; for a deleted task, what its worker still keeps.
#[utoipa::path(get, operation_id = "getTaskLogs", path = "/v1/namespaces/{namespace}/tasks/{name}/logs", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), Which),
    responses((status = 200, description = "A page of lines, or a stream of lines.", content((LogPage = "application/json"), (LogLine = "application/x-ndjson"))), Refusals))]
pub(super) async fn of_task(
    State(shared): State<Api>,
    Path((space, name)): Path<(String, String)>,
    Query(which): Query<Which>,
) -> Answer<Response> {
    let key = task_key(&space, &name)?;
    if which.previous == Some(true) {
        return Err(bad("previous: a task has one run; leave it out"));
    }
    answer(shared, key.into(), which, &format!("task {name}")).await
}

/// The log of an instance, with its earlier runs on the same worker. If it has no run, or its run has no lines
/// yet, the log of its previous run; `note` says so. For a deleted instance, what its last worker still keeps.
#[utoipa::path(get, operation_id = "getInstanceLogs", path = "/v1/namespaces/{namespace}/services/{name}/instances/{index}/logs", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), ("index" = u32, Path), Which),
    responses((status = 200, description = "A page of lines, or a stream of lines.", content((LogPage = "application/json"), (LogLine = "application/x-ndjson"))), Refusals))]
pub(super) async fn of_instance(
    State(shared): State<Api>,
    Path((space, service, index)): Path<(String, String, String)>,
    Query(which): Query<Which>,
) -> Answer<Response> {
    let key = instance_key(&space, &service, &index)?;
    answer(shared, key.into(), which, &format!("instance {service}/{index}")).await
}

async fn answer(shared: Api, key: WorkKey, which: Which, what: &str) -> Answer<Response> {
    which.check()?;
    let reign = shared.lead()?;
    let Some(look) = look(&shared, &key) else {
        return kept::answer(shared, (reign, which), Wanted::Key(key), what).await;
    };
    if which.previous == Some(true) {
        let over = look.over.ok_or_else(|| not_found(&format!("run of {what} that is over")))?;
        let question = which.question(&over.alone(), which.after.as_deref(), Duration::ZERO);
        let page = ask(&shared, over.lock, question, Duration::ZERO).await;
        let page = page.map_err(|refused| over.kept_by(refused))?;
        let note = Some(format!("this is of run {}, on {}", over.run, over.worker()));
        return Ok(Json(LogPage { note, ..page }).into_response());
    }
    if which.follow == Some(true) {
        let seat = Seat::take(&shared)?;
        return Ok(follow(Following::new(shared, key, which, reign, seat)));
    }
    Ok(Json(page(&shared, &key, &look, &which).await?).into_response())
}

/// A page of what it writes now, or of what its last run wrote if there is nothing of that.
async fn page(
    shared: &Shared,
    key: &WorkKey,
    look: &Look,
    which: &Which,
) -> Result<LogPage, Refused> {
    let after = which.after.as_deref();
    // The worker that has it now says all of the runs of the key that it had before.
    let lock = look.place.as_ref().map(|place| place.lock);
    let over = look.over.as_ref().filter(|over| Some(over.lock) != lock);
    let is_past = over.zip(after).is_some_and(|(over, after)| over.holds(after));
    let mut now = LogPage { more: "later".to_owned(), ..LogPage::default() };
    if let Some(place) = look.place.as_ref().filter(|_| !is_past) {
        let place = which.begun(place, look.run, after);
        let question = which.question(&place, after, Duration::ZERO);
        match ask(shared, place.lock, question, Duration::ZERO).await {
            Ok(page) => now = page,
            // Its worker has not begun it: there is nothing yet, as of what waits.
            Err(refused) if refused.code == Code::NotFound && !look.is_over => {}
            Err(refused) => return Err(refused),
        }
    }
    // A number that the run of now has not come to is none of the run before.
    let is_of_now = which.line.is_some() && lock.is_some() && !is_past;
    let is_empty = now.lines.is_empty() && now.more != "now";
    let Some(over) = over.filter(|_| is_empty && !is_of_now) else {
        return Ok(now);
    };
    let place = which.begun(&over.all(key), Some(over.run), after);
    let question = which.question(&place, after, Duration::ZERO);
    let page = ask(shared, over.lock, question, Duration::ZERO).await;
    let is_running = lock.is_some();
    match page {
        Ok(page) if page.lines.is_empty() && page.more != "now" && !is_past => Ok(now),
        Ok(page) => {
            let (note, next) = (over_note(over, is_running), format!("{OF_PAST}{}", page.next));
            Ok(LogPage { note: Some(note), next, ..page })
        }
        Err(refused) if is_running || over.worker.is_none() => {
            let note = Some(over.kept_by(refused).message.into());
            Ok(LogPage { note, ..now })
        }
        Err(refused) => Err(over.kept_by(refused)),
    }
}

/// Lines of JSON.
fn written(lines: &[LogLine]) -> Bytes {
    let lines = lines.iter().filter_map(|line| serde_json::to_string(line).ok());
    lines.map(|line| line + "\n").collect::<String>().into()
}

/// Why no more lines come.
fn gone(refused: &Refused) -> Bytes {
    let text = json!({ "error": refused });
    Bytes::from(format!("{text}\n"))
}

fn over_note(over: &Over, is_running: bool) -> String {
    let now = if is_running { "its run of now has nothing to show" } else { "it has no run now" };
    let (run, worker) = (over.run, over.worker());
    format!("{now}; its last was {run}, on {worker}, and this is what is kept there")
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}
