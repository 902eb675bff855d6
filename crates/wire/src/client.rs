//! How a worker comes to a leader.

use std::{
    error::Error,
    io,
    net::SocketAddr,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{Uri, uri::PathAndQuery};
use hyper::{
    body::Incoming,
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sterna_protocol::message::{FromLeader, FromWorker};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tonic::{Code, Request, Status, Streaming, body::Body, client::Grpc};
use tower_service::Service;

use crate::{
    FRAME_BYTES_MAX,
    address::Address,
    heard::Heard,
    server::{LEADER, OPEN},
    stream::{Raw, Receiver, Sender, queue},
};

type BoxError = Box<dyn Error + Send + Sync>;

/// How long a connection may be quiet before it is asked whether it still is one.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(10);
/// How long the answer may take.
pub(crate) const PONG_WITHIN: Duration = Duration::from_secs(10);

/// Why no stream was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// Nobody is there, or the way there is broken.
    #[error("{address} cannot be reached")]
    NotReached {
        /// Who was dialled.
        address: Address,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The name leads to another machine, and there is no TLS yet.
    #[error(
        "{address} is not on this machine: links have no TLS yet and stay on loopback; \
         use 127.0.0.1, [::1] or localhost"
    )]
    Remote {
        /// Who was dialled.
        address: Address,
    },
    /// Whoever is there takes no links: it is no server of ours, or much older or newer.
    #[error("{address} answers, but not as a server of Sterna does")]
    NoServer {
        /// Who was dialled.
        address: Address,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// It is a server that does not lead.
    #[error("the server at {address} does not lead")]
    NotLeading {
        /// Who was dialled.
        address: Address,
        /// Who leads, if it knows.
        leader: Option<Address>,
    },
    /// It is there, and says nothing.
    #[error("{address} takes the connection, and then says nothing for {} s", .limit.as_secs())]
    Silent {
        /// Who was dialled.
        address: Address,
        /// How long it was waited for.
        limit: Duration,
    },
}

impl DialError {
    /// Who leads, if whoever was dialled does not and has said who does.
    pub const fn leader(&self) -> Option<&Address> {
        match self {
            Self::NotLeading { leader, .. } => leader.as_ref(),
            Self::NotReached { .. }
            | Self::Remote { .. }
            | Self::NoServer { .. }
            | Self::Silent { .. } => None,
        }
    }
}

/// Opens a stream to a leader, within `limit`, on a connection of its own.
///
/// # Errors
/// [`DialError`].
pub async fn dial(
    address: &Address,
    limit: Duration,
) -> Result<(Sender<FromWorker>, Receiver<FromLeader>), DialError> {
    let silent = |_| DialError::Silent { address: address.clone(), limit };
    timeout(limit, open(address)).await.map_err(silent)?
}

async fn open(address: &Address) -> Result<(Sender<FromWorker>, Receiver<FromLeader>), DialError> {
    let socket = connect(address).await?;
    let no_server = |source: BoxError| DialError::NoServer { address: address.clone(), source };
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN);
    let (socket, first) = Heard::of(socket);
    let handshake = builder.handshake(TokioIo::new(socket)).await;
    let (send, connection) = handshake.map_err(|error| no_server(error.into()))?;
    // It ends with its stream, which aborts it; its error reaches who reads the stream.
    let connection = tokio::spawn(async move { drop(connection.await) });
    let abort = connection.abort_handle();
    let (sender, frames) = queue();
    match begin(address, send, frames).await {
        Ok(opened) => Ok((sender, Receiver::new(opened, Some(abort)))),
        Err(error) => {
            abort.abort();
            Err(if first.is_of_another() { no_server(error.into()) } else { error })
        }
    }
}

async fn connect(address: &Address) -> Result<TcpStream, DialError> {
    let not_reached = |source| DialError::NotReached { address: address.clone(), source };
    let found = lookup_host((address.host(), address.port())).await.map_err(not_reached)?;
    let found: Vec<SocketAddr> = found.collect();
    let ours: Vec<SocketAddr> = found.iter().copied().filter(|at| at.ip().is_loopback()).collect();
    if ours.is_empty() && !found.is_empty() {
        return Err(DialError::Remote { address: address.clone() });
    }
    let socket = TcpStream::connect(&ours[..]).await.map_err(not_reached)?;
    socket.set_nodelay(true).map_err(not_reached)?;
    Ok(socket)
}

async fn begin(
    address: &Address,
    send: SendRequest<Body>,
    frames: impl futures_util::Stream<Item = Bytes> + Send + 'static,
) -> Result<Streaming<Bytes>, DialError> {
    let no_server = |source: BoxError| DialError::NoServer { address: address.clone(), source };
    let origin = Uri::builder().scheme("http").authority(address.to_string()).path_and_query("/");
    let origin = origin.build().map_err(|error| no_server(error.into()))?;
    let mut client = Grpc::with_origin(Channel { send }, origin)
        .max_decoding_message_size(FRAME_BYTES_MAX)
        .max_encoding_message_size(FRAME_BYTES_MAX);
    let path = PathAndQuery::from_static(OPEN);
    match client.streaming(Request::new(frames), path, Raw).await {
        Ok(opened) => Ok(opened.into_inner()),
        Err(status) => Err(refused(address, status)),
    }
}

fn refused(address: &Address, status: Status) -> DialError {
    if status.code() == Code::FailedPrecondition {
        let leader = status.metadata().get(LEADER).and_then(|leader| leader.to_str().ok());
        let leader = leader.and_then(|leader| leader.parse().ok());
        return DialError::NotLeading { address: address.clone(), leader };
    }
    if was_closed(&status) {
        // A server that is going, or is not yet there behind whoever took the connection.
        let source = io::Error::new(io::ErrorKind::ConnectionAborted, "it closed the connection");
        return DialError::NotReached { address: address.clone(), source };
    }
    DialError::NoServer { address: address.clone(), source: status.into() }
}

/// Whether the connection ended before anything was answered.
fn was_closed(status: &Status) -> bool {
    let is_closed = |error: &hyper::Error| {
        error.is_canceled() || error.is_closed() || error.is_incomplete_message()
    };
    causes(status).any(|cause| cause.downcast_ref().is_some_and(is_closed) || is_of_io(cause))
}

/// Whether the way there is to blame, and not what was said on it.
fn is_of_io(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| cause.is::<io::Error>())
}

/// An error, and what it came from.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error: &'a (dyn Error + 'static) = next?;
        next = error.source();
        Some(error)
    })
}

/// The sending side of a connection.
#[derive(Clone, Debug)]
struct Channel {
    send: SendRequest<Body>,
}

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let sent = self.send.send_request(request);
        async move { sent.await.map_err(BoxError::from) }.boxed()
    }
}
