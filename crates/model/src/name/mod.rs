//! Names that people give, and the keys built from them.
//!
//! | type | example | what it names |
//! | --- | --- | --- |
//! | [`Namespace`] | `default` | a space of names |
//! | [`Kind`] | `service` | what a name is the name of |
//! | [`Name`] | `web` | one thing of a kind in a namespace |
//! | [`NodeName`] | `db7` | one node of a batch |
//! | [`ServiceKey`], [`TaskKey`], … | `default/task/build` | one thing of a kind, with its namespace |
//! | [`WorkKey`] | `default/service/web/3` | any work that must not run twice |
//!
//! Invariant: no part of a key holds the slash that stands between parts, so a key can be read in
//! one way only; and equal keys have equal texts.
//!
//! This room does not know what exists: that a name is well formed says nothing more.

mod key;
mod node;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use key::read_index;
pub use key::{KeyError, Kind, record_path, record_prefix};
pub use node::{NodeError, NodeName};
pub use work::{
    BatchKey, DefinitionKey, InstanceKey, NodeKey, ScheduleKey, ServiceKey, TaskKey, Work, WorkKey,
};

use crate::text::{quoted, text_face};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a thing of some kind: up to 63 of `a-z`, `0-9`, `.` and `-`, with a letter or a
/// digit at both ends. So it may stand in a URL or be a file's name as it is. Clones share the text:
/// a name stands in the keys of all instances of its service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The most bytes that a name has.
    pub const BYTES_MAX: usize = 63;
    /// The most bytes in the name of a definition that schedules fire: a dot and ten digits must
    /// still fit behind it.
    pub const FIRED_BYTES_MAX: usize = 52;

    /// Takes a text that is a name.
    ///
    /// # Errors
    /// When it is not, with the first character that is wrong, and a name that would do.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let near = || Near(nearest(text));
        let is_inner = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '-');
        let is_outer = |c: char| matches!(c, 'a'..='z' | '0'..='9');
        let (Some(first), Some(last)) = (text.chars().next(), text.chars().next_back()) else {
            return Err(NameError::Empty);
        };
        if let Some((before, found)) = text.chars().enumerate().find(|(_, c)| !is_inner(*c)) {
            let (text, near) = (text.to_owned(), near());
            return Err(NameError::BadCharacter { at: before + 1, found, text, near });
        }
        // From here on the text is ASCII: bytes are characters.
        let wrong_end = [(1, first), (text.len(), last)].into_iter().find(|(_, c)| !is_outer(*c));
        if let Some((at, found)) = wrong_end {
            return Err(NameError::BadEnd { at, found, text: text.to_owned(), near: near() });
        }
        if text.len() > Self::BYTES_MAX {
            return Err(NameError::TooLong { bytes: text.len(), near: near() });
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of what a schedule makes of this definition for the moment that is due `due_s`
    /// seconds after the start of 1970: `build.1794730020`.
    ///
    /// # Errors
    /// When no name is left for it: the definition's is too long, or the moment lies before 1970
    /// or beyond ten digits, which is the year 2286.
    pub fn fired(&self, due_s: i64) -> Result<Self, FiredError> {
        if self.0.len() > Self::FIRED_BYTES_MAX {
            return Err(FiredError::Shorten { name: self.clone() });
        }
        if !(0..=9_999_999_999).contains(&due_s) {
            return Err(FiredError::OutOfRange { due_s });
        }
        Ok(Self(format!("{self}.{due_s}").into()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

/// A space of names; written as a [`Name`] is. The first is `default`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Name);

impl Namespace {
    /// Takes a text that is a name.
    ///
    /// # Errors
    /// As [`Name::new`].
    pub fn new(text: &str) -> Result<Self, NameError> {
        Name::new(text).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self(Name("default".into()))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Namespace {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

text_face! {
    Name reads with word, "a name";
    Namespace reads with word, "a namespace";
}

/// Why a text is not a name. Places count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// There is no text.
    #[error("name is empty: write 1 to {} of a-z, 0-9, '.' and '-'", Name::BYTES_MAX)]
    Empty,
    /// A character that no name holds.
    #[error(
        "character {at} of {} is {}: a name holds a-z, 0-9, '.' and '-'{near}",
        quoted(.text), quoted(.found.encode_utf8(&mut [0; 4]))
    )]
    BadCharacter {
        /// Where.
        at: usize,
        /// The character.
        found: char,
        /// The whole text.
        text: String,
        /// What would do.
        near: Near,
    },
    /// A character that stands only inside of a name.
    #[error(
        "character {at} of {} is '{found}': a name starts and ends with a-z or 0-9{near}",
        quoted(.text)
    )]
    BadEnd {
        /// Where.
        at: usize,
        /// The character.
        found: char,
        /// The whole text.
        text: String,
        /// What would do.
        near: Near,
    },
    /// More than 63 bytes.
    #[error("name is {bytes} bytes long: at most {} are allowed{near}", Name::BYTES_MAX)]
    TooLong {
        /// How many.
        bytes: usize,
        /// What would do.
        near: Near,
    },
}

/// A name near to a text that is none, if there is one; printed as a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near(pub Option<Name>);

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(f, " (try '{name}')"),
            None => Ok(()),
        }
    }
}

/// Why a firing has no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FiredError {
    /// The definition's name is too long; give it a shorter one.
    #[error(
        "name '{name}' is {} bytes long: what a schedule fires has at most {}, shorten it",
        .name.as_str().len(), Name::FIRED_BYTES_MAX
    )]
    Shorten {
        /// The definition's name.
        name: Name,
    },
    /// The moment has more than ten digits, or a sign.
    #[error("moment {due_s} cannot be fired: it must lie between 1970 and 2286")]
    OutOfRange {
        /// Seconds since the start of 1970.
        due_s: i64,
    },
}

/// The name nearest to `text`: what a person would most likely have written instead.
fn nearest(text: &str) -> Option<Name> {
    let mut near = String::new();
    for character in text.chars() {
        match character.to_ascii_lowercase() {
            kept @ ('a'..='z' | '0'..='9' | '.' | '-') => near.push(kept),
            _ if near.ends_with('-') => {}
            _ => near.push('-'),
        }
    }
    let is_inner_only = |c: char| matches!(c, '.' | '-');
    let near = near.trim_matches(is_inner_only);
    let cut = &near[..near.len().min(Name::BYTES_MAX)];
    let cut = cut.trim_end_matches(is_inner_only);
    (!cut.is_empty()).then(|| Name(cut.into()))
}
