//! The state at the floor, on disk: one sorted file that is written once and never changed.
//!
//! ```text
//!   block | block | … | index: first key, offset, length, checksum of each block | footer
//!   block: key length u32 | key | revision u64 | value length u32 | value, again and again
//!   footer: magic 8 | format u32 | revision u64 | index offset u64 | index length u32
//!           | checksum of the index u32 | checksum of the footer u32
//! ```
//!
//! Numbers are little-endian, checksums are CRC-32. A merge writes a new table beside the old one,
//! so a crash leaves either or both, and each of them whole.
//!
//! Invariant: no byte of a table is believed before its checksum was compared.

use std::{collections::BTreeMap, io, iter::Peekable, ops::Bound, sync::Arc};

use bytes::{Buf, BufMut, Bytes};
use sterna_model::Revision;

use super::{
    files::{File, Files, ReadError, draft_of, take},
    recent::Version,
};
use crate::Key;

const PREFIX: &str = "table-";
const MAGIC: &[u8; 8] = b"sterna-t";
const FORMAT: u32 = 1;
const FOOTER_BYTES: usize = 40;
/// A block is closed when it has grown to this. One read of a key reads one block.
const BLOCK_BYTES: usize = 4 << 10;
/// Blocks are written in pieces of about this size.
const PIECE_BYTES: usize = 256 << 10;

/// An open table, with its index in memory.
#[derive(Debug)]
pub(super) struct Table {
    file: Arc<dyn File>,
    revision: Revision,
    bytes: u64,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    first: Key,
    offset: u64,
    bytes: usize,
    checksum: u32,
}

/// One key of a table.
pub(super) type Row = (Key, Revision, Bytes);

impl Table {
    /// Writes the table of an empty store.
    pub(super) fn create(files: &dyn Files) -> io::Result<()> {
        Writer::begin(files)?.finish(files, Revision::ZERO)
    }

    /// Opens the table of a revision and reads all of it once, so that damage shows now and not in
    /// the middle of the work.
    pub(super) fn open(files: &dyn Files, revision: Revision) -> Result<Self, ReadError> {
        let name = name_of(revision);
        let damaged = |what: &str| ReadError::Corrupt(format!("{name}: {what}"));
        let file = files.open(&name)?.ok_or_else(|| damaged("it has vanished"))?;
        let bytes = file.bytes()?;
        let footer_at =
            bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(|| damaged("too short"))?;
        let mut footer = [0; FOOTER_BYTES];
        file.read_at(footer_at, &mut footer)?;
        let footer = Footer::decode(&footer).ok_or_else(|| damaged("its footer is damaged"))?;
        if footer.format != FORMAT {
            return Err(ReadError::Newer(footer.format));
        }
        let is_placed = footer.index_at.checked_add(footer.index_bytes as u64) == Some(footer_at);
        if !is_placed || footer.revision != revision {
            return Err(damaged("its footer is of another table"));
        }
        let mut index = vec![0; footer.index_bytes];
        file.read_at(footer.index_at, &mut index)?;
        if crc32fast::hash(&index) != footer.index_checksum {
            return Err(damaged("its index is damaged"));
        }
        let blocks = decode_index(&index).ok_or_else(|| damaged("its index is unreadable"))?;
        let table = Self { file, revision, bytes, blocks };
        for block in &table.blocks {
            table.read(block)?;
        }
        Ok(table)
    }

    /// The revision of which this is the state.
    pub(super) const fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<(Revision, Bytes)>, ReadError> {
        let after = self.blocks.partition_point(|block| *block.first <= *key);
        let Some(block) = after.checked_sub(1).map(|index| &self.blocks[index]) else {
            return Ok(None);
        };
        let rows = self.rows(block)?;
        let found = rows.binary_search_by(|(row, _, _)| (**row).cmp(key)).ok();
        Ok(found.map(|index| (rows[index].1, rows[index].2.clone())))
    }

    /// The keys from `start` on, in order.
    pub(super) fn range<'a>(
        &'a self,
        start: Bound<&'a str>,
    ) -> impl Iterator<Item = Result<Row, ReadError>> + 'a {
        let first = match start {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => {
                self.blocks.partition_point(|block| *block.first <= *key).saturating_sub(1)
            }
        };
        let is_before = move |key: &Key| match start {
            Bound::Unbounded => false,
            Bound::Included(start) => **key < *start,
            Bound::Excluded(start) => **key <= *start,
        };
        self.blocks[first..]
            .iter()
            .flat_map(|block| match self.rows(block) {
                Ok(rows) => rows.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            })
            .skip_while(move |row| matches!(row, Ok((key, _, _)) if is_before(key)))
    }

    /// Writes the table of a later revision: this one, with what `outcome` says of its keys.
    pub(super) fn merged(
        &self,
        files: &dyn Files,
        revision: Revision,
        outcome: &BTreeMap<Key, Version>,
    ) -> Result<Self, ReadError> {
        let mut writer = Writer::begin(files)?;
        let mut older = self.range(Bound::Unbounded).peekable();
        for (key, (revision, value)) in outcome {
            while let Some((old, revision, value)) = next_before(&mut older, key)? {
                writer.add(&old, revision, &value)?;
            }
            // The old row of this key, if there is one.
            older.next_if(|row| matches!(row, Ok((old, _, _)) if old == key));
            if let Some(value) = value {
                writer.add(key, *revision, value)?;
            }
        }
        for row in older {
            let (key, revision, value) = row?;
            writer.add(&key, revision, &value)?;
        }
        writer.finish(files, revision)?;
        Self::open(files, revision)
    }

    fn rows(&self, block: &Block) -> Result<Vec<Row>, ReadError> {
        let mut body = self.read(block)?;
        let mut rows = Vec::new();
        while !body.is_empty() {
            rows.push(decode_row(&mut body).ok_or_else(|| self.damaged(block))?);
        }
        Ok(rows)
    }

    fn read(&self, block: &Block) -> Result<Bytes, ReadError> {
        let mut body = vec![0; block.bytes];
        self.file.read_at(block.offset, &mut body)?;
        if crc32fast::hash(&body) != block.checksum {
            return Err(self.damaged(block));
        }
        Ok(body.into())
    }

    fn damaged(&self, block: &Block) -> ReadError {
        let name = name_of(self.revision);
        ReadError::Corrupt(format!("{name}: the block at byte {} is damaged", block.offset))
    }
}

fn next_before(
    rows: &mut Peekable<impl Iterator<Item = Result<Row, ReadError>>>,
    key: &Key,
) -> Result<Option<Row>, ReadError> {
    rows.next_if(|row| !matches!(row, Ok((old, _, _)) if old >= key)).transpose()
}

/// The revisions of all tables, in order.
pub(super) fn list(files: &dyn Files) -> io::Result<Vec<Revision>> {
    let names = files.list()?;
    let mut revisions: Vec<_> = names.iter().filter_map(|name| revision_of(name)).collect();
    revisions.sort_unstable();
    Ok(revisions)
}

/// Whether `name` is that of a table.
pub(super) fn revision_of(name: &str) -> Option<Revision> {
    let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(Revision::new)
}

/// Removes a table; its name may come back after a crash, which does no harm.
pub(super) fn remove(files: &dyn Files, revision: Revision) -> io::Result<()> {
    files.remove(&name_of(revision))
}

fn name_of(revision: Revision) -> String {
    format!("{PREFIX}{:016x}", revision.get())
}

/// Writes a table under a draft's name; only a finished one gets its own.
struct Writer {
    file: Arc<dyn File>,
    written: u64,
    piece: Vec<u8>,
    block_at: usize,
    first: Option<Key>,
    index: Vec<u8>,
}

impl Writer {
    fn begin(files: &dyn Files) -> io::Result<Self> {
        Ok(Self {
            file: files.create(&draft_of(PREFIX))?,
            written: 0,
            piece: Vec::with_capacity(PIECE_BYTES + BLOCK_BYTES),
            block_at: 0,
            first: None,
            index: Vec::new(),
        })
    }

    fn add(&mut self, key: &Key, revision: Revision, value: &[u8]) -> io::Result<()> {
        if self.first.is_none() {
            self.first = Some(key.clone());
        }
        put(&mut self.piece, key.as_bytes());
        self.piece.put_u64_le(revision.get());
        put(&mut self.piece, value);
        if self.piece.len() - self.block_at >= BLOCK_BYTES {
            self.end_block();
        }
        if self.piece.len() >= PIECE_BYTES { self.write() } else { Ok(()) }
    }

    fn end_block(&mut self) {
        let Some(first) = self.first.take() else { return };
        let body = &self.piece[self.block_at..];
        put(&mut self.index, first.as_bytes());
        self.index.put_u64_le(self.written + self.block_at as u64);
        self.index.put_u32_le(length(body.len()));
        self.index.put_u32_le(crc32fast::hash(body));
        self.block_at = self.piece.len();
    }

    /// Writes the blocks that have ended, and keeps the one that has not.
    fn write(&mut self) -> io::Result<()> {
        self.file.write_at(self.written, &self.piece[..self.block_at])?;
        self.written += self.block_at as u64;
        self.piece.drain(..self.block_at);
        self.block_at = 0;
        Ok(())
    }

    fn finish(mut self, files: &dyn Files, revision: Revision) -> io::Result<()> {
        self.end_block();
        self.write()?;
        let footer = Footer {
            format: FORMAT,
            revision,
            index_at: self.written,
            index_bytes: self.index.len(),
            index_checksum: crc32fast::hash(&self.index),
        };
        let mut end = self.index;
        end.extend_from_slice(&footer.encode());
        self.file.write_at(self.written, &end)?;
        self.file.sync()?;
        files.rename(&draft_of(PREFIX), &name_of(revision))?;
        files.sync_names()
    }
}

struct Footer {
    format: u32,
    revision: Revision,
    index_at: u64,
    index_bytes: usize,
    index_checksum: u32,
}

impl Footer {
    fn encode(&self) -> Vec<u8> {
        let mut footer = Vec::with_capacity(FOOTER_BYTES);
        footer.put_slice(MAGIC);
        footer.put_u32_le(self.format);
        footer.put_u64_le(self.revision.get());
        footer.put_u64_le(self.index_at);
        footer.put_u32_le(length(self.index_bytes));
        footer.put_u32_le(self.index_checksum);
        footer.put_u32_le(crc32fast::hash(&footer));
        footer
    }

    fn decode(footer: &[u8; FOOTER_BYTES]) -> Option<Self> {
        let (body, mut checksum) = footer.split_at(FOOTER_BYTES - 4);
        let mut fields = body.strip_prefix(MAGIC)?;
        if crc32fast::hash(body) != checksum.get_u32_le() {
            return None;
        }
        Some(Self {
            format: fields.get_u32_le(),
            revision: Revision::new(fields.get_u64_le()),
            index_at: fields.get_u64_le(),
            index_bytes: usize::try_from(fields.get_u32_le()).ok()?,
            index_checksum: fields.get_u32_le(),
        })
    }
}

fn decode_index(mut index: &[u8]) -> Option<Vec<Block>> {
    let mut blocks = Vec::new();
    while !index.is_empty() {
        let first = Key::from(std::str::from_utf8(take(&mut index)?).ok()?);
        let offset = index.try_get_u64_le().ok()?;
        let bytes = usize::try_from(index.try_get_u32_le().ok()?).ok()?;
        let checksum = index.try_get_u32_le().ok()?;
        blocks.push(Block { first, offset, bytes, checksum });
    }
    Some(blocks)
}

/// Takes one row; its value shares the block's memory.
fn decode_row(body: &mut Bytes) -> Option<Row> {
    let key_bytes = usize::try_from(body.try_get_u32_le().ok()?).ok()?;
    let key = (key_bytes <= body.len()).then(|| body.split_to(key_bytes))?;
    let key = Key::from(std::str::from_utf8(&key).ok()?);
    let revision = Revision::new(body.try_get_u64_le().ok()?);
    let value_bytes = usize::try_from(body.try_get_u32_le().ok()?).ok()?;
    let value = (value_bytes <= body.len()).then(|| body.split_to(value_bytes))?;
    Some((key, revision, value))
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(length(bytes.len()));
    out.put_slice(bytes);
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("no part of a table comes near 4 GiB")
}
