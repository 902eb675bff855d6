//! Logs of which no record says where they are: of an instance that nobody wants any more, of work that was
//! deleted, and of any run by its id. Their workers keep them for days, so all workers are asked.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use sterna_api::rest::{Code, KeptLog, LogPage, Page, Refused};
use sterna_model::{Lock, Name, RunId, WorkKey};
use tokio::time::sleep;

use super::{
    AGAIN, Answer, Api, TRIES, WAIT, Which, gone, not_found,
    place::{Place, WITHIN, ask, of_run, question},
    written,
};
use crate::{
    http::{
        bad,
        chunks::{self, Chunks},
        described::Refusals,
        given::{Path, Query},
        name, namespace,
        seat::Seat,
    },
    shared::{Lead, Shared},
};

/// So many workers are asked at a time.
const AT_A_TIME: usize = 256;
/// Stands before a place that names its worker.
const OF_WORKER: char = '!';

/// The log of one run, as long as its worker keeps it, even if its task or instance is deleted.
#[utoipa::path(get, operation_id = "getRunLogs", path = "/v1/runs/{run}/logs", tag = "cluster",
    params(("run" = String, Path), Which),
    responses((status = 200, description = "A page of lines, or a stream of lines.", content((LogPage = "application/json"), (sterna_api::rest::LogLine = "application/x-ndjson"))), Refusals))]
pub(in crate::http) async fn of_run_id(
    State(shared): State<Api>,
    Path(run): Path<String>,
    Query(which): Query<Which>,
) -> Answer<Response> {
    let run: RunId = run.parse().map_err(|error| bad(crate::because(&error)))?;
    which.check()?;
    if which.previous == Some(true) {
        return Err(bad("previous: a run has none before it; leave it out"));
    }
    let reign = shared.lead()?;
    answer(shared, (reign, which), Wanted::Run(run), &format!("run {run}")).await
}

/// What is read.
pub(super) enum Wanted {
    Run(RunId),
    /// All runs of a key that has no record.
    Key(WorkKey),
}

impl Wanted {
    fn place(&self, which: &Which) -> Value {
        // tidy: not a table
        match (self, read_on(which)) {
            (Self::Run(run), _) => of_run(*run),
            // Whoever has this run has what comes after it.
            (Self::Key(_), Some(run)) => of_run(run),
            (Self::Key(key), None) => of_key(key),
        }
    }
}

fn of_key(key: &WorkKey) -> Value {
    json!({ "key": key.to_string() })
}

/// The run of the place after which is read.
fn read_on(which: &Which) -> Option<RunId> {
    let (run, _) = which.after.as_deref()?.split_once(':')?;
    run.parse().ok()
}

/// Who keeps a log, and which line is the last.
struct Holder {
    lock: Lock,
    name: Name,
    run: String,
    at: String,
}

/// What workers keep of it.
pub(super) async fn answer(
    shared: Api,
    (reign, which): (Lead, Which),
    wanted: Wanted,
    what: &str,
) -> Answer<Response> {
    let (lock, after) = match which.after.as_deref().and_then(read_place) {
        Some((lock, after)) => (lock, after.to_owned()),
        None => {
            let (lock, note) = find(&shared, &wanted, &which, what).await?;
            let after = which.after.clone().unwrap_or_default();
            if which.follow != Some(true) {
                let of = place_of(&wanted, lock);
                return page(&shared, &of, &which, (&after, note)).await;
            }
            (lock, after)
        }
    };
    let place = place_of(&wanted, lock);
    if which.follow != Some(true) {
        return page(&shared, &place, &which, (&after, None)).await;
    }
    let seat = Seat::take(&shared)?;
    let is_run = matches!(wanted, Wanted::Run(_));
    let following = Following {
        shared,
        place,
        which,
        reign,
        after,
        is_run,
        silent: 0,
        is_over: false,
        _seat: seat,
    };
    let body = chunks::body(following);
    Ok(([(http::header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

fn place_of(wanted: &Wanted, lock: Lock) -> Place {
    let of = match wanted {
        Wanted::Run(run) => of_run(*run),
        Wanted::Key(key) => of_key(key),
    };
    Place { lock, of }
}

/// Who has the newest of it, and what is to be said of that.
async fn find(
    shared: &Shared,
    wanted: &Wanted,
    which: &Which,
    what: &str,
) -> Answer<(Lock, Option<String>)> {
    let asked = json!({ "logs": wanted.place(which), "limit": 1, "direction": "backward" });
    let (mut holders, silent) = ask_all(shared, asked.to_string().into(), newest).await;
    holders.sort_by(|one, two| two.at.cmp(&one.at));
    let Some(first) = holders.first() else {
        let mut refusal = not_found(what);
        let message = &refusal.0.message;
        let silent = match silent {
            0 => String::new(),
            count => format!(", but {count} do not answer"),
        };
        refusal.0.message = format!("{message}, and no worker keeps a log of it{silent}").into();
        return Err(refusal);
    };
    let note = match wanted {
        Wanted::Run(_) => None,
        Wanted::Key(_) => Some(note(what, first, &holders[1..])),
    };
    Ok((first.lock, note))
}

fn note(what: &str, first: &Holder, others: &[Holder]) -> String {
    let mut note = format!("{what} no longer exists; {} still keeps this log", first.name);
    for Holder { name, run, .. } in others.iter().take(5) {
        note += &format!(", and {name} has run {run}");
    }
    note
}

fn newest(lock: Lock, name: Name, page: LogPage) -> Vec<Holder> {
    let line = page.lines.into_iter().next();
    line.map(|line| Holder { lock, name, run: line.run, at: line.at }).into_iter().collect()
}

/// Asks all workers; gives what they say, and how many did not.
async fn ask_all<A: serde::de::DeserializeOwned, T>(
    shared: &Shared,
    question: Bytes,
    told: impl Fn(Lock, Name, A) -> Vec<T>,
) -> (Vec<T>, usize) {
    let all: Vec<(Lock, Name)> = {
        let mirror = shared.mirror();
        let shown = mirror.roster.iter().filter(|(_, entry)| !entry.is_forgotten);
        shown.map(|(lock, entry)| (*lock, entry.name.clone())).collect()
    };
    let mut silent = all.len();
    let asked = stream::iter(all).map(|(lock, name)| {
        let question = question.clone();
        async move { (lock, name, self::question(shared, lock, question, Duration::ZERO).await) }
    });
    // Who does not answer keeps nobody waiting for longer than one that is asked alone.
    let mut answers = std::pin::pin!(asked.buffer_unordered(AT_A_TIME).take_until(sleep(WITHIN)));
    let mut found = Vec::new();
    while let Some((lock, name, answer)) = answers.next().await {
        match answer {
            Ok(answer) => {
                silent -= 1;
                found.extend(told(lock, name, answer));
            }
            // It has answered that it keeps nothing, or knows no such question.
            Err(refused) if matches!(refused.code, Code::NotFound | Code::BadRequest) => {
                silent -= 1;
            }
            Err(_) => {}
        }
    }
    (found, silent)
}

async fn page(
    shared: &Shared,
    place: &Place,
    which: &Which,
    (after, note): (&str, Option<String>),
) -> Answer<Response> {
    let question = which.question(place, Some(after), Duration::ZERO);
    let page = ask(shared, place.lock, question, Duration::ZERO).await?;
    let next = format!("{OF_WORKER}{}{OF_WORKER}{}", place.lock, page.next);
    // Nothing is added to what has no record.
    let more = if page.more == "now" { page.more } else { "never".to_owned() };
    Ok(Json(LogPage { note, next, more, ..page }).into_response())
}

/// A place with its worker.
fn read_place(after: &str) -> Option<(Lock, &str)> {
    let (lock, after) = after.strip_prefix(OF_WORKER)?.split_once(OF_WORKER)?;
    Some((lock.parse().ok()?, after))
}

/// A kept log that is read to its end; of a run that still runs, as it comes.
struct Following {
    shared: Api,
    place: Place,
    which: Which,
    reign: Lead,
    after: String,
    is_run: bool,
    /// How often its worker did not answer, in a row.
    silent: u32,
    is_over: bool,
    /// Given back with it.
    _seat: Seat,
}

impl Chunks for Following {
    async fn chunk(&mut self) -> Option<Bytes> {
        while !self.is_over {
            let wait = if self.is_run { WAIT } else { Duration::ZERO };
            let question = self.which.question(&self.place, Some(&self.after), wait);
            let page = tokio::select! {
                page = ask(&self.shared, self.place.lock, question, wait) => page,
                () = self.shared.is_over(&self.reign) => {
                    let over = "the reign of this server ended while it told of that log";
                    Err(Refused::new(Code::NotLeading, over))
                }
            };
            match page {
                Ok(page) => {
                    self.silent = 0;
                    self.after = page.next;
                    self.is_over = page.more == "never" || page.more == "later" && !self.is_run;
                    if !page.lines.is_empty() {
                        return Some(written(&page.lines));
                    }
                }
                Err(refused) if refused.code == Code::WorkerSilent && self.silent < TRIES => {
                    self.silent += 1;
                    sleep(AGAIN).await;
                }
                Err(refused) => {
                    self.is_over = true;
                    return Some(gone(&refused));
                }
            }
        }
        None
    }
}

/// Whose logs.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct Of {
    /// The name of a task or a service, which may have been deleted.
    #[param(required)]
    name: String,
}

/// A worker's answer.
#[derive(serde::Deserialize)]
struct Keeps {
    kept: Vec<Kept>,
}

#[derive(serde::Deserialize)]
struct Kept {
    key: String,
    run: String,
    at: String,
}

/// Lists the logs that workers keep for a name: of a task, and of the instances of a service, including
/// deleted ones. It asks all workers, and lists a few thousand logs at most.
#[utoipa::path(get, operation_id = "listKeptLogs", path = "/v1/namespaces/{namespace}/logs", tag = "cluster",
    params(("namespace" = String, Path), Of),
    responses((status = 200, description = "The newest run of each.", body = Page<KeptLog>), Refusals))]
pub(in crate::http) async fn list(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Query(of): Query<Of>,
) -> Answer<Json<Page<KeptLog>>> {
    let (space, name) = (namespace(&space)?, name(&of.name)?);
    shared.lead()?;
    let (task, service) = (format!("{space}/task/{name}"), format!("{space}/service/{name}"));
    let asked = json!({ "kept": { "task": task, "service": service } });
    let view = |_: Lock, worker: Name, keeps: Keeps| {
        let worker = worker.to_string();
        let of = |Kept { key, run, at }| KeptLog { key, run, worker: worker.clone(), at };
        keeps.kept.into_iter().map(of).collect()
    };
    let (mut items, _) = ask_all(&shared, asked.to_string().into(), view).await;
    items.sort_by(|one, two| (&one.key, &two.at).cmp(&(&two.key, &one.at)));
    items.dedup_by(|later, first| later.key == first.key);
    Ok(Json(Page { items, next: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_its_worker() {
        let lock = "dir-0192f5e4a6c07bcd89abcdef01234567.machine-0192f5e4a6c07bcd89abcdef01234567";
        let place = format!("!{lock}!run-1:7@5");
        let (read, after) = read_place(&place).unwrap();
        assert_eq!((read.to_string().as_str(), after), (lock, "run-1:7@5"));
        for other in ["", "run-1:7", "~run-1:7", "!x!y", "!"] {
            assert_eq!(read_place(other), None, "{other}");
        }
    }
}
