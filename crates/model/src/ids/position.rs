//! A revision that can be compared across lives of the store.

use std::{fmt, str::FromStr};

use super::{Epoch, IdError, Revision};
use crate::{number, text::text_face};

/// A revision, and the life of the store that it was counted in. A restored store counts some
/// revisions again, so whoever remembers one across restarts remembers this. Written `1.42`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The life of the store.
    pub epoch: Epoch,
    /// The revision in it.
    pub revision: Revision,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch.get(), self.revision.get())
    }
}

impl FromStr for Position {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let read = || {
            let (epoch, revision) = text.split_once('.')?;
            let (epoch, revision) = (number::plain(epoch)?, number::plain(revision)?);
            Some(Self { epoch: Epoch::new(epoch), revision: Revision::new(revision) })
        };
        read().ok_or_else(|| IdError::Mistyped {
            text: text.to_owned(),
            expected: "a position: write epoch and revision, as in 1.42",
        })
    }
}

text_face! {
    Position reads with word, "a position";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_outweighs_every_revision() {
        let at = |text: &str| text.parse::<Position>().unwrap();
        assert!(at("1.9") < at("1.10"));
        assert!(at("1.10") < at("2.0"));
        assert_eq!(at("3.7").to_string(), "3.7");
    }

    #[test]
    fn a_position_has_one_text() {
        for text in ["", "1", "1.", "01.2", "1.2.3", "+1.2", "rev1"] {
            let error = text.parse::<Position>().unwrap_err().to_string();
            assert!(error.ends_with("is not a position: write epoch and revision, as in 1.42"));
        }
    }
}
