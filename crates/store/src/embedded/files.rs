//! The few things that the store asks of a disk, so that tests can give it one that fails.

use std::{fmt, io, sync::Arc};

use bytes::Buf;

/// One directory of files.
pub trait Files: fmt::Debug + Send + Sync + 'static {
    /// Opens a file to read and write; `None` if it is not there.
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn File>>>;

    /// Makes an empty file to read and write, in the place of any that is there.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name, in the place of any that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes names durable: what was created, renamed or removed stays so.
    fn sync_names(&self) -> io::Result<()>;
}

/// One open file.
pub trait File: fmt::Debug + Send + Sync + 'static {
    /// Its length in bytes.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `out` from `offset`; an end of file before that is an error.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts or extends it with zeros.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;

    /// Makes its contents durable.
    fn sync(&self) -> io::Result<()>;
}

/// Why something that is stored cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The system said so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not what was written.
    #[error("{0}")]
    Corrupt(String),
    /// It has a format that this build does not know.
    #[error("it has format {0}, which this build does not know")]
    Newer(u32),
}

/// Takes a length and so many bytes from the front of `bytes`.
pub(super) fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(bytes.try_get_u32_le().ok()?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Reads a whole file.
pub(super) fn read_all(file: &dyn File) -> io::Result<Vec<u8>> {
    let bytes = usize::try_from(file.bytes()?).map_err(io::Error::other)?;
    let mut contents = vec![0; bytes];
    file.read_at(0, &mut contents)?;
    Ok(contents)
}

/// Writes a whole file so that after a crash it is there as a whole or not at all.
pub(super) fn write_whole(files: &dyn Files, name: &str, contents: &[u8]) -> io::Result<()> {
    let draft = draft_of(name);
    let file = files.create(&draft)?;
    file.write_at(0, contents)?;
    file.sync()?;
    files.rename(&draft, name)?;
    files.sync_names()
}

/// The name under which a file is written before it gets its own.
pub(super) fn draft_of(name: &str) -> String {
    format!("{name}{DRAFT}")
}

/// Ends the names of files that were not finished; they are removed when the store is opened.
pub(super) const DRAFT: &str = ".draft";
