//! Asks a server: one connection, one call after the other.

use std::{io, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    rest::{BODY_BYTES_MAX, Code, Refused},
    socket::Socket,
};

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How long an answer may take that is no stream.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("no server answers at {server}")]
    Unreachable {
        /// Where one was looked for.
        server: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The server says no.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The connection broke: what was asked for may have been done.
    #[error(
        "the connection to {server} broke before the answer; what was asked for may have been done"
    )]
    Broken {
        /// Who was asked.
        server: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is a connection, and no answer: what was asked for may have been done.
    #[error(
        "{server} has not answered {asked} within {within:?}; what was asked for may have been done"
    )]
    Silent {
        /// Who was asked.
        server: String,
        /// What.
        asked: String,
        /// How long it was waited for.
        within: Duration,
    },
    /// Whoever is there is no server of ours, or much older or newer.
    #[error("{server} answers, but not as a server of Sterna does: {said}")]
    NoServer {
        /// Who was asked.
        server: String,
        /// What it said.
        said: String,
    },
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    server: String,
    token: String,
    /// How long an answer may take.
    within: Duration,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// Lines that a server says, one after the other.
#[derive(Debug)]
pub struct Lines {
    server: String,
    body: Incoming,
    rest: Vec<u8>,
}

impl Client {
    /// Will ask this server, as `HOST:PORT`, and show this token.
    pub fn new(server: impl Into<String>, token: impl Into<String>) -> Self {
        Self { server: server.into(), token: token.into(), within: ANSWER_WITHIN, connection: None }
    }

    /// Who is asked.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Reads something.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        self.call(Method::GET, path, None::<&()>).await
    }

    /// Asks for something.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let (status, body) = match timeout(self.within, self.ask(&method, path, body)).await {
            Ok(answered) => answered?,
            Err(_) => return Err(self.silent(&method, path)),
        };
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| self.no_server(&body));
        }
        Err(self.refused(&body))
    }

    /// An answer, whole.
    async fn ask(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let answer = self.send(method, path, body).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await;
        let body = body.map_err(|source| self.broken(source.into()))?;
        Ok((status, body.to_bytes()))
    }

    /// Asks for lines, which come until the server ends them.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn lines(&mut self, path: &str) -> Result<Lines, ClientError> {
        let answer = timeout(self.within, self.send(&Method::GET, path, None::<&()>)).await;
        let answer = answer.map_err(|_| self.silent(&Method::GET, path))??;
        let is_success = answer.status().is_success();
        let body = answer.into_body();
        if is_success {
            return Ok(Lines { server: self.server.clone(), body, rest: Vec::new() });
        }
        let broken = |source: hyper::Error| self.broken(source.into());
        let body = body.collect().await.map_err(broken)?.to_bytes();
        Err(self.refused(&body))
    }

    async fn send(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Response<Incoming>, ClientError> {
        let body = body.map(serde_json::to_vec).transpose().unwrap_or_default();
        if let Some(body) = &body {
            check_size(body.len())?;
        }
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .header(header::HOST, &self.server)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Full::new(body.unwrap_or_default().into()))
            .map_err(|error| self.broken(error.into()))?;
        let mut connection = match self.connection.take().filter(|it| !it.is_closed()) {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        connection.ready().await.map_err(|error| self.broken(error.into()))?;
        let answer = connection.send_request(request).await;
        self.connection = Some(connection);
        answer.map_err(|error| self.broken(error.into()))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let server = self.server.clone();
        let unreachable = |source| ClientError::Unreachable { server: server.clone(), source };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        let socket = timeout(CONNECT_WITHIN, TcpStream::connect(&self.server)).await;
        let socket = socket.map_err(late).and_then(|socket| socket).map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        let handshake = http1::handshake(TokioIo::new(Socket::new(socket))).await;
        let (send, connection) = handshake.map_err(|error| self.broken(error.into()))?;
        // Its error reaches who waits for an answer.
        tokio::spawn(async move { drop(connection.await) });
        Ok(send)
    }

    /// What comes on this connection now is no answer to what is asked next.
    fn silent(&mut self, method: &Method, path: &str) -> ClientError {
        self.connection = None;
        let (server, asked) = (self.server.clone(), format!("{method} {path}"));
        ClientError::Silent { server, asked, within: self.within }
    }

    fn broken(&self, source: Box<dyn std::error::Error + Send + Sync>) -> ClientError {
        ClientError::Broken { server: self.server.clone(), source }
    }

    fn refused(&self, body: &[u8]) -> ClientError {
        match serde_json::from_slice::<Refused>(body) {
            Ok(refused) => refused.into(),
            Err(_) => self.no_server(body),
        }
    }

    fn no_server(&self, body: &[u8]) -> ClientError {
        let said: String = String::from_utf8_lossy(body).chars().take(200).collect();
        ClientError::NoServer { server: self.server.clone(), said }
    }
}

/// A server that is sent more hangs up in the middle of it: then there may be no answer that says why.
fn check_size(bytes: usize) -> Result<(), Refused> {
    if bytes <= BODY_BYTES_MAX {
        return Ok(());
    }
    let message =
        format!("what is asked takes {bytes} bytes as JSON, and a server takes {BODY_BYTES_MAX}");
    let remedy = "send less at once, such as fewer files with each call; where --prune is to see all of \
                  them, put services into several namespaces";
    Err(Refused { remedy: remedy.into(), ..Refused::new(Code::TooLarge, message) })
}

impl ClientError {
    /// The code of what was refused.
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(refused) => Some(refused.code),
            Self::Unreachable { .. }
            | Self::Broken { .. }
            | Self::Silent { .. }
            | Self::NoServer { .. } => None,
        }
    }
}

impl Lines {
    /// The next line, without its end; `None` when the server has ended them.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            if let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=at).collect();
                line.pop();
                return Ok(Some(line));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    let (server, source) = (self.server.clone(), error.into());
                    return Err(ClientError::Broken { server, source });
                }
                None if self.rest.is_empty() => return Ok(None),
                None => return Ok(Some(std::mem::take(&mut self.rest))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    use super::*;

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future)
    }

    fn put(server: &str, bytes: usize) -> ClientError {
        let body = "x".repeat(bytes);
        let mut client = Client::new(server, "");
        let call = client.call::<serde_json::Value>(Method::POST, "/v1", Some(&body));
        wait(call).unwrap_err()
    }

    #[test]
    fn what_no_server_takes_is_not_sent() {
        let error = put("127.0.0.1:1", BODY_BYTES_MAX - 1);
        assert_eq!(error.code(), Some(Code::TooLarge), "two quotes are too much");
        let said = error.to_string();
        assert!(said.contains("takes 4194305 bytes as JSON, and a server takes 4194304"), "{said}");
        let fits = put("127.0.0.1:1", BODY_BYTES_MAX - 2);
        assert!(matches!(fits, ClientError::Unreachable { .. }), "{fits}");
    }

    /// A server may have answered long before it was sent everything, and hung up.
    #[test]
    fn an_answer_is_read_also_if_not_everything_was_taken() {
        const ROUNDS: usize = 20;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let serving = thread::spawn(move || {
            for mut client in listener.incoming().take(ROUNDS).flatten() {
                // The rest is never read: to close then is to hang up.
                client.read_exact(&mut [0; 64]).unwrap();
                let body = serde_json::to_string(&Refused::new(Code::TooLarge, "less")).unwrap();
                let head = format!("HTTP/1.1 413 no\r\ncontent-length: {}\r\n\r\n", body.len());
                client.write_all((head + &body).as_bytes()).unwrap();
            }
        });
        for round in 0..ROUNDS {
            let error = put(&server, BODY_BYTES_MAX / 2);
            assert_eq!(error.code(), Some(Code::TooLarge), "round {round}: {error:?}");
        }
        serving.join().unwrap();
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for_without_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let mut client = Client::new(&server, "");
        client.within = Duration::from_millis(50);
        wait(async {
            let called = client.get::<serde_json::Value>("/v1/status").await.unwrap_err();
            let followed = client.lines("/v1/events").await.unwrap_err();
            for (error, asked) in [(called, "GET /v1/status"), (followed, "GET /v1/events")] {
                let said = error.to_string();
                assert!(matches!(error, ClientError::Silent { .. }), "{said}");
                assert!(said.contains(&format!("{server} has not answered {asked} within 50ms")));
            }
        });
    }
}
