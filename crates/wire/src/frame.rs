//! One frame in bytes.

use bytes::Bytes;
use prost::Message;
use sterna_protocol::message::{FromLeader, FromWorker, Order, Saying, VERSION};

use crate::{
    convert::{FieldError, Word},
    words,
};

/// The largest frame. A thousand runs with a page of text each fit in easily; what does not is no
/// message of ours.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Why bytes are no frame, or a message fits into none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It is larger than any frame may be.
    #[error("a frame of {bytes} bytes is larger than the {FRAME_BYTES_MAX} that a link carries")]
    TooLarge {
        /// How large.
        bytes: usize,
    },
    /// The bytes are no protobuf message, or not that of a frame.
    #[error("bytes on the link are no frame")]
    Garbled(#[source] prost::DecodeError),
    /// A field of it is not what it must be.
    #[error("a frame cannot be read")]
    Field(#[source] FieldError),
    /// The other side speaks another version of the protocol, and cannot be understood.
    #[error(
        "the other side speaks version {theirs} of the protocol, and this one {VERSION}: \
         upgrade the older of the two"
    )]
    Version {
        /// What it speaks.
        theirs: u32,
    },
}

/// A message that travels as a frame of its own.
pub trait Frame: sealed::Halves + Send + 'static {
    /// The frame in bytes.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`].
    fn encode(&self) -> Result<Bytes, FrameError>;

    /// The message in these bytes.
    ///
    /// # Errors
    /// They are too many, no frame, or one of another version that cannot be understood.
    fn decode(bytes: &[u8]) -> Result<Self, FrameError>;

    /// The message in as few frames as it fits into, to be sent in this order: lists of runs,
    /// statuses and answers may be cut anywhere. What a worker runs must be said at once, and is
    /// said without statuses then: each of those is sent by itself too, until it is acknowledged.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] when one entry of it is.
    fn encode_all(self) -> Result<Vec<Bytes>, FrameError> {
        match self.encode() {
            Ok(frame) => Ok(vec![frame]),
            Err(error) => match self.halves() {
                Some((first, Some(second))) => {
                    let mut frames = first.encode_all()?;
                    frames.extend(second.encode_all()?);
                    Ok(frames)
                }
                Some((smaller, None)) => smaller.encode_all(),
                None => Err(error),
            },
        }
    }
}

mod sealed {
    /// How a message that is too large is made smaller.
    pub trait Halves: Sized {
        /// Two messages that say the same, or one that says enough; `None` if there is no such.
        fn halves(self) -> Option<(Self, Option<Self>)>;
    }
}

impl Frame for FromWorker {
    fn encode(&self) -> Result<Bytes, FrameError> {
        encode::<Self, words::FromWorker>(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        decode(bytes, |word: &words::FromWorker| word.version)
    }
}

impl Frame for FromLeader {
    fn encode(&self) -> Result<Bytes, FrameError> {
        encode::<Self, words::FromLeader>(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        decode(bytes, |word: &words::FromLeader| word.version)
    }
}

impl sealed::Halves for FromWorker {
    fn halves(self) -> Option<(Self, Option<Self>)> {
        let Self { version, incarnation, mandate, saying } = self;
        let of = |saying| Self { version, incarnation, mandate, saying };
        match saying {
            Saying::Statuses(statuses) => halves(statuses)
                .map(|(one, two)| (of(Saying::Statuses(one)), Some(of(Saying::Statuses(two))))),
            Saying::Answers(answers) => halves(answers)
                .map(|(one, two)| (of(Saying::Answers(one)), Some(of(Saying::Answers(two))))),
            Saying::Running(mut held) => {
                let has_statuses = held.iter().any(|held| held.status.is_some());
                held.iter_mut().for_each(|held| held.status = None);
                has_statuses.then(|| (of(Saying::Running(held)), None))
            }
            Saying::Heartbeat(_) | Saying::Noted(_) => None,
        }
    }
}

impl sealed::Halves for FromLeader {
    fn halves(self) -> Option<(Self, Option<Self>)> {
        let Self { version, mandate, incarnation, order } = self;
        let of = |order| Self { version, mandate, incarnation, order };
        match order {
            Order::Run(runs) => {
                halves(runs).map(|(one, two)| (of(Order::Run(one)), Some(of(Order::Run(two)))))
            }
            Order::Statuses(revision, answers) => {
                let of = |answers| of(Order::Statuses(revision, answers));
                halves(answers).map(|(one, two)| (of(one), Some(of(two))))
            }
            Order::Heartbeat(_)
            | Order::GetRunning
            | Order::NotifyIfNotRunning(..)
            | Order::Kill(..)
            | Order::Die => None,
        }
    }
}

fn halves<T>(mut list: Vec<T>) -> Option<(Vec<T>, Vec<T>)> {
    let second = list.split_off(list.len().div_ceil(2));
    (!second.is_empty()).then_some((list, second))
}

fn encode<T, W: Word<T> + Message>(message: &T) -> Result<Bytes, FrameError> {
    let word = W::of(message);
    let bytes = word.encoded_len();
    if bytes > FRAME_BYTES_MAX {
        return Err(FrameError::TooLarge { bytes });
    }
    Ok(word.encode_to_vec().into())
}

fn decode<T, W>(bytes: &[u8], version: impl FnOnce(&W) -> u32) -> Result<T, FrameError>
where
    W: Word<T> + Message + Default,
{
    if bytes.len() > FRAME_BYTES_MAX {
        return Err(FrameError::TooLarge { bytes: bytes.len() });
    }
    let word = W::decode(bytes).map_err(FrameError::Garbled)?;
    let theirs = version(&word);
    word.read().map_err(|error| {
        // What another version means by its fields is not for us to judge.
        if theirs == u32::from(VERSION) {
            FrameError::Field(error)
        } else {
            FrameError::Version { theirs }
        }
    })
}
