//! The two ends of a stream.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::{Buf, BufMut, Bytes};
use futures_util::Stream;
use tokio::{sync::mpsc, task::AbortHandle};
use tonic::{
    Status, Streaming,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::{
    aside::Aside,
    frame::{Frame, FrameError},
};

/// Frames that may wait to be sent.
const WAITING_MAX: usize = 8_192;
/// Bytes that may wait to be sent; one frame always may.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Where frames of one side are sent. Its stream ends for the other side when it is dropped.
#[derive(Debug)]
pub struct Sender<F> {
    queue: mpsc::Sender<Bytes>,
    waiting: Arc<AtomicUsize>,
    frames: PhantomData<fn(F)>,
}

/// Why a frame was not sent. After [`SendError::Over`] nothing more can be, and the stream must be
/// given up: the other side may have missed something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// It cannot be said on a link; the stream is as well as before.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream is broken, or the other side takes nothing.
    #[error("the stream is over, or takes nothing any more")]
    Over,
}

impl<F: Frame> Sender<F> {
    /// Sends a message, in several frames if it must be, without waiting for anybody.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&self, message: F) -> Result<(), SendError> {
        message.encode_all()?.into_iter().try_for_each(|frame| self.put(frame))
    }

    /// Sends an aside, without waiting for anybody.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn aside(&self, aside: &Aside) -> Result<(), SendError> {
        self.put(aside.encode()?)
    }

    fn put(&self, frame: Bytes) -> Result<(), SendError> {
        let bytes = frame.len();
        let before = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        // Full: who does not take what is sent will not take this either.
        let has_room = before == 0 || before + bytes <= WAITING_BYTES_MAX;
        if !has_room || self.queue.try_send(frame).is_err() {
            return Err(SendError::Over);
        }
        Ok(())
    }
}

/// What a [`Sender`] sends, for the transport.
pub(crate) fn queue<F>() -> (Sender<F>, impl Stream<Item = Bytes> + Send + 'static) {
    let (queue, frames) = mpsc::channel(WAITING_MAX);
    let waiting = Arc::new(AtomicUsize::new(0));
    let taken = Arc::clone(&waiting);
    let stream = futures_util::stream::unfold((frames, taken), |(mut frames, taken)| async {
        let frame: Bytes = frames.recv().await?;
        taken.fetch_sub(frame.len(), Ordering::Relaxed);
        Some((frame, (frames, taken)))
    });
    (Sender { queue, waiting, frames: PhantomData }, stream)
}

/// Where frames of the other side arrive. Dropped, it hangs up.
#[derive(Debug)]
pub struct Receiver<F> {
    frames: Streaming<Bytes>,
    /// At the side that dialled: the connection, which is for this stream alone.
    connection: Option<AbortHandle>,
    kind: PhantomData<fn() -> F>,
}

/// What arrives on a stream.
#[derive(Debug)]
pub enum Arrived<F> {
    /// A message of the protocol.
    Message(F),
    /// Something beside it.
    Aside(Aside),
}

/// Why nothing more arrives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// What arrived cannot be read: the stream must be given up.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream broke, or the other side ended it with an error.
    #[error("the stream broke: {}", .0.message())]
    Broken(Box<Status>),
}

impl<F: Frame> Receiver<F> {
    pub(crate) const fn new(frames: Streaming<Bytes>, connection: Option<AbortHandle>) -> Self {
        Self { frames, connection, kind: PhantomData }
    }

    /// What arrives next; `None` when the other side has ended the stream.
    ///
    /// It may be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// [`StreamError`]; nothing more arrives after it.
    pub async fn arrive(&mut self) -> Result<Option<Arrived<F>>, StreamError> {
        loop {
            let frame = self.frames.message().await;
            match frame.map_err(|status| StreamError::Broken(Box::new(status)))? {
                Some(bytes) if Aside::is_in(&bytes) => {
                    // Nothing follows from an aside: one that cannot be read is no reason to part.
                    if let Ok(aside) = Aside::decode(bytes) {
                        return Ok(Some(Arrived::Aside(aside)));
                    }
                }
                Some(bytes) => return Ok(Some(Arrived::Message(F::decode(&bytes)?))),
                None => return Ok(None),
            }
        }
    }

    /// The next message, for those who hear no asides; `None` when the other side has ended the
    /// stream.
    ///
    /// # Errors
    /// [`StreamError`]; nothing more arrives after it.
    pub async fn next(&mut self) -> Result<Option<F>, StreamError> {
        loop {
            match self.arrive().await? {
                Some(Arrived::Message(message)) => return Ok(Some(message)),
                Some(Arrived::Aside(_)) => {}
                None => return Ok(None),
            }
        }
    }
}

impl<F> Drop for Receiver<F> {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.abort();
        }
    }
}

/// Frames are made and read at the ends of a stream; here they are bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, frame: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(frame);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
