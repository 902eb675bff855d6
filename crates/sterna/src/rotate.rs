//! A log that does not grow without end: when it is long it is put aside, and another is begun. One that
//! was put aside is kept.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// No log gets much longer.
pub(crate) const LONGEST: u64 = 8 << 20;

/// Begins another log in place of the one that this process writes its standard error to, if that is longer
/// than this. Nobody writes meanwhile, so that no line is torn or lost.
///
/// # Errors
/// It cannot be put aside, and goes on.
pub(crate) fn rotate(longest: u64) -> io::Result<()> {
    let path = fs::read_link("/proc/self/fd/2")?;
    let lock = io::stderr().lock();
    let own = fs::metadata("/proc/self/fd/2")?;
    if let Some(next) = next(&path, &own, longest)? {
        rustix::stdio::dup2_stderr(&next)?;
    }
    drop(lock);
    Ok(())
}

/// Puts a log aside that is too long, and begins another.
fn next(path: &Path, own: &fs::Metadata, longest: u64) -> io::Result<Option<File>> {
    // A terminal, a pipe, or a file that somebody else has put aside.
    if !own.is_file() || own.len() <= longest || fs::metadata(path)?.ino() != own.ino() {
        return Ok(None);
    }
    fs::rename(path, before(path))?;
    OpenOptions::new().create(true).append(true).open(path).map(Some)
}

/// Where the log is that was put aside.
fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_that_is_too_long_is_put_aside_and_one_is_kept() {
        let here = std::env::temp_dir().join(format!("sterna-rotate-{}", std::process::id()));
        fs::create_dir_all(&here).unwrap();
        let path = here.join("a.log");
        let mut log = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        for (round, text) in ["one\n", "two\n", "three\n"].into_iter().enumerate() {
            log.write_all(text.as_bytes()).unwrap();
            let begin = |longest| next(&path, &log.metadata().unwrap(), longest).unwrap();
            assert!(begin(100).is_none(), "it is short");
            log = begin(2).expect("it is long");
            assert_eq!(fs::read_to_string(before(&path)).unwrap(), text, "{round}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "");
        }
        // Another's file is left alone.
        let other = File::open(before(&path)).unwrap().metadata().unwrap();
        assert!(next(&path, &other, 2).unwrap().is_none());
        fs::remove_dir_all(&here).unwrap();
    }
}
