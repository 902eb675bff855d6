//! How a leader comes to its workers.

use std::{
    convert::Infallible,
    error::Error,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt},
};
use hyper::{body::Body as HttpBody, server::conn::http2::Builder, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sterna_protocol::message::{FromLeader, FromWorker};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tonic::{Request, Response, Status, Streaming, body::Body, server::Grpc};
use tower_service::Service;

use crate::{
    FRAME_BYTES_MAX,
    address::Address,
    client::{PING_AFTER, PONG_WITHIN},
    stream::{Raw, Receiver, Sender, queue},
};

/// The one call.
pub(crate) const OPEN: &str = "/sterna.link.v1.Link/Open";
/// Where a server that does not lead says who does.
pub(crate) const LEADER: &str = "sterna-leader";

/// Whether links are taken here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// This server leads.
    Here,
    /// Another one does, as far as is known; workers are pointed to it.
    Elsewhere(Option<Address>),
}

/// A stream that a worker has opened.
#[derive(Debug)]
pub struct Opened {
    /// To the worker.
    pub sender: Sender<FromLeader>,
    /// From the worker.
    pub receiver: Receiver<FromWorker>,
}

/// The service that takes links, for whoever serves HTTP/2. Clones are the same one.
#[derive(Clone)]
pub struct Links {
    leadership: Arc<dyn Fn() -> Leadership + Send + Sync>,
    opened: mpsc::Sender<Opened>,
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

impl Links {
    /// Asks `leadership` at every call, and gives every stream to `opened`. When that is full, the
    /// worker waits; when nobody reads it any more, it is told to come later.
    pub fn new(
        leadership: impl Fn() -> Leadership + Send + Sync + 'static,
        opened: mpsc::Sender<Opened>,
    ) -> Self {
        Self { leadership: Arc::new(leadership), opened }
    }
}

impl<B> Service<http::Request<B>> for Links
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>> + Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let links = self.clone();
        async move {
            if request.uri().path() != OPEN {
                return Ok(Status::unimplemented("no such call").into_http());
            }
            let mut grpc = Grpc::new(Raw).max_decoding_message_size(FRAME_BYTES_MAX);
            Ok(grpc.streaming(Open(links), request).await)
        }
        .boxed()
    }
}

/// The one call, as tonic wants it.
struct Open(Links);

impl Service<Request<Streaming<Bytes>>> for Open {
    type Response = Response<futures_util::stream::BoxStream<'static, Result<Bytes, Status>>>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let Links { leadership, opened } = self.0.clone();
        async move {
            match leadership() {
                Leadership::Here => {}
                Leadership::Elsewhere(leader) => return Err(elsewhere(leader.as_ref())),
            }
            let (sender, frames) = queue();
            let receiver = Receiver::new(request.into_inner(), None);
            let gone = |_| Status::unavailable("this server is ending");
            opened.send(Opened { sender, receiver }).await.map_err(gone)?;
            Ok(Response::new(frames.map(Ok).boxed()))
        }
        .boxed()
    }
}

fn elsewhere(leader: Option<&Address>) -> Status {
    let mut status = Status::failed_precondition("this server does not lead");
    if let Some(leader) = leader.and_then(|leader| leader.to_string().parse().ok()) {
        status.metadata_mut().insert(LEADER, leader);
    }
    status
}

/// Serves links on one connection until it ends.
///
/// # Errors
/// It broke.
pub async fn serve(
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    links: Links,
) -> Result<(), hyper::Error> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN);
    let service = service_fn(move |request| Service::call(&mut links.clone(), request));
    builder.serve_connection(TokioIo::new(socket), service).await
}
