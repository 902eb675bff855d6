//! One connection to one member, ready to be used: logged in, and the member is fit to serve.

use std::{
    error::Error,
    io,
    net::{Shutdown, TcpStream as StdStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt, Stream, future::BoxFuture};
use http::Uri;
use hyper::{
    body::Incoming,
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Notify,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tonic::{
    Request, Streaming,
    body::Body,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::{
    target::{Endpoint, Target},
    trouble::{NotSent, Topic, Trouble},
    wire::{self, path},
};
use crate::BoxError;

/// How long it may take until a connection is ready.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long a connection whose first call failed may take to end too.
const FAULT_WITHIN: Duration = Duration::from_millis(100);
/// How long the server may be silent on one attempt.
pub(super) const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// The largest answer that is taken in; scans ask for less when they meet it.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// What may be on its way on one stream. A watch that nobody reads costs no more than that.
const STREAM_WINDOW: u32 = 256 << 10;
/// What may be on its way on a connection: so much that watches that nobody reads do not use it up.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// How long a connection with something to wait for may be quiet. Members close connections that
/// ping more often than every 5 s.
const PING_AFTER: Duration = Duration::from_secs(6);
/// How long a ping may be unanswered.
const PONG_WITHIN: Duration = Duration::from_secs(2);

/// How to get another connection.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) target: Arc<Target>,
    pub(super) tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("target", &self.target).finish_non_exhaustive()
    }
}

/// A connection. It is over when the server says so, or when a caller discards it.
#[derive(Debug)]
pub(super) struct Session {
    client: Grpc<Channel>,
    token: Option<MetadataValue<Ascii>>,
    /// A second handle on the socket, to end whatever waits on the first.
    socket: StdStream,
    over: Arc<Notify>,
    /// Why it ended, if it did by itself.
    fault: Arc<OnceLock<Arc<hyper::Error>>>,
    /// Set by whoever discards it. The connection itself notices its end only a little later, and
    /// must not be given out meanwhile.
    is_discarded: AtomicBool,
    pub(super) status: wire::StatusResponse,
    /// Whether the URL names a user to a cluster that has none.
    pub(super) is_login_ignored: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Connector {
    /// Connects and makes everything ready, within [`CONNECT_MAX`].
    pub(super) async fn session(&self, endpoint: &Endpoint) -> Result<Session, Trouble> {
        let ready = async {
            let not_connected = |source| {
                let endpoint = endpoint.to_string();
                Trouble::NotConnected { endpoint, source }
            };
            let mut session =
                self.connect(endpoint).await.map_err(|source| not_connected(source.into()))?;
            match self.greet(&mut session).await {
                Ok(()) => Ok(session),
                // What a member thinks of our certificate it says after the handshake.
                Err(trouble) => Err(session.fault().await.map_or(trouble, not_connected)),
            }
        };
        let silent = |_| Trouble::Silent { limit: CONNECT_MAX };
        timeout(CONNECT_MAX, ready).await.map_err(silent)?
    }

    /// Logs in, and looks whether the member is fit to serve.
    async fn greet(&self, session: &mut Session) -> Result<(), Trouble> {
        self.log_in(session).await?;
        session.status = session.call(path::STATUS, wire::StatusRequest {}).await?;
        if session.status.leader == 0 {
            return Err(tonic::Status::unavailable("etcdserver: no leader").into());
        }
        Ok(())
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<Session, BoxError> {
        let socket = dial(endpoint).await?.into_std()?;
        let stream = TcpStream::from_std(socket.try_clone()?)?;
        let (stream, scheme): (Box<dyn Wire>, _) = match &self.tls {
            Some(tls) => {
                let name = endpoint.host.clone().try_into()?;
                (Box::new(tls.connect(name, stream).await?), "https")
            }
            None => (Box::new(stream), "http"),
        };
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PONG_WITHIN);
        let (send, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let over = Arc::new(Notify::new());
        let (fault, told) = (Arc::new(OnceLock::new()), Arc::clone(&over));
        let noted = Arc::clone(&fault);
        // It ends with its socket, which its session shuts down at the latest. Its error also
        // reaches those who wait for an answer, but not those whose request was never sent.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // Set once, here.
                drop(noted.set(Arc::new(error)));
            }
            told.notify_one();
        });
        let origin = Uri::builder().scheme(scheme).authority(endpoint.to_string());
        let origin = origin.path_and_query("/").build()?;
        let client =
            Grpc::with_origin(Channel { send }, origin).max_decoding_message_size(ANSWER_BYTES_MAX);
        Ok(Session {
            client,
            token: None,
            socket,
            over,
            fault,
            is_discarded: AtomicBool::new(false),
            status: wire::StatusResponse::default(),
            is_login_ignored: false,
        })
    }

    async fn log_in(&self, session: &mut Session) -> Result<(), Trouble> {
        let Some(login) = &self.target.login else { return Ok(()) };
        let (name, password) = (login.user.clone(), login.password.clone());
        let request = wire::AuthenticateRequest { name, password };
        match session.call::<_, wire::AuthenticateResponse>(path::AUTHENTICATE, request).await {
            Ok(answer) => {
                session.token = Some(answer.token.parse().map_err(|_| Trouble::Nonsense)?);
                Ok(())
            }
            Err(trouble) if trouble.topic() == Topic::NoAuthentication => {
                session.is_login_ignored = true;
                Ok(())
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Whether the endpoint speaks TLS, whatever it shows.
    pub(super) async fn speaks_tls(&self, endpoint: &Endpoint) -> bool {
        let Ok(config) = crate::tls::config(&crate::tls::Trust::Anyone, None) else { return false };
        let greet = async {
            let name = endpoint.host.clone().try_into().map_err(io::Error::other)?;
            TlsConnector::from(Arc::new(config)).connect(name, dial(endpoint).await?).await
        };
        timeout(CONNECT_MAX, greet).await.is_ok_and(|greeted| greeted.is_ok())
    }
}

async fn dial(endpoint: &Endpoint) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((&*endpoint.host, endpoint.port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Session {
    /// Asks once, and waits for the answer, but not for ever. A session that fell silent or leads
    /// nowhere is discarded.
    pub(super) async fn ask<M, A>(&self, path: &'static str, request: M) -> Result<A, Trouble>
    where
        M: Message + Default + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.ask_within(ATTEMPT_MAX, path, request).await
    }

    /// The same, within another time.
    pub(super) async fn ask_within<M, A>(
        &self,
        limit: Duration,
        path: &'static str,
        request: M,
    ) -> Result<A, Trouble>
    where
        M: Message + Default + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let answer = match timeout(limit, self.call(path, request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Trouble::Silent { limit }),
        };
        self.discard_after(&answer);
        answer
    }

    /// Begins a watch; its first answer is not awaited.
    pub(super) async fn watch(
        &self,
        requests: impl Stream<Item = wire::WatchRequest> + Send + 'static,
    ) -> Result<Streaming<wire::WatchResponse>, Trouble> {
        let codec = ProstCodec::<wire::WatchRequest, wire::WatchResponse>::default();
        let mut client = self.client.clone();
        let path = http::uri::PathAndQuery::from_static(path::WATCH);
        let begun = client.streaming(self.request(requests), path, codec);
        let begun = match timeout(ATTEMPT_MAX, begun).await {
            Ok(begun) => begun.map(tonic::Response::into_inner).map_err(Trouble::from),
            Err(_) => Err(Trouble::Silent { limit: ATTEMPT_MAX }),
        };
        self.discard_after(&begun);
        begun
    }

    /// Ends it if its answer shows that it leads nowhere.
    pub(super) fn discard_after<T>(&self, answer: &Result<T, Trouble>) {
        if let Err(trouble) = answer
            && trouble.next() == super::trouble::Next::Elsewhere
        {
            self.discard();
        }
    }

    /// Ends it: whoever still waits on it gets an error, and the next caller another session.
    pub(super) fn discard(&self) {
        self.is_discarded.store(true, Ordering::Release);
        // It may be closed already, which is as good.
        drop(self.socket.shutdown(Shutdown::Both));
        self.over.notify_one();
    }

    /// Whether its member led when it was made.
    pub(super) fn leads(&self) -> bool {
        self.status.header.as_ref().is_some_and(|header| header.member_id == self.status.leader)
    }

    /// Whether it can still be used, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.is_discarded.load(Ordering::Acquire)
    }

    /// Waits until it is over.
    pub(super) async fn over(&self) {
        self.over.notified().await;
    }

    /// What put an end to it by itself, if anything does at this moment.
    async fn fault(&self) -> Option<Arc<dyn Error + Send + Sync>> {
        // A call may fail a moment before its connection is seen to have ended.
        drop(timeout(FAULT_WITHIN, self.over()).await);
        self.fault.get().map(|fault| Arc::clone(fault) as Arc<dyn Error + Send + Sync>)
    }

    async fn call<M, A>(&self, path: &'static str, message: M) -> Result<A, Trouble>
    where
        M: Message + Default + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut client = self.client.clone();
        let path = http::uri::PathAndQuery::from_static(path);
        let answer =
            client.unary(self.request(message), path, ProstCodec::<M, A>::default()).await?;
        Ok(answer.into_inner())
    }

    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        // A member that has lost its leader then says so at once, and ends its watches.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

/// What bytes can be sent over.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// The sending side of a connection. It tells what was never sent from what may have been.
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
        let sent = self.send.try_send_request(request);
        async move {
            sent.await.map_err(|mut error| match error.take_message() {
                Some(_) => NotSent.into(),
                None => error.into_error().into(),
            })
        }
        .boxed()
    }
}
