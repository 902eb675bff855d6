//! Answers that are not read yet: each keeps its place, and counts by its bytes, until they are written or
//! dropped.
//!
//! Invariant: no byte of an answer is in memory that is not counted. A piece may be in the queue of its
//! connection long after the body that it is of has ended.
//!
//! It does not know streams: those hold no more than a piece, and have a seat.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, ready},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::{
    sync::Notify,
    time::{Duration, Instant, sleep_until},
};

use super::Place;
use crate::load::Weight;

/// So much of an answer is written at once: this is how it is noticed that somebody reads it.
const PIECE: usize = 64 << 10;

/// Answers on one connection.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    answers: Mutex<Vec<Weak<Kept>>>,
    came: Notify,
}

impl Unread {
    /// Waits until nothing was taken of an answer for so long.
    pub(crate) async fn is_left(&self, within: Duration) {
        loop {
            let longest = {
                let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.iter().filter_map(Weak::upgrade).map(|answer| answer.taken()).min()
            };
            match longest.map(|taken| taken + within) {
                None => self.came.notified().await,
                Some(until) if until <= Instant::now() => return,
                Some(until) => sleep_until(until).await,
            }
        }
    }

    fn add(&self, answer: &Arc<Kept>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // No more are left than there are streams on a connection.
        answers.retain(|answer| answer.strong_count() > 0);
        answers.push(Arc::downgrade(answer));
        self.came.notify_one();
    }
}

/// What an answer keeps until it is written.
struct Kept {
    _place: Option<Place>,
    _weight: Weight,
    /// When the last piece of it was taken.
    taken: Mutex<Instant>,
}

impl Kept {
    fn taken(&self) -> Instant {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body that keeps these, on this connection, until the last of it is written or dropped.
pub(super) fn kept(
    body: Body,
    place: Option<Place>,
    weight: Weight,
    unread: Option<&Arc<Unread>>,
) -> Body {
    let taken = Mutex::new(Instant::now());
    let kept = Arc::new(Kept { _place: place, _weight: weight, taken });
    if let Some(unread) = unread {
        unread.add(&kept);
    }
    Body::new(Pieces { body, rest: Bytes::new(), kept })
}

/// A body, piece by piece.
struct Pieces {
    body: Body,
    /// What has come of it and is not given yet.
    rest: Bytes,
    kept: Arc<Kept>,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => this.rest = bytes,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        *this.kept.taken.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let bytes = this.rest.split_to(this.rest.len().min(PIECE));
        let piece = Piece { bytes, _kept: Arc::clone(&this.kept) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut all = SizeHint::new();
        all.set_lower(rest.saturating_add(body.lower()));
        if let Some(upper) = body.upper() {
            all.set_upper(rest.saturating_add(upper));
        }
        all
    }
}

/// Some bytes of an answer, wherever they are.
struct Piece {
    bytes: Bytes,
    _kept: Arc<Kept>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
