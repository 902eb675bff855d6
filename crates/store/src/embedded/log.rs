//! The log: segments of frames, each named by the first revision that it may hold.
//!
//! ```text
//!   log-…01  begin commit commit … end     closed: whole, or corrupt
//!   log-…5a  begin commit commit … ▒▒▒     the last: its tail may be torn by a crash
//! ```
//!
//! Invariant: a segment is never written to after it was closed, and opening the store closes the
//! last one. So every recovery begins with whole segments and one tail.

use std::{io, sync::Arc};

use sterna_model::Revision;

use super::{
    files::{File, Files, ReadError, read_all, write_whole},
    frame::{self, Frame, Record},
};
use crate::commit::following;

/// Version of the frames, written into every segment.
const FORMAT: u32 = 1;
const PREFIX: &str = "log-";

/// A segment that is being written.
#[derive(Debug)]
pub(super) struct Segment {
    file: Arc<dyn File>,
    first: Revision,
    /// The newest commit in it; before any, the one that it follows.
    last: Revision,
    /// Bytes written, all of them durable.
    bytes: u64,
    /// Frames on their way to the file.
    buffer: Vec<u8>,
}

/// A segment that is whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) first: Revision,
    pub(super) last: Revision,
    pub(super) bytes: u64,
}

impl Closed {
    /// Whether it holds no commit.
    pub(super) const fn is_empty(&self) -> bool {
        self.last.get() < self.first.get()
    }
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
    /// Begins a segment for what comes after `after`; after a crash it is there with its first frame or not at all.
    pub(super) fn create(files: &dyn Files, after: Revision) -> io::Result<Self> {
        let first = following(after);
        let mut buffer = Vec::new();
        frame::encode(first, &Frame::Begin { format: FORMAT }, &mut buffer);
        write_whole(files, &name_of(first), &buffer)?;
        let file = files
            .open(&name_of(first))?
            .ok_or_else(|| io::Error::other("a new log segment has vanished"))?;
        let bytes = buffer.len() as u64;
        buffer.clear();
        Ok(Self { file, first, last: after, bytes, buffer })
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts a commit into the group that the next [`Segment::flush`] writes.
    pub(super) fn push(&mut self, record: &Record) {
        frame::encode_commit(self.first, self.bytes, record, &mut self.buffer);
        self.last = record.revision;
    }

    /// Writes the group and makes it durable: one write, one sync, however many commits.
    pub(super) fn flush(&mut self) -> Append {
        let result = self.write_buffer();
        self.buffer.clear();
        result
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

    /// Writes the last frame. The segment is whole from then on.
    pub(super) fn close(&mut self) -> Result<Closed, Append> {
        let end = Frame::End { synced: self.bytes, revision: self.last };
        frame::encode(self.first, &end, &mut self.buffer);
        match self.flush() {
            Append::Done => Ok(Closed { first: self.first, last: self.last, bytes: self.bytes }),
            failed @ (Append::Nothing(_) | Append::Unknown(_)) => Err(failed),
        }
    }

    /// After [`Segment::flush`] said that nothing was written: forgets the group's commits.
    pub(super) const fn rewind(&mut self, last: Revision) {
        self.last = last;
    }
}

/// What a segment held.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) closed: Closed,
    pub(super) records: Vec<Record>,
}

/// The first revisions of all segments, in order.
pub(super) fn list(files: &dyn Files) -> io::Result<Vec<Revision>> {
    let names = files.list()?;
    let mut firsts: Vec<_> = names.iter().filter_map(|name| first_of(name)).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

/// Whether `name` is that of a segment.
pub(super) fn first_of(name: &str) -> Option<Revision> {
    let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(Revision::new)
}

/// Reads the segment that begins at `first`; if it is the last one, also makes it whole.
pub(super) fn read(
    files: &dyn Files,
    first: Revision,
    is_last: bool,
) -> Result<Contents, ReadError> {
    let name = name_of(first);
    let file =
        files.open(&name)?.ok_or_else(|| ReadError::Corrupt(format!("{name} has vanished")))?;
    let mut bytes = read_all(&*file)?;
    let (records, valid_bytes, is_whole) = parse(first, &name, &bytes)?;
    let last = records.last().map_or(before(first), |record| record.revision);
    if !is_whole && !is_last {
        let text = format!("{name} ends in the middle, and yet another segment follows");
        return Err(ReadError::Corrupt(text));
    }
    if is_last {
        // Written anew rather than cut, even if it is whole: what was read may be in the system's
        // memory only, and pages whose sync failed before would not be written again.
        if !is_whole {
            bytes.truncate(valid_bytes);
            let end = Frame::End { synced: valid_bytes as u64, revision: last };
            frame::encode(first, &end, &mut bytes);
        }
        write_whole(files, &name, &bytes)?;
    }
    Ok(Contents { closed: Closed { first, last, bytes: bytes.len() as u64 }, records })
}

/// Removes a segment; its name may come back after a crash, which does no harm.
pub(super) fn remove(files: &dyn Files, first: Revision) -> io::Result<()> {
    files.remove(&name_of(first))
}

/// The records of a segment, how many bytes of it are valid, and whether it was closed.
fn parse(
    first: Revision,
    name: &str,
    bytes: &[u8],
) -> Result<(Vec<Record>, usize, bool), ReadError> {
    let corrupt = |text: String| ReadError::Corrupt(format!("{name}: {text}"));
    let mut at = match frame::decode(first, bytes) {
        Some((Frame::Begin { format: FORMAT }, length)) => length,
        Some((Frame::Begin { format }, _)) => return Err(ReadError::Newer(format)),
        Some((Frame::Commit { .. } | Frame::End { .. }, _)) | None => {
            return Err(corrupt("its first frame is damaged".to_owned()));
        }
    };
    let mut records: Vec<Record> = Vec::new();
    while let Some((frame, length)) = frame::decode(first, &bytes[at..]) {
        let expected = records.last().map_or(first, |record| following(record.revision));
        match frame {
            Frame::Commit { record, .. } if record.revision == expected => records.push(record),
            Frame::End { revision, .. } if following(revision) == expected => {
                if at + length < bytes.len() {
                    return Err(corrupt("something follows its last frame".to_owned()));
                }
                return Ok((records, at + length, true));
            }
            Frame::Begin { .. } | Frame::Commit { .. } | Frame::End { .. } => {
                return Err(corrupt(format!("the frame at byte {at} is out of order")));
            }
        }
        at += length;
    }
    // A crash leaves a torn tail, and nothing that was written after it was known to be durable.
    // A later frame that knew better proves that what was durable is damaged.
    let mut probe = at;
    while let Some(mark) = frame::find_mark(bytes, probe) {
        if let Some((later, _)) = frame::decode(first, &bytes[mark..])
            && later.synced() > at as u64
        {
            return Err(corrupt(format!("the frame at byte {at} is damaged")));
        }
        probe = mark + 1;
    }
    Ok((records, at, false))
}

const fn before(first: Revision) -> Revision {
    Revision::new(first.get().saturating_sub(1))
}

fn name_of(first: Revision) -> String {
    format!("{PREFIX}{:016x}", first.get())
}
