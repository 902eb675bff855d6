//! Opening: what is in the directory, whether it is whole, and where it goes on.
//!
//! | file | what it is |
//! | --- | --- |
//! | `LOCK` | locked by the process that has the store open, and says which one that is |
//! | `FORMAT` | the version; the last thing to be made, so its presence says that all is there |
//! | `table-…` | the state at the floor |
//! | `log-…` | everything since |
//! | `*.draft` | what was not finished; removed |

use std::{io, path::Path, sync::Arc};

use sterna_model::Revision;

use super::{
    engine::{Engine, Sizes},
    files::{DRAFT, Files, ReadError, read_all, write_whole},
    log,
    table::{self, Table},
};
use crate::{OpenError, commit::following};

pub(super) const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
/// What `FORMAT` says before the version.
const TITLE: &str = "sterna-store ";
/// The newest version that this build reads, and the one that it writes.
const VERSION: u32 = 1;

/// Makes the store if the directory is empty, else finds out what is there; `path` is for messages.
pub(super) fn recover(
    files: Arc<dyn Files>,
    sizes: Sizes,
    path: &Path,
) -> Result<Engine, OpenError> {
    let at = Place { path };
    // What is seen now must stay, before anything is removed on the strength of it.
    files.sync_names().map_err(|error| at.io(error))?;
    let names = files.list().map_err(|error| at.io(error))?;
    for draft in names.iter().filter(|name| name.ends_with(DRAFT)) {
        files.remove(draft).map_err(|error| at.io(error))?;
    }
    match files.open(FORMAT).map_err(|error| at.io(error))? {
        Some(file) => at.check_version(&read_all(&*file).map_err(|error| at.io(error))?)?,
        None => at.create(&*files, &names)?,
    }
    let table = at.open_table(&*files)?;
    let segments = at.read_log(&*files, table.revision())?;
    Ok(Engine::new(files, sizes, table, segments))
}

/// The directory, as messages name it.
struct Place<'a> {
    path: &'a Path,
}

impl Place<'_> {
    fn check_version(&self, contents: &[u8]) -> Result<(), OpenError> {
        let text = std::str::from_utf8(contents).ok();
        let version = text.and_then(|text| text.strip_prefix(TITLE)?.trim_end().parse().ok());
        match version {
            Some(VERSION) => Ok(()),
            Some(found @ VERSION..) => {
                Err(OpenError::Newer { path: self.path.to_owned(), found, known: VERSION })
            }
            Some(0) | None => Err(self.corrupt("its FORMAT file is unreadable")),
        }
    }

    /// Makes an empty store. `FORMAT` comes last: without it nothing was ever committed.
    fn create(&self, files: &dyn Files, names: &[String]) -> Result<(), OpenError> {
        if names.iter().any(|name| log::first_of(name).is_some()) {
            return Err(self.corrupt("it has a log but no FORMAT file"));
        }
        let is_ours = |name: &String| {
            let is_table = table::revision_of(name) == Some(Revision::ZERO);
            // A new file system has a lost+found.
            is_table || matches!(name.as_str(), LOCK | "lost+found") || name.ends_with(DRAFT)
        };
        if let Some(found) = names.iter().find(|name| !is_ours(name)) {
            return Err(OpenError::Foreign { path: self.path.to_owned(), found: found.clone() });
        }
        Table::create(files).map_err(|error| self.io(error))?;
        let contents = format!("{TITLE}{VERSION}\n");
        write_whole(files, FORMAT, contents.as_bytes()).map_err(|error| self.io(error))
    }

    /// The newest table; older ones were left behind by a crash.
    fn open_table(&self, files: &dyn Files) -> Result<Table, OpenError> {
        let mut revisions = table::list(files).map_err(|error| self.io(error))?;
        let newest = revisions.pop().ok_or_else(|| self.corrupt("it has no table"))?;
        let table = Table::open(files, newest).map_err(|error| self.unreadable(error))?;
        for older in revisions {
            table::remove(files, older).map_err(|error| self.io(error))?;
        }
        Ok(table)
    }

    /// The segments that go on from `reached`, made whole.
    fn read_log(
        &self,
        files: &dyn Files,
        mut reached: Revision,
    ) -> Result<Vec<log::Contents>, OpenError> {
        let firsts = log::list(files).map_err(|error| self.io(error))?;
        let mut segments: Vec<log::Contents> = Vec::new();
        for (index, &first) in firsts.iter().enumerate() {
            let is_last = index + 1 == firsts.len();
            let contents =
                log::read(files, first, is_last).map_err(|error| self.unreadable(error))?;
            let follows = segments.last().map_or(first <= following(reached), |segment| {
                following(segment.closed.last) == first
            });
            if !follows {
                let text = format!("its log lacks what lies between {reached} and {first}");
                return Err(self.corrupt(&text));
            }
            if contents.closed.last <= reached && segments.is_empty() {
                // The table has taken it over; it was left behind by a crash.
                log::remove(files, first).map_err(|error| self.io(error))?;
                continue;
            }
            // An empty one is the last: its name, and its place, go to the segment that comes next.
            if !contents.closed.is_empty() {
                reached = contents.closed.last;
                segments.push(contents);
            }
        }
        Ok(segments)
    }

    fn unreadable(&self, error: ReadError) -> OpenError {
        match error {
            ReadError::Io(error) => self.io(error),
            ReadError::Corrupt(what) => self.corrupt(&what),
            ReadError::Newer(found) => {
                OpenError::Newer { path: self.path.to_owned(), found, known: VERSION }
            }
        }
    }

    fn corrupt(&self, what: &str) -> OpenError {
        OpenError::Corrupt { path: self.path.to_owned(), what: what.to_owned() }
    }

    fn io(&self, error: io::Error) -> OpenError {
        OpenError::of_io(self.path, error)
    }
}
