//! The lock of a data directory, and the lives that a worker leads under it.

use super::{DirectoryId, IdError, MachineId};
use crate::number;
use crate::text::text_face;
use std::fmt;
use std::str::FromStr;

/// An exclusive lock on a data directory of one machine.
///
/// Named by both, because each alone can be copied: a directory in an image or a backup, a
/// machine's id in a clone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock {
    /// The directory that is locked.
    pub directory: DirectoryId,
    /// The machine that holds the lock.
    pub machine: MachineId,
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.directory, self.machine)
    }
}

impl FromStr for Lock {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let read = || {
            let (directory, machine) = text.split_once('.')?;
            Some(Self { directory: directory.parse().ok()?, machine: machine.parse().ok()? })
        };
        read().ok_or_else(|| IdError::Mistyped {
            text: text.to_owned(),
            expected: "a machine lock: write dir-….machine-…, each with 32 digits of 0-9 and a-f",
        })
    }
}

/// One life of a worker: a counter in its data directory, raised and synced before the first
/// heartbeat of each life. Wall time has no part in it.
///
/// Two lives can be compared only under the same lock, so there is no `Ord`: see
/// [`Incarnation::succession`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// The lock that the worker holds.
    pub lock: Lock,
    /// Which of the lives under that lock.
    pub life: u64,
}

/// How one incarnation stands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Succession {
    /// They are the same life.
    Same,
    /// It came after the other, which is therefore over.
    Later,
    /// It came before the other and is therefore over.
    Earlier,
    /// Their locks differ; neither says anything about the other.
    Unrelated,
}

impl Incarnation {
    /// How this life stands to `other`.
    pub fn succession(&self, other: &Self) -> Succession {
        use std::cmp::Ordering;
        if self.lock != other.lock {
            return Succession::Unrelated;
        }
        match self.life.cmp(&other.life) {
            Ordering::Equal => Succession::Same,
            Ordering::Greater => Succession::Later,
            Ordering::Less => Succession::Earlier,
        }
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.lock, self.life)
    }
}

impl FromStr for Incarnation {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let read = || {
            let (lock, life) = text.rsplit_once('.')?;
            Some(Self { lock: lock.parse().ok()?, life: number::plain(life)? })
        };
        read().ok_or_else(|| IdError::Mistyped {
            text: text.to_owned(),
            expected: "an incarnation: write its machine lock, a dot and a number",
        })
    }
}

text_face! {
    Lock reads with word, "a machine lock";
    Incarnation reads with word, "an incarnation";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WallTime;
    use proptest::prelude::*;

    fn life(directory: u8, machine: u8, life: u64) -> Incarnation {
        let directory = DirectoryId::from_parts(WallTime::EPOCH, [directory; 10]);
        let machine = MachineId::from_bytes([machine; 16]).unwrap();
        Incarnation { lock: Lock { directory, machine }, life }
    }

    #[test]
    fn lives_are_compared_only_under_the_same_lock() {
        let cases = [
            (life(1, 1, 7), Succession::Same),
            (life(1, 1, 6), Succession::Later),
            (life(1, 1, 8), Succession::Earlier),
            (life(2, 1, 6), Succession::Unrelated),
            (life(1, 2, 6), Succession::Unrelated),
            (life(1, 2, 7), Succession::Unrelated),
        ];
        for (other, expected) in cases {
            assert_eq!(life(1, 1, 7).succession(&other), expected, "{other}");
        }
    }

    #[test]
    fn a_mistyped_one_says_how_it_is_written() {
        assert_eq!(
            "dir-1".parse::<Lock>().unwrap_err().to_string(),
            "'dir-1' is not a machine lock: \
             write dir-….machine-…, each with 32 digits of 0-9 and a-f"
        );
        assert_eq!(
            "7".parse::<Incarnation>().unwrap_err().to_string(),
            "'7' is not an incarnation: write its machine lock, a dot and a number"
        );
    }

    proptest! {
        #[test]
        fn text_comes_back_as_the_same_life(directory: u8, machine in 1_u8.., number: u64) {
            let one = life(directory, machine, number);
            prop_assert_eq!(one.to_string().parse(), Ok(one));
            prop_assert_eq!(one.lock.to_string().parse(), Ok(one.lock));
        }
    }
}
