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
use sterna_model::{Lock, Name, RunId, WallTime, WorkKey, record::TwinReason};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
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
use crate::shared::{Lead, Shared};

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

/// Where a log is.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    lock: Lock,
    of: Value,
}

/// The last run of an instance that is over, and where what it wrote is.
#[derive(Clone, Debug)]
struct Over {
    run: RunId,
    lock: Lock,
    /// What its worker is called, if it is still known.
    worker: Option<Name>,
}

impl Over {
    /// Of all runs of the key that its worker has kept something of.
    fn all(&self, key: &WorkKey) -> Place {
        Place { lock: self.lock, of: json!({ "key": key.to_string() }) }
    }

    /// Of this one.
    fn alone(&self) -> Place {
        Place { lock: self.lock, of: of_run(self.run) }
    }

    fn worker(&self) -> String {
        match &self.worker {
            Some(name) => name.to_string(),
            None => format!("a worker that has left, {}", self.lock),
        }
    }

    /// Says who has the lines that could not be had.
    fn kept_by(&self, refused: Refused) -> Refused {
        if refused.code != Code::WorkerSilent {
            return refused;
        }
        let (run, worker) = (self.run, self.worker());
        let text = format!("what its last run, {run}, wrote is on {worker}, which does not answer");
        Refused::new(Code::WorkerSilent, text)
    }

    /// Whether a place is in what its worker has kept.
    fn holds(&self, after: &str) -> bool {
        after.starts_with(OF_PAST) || after.contains(&self.run.to_string())
    }
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
            return Err(bad("since and line: each says where to begin; leave one out"));
        }
        if self.line == Some(0) {
            return Err(bad("line: lines are counted from 1 on"));
        }
        let Some(since) = &self.since else { return Ok(()) };
        let read = since.parse::<WallTime>().map(drop);
        read.map_err(|error| {
            let why = crate::because(&error);
            bad(format!("since: {since:?} is no moment: {why}; write one as 2026-01-01T00:00:00Z"))
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

/// What a task wrote.
#[utoipa::path(get, operation_id = "getTaskLogs", path = "/v1/namespaces/{namespace}/tasks/{name}/logs", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), Which),
    responses((status = 200, description = "A page of lines, or each as it comes.", content((LogPage = "application/json"), (LogLine = "application/x-ndjson"))), Refusals))]
pub(super) async fn of_task(
    State(shared): State<Api>,
    Path((space, name)): Path<(String, String)>,
    Query(which): Query<Which>,
) -> Answer<Response> {
    let key = task_key(&space, &name)?;
    if which.previous == Some(true) {
        return Err(bad("previous: a task has one run; leave it out"));
    }
    answer(shared, key, which, &format!("task {name}")).await
}

/// What an instance wrote, and those before it on the same worker. If it has no run, or one that has
/// nothing to show, then what its last run wrote that is over; `note` says so.
#[utoipa::path(get, operation_id = "getInstanceLogs", path = "/v1/namespaces/{namespace}/services/{name}/instances/{index}/logs", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), ("index" = u32, Path), Which),
    responses((status = 200, description = "A page of lines, or each as it comes.", content((LogPage = "application/json"), (LogLine = "application/x-ndjson"))), Refusals))]
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
    let reign = shared.lead()?;
    let Some(look) = look(&shared, &key) else { return Err(not_found(what)) };
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

fn over_note(over: &Over, is_running: bool) -> String {
    let now = if is_running { "its run of now has nothing to show" } else { "it has no run now" };
    let (run, worker) = (over.run, over.worker());
    format!("{now}; its last was {run}, on {worker}, and this is what is kept there")
}

/// What is known of a key whose log is asked for.
struct Look {
    /// Where its newest log is.
    place: Option<Place>,
    /// The run that writes it.
    run: Option<RunId>,
    /// Whether nothing more will be written: a task that is over.
    is_over: bool,
    /// The last run of an instance that is over.
    over: Option<Over>,
    /// Who else has a copy of it that will soon be over.
    leaving: Option<Lock>,
}

impl Look {
    /// What to read on in: a copy that leaves is read to its end, before that which takes its place.
    fn newest(&self, key: &WorkKey, at: Option<&Place>) -> Option<Place> {
        let leaving = at.filter(|at| Some(at.lock) == self.leaving).cloned();
        let over = || self.over.as_ref().map(|over| over.all(key));
        leaving.or_else(|| self.place.clone()).or_else(over)
    }
}

fn look(shared: &Shared, key: &WorkKey) -> Option<Look> {
    let mirror = shared.mirror();
    if let Some((task, _)) = mirror.tasks.get(key) {
        let place = task.last().map(|(run, on)| Place { lock: on.lock, of: of_run(run) });
        let (run, is_over) = (task.last().map(|(run, _)| run), task.end().is_some());
        return Some(Look { place, run, is_over, over: None, leaving: None });
    }
    let instance = mirror.instances.get(key)?;
    let copy = instance.copies().next();
    let place =
        copy.map(|copy| Place { lock: copy.placed.on.lock, of: json!({ "key": key.to_string() }) });
    let over = instance.past().map(|past| {
        let lock = past.on.lock;
        Over { run: past.run, lock, worker: mirror.worker(lock).cloned() }
    });
    let leaving = instance.twin().filter(|twin| match twin.reason {
        TwinReason::Evacuating | TwinReason::Surplus => true,
        // Nobody knows how long, nor whether it runs.
        TwinReason::Silent => false,
    });
    let leaving = leaving.map(|twin| twin.copy.placed.on.lock);
    let run = copy.map(|copy| copy.placed.run);
    Some(Look { place, run, is_over: false, over, leaving })
}

fn of_run(run: RunId) -> Value {
    json!({ "run": run.to_string() })
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
    /// The reign that tells.
    reign: Lead,
    after: Option<String>,
    /// In which log that place is, once one was read.
    at: Option<Place>,
    /// How often nobody answered, in a row.
    silent: u32,
    is_over: bool,
    /// Given back with it.
    _seat: Seat,
}

/// Lines of JSON as they come. A run that has not begun is waited for.
fn follow(following: Following) -> Response {
    let body = Body::from_stream(stream::unfold(following, |mut following| async move {
        let chunk = following.chunk().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), following))
    }));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

impl Following {
    fn new(shared: Api, key: WorkKey, which: Which, reign: Lead, _seat: Seat) -> Self {
        let after = which.after.clone();
        let (at, silent, is_over) = (None, 0, false);
        Self { shared, key, which, reign, after, at, silent, is_over, _seat }
    }

    /// What is written next; `None` when nothing more will be.
    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            // Another leader tells what comes next, or another reign of this server.
            if let Some(refused) = self.deposed() {
                return Some(self.give_up(&refused));
            }
            let mut change = self.shared.changed(&self.key);
            let look = look(&self.shared, &self.key)?;
            let Some(newest) = look.newest(&self.key, self.at.as_ref()) else {
                if look.is_over {
                    return None;
                }
                // It waits for a worker.
                self.waits(change).await;
                continue;
            };
            if let (None, Some(after), Some(over)) = (&self.at, &self.after, &look.over)
                && over.holds(after)
            {
                // Whoever reads on has come no further than that.
                self.at = Some(over.all(&self.key));
            }
            if let Some(left) = self.at.clone().filter(|at| *at != newest) {
                match self.rest(&left, newest).await {
                    Some(lines) => return Some(lines),
                    None => continue,
                }
            }
            self.at = Some(newest.clone());
            let place = self.which.begun(&newest, look.run, self.after.as_deref());
            let page = match self.next(&place, look.is_over, &mut change).await {
                Some(Ok(page)) => page,
                Some(Err(refused)) => match self.refused(refused, &look, change).await {
                    Next::Again => continue,
                    Next::Nothing => return None,
                    Next::Said(text) => return Some(text),
                },
                // Something has changed: look again.
                None => continue,
            };
            self.silent = 0;
            self.after = Some(page.next);
            self.is_over = page.more == "never" || look.is_over && page.more == "later";
            if !page.lines.is_empty() {
                return Some(written(&page.lines));
            }
        }
    }

    /// What was written there before it began elsewhere: the last lines of a run say why it ended. When
    /// there is no more of it, or it cannot be had, it goes on with the newest.
    async fn rest(&mut self, left: &Place, newest: Place) -> Option<Bytes> {
        let question = self.which.question(left, self.after.as_deref(), Duration::ZERO);
        let page = ask(&self.shared, left.lock, question, Duration::ZERO).await.ok();
        let has_more = page.as_ref().is_some_and(|page| page.more == "now");
        if let Some(page) = &page {
            self.after = Some(page.next.clone());
        }
        if !has_more {
            let after = self.after.take().filter(|_| left.of == newest.of);
            self.after = after.map(|after| elsewhere(&after));
            self.at = Some(newest);
        }
        page.filter(|page| !page.lines.is_empty()).map(|page| written(&page.lines))
    }

    /// What follows when there is no page.
    async fn refused(
        &mut self,
        refused: Refused,
        look: &Look,
        mut change: oneshot::Receiver<()>,
    ) -> Next {
        // Its worker has not begun it, or keeps nothing of it.
        if refused.code == Code::NotFound {
            if look.is_over {
                return Next::Nothing;
            }
            // Its end is a change.
            drop(timeout(SOON, &mut change).await);
            return Next::Again;
        }
        // A link that is made anew, or a reign that has just begun: the log is where it was.
        let is_silent = matches!(refused.code, Code::WorkerSilent | Code::NotReady);
        if is_silent && self.silent < TRIES {
            self.silent += 1;
            sleep(AGAIN).await;
            return Next::Again;
        }
        // Nobody has it now: what its next run writes is waited for.
        if is_silent && look.place.is_none() {
            self.waits(change).await;
            return Next::Again;
        }
        Next::Said(self.give_up(&refused))
    }

    /// Waits until the key is something else; not longer than the reign lasts, for then it is told of
    /// nothing.
    async fn waits(&self, change: oneshot::Receiver<()>) {
        tokio::select! {
            _ = change => {}
            () = self.shared.is_over(&self.reign) => {}
        }
    }

    /// Why nothing more is told here, if the reign is over.
    fn deposed(&self) -> Option<Refused> {
        match self.shared.lead() {
            Ok(reign) if reign == self.reign => None,
            Ok(_) => Some(Refused::new(Code::NotReady, "another reign of this server has begun")),
            Err(refused) => Some(refused),
        }
    }

    fn give_up(&mut self, refused: &Refused) -> Bytes {
        self.is_over = true;
        let text = json!({ "error": refused });
        Bytes::from(format!("{text}\n"))
    }

    /// The next page; `None` if the key became something else first, or the reign was over.
    async fn next(
        &self,
        place: &Place,
        is_over: bool,
        change: &mut oneshot::Receiver<()>,
    ) -> Option<Result<LogPage, Refused>> {
        let wait = if is_over { Duration::ZERO } else { WAIT };
        let question = self.which.question(place, self.after.as_deref(), wait);
        let answer = ask(&self.shared, place.lock, question, wait);
        tokio::select! {
            page = answer => Some(page),
            _ = change, if !is_over => None,
            () = self.shared.is_over(&self.reign) => None,
        }
    }
}

/// What whoever follows does next.
enum Next {
    Again,
    Nothing,
    Said(Bytes),
}

/// A place for another worker, which has none of these runs: after all of them. It would say that their
/// lines are missing.
fn elsewhere(after: &str) -> String {
    let (places, time) = after.split_once('@').unwrap_or((after, ""));
    let runs = places.split(',').filter_map(|place| place.split_once(':'));
    let places: Vec<_> = runs.map(|(run, _)| format!("{run}:{}", u64::MAX)).collect();
    let time = if time.is_empty() { String::new() } else { format!("@{time}") };
    places.join(",") + &time
}

/// One line of JSON for each.
fn written(lines: &[LogLine]) -> Bytes {
    let lines = lines.iter().filter_map(|line| serde_json::to_string(line).ok());
    lines.map(|line| line + "\n").collect::<String>().into()
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::{DirectoryId, Epoch, MachineId, Term};
    use sterna_store::Memory;

    use super::*;
    use crate::{bounds::Bounds, desk::desk, shared::Standing};

    #[test]
    fn a_place_for_another_worker_is_after_all_runs_that_it_does_not_have() {
        let last = u64::MAX;
        assert_eq!(elsewhere("a:7"), format!("a:{last}"));
        assert_eq!(elsewhere("a:7,b:1@55"), format!("a:{last},b:{last}@55"));
        assert_eq!(elsewhere(""), "");
    }

    /// Its worker has a link to the leader of now: here nobody answers.
    #[tokio::test]
    async fn a_followed_log_ends_with_the_reign_in_which_it_was_asked_for() {
        let (desk, inbox) = desk();
        let (store, name) = (Arc::new(Memory::new()), "here".to_owned());
        let shared = Shared::new(store, desk, Bounds::default(), String::new(), name);
        let shared = Arc::new(shared);
        let cluster = String::new();
        let reign = Lead { cluster, epoch: Epoch::new(1), term: Term::new(1) };
        shared.stand(Standing::Leads(reign.clone()));
        let seat = Seat::take(&shared).unwrap();
        let key = task_key("default", "t").unwrap();
        let mut following = Following::new(Arc::clone(&shared), key, Which::default(), reign, seat);
        let directory = DirectoryId::from_parts(WallTime::EPOCH, [1; 10]);
        let machine = MachineId::from_bytes(*directory.as_bytes()).unwrap();
        let lock = Lock { directory, machine };
        let place = Place { lock, of: Value::Null };
        let deposed = async {
            while inbox.posts.is_empty() {
                tokio::task::yield_now().await;
            }
            shared.stand(Standing::Follows(None));
        };
        let lines = async {
            let (_changes, mut change) = oneshot::channel();
            following.next(&place, false, &mut change).await
        };
        let both = async { tokio::join!(lines, deposed) };
        let (page, ()) = timeout(WITHIN, both).await.expect("it ends");
        assert!(page.is_none());
        let said = following.chunk().await.unwrap();
        assert!(String::from_utf8_lossy(&said).contains("not-leading"), "{said:?}");
        assert_eq!(following.chunk().await, None);
    }
}
