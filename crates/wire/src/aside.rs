//! What is said on a link beside the protocol: questions about logs and their answers. No core hears
//! them, and nothing follows from them.
//!
//! An aside is a message of one field, number 100, and nothing else; no frame begins with that one. Like
//! every frame it names the mandate and the life that it belongs to.

use bytes::Bytes;
use prost::Message;
use sterna_model::Incarnation;
use sterna_protocol::message::{Mandate, VERSION};

use crate::{
    convert::{FieldError, Word as _, part, small},
    frame::{FRAME_BYTES_MAX, FrameError},
    words,
};

/// How every aside begins: field 100, of a given length.
const FIRST: [u8; 2] = [0xa2, 0x06];

/// A question, or the answer to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// The protocol that its sender speaks.
    pub version: u16,
    /// Under which it was asked; repeated by the answer.
    pub mandate: Mandate,
    /// Who is asked, or answers.
    pub incarnation: Incarnation,
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
    #[prost(uint32, tag = "3")]
    version: u32,
    #[prost(message, optional, tag = "4")]
    mandate: Option<words::Mandate>,
    #[prost(message, optional, tag = "5")]
    incarnation: Option<words::Incarnation>,
}

impl Aside {
    /// What the leader of this mandate asks this life of a worker.
    pub const fn question(
        mandate: Mandate,
        incarnation: Incarnation,
        number: u64,
        payload: Bytes,
    ) -> Self {
        Self { version: VERSION, mandate, incarnation, number, payload }
    }

    /// The answer to it: the same, with other words.
    #[must_use]
    pub fn answer(&self, payload: Bytes) -> Self {
        Self { version: VERSION, payload, ..self.clone() }
    }

    /// Whether this is said in this version, under this mandate, to or by this life. What is not is not
    /// heard (safety rule 2).
    pub fn is_of(&self, mandate: &Mandate, incarnation: &Incarnation) -> bool {
        self.version == VERSION && self.mandate == *mandate && self.incarnation == *incarnation
    }

    /// Whether these bytes are an aside.
    pub(crate) fn is_in(bytes: &[u8]) -> bool {
        bytes.starts_with(&FIRST)
    }

    /// In bytes.
    ///
    /// # Errors
    /// It is larger than a link carries.
    pub fn encode(&self) -> Result<Bytes, FrameError> {
        let aside = AsideWord {
            number: self.number,
            payload: self.payload.clone(),
            version: self.version.into(),
            mandate: Some(words::Mandate::of(&self.mandate)),
            incarnation: Some(words::Incarnation::of(&self.incarnation)),
        };
        let bytes = Word { aside: Some(aside) }.encode_to_vec();
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(FrameError::TooLarge { bytes: bytes.len() });
        }
        Ok(bytes.into())
    }

    /// The aside in these bytes.
    ///
    /// # Errors
    /// They are none, or do not say whose it is.
    pub fn decode(bytes: Bytes) -> Result<Self, FrameError> {
        let word = Word::decode(bytes).map_err(FrameError::Garbled)?;
        read(word.aside.unwrap_or_default()).map_err(FrameError::Field)
    }
}

fn read(word: AsideWord) -> Result<Aside, FieldError> {
    Ok(Aside {
        version: small("version", word.version)?,
        mandate: part("mandate", word.mandate)?,
        incarnation: part("incarnation", word.incarnation)?,
        number: word.number,
        payload: word.payload,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aside_that_does_not_say_whose_it_is_is_none() {
        // As it was said before it named anybody: number 7, and "what?".
        let bytes = Bytes::from_static(b"\xa2\x06\x09\x08\x07\x12\x05what?");
        assert!(Aside::is_in(&bytes));
        let error = Aside::decode(bytes).unwrap_err();
        assert!(matches!(&error, FrameError::Field(field) if field.path() == "mandate"));
        assert!(Aside::decode(Bytes::from_static(b"\xa2\x06\x09\x08")).is_err());
    }
}
