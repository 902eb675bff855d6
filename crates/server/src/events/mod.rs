//! The log of events: what happened, in order, bounded, as it stands in the store.
//!
//! ```text
//!   a commit ── told ──▶ events ── numbered ──▶ one block, in that same commit
//!                                     │ applied
//!                                     ▼
//!                        Log: the last of them, in memory ──▶ readers, each with its own place
//! ```
//!
//! Invariant: an event is in the store if and only if what it tells is. Numbers have no holes; a reign
//! goes on where the one before has ended.
//!
//! Invariant: a reader is a number. It costs nothing while it does not read, and one that has fallen too
//! far behind is told where to go on.

mod told;

use std::{
    collections::VecDeque,
    fmt,
    str::FromStr,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use sterna_api::rest::{EventKind, EventView};
use sterna_model::{Epoch, Term, WallTime};
use tokio::sync::watch;

pub(crate) use self::told::{Told, told};

/// Names an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    pub(crate) epoch: Epoch,
    pub(crate) term: Term,
    pub(crate) number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch.get(), self.term.get(), self.number)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.').map(|part| part.parse::<u64>().map_err(drop));
        let mut next = || parts.next().ok_or(())?;
        let (epoch, term, number) = (Epoch::new(next()?), Term::new(next()?), next()?);
        if parts.next().is_some() { Err(()) } else { Ok(Self { epoch, term, number }) }
    }
}

/// An event as readers get it.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: EventId,
    pub(crate) kind: EventKind,
    pub(crate) key: Box<str>,
    /// As it is sent, made once for all readers.
    pub(crate) frame: Bytes,
    /// The part of it that is JSON, in one line.
    pub(crate) json: Bytes,
}

impl Event {
    fn new(id: EventId, kind: EventKind, key: Box<str>, json: &[u8]) -> Arc<Self> {
        let mut frame = format!("id: {id}\nevent: {}\ndata: ", kind.as_str()).into_bytes();
        let begin = frame.len();
        frame.extend_from_slice(json);
        frame.extend_from_slice(b"\n\n");
        let frame = Bytes::from(frame);
        let json = frame.slice(begin..frame.len() - 2);
        Arc::new(Self { id, kind, key, frame, json })
    }
}

/// The events of one commit, numbered.
#[derive(Debug)]
pub(crate) struct Block {
    events: Vec<Arc<Event>>,
    /// The first numbers of blocks that go out of the store.
    pub(crate) out: Vec<u64>,
}

impl Block {
    /// The number of its first event.
    pub(crate) fn first(&self) -> Option<u64> {
        self.events.first().map(|event| event.id.number)
    }

    /// What stands in the store: a line for each.
    pub(crate) fn bytes(&self) -> Bytes {
        let mut text = Vec::new();
        for event in &self.events {
            text.extend_from_slice(&event.json);
            text.push(b'\n');
        }
        text.into()
    }
}

/// The key of the block that begins with this number.
pub(crate) fn block_key(first: u64) -> String {
    format!("{}{first:020}", crate::records::EVENTS)
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the first that is kept, or of the next if none is.
    first: u64,
    events: VecDeque<Arc<Event>>,
    /// The blocks in the store: the first number of each, and how many events it has.
    blocks: VecDeque<(u64, usize)>,
}

/// All events that are kept.
#[derive(Debug)]
pub(crate) struct Log {
    /// So many are kept.
    max: usize,
    kept: RwLock<Kept>,
    /// The number of the next event.
    next: watch::Sender<u64>,
}

/// Events that a reader gets at once.
pub(crate) enum Read {
    /// These, and where to go on; there may be none yet.
    Events(Vec<Arc<Event>>, u64),
    /// What was asked for is no longer kept; this is the newest.
    Gone(Option<EventId>),
}

impl Log {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, kept: RwLock::default(), next: watch::Sender::new(1) }
    }

    /// What stands in the store, when a reign begins; `blocks` in their order.
    pub(crate) fn load(&self, blocks: impl Iterator<Item = Bytes>) {
        let mut kept = Kept { first: 1, ..Kept::default() };
        for block in blocks {
            let events: Vec<_> = block.split(|byte| *byte == b'\n').filter_map(read).collect();
            let Some(first) = events.first().map(|event| event.id.number) else { continue };
            kept.blocks.push_back((first, events.len()));
            kept.events.extend(events);
        }
        kept.first = kept.events.front().map_or(1, |event| event.id.number);
        let next = kept.events.back().map_or(1, |event| event.id.number + 1);
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = kept;
        self.next.send_replace(next);
    }

    /// Numbers what is told by a commit that is about to be sent, and takes out what is too much by then:
    /// so many blocks at most, for so many are left to the commit. What is left over goes with the next.
    pub(crate) fn block(
        &self,
        (epoch, term, at): (Epoch, Term, WallTime),
        told: Vec<Told>,
        most_out: usize,
    ) -> Block {
        let first = *self.next.borrow();
        let numbered = told.into_iter().zip(first..).map(|(told, number)| {
            let id = EventId { epoch, term, number };
            let Told { kind, key, run, reason, data } = told;
            let run = run.map(|run| run.to_string());
            let view = EventView {
                id: id.to_string(),
                at: at.to_string(),
                kind,
                key: key.clone(),
                run,
                reason,
                data,
            };
            let json = serde_json::to_vec(&view).unwrap_or_default();
            Event::new(id, kind, key.into(), &json)
        });
        let events: Vec<_> = numbered.collect();
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let mut over = (kept.events.len() + events.len()).saturating_sub(self.max);
        let mut out = Vec::new();
        // The newest stays: by it the next are numbered.
        let all = kept.blocks.len().saturating_sub(events.is_empty().into());
        for (first, count) in kept.blocks.iter().take(all.min(most_out)) {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(*count);
            out.push(*first);
        }
        Block { events, out }
    }

    /// Whether more is kept than may be, though nothing new is told: a commit is due that takes it out.
    pub(crate) fn is_over(&self) -> bool {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.events.len() > self.max && kept.blocks.len() > 1
    }

    /// A commit with this block stands.
    pub(crate) fn publish(&self, block: Block) {
        if block.events.is_empty() && block.out.is_empty() {
            return;
        }
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        for out in &block.out {
            if let Some((first, count)) = kept.blocks.pop_front() {
                debug_assert_eq!(first, *out, "blocks go in their order");
                let count = count.min(kept.events.len());
                kept.events.drain(..count);
            }
        }
        let next = match block.first() {
            Some(first) => {
                kept.blocks.push_back((first, block.events.len()));
                first + block.events.len() as u64
            }
            None => *self.next.borrow(),
        };
        kept.events.extend(block.events);
        kept.first = kept.events.front().map_or(next, |event| event.id.number);
        drop(kept);
        self.next.send_replace(next);
    }

    /// The number of the next event.
    pub(crate) fn next(&self) -> u64 {
        *self.next.borrow()
    }

    /// Wakes whoever waits for events.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    /// The events from this number on, at most so many.
    pub(crate) fn read(&self, from: u64, max: usize) -> Read {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        if from < kept.first {
            return Read::Gone(kept.events.back().map(|event| event.id));
        }
        let skip = usize::try_from(from - kept.first).unwrap_or(usize::MAX);
        let events: Vec<_> = kept.events.iter().skip(skip).take(max).cloned().collect();
        let next = from + events.len() as u64;
        Read::Events(events, next)
    }

    /// The newest event.
    pub(crate) fn newest(&self) -> Option<EventId> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.events.back().map(|event| event.id)
    }
}

fn read(line: &[u8]) -> Option<Arc<Event>> {
    let view: EventView = serde_json::from_slice(line).ok()?;
    let (id, kind, key) = (view.id.parse().ok()?, view.kind, view.key.into());
    Some(Event::new(id, kind, key, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: usize = 1_000;

    fn publish(log: &Log, count: usize) -> Block {
        let told = (0..count).map(|n| Told::new(EventKind::Alarm, format!("k{n}"))).collect();
        log.block((Epoch::new(1), Term::new(2), WallTime::EPOCH), told, 18)
    }

    fn kept(log: &Log) -> usize {
        let Read::Events(events, _) = log.read(log.next() - 1, 1) else { panic!("it is there") };
        assert_eq!(events.len(), 1, "the newest is kept");
        log.kept.read().unwrap().events.len()
    }

    /// A thousand commits of one event each, and then some of eighty: five blocks went with each.
    #[test]
    fn what_is_kept_comes_below_the_bound_however_small_the_oldest_commits_were() {
        let log = Log::new(KEPT);
        for _ in 0..KEPT {
            log.publish(publish(&log, 1));
        }
        assert!(!log.is_over());
        for _ in 0..40 {
            log.publish(publish(&log, 80));
        }
        let mut commits = 0;
        while log.is_over() {
            let block = publish(&log, 0);
            assert!(block.out.len() <= 18 && !block.out.is_empty());
            log.publish(block);
            commits += 1;
            assert!(commits < 100, "{}", kept(&log));
        }
        assert!((KEPT - 80..=KEPT).contains(&kept(&log)), "{}", kept(&log));
        assert_eq!(log.next(), 4_201, "and nothing of the numbers is lost");
    }

    #[test]
    fn a_commit_larger_than_the_bound_is_kept_until_the_next() {
        let log = Log::new(10);
        for count in [5, 200] {
            log.publish(publish(&log, count));
        }
        assert_eq!((kept(&log), log.is_over()), (200, false));
        log.publish(publish(&log, 1));
        assert_eq!((kept(&log), log.next()), (1, 207));
    }

    #[test]
    fn hole_5_events_are_numbered_without_holes_and_read_from_any_place() {
        let log = Log::new(KEPT);
        for count in [1, 3] {
            let block = publish(&log, count);
            log.publish(block);
        }
        let Read::Events(events, next) = log.read(1, 100) else { panic!("they are there") };
        let ids: Vec<_> = events.iter().map(|event| event.id.to_string()).collect();
        assert_eq!(ids, ["1.2.1", "1.2.2", "1.2.3", "1.2.4"]);
        assert_eq!(next, 5);
        assert_eq!("1.2.4".parse(), Ok(events[3].id));
        assert!("1.2".parse::<EventId>().is_err() && "1.2.3.4".parse::<EventId>().is_err());
        let Read::Events(events, next) = log.read(3, 1) else { panic!("they are there") };
        assert_eq!((events[0].id.number, next), (3, 4));
        let Read::Events(events, next) = log.read(5, 1) else { panic!("none is gone") };
        assert_eq!((events.len(), next), (0, 5));
    }

    #[test]
    fn the_log_is_bounded_and_says_what_is_gone() {
        let log = Log::new(KEPT);
        let blocks = KEPT / 50 + 4;
        for _ in 0..blocks {
            let block = publish(&log, 50);
            log.publish(block);
        }
        let Read::Gone(newest) = log.read(1, 1) else { panic!("the first is gone") };
        assert_eq!(newest.map(|id| id.number), Some(blocks as u64 * 50));
        let Read::Events(events, _) = log.read(201, 1) else { panic!("the oldest is there") };
        assert_eq!(events[0].id.number, 201);
    }

    #[test]
    fn a_log_is_read_back_from_its_blocks() {
        let log = Log::new(KEPT);
        let mut stored = Vec::new();
        for count in [2, 1] {
            let block = publish(&log, count);
            stored.push(block.bytes());
            log.publish(block);
        }
        let again = Log::new(KEPT);
        again.load(stored.into_iter());
        assert_eq!(again.next(), 4);
        assert_eq!(again.newest(), log.newest());
        let Read::Events(events, _) = again.read(1, 9) else { panic!("they are there") };
        assert_eq!(events.len(), 3);
    }
}
