//! Finds what earlier workers have kept.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use sterna_model::WallTime;

use super::{
    frame::{Frame, Frames},
    names::{self, KeyHash, QUIET},
    shelf::{Place, Segment, Shelf, Spot},
};

/// Looks at every file below `place`, and into those that many runs share. What has another name is
/// left alone; directories of runs without a file are given to `empty`.
pub(super) fn scan(place: &Path, empty: impl Fn(&Path)) -> Shelf {
    let mut shelf = Shelf::default();
    for (name, path) in entries(place) {
        let Some((run, key)) = names::run(&name) else { continue };
        let mut is_empty = true;
        for (_, segment) in segments(&path) {
            is_empty = false;
            shelf.found(run, key, segment);
        }
        if is_empty {
            empty(&path);
        }
    }
    let mut quiet = segments(&place.join(QUIET));
    quiet.sort_by_key(|(_, segment)| segment.first);
    for (path, segment) in quiet {
        shelf.quiet_begun(Segment { bytes: 0, ..segment }, false);
        let bytes = read(&path, 0, segment.bytes).ok().flatten().unwrap_or_default();
        let mut offset = 0;
        for (frame, end) in Frames::of(&bytes) {
            let end = end as u64;
            if let Frame::Quiet { run, count, key, .. } = frame {
                let key = KeyHash::of(&String::from_utf8_lossy(key));
                let spot = Spot { key, offset, bytes: end - offset, count };
                shelf.quieted(run, spot, segment.last_at);
            }
            offset = end;
        }
    }
    shelf
}

fn entries(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

fn segments(directory: &Path) -> Vec<(PathBuf, Segment)> {
    let found = entries(directory).into_iter().filter_map(|(name, path)| {
        let (first, first_at) = names::segment(&name)?;
        let about = fs::metadata(&path).ok()?;
        let last_at = changed(&about).unwrap_or(first_at);
        Some((path, Segment { first, first_at, last_at, bytes: about.len() }))
    });
    found.collect()
}

/// When a file was written to last.
fn changed(about: &Metadata) -> Option<WallTime> {
    let since = about.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    WallTime::from_millis(i64::try_from(since.as_millis()).ok()?).ok()
}

/// The file of a place.
pub(super) fn path(logs: &Path, place: Place, first_at: WallTime) -> PathBuf {
    let (directory, first) = match place {
        Place::Own(run, key, first) => (names::of_run(run, key), first),
        Place::Quiet(number) => (QUIET.to_owned(), number),
    };
    logs.join(directory).join(names::of_segment(first, first_at))
}

/// So many bytes of a file, or as many as it has; nothing if it is not there any more.
pub(super) fn read(path: &Path, offset: u64, bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    let mut found = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    file.take(bytes).read_to_end(&mut found)?;
    Ok(Some(found))
}
