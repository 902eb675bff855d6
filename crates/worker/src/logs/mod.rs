//! The logs of runs: what they wrote and what was said of them, line by line, for as long as there is
//! room.
//!
//! ```text
//!   logs/<run>.<key>/<first line>.<first time>.log    a run that wrote something
//!   logs/quiet/<number>.<first time>.log              many runs that wrote nothing
//!
//!   output ── Sink ──▶ writer ── frames ──▶ segments ──▶ Reader ── page by page ──▶ whoever asks
//!                         └──▶ shelf: what there is, what must go ◀──┘
//! ```
//!
//! A line has its number in the run, over all streams, and the time at which it was read. Numbers only
//! grow: one that is missing was dropped, or removed, and is told as a [`Gap`].
//!
//! Invariant: a page never ends before everything that it was asked for, unless its cursor says where
//! to read on; and reading on from there misses nothing and repeats nothing.
//!
//! Invariant: neither a flood nor a long log takes memory: a chunk is written when it comes, and a page
//! takes a segment at most beside itself.
//!
//! It does not sync: a log outlives the worker, and loses its last lines with the machine.

mod frame;
mod kept;
mod names;
mod page;
mod rate;
mod reader;
mod scan;
mod seek;
mod shelf;
mod splitter;
#[cfg(test)]
mod tests;
mod writer;

use sterna_model::{Bytes, RunId, Span, WallTime};

pub use self::{
    kept::Logs,
    reader::{ReadError, Reader},
};
use crate::sink::Stream;

/// Longer lines are cut.
pub const LINE_MAX: usize = 16 * 1024;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of all runs together.
    pub total: Bytes,
    /// Lines go when they are older.
    pub keep_for: Span,
    /// Of one run: its newest lines.
    pub run: Bytes,
    /// Of all runs that wrote nothing.
    pub quiet: Bytes,
    /// One file; the least that is removed at a time.
    pub segment: Bytes,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total: Bytes::new(1 << 30),
            keep_for: Span::from_secs(7 * 24 * 3600),
            run: Bytes::new(64 << 20),
            quiet: Bytes::new(16 << 20),
            segment: Bytes::new(1 << 20),
        }
    }
}

/// Whose log is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// One run's.
    Run(RunId),
    /// Of all runs of a key, one after the other, in the order of their ids.
    Key(String),
}

/// Where reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// Before the first line.
    Start,
    /// After the last line.
    End,
    /// Before the first line of this time or later.
    Time(WallTime),
    /// Before this line; of a key, of the first run that is come to.
    Line(u64),
    /// Where another page ended.
    Cursor(Cursor),
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Older lines first, from where reading begins.
    Forward,
    /// Newer lines first, from before where reading begins.
    Backward,
}

/// What is wanted of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose.
    pub of: Of,
    /// From where.
    pub from: From,
    /// Which way.
    pub direction: Direction,
    /// Only these streams.
    pub streams: Vec<Stream>,
    /// Only lines that match this regular expression.
    pub matching: Option<String>,
    /// So many entries at most.
    pub entries_max: usize,
    /// Lines of so many bytes at most, but at least one.
    pub bytes_max: usize,
    /// So many bytes are looked at, at most, before a page ends without having found enough.
    pub look_max: u64,
}

impl Request {
    /// Everything, from its first line on.
    pub fn all(of: Of) -> Self {
        Self {
            of,
            from: From::Start,
            direction: Direction::Forward,
            streams: vec![Stream::Stdout, Stream::Stderr, Stream::Events],
            matching: None,
            entries_max: 1_000,
            bytes_max: 256 * 1024,
            look_max: 8 << 20,
        }
    }
}

/// A place between two lines of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The run.
    pub run: RunId,
    /// The line after this place.
    pub line: u64,
}

/// Where a page ended. Of a key, several runs may have more to come; the last of them is the latest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// In the order of the runs.
    pub positions: Vec<Position>,
    /// Runs that were not come to yet are read from the first line of this time or later on;
    /// backward, from before it.
    pub time: Option<WallTime>,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What was found, in the direction of reading.
    pub entries: Vec<Entry>,
    /// Where to read on.
    pub next: Cursor,
    /// Whether there is more.
    pub more: More,
}

/// Whether there is more where a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// Yes, or not all was looked at: ask again at once.
    Now,
    /// Not yet: see [`Reader::wait`].
    Later,
    /// Never.
    Never,
}

/// What a page holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A line.
    Line(Line),
    /// Lines that are not there.
    Gap(Gap),
}

/// One line, or a part of one that was too long or not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Whose.
    pub run: RunId,
    /// Its number in the run, over all streams.
    pub number: u64,
    /// When it was read.
    pub at: WallTime,
    /// Where it was written to.
    pub stream: Stream,
    /// Whether it goes on with the next line of its stream: no newline came after it.
    pub is_cut: bool,
    /// What it says, without the newline.
    pub bytes: Vec<u8>,
}

/// Lines that were dropped, removed or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Whose.
    pub run: RunId,
    /// The first.
    pub first: u64,
    /// The last; not known when nothing that came later is left.
    pub last: Option<u64>,
}
