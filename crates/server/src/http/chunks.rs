//! Answers that are written as they are read: what comes next is found out when there is room for it.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::header;
use tokio::time::{Instant, timeout_at};

use crate::shared::{Lead, Shared};

/// A reader of events that hears nothing for so long hears that.
pub(super) const BEAT: Duration = Duration::from_secs(15);

/// Who tells something piece by piece.
pub(super) trait Chunks: Send + 'static {
    /// What is written next; `None` when nothing more will be.
    fn chunk(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// Everything that is told, as it comes.
pub(super) fn body(chunks: impl Chunks) -> Body {
    Body::from_stream(stream::unfold(chunks, |mut chunks| async move {
        let chunk = chunks.chunk().await?;
        Some((Ok::<_, Infallible>(chunk), chunks))
    }))
}

/// What a reader that waits for a change hears.
pub(super) enum News {
    /// There may be something to tell.
    Changed,
    /// Nothing until then: that is to be told instead.
    Nothing,
    /// Nothing more will come.
    Over,
}

/// Waits for a change, which may never come, until then.
pub(super) async fn news(
    shared: &Shared,
    reign: &Lead,
    until: Instant,
    change: impl Future<Output = bool>,
) -> News {
    let news = async {
        tokio::select! {
            biased;
            has_changed = change => has_changed,
            // Another leader tells what comes next.
            () = shared.is_over(reign) => false,
        }
    };
    match timeout_at(until, news).await {
        Ok(true) => News::Changed,
        Ok(false) => News::Over,
        Err(_) => News::Nothing,
    }
}

/// The same as a body, as server-sent events.
pub(super) fn events(chunks: impl Chunks) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, body(chunks)).into_response()
}
