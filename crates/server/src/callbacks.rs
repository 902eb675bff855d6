//! Tells whoever asked for it that a task is over: one POST, taken or not.
//!
//! Invariant: a receiver that hangs keeps others waiting no longer than its share of the calls does. And
//! what waits for it does not wait until it is its turn to wait in vain: when a call is not answered, and
//! none of that host was for a while, that was a try of all of them. So each is taken or given up in its
//! time, however many there are.
//!
//! Invariant: what is called ends with the reign that calls; the next one begins anew.

use std::{
    collections::{BTreeMap, VecDeque},
    error::Error,
    ops::Bound::{Excluded, Unbounded},
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use serde_json::json;
use sterna_engine::control::{Callback, Called};
use sterna_model::{TaskIncarnation, TaskKey};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

/// How long a receiver may take.
const WITHIN: Duration = Duration::from_secs(10);

/// So many are called at once; the others wait, which counts as no try.
const AT_ONCE: usize = 64;
/// So many of those may be calls of one host.
const OF_A_HOST: usize = 8;

type BoxError = Box<dyn Error + Send + Sync>;

/// All callbacks of a reign: dropped with it, none goes on.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// By host. Each task that is over waits here once at most, so their number is bounded with that of
    /// tasks.
    waiting: BTreeMap<String, VecDeque<Callback>>,
    /// One token for each host that is being called, shared by its calls.
    under_way: BTreeMap<String, Arc<()>>,
    calls: JoinSet<Ended>,
    /// Who failed with another that was not answered, and is to be told of.
    failed: VecDeque<(TaskKey, TaskIncarnation)>,
    /// When a host has answered last, if that is not long ago.
    answered: BTreeMap<String, Instant>,
    /// Whose turn was last.
    last: String,
}

/// A call that is over.
#[derive(Debug)]
struct Ended {
    host: String,
    key: TaskKey,
    incarnation: TaskIncarnation,
    how: How,
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Taken,
    Refused,
    /// Nobody answered in time.
    Unanswered,
}

impl Calls {
    /// Calls as soon as it is its turn.
    pub(crate) fn add(&mut self, callback: Callback) {
        self.waiting.entry(host_of(&callback)).or_default().push_back(callback);
        self.fill();
    }

    /// How the next call ended; waits for ever if there is none. May be dropped, and asked for again.
    pub(crate) async fn next(&mut self) -> (TaskKey, TaskIncarnation, Called) {
        loop {
            if let Some((key, incarnation)) = self.failed.pop_front() {
                return (key, incarnation, Called::NotTaken);
            }
            match self.calls.join_next().await {
                Some(Ok(ended)) => return self.end(ended),
                // It panicked.
                Some(Err(_)) => self.fill(),
                None => std::future::pending().await,
            }
        }
    }

    /// How those calls ended that are over by now, some at a time.
    pub(crate) fn ended(&mut self) -> Vec<(TaskKey, TaskIncarnation, Called)> {
        let failed = self.failed.drain(..self.failed.len().min(AT_ONCE));
        let mut all: Vec<_> =
            failed.map(|(key, incarnation)| (key, incarnation, Called::NotTaken)).collect();
        while let Some(ended) = self.calls.try_join_next() {
            all.extend(ended.ok().map(|ended| self.end(ended)));
        }
        all
    }

    fn end(&mut self, ended: Ended) -> (TaskKey, TaskIncarnation, Called) {
        let Ended { host, key, incarnation, how } = ended;
        self.note(host, how);
        self.fill();
        let called = if how == How::Taken { Called::Taken } else { Called::NotTaken };
        (key, incarnation, called)
    }

    /// A host has answered, or has not: then neither would it answer those who wait for it.
    fn note(&mut self, host: String, how: How) {
        let now = Instant::now();
        self.answered.retain(|_, at| now.duration_since(*at) < WITHIN);
        match how {
            How::Taken | How::Refused => {
                self.answered.insert(host, now);
            }
            How::Unanswered if self.answered.contains_key(&host) => {}
            How::Unanswered => {
                let all = self.waiting.remove(&host).unwrap_or_default();
                self.failed.extend(all.into_iter().map(|it| (it.key, it.incarnation)));
            }
        }
    }

    /// Begins what may begin: the hosts have turns.
    fn fill(&mut self) {
        self.under_way.retain(|_, token| Arc::strong_count(token) > 1);
        while self.calls.len() < AT_ONCE
            && let Some(host) = self.turn()
        {
            let Some(all) = self.waiting.get_mut(&host) else { return };
            let callback = all.pop_front();
            if all.is_empty() {
                self.waiting.remove(&host);
            }
            let Some(callback) = callback else { return };
            let token = Arc::clone(self.under_way.entry(host.clone()).or_default());
            self.last.clone_from(&host);
            let (key, incarnation) = (callback.key.clone(), callback.incarnation);
            self.calls.spawn(async move {
                // By itself: one that panics was not taken, and is tried again.
                let mut alone = JoinSet::new();
                alone.spawn(async move { call(&callback).await });
                let how = alone.join_next().await.and_then(Result::ok).unwrap_or(How::Refused);
                drop(token);
                Ended { host, key, incarnation, how }
            });
        }
    }

    /// The next host that waits and may be called. Few are passed over: so many calls of one are under way
    /// that no more than some can be.
    fn turn(&self) -> Option<String> {
        let after = self.waiting.range::<str, _>((Excluded(self.last.as_str()), Unbounded));
        let mut all = after.chain(&self.waiting).map(|(host, _)| host);
        let is_free = |host: &&String| {
            // One of them is kept here.
            self.under_way.get(*host).is_none_or(|it| Arc::strong_count(it) <= OF_A_HOST)
        };
        all.find(is_free).cloned()
    }
}

/// Who answers for a callback, or hangs: its host with its port.
fn host_of(callback: &Callback) -> String {
    let Ok(url) = callback.url.parse::<Uri>() else { return String::new() };
    let host = url.host().unwrap_or_default().to_ascii_lowercase();
    format!("{host}:{}", port_of(&url))
}

fn port_of(url: &Uri) -> u16 {
    let is_secret = url.scheme() == Some(&http::uri::Scheme::HTTPS);
    url.port_u16().unwrap_or(if is_secret { 443 } else { 80 })
}

/// Calls, and says whether it was taken: only by an answer of 200 to 299. One that leads elsewhere is
/// not followed, and one that refuses may be mended until the next try.
async fn call(callback: &Callback) -> How {
    match timeout(WITHIN, post(callback, system_roots)).await {
        Ok(Ok(true)) => How::Taken,
        Ok(Ok(false) | Err(_)) => How::Refused,
        Err(_) => How::Unanswered,
    }
}

async fn post(
    callback: &Callback,
    roots: impl FnOnce() -> RootCertStore,
) -> Result<bool, BoxError> {
    let url: Uri = callback.url.parse()?;
    let host = url.host().ok_or("a callback without a host")?;
    let is_secret = url.scheme() == Some(&http::uri::Scheme::HTTPS);
    let port = port_of(&url);
    // An address of six parts stands in brackets in a URL, and nowhere else.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((host, port)).await?;
    if !is_secret {
        return exchange(callback, &url, socket).await;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots())
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned())?;
    let socket = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
    exchange(callback, &url, socket).await
}

/// Whom this system believes. One damaged certificate among many is no reason to trust none.
fn system_roots() -> RootCertStore {
    static ROOTS: LazyLock<RootCertStore> = LazyLock::new(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    });
    ROOTS.clone()
}

async fn exchange(
    callback: &Callback,
    url: &Uri,
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<bool, BoxError> {
    let (mut send, connection) = http1::handshake(TokioIo::new(socket)).await?;
    // It ends with its one request, and with who waits for that; its error reaches whoever does.
    let mut connections = JoinSet::new();
    connections.spawn(async move { drop(connection.await) });
    let body = json!({
        "key": callback.key.to_string(),
        "incarnation": callback.incarnation.to_string(),
        "end": crate::views::end_view(&callback.end),
    });
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let request = Request::post(path)
        .header(header::HOST, url.authority().map_or("", http::uri::Authority::as_str))
        .header(header::CONTENT_TYPE, "application/json")
        // With the same key it is the same call.
        // Clients draw incarnations, and may draw one for two names.
        .header("idempotency-key", format!("{} {}", callback.key, callback.incarnation))
        .body(Full::new(Bytes::from(body.to_string())))?;
    Ok(send.send_request(request).await?.status().is_success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ServerConfig, pki_types::PrivateKeyDer};
    use sterna_model::{TaskIncarnation, WallTime, record::TaskEnd};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };
    use tokio_rustls::TlsAcceptor;

    fn callback(url: String) -> Callback {
        Callback {
            key: "default/task/build".parse().unwrap(),
            incarnation: TaskIncarnation::from_parts(WallTime::EPOCH, [1; 10]),
            url: url.into(),
            end: TaskEnd::Cancelled,
        }
    }

    /// Answers one request with this status; gives what was asked.
    async fn answer(mut socket: impl AsyncRead + AsyncWrite + Unpin, status: &str) -> String {
        let mut said = vec![0; 4096];
        let count = socket.read(&mut said).await.unwrap();
        said.truncate(count);
        let answer = format!("HTTP/1.1 {status}\r\nlocation: /\r\ncontent-length: 0\r\n\r\n");
        socket.write_all(answer.as_bytes()).await.unwrap();
        socket.flush().await.unwrap();
        String::from_utf8(said).unwrap()
    }

    #[tokio::test]
    async fn only_a_success_takes_a_callback() {
        let cases = [
            ("200 OK", true),
            ("204 No Content", true),
            ("301 Moved Permanently", false),
            ("302 Found", false),
            ("400 Bad Request", false),
            ("404 Not Found", false),
            ("410 Gone", false),
            ("500 Internal Server Error", false),
        ];
        for (status, is_taken) in cases {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/done", listener.local_addr().unwrap());
            let receiver = async {
                let (socket, _) = listener.accept().await.unwrap();
                answer(socket, status).await
            };
            let callback = callback(url);
            let (taken, said) = tokio::join!(call(&callback), receiver);
            assert_eq!(taken == How::Taken, is_taken, "{status}");
            assert!(said.starts_with("POST /done HTTP/1.1"), "{said}");
            let key = format!("idempotency-key: {} {}\r\n", callback.key, callback.incarnation);
            assert!(said.contains(&key), "{said}");
        }
    }

    /// They waited for a receiver that hangs, all of them.
    #[tokio::test]
    async fn one_host_is_called_so_often_at_once_and_others_have_their_turn() {
        let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let healthy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = |of: &TcpListener| format!("http://{}/done", of.local_addr().unwrap());
        let mut calls = Calls::default();
        for _ in 0..AT_ONCE * 2 {
            calls.add(callback(url(&hanging)));
        }
        assert_eq!(calls.calls.len(), OF_A_HOST);
        calls.add(callback(url(&healthy)));
        assert_eq!(calls.calls.len(), OF_A_HOST + 1);
        let receiver = async {
            let (socket, _) = healthy.accept().await.unwrap();
            answer(socket, "200 OK").await
        };
        let ((_, _, called), _) = tokio::join!(calls.next(), receiver);
        assert_eq!(called, Called::Taken);
        // With the reign its calls are over, and none of them is told to the next.
        let (mut socket, _) = hanging.accept().await.unwrap();
        drop(calls);
        let mut said = Vec::new();
        timeout(WITHIN / 2, socket.read_to_end(&mut said)).await.expect("it is hung up").unwrap();
    }

    /// Each of them waited for its turn to wait in vain: of a thousand the last was given up after hours.
    #[tokio::test]
    async fn when_a_host_does_not_answer_that_was_a_try_of_all_who_wait_for_it() {
        let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/done", hanging.local_addr().unwrap());
        let (mut calls, many) = (Calls::default(), OF_A_HOST * 50);
        for _ in 0..many {
            calls.add(callback(url.clone()));
        }
        let host = host_of(&callback(url));
        calls.note(host.clone(), How::Refused);
        calls.note(host.clone(), How::Unanswered);
        assert!(calls.failed.is_empty(), "one that answers others is only slow");
        calls.answered.clear();
        calls.note(host, How::Unanswered);
        for _ in OF_A_HOST..many {
            let (_, _, called) = timeout(WITHIN / 2, calls.next()).await.expect("at once");
            assert_eq!(called, Called::NotTaken);
        }
        assert_eq!((calls.waiting.len(), calls.calls.len()), (0, OF_A_HOST));
    }

    #[test]
    fn a_host_is_the_same_whoever_asks_it_and_however_it_is_written() {
        let hosts = ["http://a@Here/x", "http://here:80/y", "http://b:c@here"].map(|url| {
            let url = url.to_owned();
            host_of(&callback(url))
        });
        assert_eq!(hosts, ["here:80"; 3]);
    }

    /// There is no more at once than there may be, whoever is called, and who was called last waits.
    #[tokio::test]
    async fn all_hosts_together_have_a_bound_and_take_turns() {
        let mut calls = Calls::default();
        for host in 0..AT_ONCE + 3 {
            for _ in 0..2 {
                calls.add(callback(format!("http://127.0.0.1:{}/", host + 1)));
            }
        }
        assert_eq!(calls.calls.len(), AT_ONCE);
        let left: usize = calls.waiting.values().map(VecDeque::len).sum();
        assert_eq!(left, AT_ONCE + 6);
    }

    #[tokio::test]
    async fn nobody_there_takes_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        assert_eq!(call(&callback(url)).await, How::Refused);
    }

    #[tokio::test]
    async fn an_https_address_is_told_over_tls_and_only_to_whom_it_belongs() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let mut trusted = RootCertStore::empty();
        trusted.add(made.cert.der().clone()).unwrap();
        for (roots, is_taken) in [(trusted, true), (RootCertStore::empty(), false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let receiver = async {
                let (socket, _) = listener.accept().await.unwrap();
                if let Ok(socket) = acceptor.accept(socket).await {
                    answer(socket, "200 OK").await;
                }
            };
            let callback = callback(format!("https://localhost:{port}/done"));
            let (taken, ()) = tokio::join!(post(&callback, || roots), receiver);
            assert_eq!(taken.unwrap_or(false), is_taken);
        }
    }
}
