//! Answers that are written as they are read: what comes next is found out when there is room for it.

use std::{convert::Infallible, ops::ControlFlow, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::header;
use tokio::time::timeout;

use crate::shared::{Lead, Shared};

/// A reader of events that hears nothing for so long hears that.
const BEAT: Duration = Duration::from_secs(15);

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

/// Waits for a change, which may never come: then there is something to tell instead, or nothing more.
pub(super) async fn news(
    shared: &Shared,
    reign: &Lead,
    change: impl Future<Output = bool>,
) -> ControlFlow<Option<Bytes>> {
    let news = async {
        tokio::select! {
            biased;
            has_changed = change => has_changed,
            // Another leader tells what comes next.
            () = shared.is_over(reign) => false,
        }
    };
    match timeout(BEAT, news).await {
        Ok(true) => ControlFlow::Continue(()),
        Ok(false) => ControlFlow::Break(None),
        Err(_) => ControlFlow::Break(Some(Bytes::from_static(b": still here\n\n"))),
    }
}

/// The same as a body, as server-sent events.
pub(super) fn events(chunks: impl Chunks) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, body(chunks)).into_response()
}
