//! How lines stand in a file.
//!
//! ```text
//!   mark u32 | length u32 | checksum u32 | body: kind u8, then by kind
//!     1 begin   run 16 | key                                    the first of every segment of a run
//!     2 lines   first number u64 | time i64 | count u32 | lines
//!     3 quiet   run 16 | count u32 | key length u32 | key | frames    a whole log, among others
//!   line: length << 3 | is cut << 2 | stream, u32 | bytes
//! ```
//!
//! Numbers are little-endian; the checksum is CRC-32 of the body. Frames are written whole, one after
//! the other, and a reader stops at the first that is not: it never looks for the next one, which a
//! run might have written.

use sterna_model::{RunId, WallTime};

use crate::sink::Stream;

const MARK: [u8; 4] = [0xd3, 0x1f, 0x6c, 0x8e];
const HEAD: usize = 12;
const BEGIN: u8 = 1;
const LINES: u8 = 2;
const QUIET: u8 = 3;
const CUT: u32 = 4;

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Begin { run: RunId, key: &'a [u8] },
    Lines(Lines<'a>),
    Quiet { run: RunId, count: u32, key: &'a [u8], frames: &'a [u8] },
}

/// Lines that came at one moment; their numbers follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lines<'a> {
    pub(super) first: u64,
    pub(super) at: WallTime,
    count: u32,
    body: &'a [u8],
}

/// A line, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) stream: Stream,
    /// Whether no newline came after it.
    pub(super) is_cut: bool,
    pub(super) bytes: &'a [u8],
}

impl<'a> Lines<'a> {
    /// The number after the last.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }

    /// The lines with their numbers.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, Piece<'a>)> + use<'a> {
        let mut rest = self.body;
        (self.first..self.end()).map_while(move |number| {
            let word = u32_at(rest, 0)?;
            let length = usize::try_from(word >> 3).ok()?;
            let bytes = rest.get(4..)?.get(..length)?;
            rest = rest.get(4 + length..)?;
            let stream = stream(word & 3)?;
            Some((number, Piece { stream, is_cut: word & CUT != 0, bytes }))
        })
    }
}

/// The whole and valid frames at the head of some bytes, each with the offset at which it ends.
#[derive(Clone, Debug)]
pub(super) struct Frames<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    pub(super) const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at: 0 }
    }

    /// Only frames of lines.
    pub(super) fn lines(self) -> impl Iterator<Item = Lines<'a>> {
        self.filter_map(|(frame, _)| match frame {
            Frame::Lines(lines) => Some(lines),
            Frame::Begin { .. } | Frame::Quiet { .. } => None,
        })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = (Frame<'a>, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let (frame, length) = decode(self.rest)?;
        self.rest = self.rest.get(length..)?;
        self.at += length;
        Some((frame, self.at))
    }
}

/// The frame at the head of `bytes` and its length, if a whole and valid one is there.
fn decode(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    if *bytes.get(..4)? != MARK {
        return None;
    }
    let length = usize::try_from(u32_at(bytes, 4)?).ok()?;
    let body = bytes.get(HEAD..)?.get(..length)?;
    if crc32fast::hash(body) != u32_at(bytes, 8)? {
        return None;
    }
    let (kind, body) = body.split_first()?;
    // tidy: not a table
    let frame = match *kind {
        BEGIN => Frame::Begin { run: run(body)?, key: body.get(16..)? },
        LINES => {
            let at = i64::from_le_bytes(body.get(8..16)?.try_into().ok()?);
            Frame::Lines(Lines {
                first: u64::from_le_bytes(body.get(..8)?.try_into().ok()?),
                at: WallTime::from_millis(at).ok()?,
                count: u32_at(body, 16)?,
                body: body.get(20..)?,
            })
        }
        QUIET => {
            let length = usize::try_from(u32_at(body, 20)?).ok()?;
            let (key, frames) = body.get(24..)?.split_at_checked(length)?;
            Frame::Quiet { run: run(body)?, count: u32_at(body, 16)?, key, frames }
        }
        _ => return None,
    };
    Some((frame, HEAD + length))
}

fn run(body: &[u8]) -> Option<RunId> {
    RunId::from_bytes(body.get(..16)?.try_into().ok()?).ok()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.get(..4)?.try_into().ok()?))
}

const fn stream(word: u32) -> Option<Stream> {
    // tidy: not a table
    match word {
        0 => Some(Stream::Stdout),
        1 => Some(Stream::Stderr),
        2 => Some(Stream::Events),
        _ => None,
    }
}

const fn word(stream: Stream) -> u32 {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
        Stream::Events => 2,
    }
}

/// Adds the first frame of a segment.
pub(super) fn put_begin(run: RunId, key: &str, out: &mut Vec<u8>) {
    let at = open(BEGIN, out);
    out.extend_from_slice(run.as_bytes());
    out.extend_from_slice(key.as_bytes());
    close(at, out);
}

/// Adds a whole log of so many lines.
pub(super) fn put_quiet(run: RunId, count: u32, key: &str, frames: &[u8], out: &mut Vec<u8>) {
    let at = open(QUIET, out);
    out.extend_from_slice(run.as_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&u32::try_from(key.len()).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(frames);
    close(at, out);
}

/// Adds lines, one after the other, to a frame that [`Batch::close`] makes whole.
#[derive(Debug)]
pub(super) struct Batch<'o> {
    out: &'o mut Vec<u8>,
    at: usize,
    count: u32,
}

impl<'o> Batch<'o> {
    pub(super) fn open(first: u64, at: WallTime, out: &'o mut Vec<u8>) -> Self {
        let start = open(LINES, out);
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&at.as_millis().to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        Self { out, at: start, count: 0 }
    }

    /// Adds a line of two parts.
    pub(super) fn push(&mut self, stream: Stream, is_cut: bool, parts: [&[u8]; 2]) {
        let [head, tail] = parts;
        let length = u32::try_from(head.len() + tail.len()).unwrap_or(0);
        let cut = if is_cut { CUT } else { 0 };
        self.out.extend_from_slice(&(length << 3 | cut | word(stream)).to_le_bytes());
        self.out.extend_from_slice(head);
        self.out.extend_from_slice(tail);
        self.count += 1;
    }

    /// Gives how many lines there are; without any, there is no frame.
    pub(super) fn close(self) -> u32 {
        if self.count == 0 {
            self.out.truncate(self.at);
            return 0;
        }
        let count = self.at + HEAD + 1 + 16;
        put(count, self.count, self.out);
        close(self.at, self.out);
        self.count
    }
}

/// Begins a frame; gives where.
fn open(kind: u8, out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&[0; 8]);
    out.push(kind);
    at
}

/// Makes the frame that begins at `at` whole.
fn close(at: usize, out: &mut [u8]) {
    let body = out.get(at + HEAD..).unwrap_or_default();
    let length = u32::try_from(body.len()).unwrap_or(0);
    let checksum = crc32fast::hash(body);
    put(at + 4, length, out);
    put(at + 8, checksum, out);
}

fn put(at: usize, number: u32, out: &mut [u8]) {
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> WallTime {
        WallTime::from_millis(millis).unwrap()
    }

    fn sample() -> (Vec<u8>, RunId) {
        let run = RunId::from_parts(at(5), [1; 10]);
        let mut out = Vec::new();
        put_begin(run, "default/task/a", &mut out);
        let mut batch = Batch::open(7, at(1_000), &mut out);
        batch.push(Stream::Stdout, false, [b"he", b"llo"]);
        batch.push(Stream::Stderr, true, [b"", b"\xff\x00"]);
        assert_eq!(batch.close(), 2);
        (out, run)
    }

    #[test]
    fn what_is_put_is_read() {
        let (out, run) = sample();
        let found: Vec<_> = Frames::of(&out).collect();
        let [(begin, _), (Frame::Lines(lines), end)] = found[..] else { panic!("{found:?}") };
        assert_eq!(begin, Frame::Begin { run, key: b"default/task/a" });
        assert_eq!((lines.first, lines.end(), lines.at, end), (7, 9, at(1_000), out.len()));
        let pieces: Vec<_> = lines.pieces().collect();
        let hello = Piece { stream: Stream::Stdout, is_cut: false, bytes: b"hello" };
        let other = Piece { stream: Stream::Stderr, is_cut: true, bytes: b"\xff\x00" };
        assert_eq!(pieces, [(7, hello), (8, other)]);
    }

    #[test]
    fn a_quiet_log_holds_frames() {
        let (inner, run) = sample();
        let mut out = Vec::new();
        put_quiet(run, 2, "k", &inner, &mut out);
        let found: Vec<_> = Frames::of(&out).map(|(frame, _)| frame).collect();
        assert_eq!(found, [Frame::Quiet { run, count: 2, key: b"k", frames: &inner }]);
    }

    #[test]
    fn without_lines_there_is_no_frame() {
        let mut out = vec![1, 2, 3];
        assert_eq!(Batch::open(1, at(0), &mut out).close(), 0);
        assert_eq!(out, [1, 2, 3]);
    }

    #[test]
    fn whatever_is_cut_or_changed_is_no_frame() {
        let (out, _) = sample();
        let whole = Frames::of(&out).map(|(_, end)| end).collect::<Vec<_>>();
        for length in 0..out.len() {
            let expected = whole.iter().filter(|end| **end <= length).count();
            assert_eq!(Frames::of(&out[..length]).count(), expected, "cut at {length}");
        }
        for at in 0..out.len() {
            let mut damaged = out.clone();
            damaged[at] ^= 0x10;
            let expected = whole.iter().filter(|end| **end <= at).count();
            assert_eq!(Frames::of(&damaged).count(), expected, "changed at {at}");
        }
    }

    #[test]
    fn what_was_written_once_is_read_for_ever() {
        let golden = "d31f6c8e1f000000e71012c4010000000000057101810101010101010164656661756c742f74\
            61736b2f61d31f6c8e24000000103f3546020700000000000000e803000000000000020000002800000068\
            656c6c6f15000000ff00d31f6c8e75000000c48de65d030000000000057101810101010101010102000000\
            010000006bd31f6c8e1f000000e71012c4010000000000057101810101010101010164656661756c742f74\
            61736b2f61d31f6c8e24000000103f3546020700000000000000e803000000000000020000002800000068\
            656c6c6f15000000ff00";
        let (mut out, run) = sample();
        let inner = out.clone();
        put_quiet(run, 2, "k", &inner, &mut out);
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden);
    }
}
