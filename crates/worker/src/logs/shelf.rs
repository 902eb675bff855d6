//! What is kept, as far as that is known without opening a file; and what must go.
//!
//! ```text
//!   live ── more than a segment, or old ──▶ closed ── over a bound, or old ──▶ gone
//!     └──── the run is over ────────────────▲
//! ```
//!
//! Invariant: only closed segments go, of all the one that was written to longest ago first.
//!
//! Pure: files are somebody else's.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use sterna_model::{RunId, WallTime};

use super::{Cursor, Limits, Of, Position, names::KeyHash};

/// One file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The number of its first line; of a quiet segment, its own number.
    pub(super) first: u64,
    pub(super) first_at: WallTime,
    pub(super) last_at: WallTime,
    pub(super) bytes: u64,
}

/// What is known of one run's log.
#[derive(Debug)]
struct Log {
    key: KeyHash,
    segments: Vec<Segment>,
    /// The number after its last line, once anybody has looked.
    next: Option<u64>,
    writer: Option<Box<Live>>,
}

/// Of a run that is being written to.
#[derive(Debug)]
struct Live {
    key: String,
    /// Frames that are in no file yet; only while there is no segment.
    pending: Vec<u8>,
}

/// A segment that many runs share: runs that wrote nothing, and what was said of them.
#[derive(Debug)]
struct Quiet {
    segment: Segment,
    is_live: bool,
    runs: BTreeMap<RunId, Spot>,
}

/// Where a quiet log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) key: KeyHash,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// How many lines it has.
    pub(super) count: u32,
}

/// A file, by what it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A segment of a run, by its first line.
    Own(RunId, KeyHash, u64),
    /// A quiet segment, by its number.
    Quiet(u64),
}

/// What there is to read of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) run: RunId,
    pub(super) is_live: bool,
    pub(super) next: Option<u64>,
    pub(super) source: Source,
}

/// Where it is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In these segments, in order.
    Own(KeyHash, Vec<Segment>),
    /// In a quiet segment.
    Quiet(Segment, Spot),
    /// Here, and in no file yet.
    Pending { key: String, frames: Vec<u8> },
}

/// Everything that is kept.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    runs: BTreeMap<RunId, Log>,
    quiet: BTreeMap<u64, Quiet>,
    keys: BTreeSet<(KeyHash, RunId)>,
    /// Closed segments, by when they were written to last.
    closed: BTreeSet<(WallTime, Place)>,
    bytes: u64,
    quiet_bytes: u64,
}

/// What a file takes on a disk: whole blocks, and its part of a directory.
const fn cost(bytes: u64) -> u64 {
    const BLOCK: u64 = 4096;
    bytes.div_ceil(BLOCK) * BLOCK + BLOCK
}

/// Whether a segment is full before `adding` bytes at `now`, or so old that it would hold up its first
/// lines for longer than they are to be kept.
pub(super) fn must_rotate(limits: &Limits, segment: &Segment, adding: u64, now: WallTime) -> bool {
    let is_full = segment.bytes.saturating_add(adding) > limits.segment.get();
    let spans = now.since(segment.first_at).as_millis();
    is_full || spans > limits.keep_for.as_millis() / 8
}

impl Shelf {
    /// Takes note of a file that was found.
    pub(super) fn found(&mut self, run: RunId, key: KeyHash, segment: Segment) {
        self.keys.insert((key, run));
        let log = self.runs.entry(run).or_insert_with(|| Log::new(key));
        // Directories list their files in any order.
        let at = log.segments.partition_point(|known| known.first < segment.first);
        log.segments.insert(at, segment);
        self.bytes += cost(segment.bytes);
        self.closed.insert((segment.last_at, Place::Own(run, key, segment.first)));
    }

    /// A run is being written to. Gives its last segment, if there is one: it is open again.
    pub(super) fn open(&mut self, run: RunId, hash: KeyHash, key: &str) -> Option<Segment> {
        let log = self.runs.entry(run).or_insert_with(|| Log::new(hash));
        self.keys.insert((log.key, run));
        log.writer = Some(Box::new(Live { key: key.to_owned(), pending: Vec::new() }));
        let last = log.segments.last().copied();
        match last {
            None => log.next = Some(1),
            Some(last) => {
                self.closed.remove(&(last.last_at, Place::Own(run, log.key, last.first)));
            }
        }
        last
    }

    /// The key under which the run's files are.
    pub(super) fn hash(&self, run: RunId) -> Option<KeyHash> {
        self.runs.get(&run).map(|log| log.key)
    }

    /// Frames that are in no file yet.
    pub(super) fn pend(&mut self, run: RunId, frames: &[u8], next: u64) {
        let Some(log) = self.runs.get_mut(&run) else { return };
        log.next = Some(next);
        if let Some(live) = &mut log.writer {
            live.pending.extend_from_slice(frames);
        }
    }

    /// How many bytes are in no file yet.
    pub(super) fn pending(&self, run: RunId) -> usize {
        let live = self.runs.get(&run).and_then(|log| log.writer.as_ref());
        live.map_or(0, |live| live.pending.len())
    }

    /// Takes what is in no file yet.
    pub(super) fn take_pending(&mut self, run: RunId) -> Vec<u8> {
        let live = self.runs.get_mut(&run).and_then(|log| log.writer.as_mut());
        live.map(|live| std::mem::take(&mut live.pending)).unwrap_or_default()
    }

    /// The run has another segment; the one before it is closed.
    pub(super) fn begun(&mut self, run: RunId, segment: Segment) {
        self.close(run);
        let Some(log) = self.runs.get_mut(&run) else { return };
        log.segments.push(segment);
        self.bytes += cost(segment.bytes);
    }

    /// The last segment of a run has so many bytes now, and `next` is the number of the next line.
    pub(super) fn grown(&mut self, run: RunId, bytes: u64, at: WallTime, next: u64) {
        let Some(log) = self.runs.get_mut(&run) else { return };
        log.next = Some(next);
        if let Some(last) = log.segments.last_mut() {
            self.bytes = self.bytes - cost(last.bytes) + cost(bytes);
            last.bytes = bytes;
            last.last_at = last.last_at.max(at);
        }
    }

    /// The run is over.
    pub(super) fn over(&mut self, run: RunId) {
        self.close(run);
        let Some(log) = self.runs.get_mut(&run) else { return };
        log.writer = None;
        if log.segments.is_empty() {
            self.forget(run);
        }
    }

    fn close(&mut self, run: RunId) {
        let Some(log) = self.runs.get(&run).filter(|log| log.writer.is_some()) else { return };
        if let Some(last) = log.segments.last() {
            self.closed.insert((last.last_at, Place::Own(run, log.key, last.first)));
        }
    }

    fn forget(&mut self, run: RunId) {
        let Some(log) = self.runs.remove(&run) else { return };
        if self.spot(run).is_none() {
            self.keys.remove(&(log.key, run));
        }
    }

    /// There is another quiet segment; those before it are closed.
    pub(super) fn quiet_begun(&mut self, segment: Segment, is_live: bool) {
        for quiet in self.quiet.values_mut().filter(|quiet| quiet.is_live) {
            quiet.is_live = false;
            self.closed.insert((quiet.segment.last_at, Place::Quiet(quiet.segment.first)));
        }
        if !is_live {
            self.closed.insert((segment.last_at, Place::Quiet(segment.first)));
        }
        self.bytes += cost(segment.bytes);
        self.quiet_bytes += cost(segment.bytes);
        let runs = BTreeMap::new();
        self.quiet.insert(segment.first, Quiet { segment, is_live, runs });
    }

    /// A whole log was added to the last quiet segment.
    pub(super) fn quieted(&mut self, run: RunId, spot: Spot, at: WallTime) {
        let Some(mut last) = self.quiet.last_entry() else { return };
        let Quiet { segment, runs, .. } = last.get_mut();
        let bytes = spot.offset + spot.bytes;
        let grown = cost(bytes.max(segment.bytes)) - cost(segment.bytes);
        self.bytes += grown;
        self.quiet_bytes += grown;
        segment.bytes = segment.bytes.max(bytes);
        segment.last_at = segment.last_at.max(at);
        runs.insert(run, spot);
        self.keys.insert((spot.key, run));
    }

    /// The quiet segment that is written to.
    pub(super) fn quiet_live(&self) -> Option<Segment> {
        let (_, last) = self.quiet.last_key_value()?;
        last.is_live.then_some(last.segment)
    }

    /// The number that no quiet segment has had yet.
    pub(super) fn quiet_next(&self) -> u64 {
        self.quiet.last_key_value().map_or(1, |(number, _)| number + 1)
    }

    /// Where the log of a run stands that wrote nothing and is over.
    pub(super) fn spot(&self, run: RunId) -> Option<(Segment, Spot)> {
        let found = |quiet: &Quiet| Some((quiet.segment, *quiet.runs.get(&run)?));
        self.quiet.values().rev().find_map(found)
    }

    /// The next file that must go before `now`, taken off the shelf: beyond the bound of `run`, of the
    /// quiet, or of all; or too old.
    pub(super) fn overdue(
        &mut self,
        limits: &Limits,
        now: WallTime,
        run: Option<RunId>,
    ) -> Option<(Place, Segment)> {
        let of_run = run.and_then(|run| self.surplus(limits, run));
        let place = of_run.or_else(|| self.quiet_surplus(limits)).or_else(|| {
            let (last_at, place) = self.closed.first()?;
            let is_old = *last_at < now.minus(limits.keep_for);
            (is_old || self.bytes > limits.total.get()).then_some(*place)
        })?;
        Some((place, self.remove(place)?))
    }

    /// The oldest file of a run, taken off the shelf, unless it is the one that is written to.
    pub(super) fn oldest(&mut self, run: RunId) -> Option<(Place, Segment)> {
        let log = self.runs.get(&run)?;
        let first = log.segments.first().filter(|_| log.segments.len() > 1)?;
        let place = Place::Own(run, log.key, first.first);
        Some((place, self.remove(place)?))
    }

    /// The oldest segment of a run that has more than its bound.
    fn surplus(&self, limits: &Limits, run: RunId) -> Option<Place> {
        let log = self.runs.get(&run)?;
        let bytes: u64 = log.segments.iter().map(|segment| segment.bytes).sum();
        let first = log.segments.first().filter(|_| log.segments.len() > 1)?;
        (bytes > limits.run.get()).then_some(Place::Own(run, log.key, first.first))
    }

    fn quiet_surplus(&self, limits: &Limits) -> Option<Place> {
        let (number, first) = self.quiet.first_key_value()?;
        let is_over = self.quiet_bytes > limits.quiet.get() && !first.is_live;
        is_over.then_some(Place::Quiet(*number))
    }

    fn remove(&mut self, place: Place) -> Option<Segment> {
        match place {
            Place::Own(run, _, first) => {
                let log = self.runs.get_mut(&run)?;
                let at = log.segments.binary_search_by_key(&first, |known| known.first).ok()?;
                let segment = log.segments.remove(at);
                self.bytes -= cost(segment.bytes);
                self.closed.remove(&(segment.last_at, place));
                if log.segments.is_empty() && log.writer.is_none() {
                    self.forget(run);
                }
                Some(segment)
            }
            Place::Quiet(number) => {
                let quiet = self.quiet.remove(&number)?;
                self.bytes -= cost(quiet.segment.bytes);
                self.quiet_bytes -= cost(quiet.segment.bytes);
                self.closed.remove(&(quiet.segment.last_at, place));
                for (run, spot) in quiet.runs {
                    if !self.runs.contains_key(&run) && self.spot(run).is_none() {
                        self.keys.remove(&(spot.key, run));
                    }
                }
                Some(quiet.segment)
            }
        }
    }

    /// Whether the run has no file, or none any more.
    pub(super) fn is_gone(&self, run: RunId) -> bool {
        self.runs.get(&run).is_none_or(|log| log.segments.is_empty())
    }

    /// What there is to read of a run.
    pub(super) fn view(&self, run: RunId) -> Option<View> {
        let Some(log) = self.runs.get(&run) else {
            let (segment, spot) = self.spot(run)?;
            let next = Some(u64::from(spot.count) + 1);
            let source = Source::Quiet(segment, spot);
            return Some(View { run, is_live: false, next, source });
        };
        let source = match &log.writer {
            Some(live) if log.segments.is_empty() => {
                Source::Pending { key: live.key.clone(), frames: live.pending.clone() }
            }
            Some(_) | None => Source::Own(log.key, log.segments.clone()),
        };
        Some(View { run, is_live: log.writer.is_some(), next: log.next, source })
    }

    /// The first run of a key, or the first after `run`.
    pub(super) fn after(&self, key: KeyHash, run: Option<RunId>) -> Option<RunId> {
        let from = run.map_or(Bound::Included((key, least())), |run| Bound::Excluded((key, run)));
        let (known, next) = self.keys.range((from, Bound::Unbounded)).next()?;
        (*known == key).then_some(*next)
    }

    /// Every key of which something is kept.
    pub(super) fn hashes(&self) -> BTreeSet<KeyHash> {
        self.keys.iter().map(|(key, _)| *key).collect()
    }

    /// The last run of a key, or the last before `run`.
    pub(super) fn before(&self, key: KeyHash, run: Option<RunId>) -> Option<RunId> {
        let to = run.map_or((key.next(), least()), |run| (key, run));
        let (known, last) = self.keys.range(..to).next_back()?;
        (*known == key).then_some(*last)
    }

    /// Runs of a key to which something may be added, and its last one.
    pub(super) fn open_ends(&self, key: KeyHash) -> Vec<RunId> {
        let all = self.keys.range((key, least())..(key.next(), least())).map(|(_, run)| *run);
        let is_live = |run: &RunId| self.runs.get(run).is_some_and(|log| log.writer.is_some());
        let last = self.before(key, None);
        all.filter(|run| is_live(run) || Some(*run) == last).collect()
    }

    /// Whether reading on from `cursor` may bring something that was not there before.
    pub(super) fn has_news(&self, of: &Of, hash: KeyHash, cursor: &Cursor) -> bool {
        let has_more = |at: &Position| {
            self.view(at.run).is_none_or(|view| {
                let is_over = match of {
                    Of::Run(_) => !view.is_live,
                    Of::Key(_) => false,
                };
                is_over || view.next.is_some_and(|next| next > at.line)
            })
        };
        let is_next = |run| match of {
            Of::Run(_) => false,
            Of::Key(_) => self.after(hash, run).is_some(),
        };
        cursor.positions.iter().any(|at| at.line != u64::MAX && has_more(at))
            || is_next(cursor.positions.last().map(|at| at.run))
    }
}

impl Log {
    /// Most have one segment.
    fn new(key: KeyHash) -> Self {
        Self { key, segments: Vec::with_capacity(1), next: None, writer: None }
    }
}

/// No run has a lesser id.
const fn least() -> RunId {
    RunId::from_parts(WallTime::EPOCH, [0; 10])
}

#[cfg(test)]
impl Shelf {
    /// When the oldest closed segment was written to last.
    pub(super) fn closed_first(&self) -> Option<WallTime> {
        self.closed.first().map(|(last_at, _)| *last_at)
    }

    /// What everything takes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
