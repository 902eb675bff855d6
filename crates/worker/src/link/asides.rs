//! Answers questions about logs: a thread of its own, so that neither the link nor the containers wait
//! for a disk.
//!
//! Invariant: a question gets one answer, and at most so many wait; more are refused at once.

use std::{
    fmt::Write as _,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use sterna_model::{BootTime, RunId, Span, WallTime};
use sterna_protocol::message::StreamId;
use sterna_wire::Aside;
use tokio::sync::mpsc;

use crate::{
    clock::boot_time,
    logs::{
        Cursor, Direction, Entry, From, Gap, Line, More, Of, Page, Position, ReadError, Reader,
        Request,
    },
    sink::Stream,
};

/// Questions that may wait to be looked at.
const WAITING_MAX: usize = 4_096;
/// How often those that wait for something new are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A service has no more instances than this.
const INSTANCES_MAX: u32 = 100_000;
/// So many bytes of lines are in a page at most.
const PAGE_BYTES: usize = 128 * 1024;

/// The desk where questions are put and answers are taken.
#[derive(Debug)]
pub(super) struct Asides {
    questions: Option<SyncSender<(StreamId, Aside)>>,
    answers: mpsc::Receiver<(StreamId, Aside)>,
    thread: Option<JoinHandle<()>>,
}

impl Asides {
    /// Begins to answer from what is kept.
    pub(super) fn new(reader: Reader) -> Self {
        let (questions, asked) = sync_channel(WAITING_MAX);
        let (answering, answers) = mpsc::channel(WAITING_MAX);
        let thread = thread::Builder::new().name("log-read".to_owned());
        let thread = thread.spawn(move || answer_all(&reader, &asked, &answering)).ok();
        Self { questions: Some(questions), answers, thread }
    }

    /// Asks; what cannot be taken gets no answer.
    pub(super) fn ask(&self, stream: StreamId, question: Aside) {
        if let Some(questions) = &self.questions {
            // Full: who asks hears nothing, and asks again.
            drop(questions.try_send((stream, question)));
        }
    }

    /// The next answer.
    pub(super) async fn next(&mut self) -> (StreamId, Aside) {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Asides {
    fn drop(&mut self) {
        self.questions = None;
        self.answers.close();
        if let Some(thread) = self.thread.take() {
            // What it panicked of was told.
            drop(thread.join());
        }
    }
}

/// A question that waits for something new.
struct Waiting {
    stream: StreamId,
    question: Aside,
    request: Request,
    cursor: Cursor,
    until: BootTime,
}

fn answer_all(
    reader: &Reader,
    asked: &Receiver<(StreamId, Aside)>,
    answers: &mpsc::Sender<(StreamId, Aside)>,
) {
    let mut waiting: Vec<Waiting> = Vec::new();
    loop {
        let question = if waiting.is_empty() {
            asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            asked.recv_timeout(LOOK_EVERY)
        };
        let mut said = Vec::new();
        match question {
            Ok((stream, question)) => match begin(reader, &question.payload) {
                Begun::Answered(payload) => said.push((stream, question.answer(payload))),
                Begun::Waits(request, cursor, until) if waiting.len() < WAITING_MAX => {
                    waiting.push(Waiting { stream, question, request, cursor, until });
                }
                Begun::Waits(..) => said.push((stream, question.answer(busy()))),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = boot_time();
        waiting.retain(|it| {
            let has_news = reader.wait(&it.request.of, &it.cursor, Span::ZERO);
            if !has_news && now < it.until {
                return true;
            }
            let payload = answer(reader.read(&it.request));
            said.push((it.stream, it.question.answer(payload)));
            false
        });
        for answer in said {
            if answers.blocking_send(answer).is_err() {
                return;
            }
        }
    }
}

/// What becomes of a question at once.
enum Begun {
    Answered(Bytes),
    /// There is nothing yet: it waits here for something new, until then.
    Waits(Request, Cursor, BootTime),
}

fn begin(reader: &Reader, question: &[u8]) -> Begun {
    let question: Value = serde_json::from_slice(question).unwrap_or_default();
    if let Some(asked) = question.get("kept") {
        return Begun::Answered(kept(reader, asked));
    }
    let request = match request(&question) {
        Ok(request) => request,
        Err(why) => return Begun::Answered(refused(&why, false)),
    };
    let read = reader.read(&request);
    let wait = question["wait_ms"].as_u64().unwrap_or(0);
    if let Ok(page) = &read
        && page.entries.is_empty()
        && page.more == More::Later
        && wait > 0
    {
        let cursor = page.next.clone();
        let request = Request { from: From::Cursor(cursor.clone()), ..request };
        return Begun::Waits(request, cursor, boot_time().plus(Span::from_millis(wait)));
    }
    Begun::Answered(answer(read))
}

/// Of which work of a name something is kept: of the task, and of which instances of the service.
fn kept(reader: &Reader, asked: &Value) -> Bytes {
    let task = asked["task"].as_str().map(str::to_owned);
    let instances = asked["service"]
        .as_str()
        .into_iter()
        .flat_map(|service| (0..=INSTANCES_MAX).map(move |index| format!("{service}/{index}")));
    let kept = reader.kept(task.into_iter().chain(instances));
    let told = |(key, Line { run, at, .. }): &(String, Line)| json!({ "key": key, "run": run, "at": at.to_string() });
    json!({ "kept": kept.iter().map(told).collect::<Vec<_>>() }).to_string().into()
}

fn request(question: &Value) -> Result<Request, String> {
    let of = &question["logs"];
    // tidy: not a table
    let of = match (of["run"].as_str(), of["key"].as_str()) {
        (Some(run), _) => {
            Of::Run(run.parse::<RunId>().map_err(|error| format!("logs.run: {error}"))?)
        }
        (None, Some(key)) => Of::Key(key.to_owned()),
        (None, None) => return Err("this worker does not understand the question".to_owned()),
    };
    let mut request = Request { bytes_max: PAGE_BYTES, ..Request::all(of) };
    if question["direction"].as_str() == Some("backward") {
        (request.direction, request.from) = (Direction::Backward, From::End);
    }
    request.from = place(question)?.unwrap_or(request.from);
    if let Some(after) = question["after"].as_str().filter(|after| !after.is_empty()) {
        let cursor =
            read_cursor(after).ok_or_else(|| format!("after: {after:?} names no place"))?;
        request.from = From::Cursor(cursor);
    }
    if let Some(limit) = question["limit"].as_u64() {
        request.entries_max = usize::try_from(limit).unwrap_or(1_000).clamp(1, 1_000);
    }
    request.matching = question["matching"].as_str().map(str::to_owned);
    match question["stream"].as_str() {
        Some("stdout") => request.streams = vec![Stream::Stdout],
        Some("stderr") => request.streams = vec![Stream::Stderr],
        Some("output") => request.streams = vec![Stream::Stdout, Stream::Stderr],
        Some("events") => request.streams = vec![Stream::Events],
        Some(_) | None => {}
    }
    Ok(request)
}

/// Where a question begins to read, if it says so: `since` is a time, `line` a number.
fn place(question: &Value) -> Result<Option<From>, String> {
    // tidy: not a table
    match (&question["since"], &question["line"]) {
        (Value::Null, Value::Null) => Ok(None),
        (Value::Null, line) => {
            let number = line.as_u64().filter(|line| *line > 0);
            let number = number.ok_or_else(|| format!("line: {line} is no number from 1 on"))?;
            Ok(Some(From::Line(number)))
        }
        (since, Value::Null) => {
            let text = since.as_str().unwrap_or_default();
            let time = text.parse::<WallTime>().map_err(|error| format!("since: {error}"))?;
            Ok(Some(From::Time(time)))
        }
        (_, _) => Err("since and line: give one of them".to_owned()),
    }
}

fn answer(read: Result<Page, ReadError>) -> Bytes {
    let Page { entries, next, more } = match read {
        Ok(page) => page,
        Err(error @ ReadError::Unknown { .. }) => return refused(&error.to_string(), true),
        Err(error) => return refused(&error.to_string(), false),
    };
    let more = match more {
        More::Now => "now",
        More::Later => "later",
        More::Never => "never",
    };
    let lines: Vec<Value> = entries.iter().map(line).collect();
    json!({ "lines": lines, "next": written_cursor(&next), "more": more }).to_string().into()
}

fn line(entry: &Entry) -> Value {
    match entry {
        Entry::Line(Line { run, number, at, stream, is_cut, bytes }) => {
            let text = String::from_utf8_lossy(bytes);
            let stream = match stream {
                Stream::Stdout => "stdout",
                Stream::Stderr => "stderr",
                Stream::Events => "events",
            };
            let mut line = json!({
                "run": run, "line": number, "at": at.to_string(), "stream": stream, "text": text,
            });
            if std::str::from_utf8(bytes).is_err() {
                line["bytes"] = hex(bytes).into();
            }
            if *is_cut {
                line["is_cut"] = true.into();
            }
            line
        }
        Entry::Gap(Gap { run, first, last }) => json!({
            "run": run, "line": first, "at": WallTime::EPOCH.to_string(), "stream": "events",
            "text": "lines are missing here", "missing": last.map_or(0, |last| last - first + 1),
        }),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _: Result<(), std::fmt::Error> = write!(text, "{byte:02x}");
    }
    text
}

fn refused(why: &str, is_unknown: bool) -> Bytes {
    json!({ "error": why, "is_unknown": is_unknown }).to_string().into()
}

fn busy() -> Bytes {
    refused("too many wait for logs of this worker already; ask again later", false)
}

/// A place in words that nobody needs to understand: `RUN:LINE,RUN:LINE@MILLISECONDS`.
fn written_cursor(cursor: &Cursor) -> String {
    let places: Vec<_> =
        cursor.positions.iter().map(|at| format!("{}:{}", at.run, at.line)).collect();
    let time = cursor.time.map(|time| format!("@{}", time.as_millis())).unwrap_or_default();
    places.join(",") + &time
}

fn read_cursor(text: &str) -> Option<Cursor> {
    let (places, time) = match text.split_once('@') {
        Some((places, time)) => (places, Some(WallTime::from_millis(time.parse().ok()?).ok()?)),
        None => (text, None),
    };
    let position = |place: &str| {
        let (run, line) = place.split_once(':')?;
        Some(Position { run: run.parse().ok()?, line: line.parse().ok()? })
    };
    let positions =
        places.split(',').filter(|place| !place.is_empty()).map(position).collect::<Option<_>>()?;
    Some(Cursor { positions, time })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        logs::{Limits, Logs},
        sink::{Flow, Origin, Sinks as _},
    };

    #[test]
    fn a_place_comes_back_as_it_was_written() {
        let run = |number| RunId::from_parts(WallTime::EPOCH, [number; 10]);
        let at = |number, line| Position { run: run(number), line };
        for cursor in [
            Cursor::default(),
            Cursor { positions: vec![at(1, 7)], time: None },
            Cursor { positions: vec![at(1, u64::MAX), at(2, 1)], time: Some(WallTime::EPOCH) },
        ] {
            assert_eq!(read_cursor(&written_cursor(&cursor)), Some(cursor));
        }
        for text in ["x", "run:1", "@", "1@x"] {
            assert_eq!(read_cursor(text), None, "{text}");
        }
    }

    #[test]
    fn a_question_may_begin_at_a_time_or_a_line() {
        let from = |mut question: Value| {
            question["logs"] = json!({ "key": "default/task/a" });
            request(&question).map(|request| request.from)
        };
        let time = "2026-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(from(json!({ "since": "2026-01-02T03:04:05Z" })), Ok(From::Time(time)));
        let backward = json!({ "line": 7, "direction": "backward" });
        assert_eq!(from(backward), Ok(From::Line(7)));
        // The next page goes on where the first one ended.
        let next = from(json!({ "line": 7, "after": "@5" })).unwrap();
        assert!(matches!(next, From::Cursor(_)), "{next:?}");
        for (question, field) in [
            (json!({ "since": "today" }), "since: "),
            (json!({ "since": 5 }), "since: "),
            (json!({ "line": 0 }), "line: "),
            (json!({ "line": "7" }), "line: "),
            (json!({ "line": 7, "since": "2026-01-02T03:04:05Z" }), "since and line: "),
        ] {
            let why = from(question).unwrap_err();
            assert!(why.starts_with(field), "{why}");
        }
    }

    #[test]
    fn what_is_kept_of_a_name_is_told_by_its_keys() {
        let place = std::env::temp_dir().join(format!("sterna-asides-{}", std::process::id()));
        let mut logs = Logs::open(&place, Limits::default(), WallTime::EPOCH).unwrap();
        let run = |number| RunId::from_parts(WallTime::EPOCH, [number; 10]);
        let keys = ["default/task/a", "default/service/a/0", "default/service/a/70", "b/task/a"];
        for (number, key) in (1..).zip(keys) {
            let origin = Origin { key: key.to_owned(), ..Origin::default() };
            let mut log = logs.open(run(number), &origin);
            let _: Flow = log.write(WallTime::EPOCH, Stream::Stdout, b"said\n");
            log.end(WallTime::EPOCH);
        }
        let asked = json!({ "kept": { "task": "default/task/a", "service": "default/service/a" } });
        let Begun::Answered(said) = begin(&logs.reader(), asked.to_string().as_bytes()) else {
            panic!("it is answered at once");
        };
        let said: Value = serde_json::from_slice(&said).unwrap();
        let told: Vec<_> = said["kept"].as_array().unwrap().iter().map(|it| &it["key"]).collect();
        assert_eq!(told, keys[..3].iter().collect::<Vec<_>>());
        assert_eq!(said["kept"][2]["run"], run(3).to_string());
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_question_that_makes_no_sense_is_refused_with_its_field() {
        let wrong = |question: Value| request(&question).unwrap_err();
        assert!(wrong(json!({})).contains("does not understand"));
        assert!(wrong(json!({ "logs": { "run": "7" } })).starts_with("logs.run: "));
        let after = wrong(json!({ "logs": { "key": "default/task/a" }, "after": "x" }));
        assert!(after.starts_with("after: "), "{after}");
    }
}
