//! Events as they come.

use std::sync::{Arc, atomic::Ordering};

use axum::{extract::State, response::Response};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use sterna_api::rest::{Code, EventKind, EventView, Refused};
use sterna_model::nearest_word;
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

use super::{
    Answer, Api, bad,
    chunks::{self, Chunks, News},
    described::Refusals,
    given::Query,
    refusal::Refusal,
    seat::Seat,
};
use crate::{
    events::{EventId, Read},
    shared::{Lead, Shared},
};

/// So many events are written at once: this is what a reader that stops reading holds.
const AT_ONCE: usize = 64;

/// Which events.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only those after this one; from now on if nothing is said here or in `Last-Event-ID`.
    after: Option<String>,
    /// Only of keys that begin so.
    key: Option<String>,
    /// Only of these kinds, with commas between them.
    kind: Option<String>,
    /// Ends when it has come to the newest.
    until_now: Option<bool>,
}

struct Reader {
    shared: Arc<Shared>,
    next: u64,
    changes: watch::Receiver<u64>,
    /// The reign whose events these are.
    reign: Lead,
    which: Which,
    is_over: bool,
    /// So often it hears something though there is nothing for it.
    every: Duration,
    /// Given back with it.
    _seat: Seat,
}

/// Events in order, as server-sent events. If a client reads too slowly, the server sends it the place to
/// resume from and closes the stream. When this server stops leading, it closes all streams.
#[utoipa::path(get, operation_id = "followEvents", path = "/v1/events", tag = "events", params(Which,
    ("Last-Event-ID" = Option<String>, Header, description = "the last event that you received")),
    responses((status = 200, description = "A stream of events.", body = EventView, content_type = "text/event-stream"),
        (status = 410, description = "The server no longer keeps these events.", body = Refused),
        Refusals))]
pub(super) async fn events(
    State(shared): State<Api>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Answer<Response> {
    which.check()?;
    let reign = shared.lead()?;
    let changes = shared.log.changes();
    let no_text = |_| bad("Last-Event-ID names no event: write EPOCH.TERM.NUMBER, or 0");
    let last = headers.get("last-event-id").map(HeaderValue::to_str).transpose();
    let last = last.map_err(no_text)?;
    let next = match last.or(which.after.as_deref()).filter(|text| !text.is_empty()) {
        None => shared.log.next(),
        // From the first that is kept.
        Some("0") => first(&shared),
        Some(text) => {
            let id: EventId = text.parse().map_err(|()| {
                bad(format!("{text:?} names no event: write EPOCH.TERM.NUMBER, or 0"))
            })?;
            if !is_kept(&shared, id) {
                return Err(gone(&shared, text));
            }
            id.number.saturating_add(1)
        }
    };
    let _seat = Seat::take(&shared)?;
    shared.counters.readers.fetch_add(1, Ordering::Relaxed);
    let (is_over, every) = (false, chunks::BEAT);
    let reader = Reader { shared, next, changes, reign, which, is_over, every, _seat };
    Ok(chunks::events(reader))
}

/// The number of the first event that is kept.
fn first(shared: &Shared) -> u64 {
    let (mut low, mut high) = (1, shared.log.next());
    while low < high {
        let middle = low + (high - low) / 2;
        match shared.log.read(middle, 0) {
            Read::Gone(_) => low = middle + 1,
            Read::Events(..) => high = middle,
        }
    }
    low
}

/// Whether this very event is kept. Another life of the store, or a term that was not, may have had one
/// of the same number: what came after that one is not what came after this one.
fn is_kept(shared: &Shared, id: EventId) -> bool {
    match shared.log.read(id.number, 1) {
        Read::Events(events, _) => events.first().is_some_and(|event| event.id == id),
        Read::Gone(_) => false,
    }
}

fn gone(shared: &Shared, asked: &str) -> Refusal {
    let resume = shared.log.newest().map(|id| id.to_string().into());
    let message = format!("the events after {asked:?} are unknown here or no longer kept");
    Refusal(Refused { resume, ..Refused::new(Code::EventsGone, message) })
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.counters.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Chunks for Reader {
    async fn chunk(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let beat = Instant::now() + self.every;
        loop {
            let mut chunk = BytesMut::new();
            self.changes.mark_unchanged();
            match self.shared.log.read(self.next, AT_ONCE) {
                Read::Events(events, next) => {
                    let has_more = next > self.next;
                    self.next = next;
                    for event in &events {
                        if self.which.wants(event) {
                            chunk.put_slice(&event.frame);
                        }
                    }
                    if !chunk.is_empty() {
                        return Some(chunk.freeze());
                    }
                    // However much there is for others, it hears from time to time how far it is.
                    if has_more && Instant::now() < beat {
                        continue;
                    }
                    if has_more {
                        return Some(self.still_here());
                    }
                    if self.which.until_now == Some(true) {
                        return None;
                    }
                }
                Read::Gone(newest) => {
                    self.is_over = true;
                    let resume = newest.map(|id| id.to_string()).unwrap_or_default();
                    let text = format!("event: behind\ndata: {{\"resume\":\"{resume}\"}}\n\n");
                    return Some(text.into());
                }
            }
            let change = async { self.changes.changed().await.is_ok() };
            match chunks::news(&self.shared, &self.reign, beat, change).await {
                News::Changed => {}
                News::Over => return None,
                News::Nothing => return Some(self.still_here()),
            }
        }
    }
}

impl Reader {
    /// That nothing is wrong, and after which event to go on: what was passed over is not to be asked for
    /// again, and may not be kept by then. A block with an `id` and no data is no event to who reads it.
    fn still_here(&self) -> Bytes {
        let last = match self.shared.log.read(self.next.saturating_sub(1), 1) {
            Read::Events(events, _) => events.first().map(|event| event.id),
            Read::Gone(_) => None,
        };
        let id = last.map(|id| format!("id: {id}\n")).unwrap_or_default();
        format!(": still here\n{id}\n").into()
    }
}

impl Which {
    /// A kind that there is not is a mistake, not an empty stream.
    fn check(&self) -> Answer<()> {
        let words = || EventKind::ALL.iter().map(|kind| kind.as_str());
        let mut given = self.kind.iter().flat_map(|kinds| kinds.split(',')).map(str::trim);
        let Some(kind) = given.find(|kind| !words().any(|word| word == *kind)) else {
            return Ok(());
        };
        let remedy = match nearest_word(kind, words()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("write one of {}", words().collect::<Vec<_>>().join(", ")),
        };
        Err(bad(format!("there are no events of the kind {kind:?}: {remedy}")))
    }

    fn wants(&self, event: &crate::events::Event) -> bool {
        let is_kind = self
            .kind
            .as_ref()
            .is_none_or(|kinds| kinds.split(',').any(|kind| kind.trim() == event.kind.as_str()));
        is_kind && self.key.as_ref().is_none_or(|key| event.key.starts_with(key.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::{Epoch, Term, WallTime};
    use tokio::time::timeout;

    use super::*;
    use crate::{
        events::Told,
        shared::{Standing, leading},
    };

    /// Somebody who reads on from now what is of this kind.
    fn reader(kind: Option<&str>, every: Duration) -> Reader {
        let (shared, reign, _inbox) = leading();
        let changes = shared.log.changes();
        let which = Which { kind: kind.map(str::to_owned), ..Which::default() };
        let (next, _seat) = (shared.log.next(), Seat::take(&shared).unwrap());
        Reader { shared, next, changes, reign, which, is_over: false, every, _seat }
    }

    fn happens(shared: &Shared, kind: EventKind) {
        let told = vec![Told::new(kind, "leader")];
        let block = shared.log.block((Epoch::new(1), Term::new(1), WallTime::EPOCH), told, 18);
        shared.log.publish(block);
    }

    /// The reader of a deposed leader heard that it was still there, and nothing else, for ever.
    #[tokio::test]
    async fn a_stream_ends_with_the_reign_that_it_tells_of() {
        let mut reader = reader(None, chunks::BEAT);
        let shared = Arc::clone(&reader.shared);
        let deposed = async {
            tokio::time::sleep(Duration::from_millis(10)).await; // why: it waits by then
            shared.stand(Standing::Follows(None));
        };
        let (chunk, ()) = tokio::join!(reader.chunk(), deposed);
        assert_eq!(chunk, None, "it would say that it is still here");
    }

    /// Of 100,000 events none was for it, and when it came back it was told that they are gone.
    #[tokio::test]
    async fn a_reader_hears_how_far_it_is_though_nothing_is_for_it_and_others_hear_much() {
        let mut reader = reader(Some("alarm"), Duration::from_millis(50));
        let shared = Arc::clone(&reader.shared);
        let busy = async {
            // As long as it is asked for, and more often than it hears anything.
            loop {
                happens(&shared, EventKind::LeaderChanged);
                tokio::time::sleep(Duration::from_millis(5)).await; // why: it happens again and again
            }
        };
        let chunk = tokio::select! {
            chunk = timeout(Duration::from_secs(10), reader.chunk()) => chunk,
            () = busy => return,
        };
        let chunk = chunk.expect("it hears something").expect("it is not over");
        let text = String::from_utf8(chunk.to_vec()).unwrap();
        let id = text.strip_prefix(": still here\nid: ").and_then(|rest| rest.strip_suffix("\n\n"));
        let id: EventId = id.unwrap_or_else(|| panic!("{text:?}")).parse().unwrap();
        assert_eq!(id.number + 1, reader.next);
        assert!(is_kept(&reader.shared, id), "it may go on from there");
        // What is for it comes as ever.
        happens(&reader.shared, EventKind::Alarm);
        let chunk = reader.chunk().await.unwrap();
        assert!(chunk.starts_with(b"id: "), "{chunk:?}");
    }
}
