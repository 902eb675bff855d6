//! Names of batch nodes, which are data and not ours to restrict.

use crate::text::{place, quoted};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::str::FromStr;

/// The name of one node of a batch: any text of 1 to 255 bytes.
///
/// JSON and specs hold it as it is. Where it stands in a key, a path or a log line it is escaped:
/// every byte but letters, digits and `-._~:@=,` becomes `%` and two upper-case hex digits, so
/// that a slash, a space or a control sequence in it can do no harm; so do the dots of `.` and
/// `..`, so that neither is a way to another folder. That is its `Display`;
/// reading it back also takes characters that need not have been escaped, or were not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Box<str>);

impl NodeName {
    /// The most bytes that a node's name has, before it is escaped.
    pub const BYTES_MAX: usize = 255;

    /// Takes a name as it is.
    ///
    /// # Errors
    /// When it is empty or too long.
    pub fn new(text: &str) -> Result<Self, NodeError> {
        match text.len() {
            0 => Err(NodeError::Empty),
            1..=Self::BYTES_MAX => Ok(Self(text.into())),
            bytes => Err(NodeError::TooLong { bytes }),
        }
    }

    /// The name as it is.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As a folder's name these two would lead somewhere else.
        let is_way = matches!(&*self.0, "." | "..");
        for byte in self.0.bytes() {
            let is_plain = byte.is_ascii_alphanumeric() || b"-._~:@=,".contains(&byte);
            if is_plain && !is_way {
                f.write_char(char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for NodeName {
    type Err = NodeError;

    fn from_str(text: &str) -> Result<Self, NodeError> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(escape) = rest.find('%') {
            let (plain, tail) = rest.split_at(escape);
            bytes.extend_from_slice(plain.as_bytes());
            let digits = tail.get(1..3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.ok_or_else(|| NodeError::BadEscape { at: place(text, tail) })?);
            rest = &tail[3..];
        }
        bytes.extend_from_slice(rest.as_bytes());
        let name =
            String::from_utf8(bytes).map_err(|_| NodeError::NotUtf8 { text: text.to_owned() })?;
        Self::new(&name)
    }
}

impl TryFrom<String> for NodeName {
    type Error = NodeError;

    fn try_from(text: String) -> Result<Self, NodeError> {
        Self::new(&text)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0.into()
    }
}

/// Why a text is not the name of a node. Places count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// There is no text.
    #[error("node name is empty: write 1 to {} bytes", NodeName::BYTES_MAX)]
    Empty,
    /// More than 255 bytes.
    #[error(
        "node name is {bytes} bytes long: at most {} are allowed, shorten it",
        NodeName::BYTES_MAX
    )]
    TooLong {
        /// How many, before escaping.
        bytes: usize,
    },
    /// A percent sign without two hex digits behind it.
    #[error("'%' at character {at} of a node name starts no escape: write %25 for a percent sign")]
    BadEscape {
        /// Where.
        at: usize,
    },
    /// The escapes stand for bytes that are no text.
    #[error("escapes in node name {} do not make UTF-8: escape its UTF-8 bytes", quoted(.text))]
    NotUtf8 {
        /// The whole text.
        text: String,
    },
}
