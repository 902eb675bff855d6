//! The log: numbered segments of frames.
//!
//! ```text
//!   log-…4  begin commit commit … end ···     closed: whole, or corrupt
//!   log-…5  begin commit commit … ▒▒▒▒···     the last: its tail may be torn by a crash
//!   log-…6  ·····························     prepared: its space is there, so a sync of what is
//!                                             written into it need not also sync a length
//! ```
//!
//! Invariant: a segment is never written to after it was closed, and opening the store closes the
//! last one. So every recovery begins with whole segments and one tail.

use std::{io, sync::Arc};

use sterna_model::Revision;

use super::{
    files::{File, Files, ReadError, read_all, write_whole},
    frame::{self, Frame, Record, Seal},
};
use crate::commit::following;

/// Version of the frames, written into every segment.
const FORMAT: u32 = 1;
const PREFIX: &str = "log-";
/// Space is filled and synced in pieces of this size, so that commits need not wait long.
const PIECE_BYTES: usize = 1 << 20;

/// A segment to be written.
#[derive(Debug)]
pub(super) struct Segment {
    file: Arc<dyn File>,
    seal: Seal,
    /// The first commit that was pushed, and the newest.
    range: Option<(Revision, Revision)>,
    /// Bytes written, all of them durable.
    bytes: u64,
    /// Frames on their way to the file.
    buffer: Vec<u8>,
}

/// A segment that is whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) number: u64,
    pub(super) last: Revision,
    pub(super) bytes: u64,
}

/// How a group of commits reached the disk, or did not.
#[derive(Debug)]
pub(super) enum Append {
    /// Durable.
    Done,
    /// Not there, and never will be.
    Nothing(io::Error),
    /// Nobody knows: the segment must not be used any more.
    Unknown(io::Error),
}

impl Segment {
    /// Makes an empty segment with room for so many bytes.
    pub(super) fn prepare(files: &dyn Files, number: u64, bytes: u64) -> io::Result<Self> {
        let file = files.create(&name_of(number))?;
        let filled = fill(&*file, bytes).and_then(|()| files.sync_names());
        if let Err(error) = filled {
            // What was taken of a disk that has no more is given back.
            drop(remove(files, number));
            return Err(error);
        }
        Ok(Self::of(file, number, files.salt()?))
    }

    /// Makes an empty segment of one that is no longer needed, whose space is there already. What
    /// it held is not valid under its new number.
    pub(super) fn recycle(files: &dyn Files, old: u64, number: u64) -> io::Result<Self> {
        files.rename(&name_of(old), &name_of(number))?;
        files.sync_names()?;
        let file = files.open(&name_of(number))?;
        let vanished = || io::Error::other("a log segment has vanished");
        Ok(Self::of(file.ok_or_else(vanished)?, number, files.salt()?))
    }

    const fn of(file: Arc<dyn File>, number: u64, salt: u64) -> Self {
        Self { file, seal: Seal { number, salt }, range: None, bytes: 0, buffer: Vec::new() }
    }

    /// Bytes written and waiting.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes + self.buffer.len() as u64
    }

    /// Puts a commit into the group that the next [`Segment::flush`] writes.
    pub(super) fn push(&mut self, record: &Record) {
        let (first, _) = *self.range.get_or_insert((record.revision, record.revision));
        if self.bytes() == 0 {
            let begin = Frame::Begin { format: FORMAT, first, salt: self.seal.salt };
            frame::encode(self.seal, &begin, &mut self.buffer);
        }
        frame::encode_commit(self.seal, self.bytes, record, &mut self.buffer);
        self.range = Some((first, record.revision));
    }

    /// Puts the last frame into the group. Once that is durable, the segment is whole.
    pub(super) fn end(&mut self) -> Option<Closed> {
        let (_, last) = self.range?;
        let end = Frame::End { synced: self.bytes, revision: last };
        frame::encode(self.seal, &end, &mut self.buffer);
        Some(Closed { number: self.seal.number, last, bytes: self.bytes() })
    }

    /// Writes the group and makes it durable: one write, one sync, however many commits.
    pub(super) fn flush(&mut self) -> Append {
        let result = self.write_buffer();
        self.buffer.clear();
        result
    }

    /// After [`Segment::flush`] said that nothing was written: the newest commit is `last` again.
    pub(super) fn rewind(&mut self, last: Revision) {
        self.range = self.range.take_if(|_| self.bytes > 0).map(|(first, _)| (first, last));
    }

    fn write_buffer(&mut self) -> Append {
        if let Err(error) = self.file.write_at(self.bytes, &self.buffer) {
            // A part of it may be in the file. It is cut off, durably, before anybody is told that
            // nothing was written.
            return match self.file.set_bytes(self.bytes).and_then(|()| self.file.sync()) {
                Ok(()) => Append::Nothing(error),
                Err(_) => Append::Unknown(error),
            };
        }
        // After a failed sync the system may drop what was not written and report success the
        // next time; nothing can be known without reading the file anew.
        if let Err(error) = self.file.sync() {
            return Append::Unknown(error);
        }
        self.bytes += self.buffer.len() as u64;
        Append::Done
    }
}

/// Takes the space for so many bytes.
fn fill(file: &dyn File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; PIECE_BYTES];
    let mut filled = 0;
    while filled < bytes {
        let length = usize::try_from(bytes - filled).map_err(io::Error::other)?;
        let piece = &zeros[..length.min(PIECE_BYTES)];
        file.write_at(filled, piece)?;
        file.sync()?;
        filled += piece.len() as u64;
    }
    Ok(())
}

/// What a segment held.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) first: Revision,
    pub(super) closed: Closed,
    pub(super) records: Vec<Record>,
}

/// The numbers of all segments, in order.
pub(super) fn list(files: &dyn Files) -> io::Result<Vec<u64>> {
    let names = files.list()?;
    let mut numbers: Vec<_> = names.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Whether `name` is that of a segment.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Reads a segment; `None` if nothing was committed to it.
pub(super) fn read(files: &dyn Files, number: u64) -> Result<Option<Parsed>, ReadError> {
    let name = name_of(number);
    let file =
        files.open(&name)?.ok_or_else(|| ReadError::Corrupt(format!("{name} has vanished")))?;
    parse(number, read_all(&*file)?).map_err(|error| match error {
        ReadError::Corrupt(what) => ReadError::Corrupt(format!("{name}: {what}")),
        other @ (ReadError::Io(_) | ReadError::Newer(_)) => other,
    })
}

/// Removes a segment; its name may come back after a crash, which does no harm.
pub(super) fn remove(files: &dyn Files, number: u64) -> io::Result<()> {
    files.remove(&name_of(number))
}

/// A segment as it was found.
#[derive(Debug)]
pub(super) struct Parsed {
    seal: Seal,
    first: Revision,
    records: Vec<Record>,
    /// The frames that are valid.
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Parsed {
    /// The revision of the newest commit in it.
    pub(super) fn last(&self) -> Revision {
        self.records.last().map_or(self.first, |record| record.revision)
    }

    /// For a segment that another one follows: it must be whole.
    pub(super) fn whole(self) -> Result<Contents, ReadError> {
        if !self.is_whole {
            let name = name_of(self.seal.number);
            let text = format!("{name} ends in the middle, and yet another segment follows");
            return Err(ReadError::Corrupt(text));
        }
        Ok(self.contents())
    }

    /// For the last segment: makes it whole.
    ///
    /// It is written anew, even if it is whole: what was read may be in the system's memory only,
    /// and pages whose sync failed before would not be written again.
    pub(super) fn made_whole(mut self, files: &dyn Files) -> io::Result<Contents> {
        if !self.is_whole {
            let end = Frame::End { synced: self.bytes.len() as u64, revision: self.last() };
            frame::encode(self.seal, &end, &mut self.bytes);
        }
        write_whole(files, &name_of(self.seal.number), &self.bytes)?;
        Ok(self.contents())
    }

    fn contents(self) -> Contents {
        let (last, bytes) = (self.last(), self.bytes.len() as u64);
        let closed = Closed { number: self.seal.number, last, bytes };
        Contents { first: self.first, closed, records: self.records }
    }
}

fn parse(number: u64, mut bytes: Vec<u8>) -> Result<Option<Parsed>, ReadError> {
    let (mut at, mut expected) = (0, Revision::ZERO);
    let mut seal = Seal::first(number);
    let mut parsed: Option<Parsed> = None;
    while let Some((frame, length)) = frame::decode(seal, &bytes[at..]) {
        let out_of_order = || ReadError::Corrupt(format!("the frame at byte {at} is out of order"));
        match (frame, parsed.as_mut()) {
            (Frame::Begin { format: FORMAT, first, salt }, None) => {
                seal = Seal { number, salt };
                let (records, bytes) = (Vec::new(), Vec::new());
                parsed = Some(Parsed { seal, first, records, bytes, is_whole: false });
                expected = first;
            }
            (Frame::Begin { format, .. }, None) => return Err(ReadError::Newer(format)),
            (Frame::Commit { record, .. }, Some(parsed)) if record.revision == expected => {
                expected = following(expected);
                parsed.records.push(record);
            }
            (Frame::End { revision, .. }, Some(parsed)) if following(revision) == expected => {
                parsed.is_whole = true;
            }
            (Frame::Begin { .. } | Frame::Commit { .. } | Frame::End { .. }, Some(_) | None) => {
                return Err(out_of_order());
            }
        }
        at += length;
        if parsed.as_ref().is_some_and(|parsed| parsed.is_whole) {
            break;
        }
    }
    check_tail(seal, &bytes, at, parsed.as_ref().is_some_and(|parsed| parsed.is_whole))?;
    bytes.truncate(at);
    // A beginning without a commit is a torn first group.
    Ok(parsed.filter(|parsed| !parsed.records.is_empty()).map(|parsed| Parsed { bytes, ..parsed }))
}

/// A crash leaves a torn tail, and nothing in it that was written when what is torn was known to
/// be durable. A frame that knew better proves damage; so does any frame behind the end.
fn check_tail(seal: Seal, bytes: &[u8], at: usize, is_whole: bool) -> Result<(), ReadError> {
    let mut probe = at;
    while let Some(mark) = frame::find_mark(bytes, probe) {
        if let Some((later, _)) = frame::decode(seal, &bytes[mark..])
            && (is_whole || later.synced() > at as u64)
        {
            return Err(ReadError::Corrupt(format!("the frame at byte {at} is damaged")));
        }
        probe = mark + 1;
    }
    Ok(())
}

fn name_of(number: u64) -> String {
    format!("{PREFIX}{number:016x}")
}
