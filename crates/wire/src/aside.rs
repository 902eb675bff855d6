//! What is said on a link beside the protocol: questions about logs and their answers. No core hears
//! them, and nothing follows from them.
//!
//! An aside is a message of one field, number 100, and nothing else; no frame begins with that one.

use bytes::Bytes;
use prost::Message;

use crate::frame::{FRAME_BYTES_MAX, FrameError};

/// How every aside begins: field 100, of a given length.
const FIRST: [u8; 2] = [0xa2, 0x06];

/// A question, or the answer to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Drawn by who asks, and repeated by the answer.
    pub number: u64,
    /// What is asked or answered, in the words of those who do.
    pub payload: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Word {
    #[prost(message, optional, tag = "100")]
    aside: Option<AsideWord>,
}

#[derive(Clone, PartialEq, Message)]
struct AsideWord {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(bytes = "bytes", tag = "2")]
    payload: Bytes,
}

impl Aside {
    /// Whether these bytes are an aside.
    pub(crate) fn is_in(bytes: &[u8]) -> bool {
        bytes.starts_with(&FIRST)
    }

    /// In bytes.
    ///
    /// # Errors
    /// It is larger than a link carries.
    pub fn encode(&self) -> Result<Bytes, FrameError> {
        let aside = AsideWord { number: self.number, payload: self.payload.clone() };
        let bytes = Word { aside: Some(aside) }.encode_to_vec();
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(FrameError::TooLarge { bytes: bytes.len() });
        }
        Ok(bytes.into())
    }

    /// The aside in these bytes.
    ///
    /// # Errors
    /// They are none.
    pub fn decode(bytes: Bytes) -> Result<Self, FrameError> {
        let word = Word::decode(bytes).map_err(FrameError::Garbled)?;
        let AsideWord { number, payload } = word.aside.unwrap_or_default();
        Ok(Self { number, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aside_is_in_exactly_these_bytes() {
        let aside = Aside { number: 7, payload: Bytes::from_static(b"what?") };
        let bytes = aside.encode().unwrap();
        assert_eq!(&bytes[..], b"\xa2\x06\x09\x08\x07\x12\x05what?");
        assert!(Aside::is_in(&bytes));
        assert_eq!(Aside::decode(bytes).unwrap(), aside);
    }

    #[test]
    fn an_aside_that_says_nothing_is_still_one() {
        let aside = Aside { number: 0, payload: Bytes::new() };
        let bytes = aside.encode().unwrap();
        assert!(Aside::is_in(&bytes));
        assert_eq!(Aside::decode(bytes).unwrap(), aside);
        assert!(Aside::decode(Bytes::from_static(b"\xa2\x06\x09\x08")).is_err());
    }
}
