//! What a run leaves for whoever asked for it: a file in its own directory, read when nothing of the
//! run is left.
//!
//! Invariant: nothing but a plain file of the run's own directory is read, whatever work has put in
//! its place, and never more of it than is kept.

use std::{fs::File, io::Read, path::Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use sterna_model::payload::{RESULT_BYTES_MAX, RunResult};

use super::spare::WORK;

/// What the file is called, in the run's own directory.
pub(super) const FILE: &str = "result";

/// Reads what the run with this directory has left; nothing if it left no plain file.
pub(super) fn read(of_run: &Path) -> Option<RunResult> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let at = openat2(CWD, of_run.join(WORK), directory, Mode::empty(), ResolveFlags::empty());
    // A pipe in its place is not waited for, and a link or a mount leads nowhere.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let file = openat2(at.ok()?, FILE, flags, Mode::empty(), resolve).ok()?;
    if FileType::from_raw_mode(fstat(&file).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file).take(RESULT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
    Some(text(&bytes))
}

/// As much of it as is kept, without half a character at its end.
fn text(bytes: &[u8]) -> RunResult {
    let is_cut = bytes.len() > RESULT_BYTES_MAX;
    let kept = bytes.get(..RESULT_BYTES_MAX).unwrap_or(bytes);
    let whole = match std::str::from_utf8(kept) {
        Err(error) if is_cut && error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => kept.len(),
    };
    let text = String::from_utf8_lossy(kept.get(..whole).unwrap_or(kept)).into_owned();
    RunResult { text, is_cut }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn of(bytes: &[u8]) -> (usize, bool) {
        let read = text(bytes);
        (read.text.len(), read.is_cut)
    }

    #[test]
    fn what_is_too_long_is_cut_and_that_is_said() {
        assert_eq!(of(b""), (0, false));
        assert_eq!(of(&[b'x'; RESULT_BYTES_MAX]), (RESULT_BYTES_MAX, false));
        assert_eq!(of(&[b'x'; RESULT_BYTES_MAX + 1]), (RESULT_BYTES_MAX, true));
        let euros = "€".repeat(RESULT_BYTES_MAX);
        assert_eq!(
            of(&euros.as_bytes()[..=RESULT_BYTES_MAX]),
            (RESULT_BYTES_MAX - RESULT_BYTES_MAX % 3, true)
        );
        assert_eq!(text(b"a\xffb").text, "a\u{fffd}b");
    }

    #[test]
    fn nothing_but_a_plain_file_is_read() {
        let run = std::env::temp_dir().join(format!("sterna-result-{}", std::process::id()));
        let file = run.join(WORK).join(FILE);
        fs::create_dir_all(run.join(WORK)).unwrap();
        assert_eq!(read(&run), None);
        fs::write(&file, "42\n").unwrap();
        assert_eq!(read(&run), Some(RunResult { text: "42\n".to_owned(), is_cut: false }));
        fs::remove_file(&file).unwrap();
        symlink("/etc/passwd", &file).unwrap();
        assert_eq!(read(&run), None, "a link");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(read(&run), None, "a directory");
        fs::remove_dir(&file).unwrap();
        rustix::fs::mknodat(CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(read(&run), None, "a pipe that nobody writes to");
        fs::remove_dir_all(run).unwrap();
    }
}
