//! How directories and files of logs are called, so that a listing tells what must be known at the
//! start.

use std::fmt;

use sterna_model::{RunId, WallTime};

/// The directory of all logs, in a worker's data directory.
pub(super) const LOGS: &str = "logs";
/// In it, the directory of runs that wrote nothing.
pub(super) const QUIET: &str = "quiet";

/// Stands for a key, in little room. Two keys may share one, by accident or on purpose: who reads by
/// key must look at the key itself, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    pub(super) fn of(key: &str) -> Self {
        // FNV-1a, without its last bit, so that there is always a next one.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(key.bytes().fold(0xcbf2_9ce4_8422_2325, step) >> 1)
    }

    /// The hash after this one.
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The directory of a run's segments.
pub(super) fn of_run(run: RunId, key: KeyHash) -> String {
    format!("{run}.{key}")
}

/// Reads [`of_run`].
pub(super) fn run(name: &str) -> Option<(RunId, KeyHash)> {
    let (run, key) = name.split_once('.')?;
    let hash = u64::from_str_radix(key, 16).ok().filter(|_| key.len() == 16)?;
    Some((run.parse().ok()?, KeyHash(hash & (u64::MAX >> 1))))
}

/// A segment, by its first number and the time of its first line.
pub(super) fn of_segment(first: u64, at: WallTime) -> String {
    format!("{first:020}.{}.log", at.as_millis())
}

/// Reads [`of_segment`].
pub(super) fn segment(name: &str) -> Option<(u64, WallTime)> {
    let (first, at) = name.strip_suffix(".log")?.split_once('.')?;
    Some((first.parse().ok()?, WallTime::from_millis(at.parse().ok()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let id = RunId::from_parts(WallTime::EPOCH, [3; 10]);
        let key = KeyHash::of("default/task/build");
        assert_eq!(run(&of_run(id, key)), Some((id, key)));
        for (first, millis) in [(1, 0), (u64::MAX, -5), (77, 1_700_000_000_000)] {
            let at = WallTime::from_millis(millis).unwrap();
            assert_eq!(segment(&of_segment(first, at)), Some((first, at)));
        }
    }

    #[test]
    fn other_names_are_nobodys() {
        for name in ["", "quiet", "run-1.2", "1.2.draft", "x.1.log", "1.log"] {
            assert_eq!((run(name), segment(name)), (None, None), "{name}");
        }
    }
}
