//! The log's frames: how one commit looks on disk.
//!
//! ```text
//!   mark u32 | length u32 | checksum u32 | body: kind u8, then by kind
//!     1 begin   format u32
//!     2 commit  synced u64 | revision u64 | write id 16 | count u32 | changes
//!     3 end     synced u64 | revision u64
//!   change: key length u32 | key | 0 (removed) or 1, value length u32, value
//! ```
//!
//! Numbers are little-endian. The checksum (CRC-32) begins with the segment's first revision, so
//! that a frame is valid in its own segment only.
//!
//! Invariant: `synced` is an offset below which the segment was durable before this frame was
//! written. So damage below it can be told from the torn tail that a crash leaves.

use bytes::{Buf, BufMut, Bytes};
use sterna_model::{Revision, WriteId};

use super::files::take;
use crate::{Change, Key};

/// Bytes before the body.
const HEAD_BYTES: usize = 12;
/// Begins every frame; lets a reader look for frames behind damage.
const MARK: [u8; 4] = [0xa7, 0x5e, 0x1d, 0xc3];
/// No body is longer: a commit's limit with ample room. Guards against a broken length.
const BODY_BYTES_MAX: usize = 8 << 20;

/// One frame of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The first of every segment.
    Begin { format: u32 },
    /// One commit.
    Commit { synced: u64, record: Record },
    /// The last of every closed segment; `revision` is that of the commit before it.
    End { synced: u64, revision: Revision },
}

/// What one commit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) revision: Revision,
    pub(super) write_id: WriteId,
    pub(super) changes: Vec<Change>,
}

impl Frame {
    /// Below which offset everything was durable when this frame was written.
    pub(super) const fn synced(&self) -> u64 {
        match self {
            Self::Begin { .. } => 0,
            Self::Commit { synced, .. } | Self::End { synced, .. } => *synced,
        }
    }
}

/// Adds a frame of the segment that begins at `first`.
pub(super) fn encode(first: Revision, frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Begin { format } => seal(first, out, |out| {
            out.put_u8(1);
            out.put_u32_le(*format);
        }),
        Frame::Commit { synced, record } => encode_commit(first, *synced, record, out),
        Frame::End { synced, revision } => seal(first, out, |out| {
            out.put_u8(3);
            out.put_u64_le(*synced);
            out.put_u64_le(revision.get());
        }),
    }
}

/// As [`encode`] of a [`Frame::Commit`], without giving the record away.
pub(super) fn encode_commit(first: Revision, synced: u64, record: &Record, out: &mut Vec<u8>) {
    seal(first, out, |out| {
        out.put_u8(2);
        out.put_u64_le(synced);
        out.put_u64_le(record.revision.get());
        out.put_slice(record.write_id.as_bytes());
        out.put_u32_le(length(record.changes.len()));
        for Change { key, value } in &record.changes {
            out.put_u32_le(length(key.len()));
            out.put_slice(key.as_bytes());
            match value {
                None => out.put_u8(0),
                Some(value) => {
                    out.put_u8(1);
                    out.put_u32_le(length(value.len()));
                    out.put_slice(value);
                }
            }
        }
    });
}

/// The frame at the head of `bytes` and its length, if a whole and valid one is there.
pub(super) fn decode(first: Revision, bytes: &[u8]) -> Option<(Frame, usize)> {
    let mut head = bytes.get(..HEAD_BYTES)?;
    if head.copy_to_bytes(4) != MARK[..] {
        return None;
    }
    let body_bytes = usize::try_from(head.get_u32_le()).ok()?;
    let checksum = head.get_u32_le();
    if body_bytes > BODY_BYTES_MAX {
        return None;
    }
    let end = HEAD_BYTES + body_bytes;
    let body = bytes.get(HEAD_BYTES..end)?;
    if checksum != checksum_of(first, body) {
        return None;
    }
    Some((decode_body(body)?, end))
}

/// Where a frame may begin, at or after `from`.
pub(super) fn find_mark(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(MARK.len()).position(|window| window == MARK).map(|at| from + at)
}

fn decode_body(mut body: &[u8]) -> Option<Frame> {
    match body.try_get_u8().ok()? {
        1 => Some(Frame::Begin { format: body.try_get_u32_le().ok()? }),
        2 => {
            let synced = body.try_get_u64_le().ok()?;
            let revision = Revision::new(body.try_get_u64_le().ok()?);
            let mut write_id = [0; 16];
            body.try_copy_to_slice(&mut write_id).ok()?;
            let write_id = WriteId::from_bytes(write_id).ok()?;
            let count = body.try_get_u32_le().ok()?;
            let changes = (0..count).map(|_| decode_change(&mut body)).collect::<Option<_>>()?;
            Some(Frame::Commit { synced, record: Record { revision, write_id, changes } })
        }
        3 => {
            let synced = body.try_get_u64_le().ok()?;
            Some(Frame::End { synced, revision: Revision::new(body.try_get_u64_le().ok()?) })
        }
        _ => None,
    }
}

fn decode_change(body: &mut &[u8]) -> Option<Change> {
    let key = Key::from(std::str::from_utf8(take(body)?).ok()?);
    let value = match body.try_get_u8().ok()? {
        0 => None,
        _ => Some(Bytes::copy_from_slice(take(body)?)),
    };
    Some(Change { key, value })
}

/// Writes a body, then fills in its head.
fn seal(first: Revision, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    body(out);
    let (head, body) = out[start..].split_at_mut(HEAD_BYTES);
    let mut head: &mut [u8] = head;
    head.put_slice(&MARK);
    head.put_u32_le(length(body.len()));
    head.put_u32_le(checksum_of(first, body));
}

fn checksum_of(first: Revision, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&first.get().to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a commit's limits keep every length far below 4 GiB")
}
