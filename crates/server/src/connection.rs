//! One connection, until it is over.
//!
//! Invariant: who takes nothing of an answer is hung up on after a while; who reads a stream is not.

use std::{sync::Arc, time::Duration};

use ::http::Request;
use axum::{Router, body::Body};
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::{net::TcpStream, time::timeout};
use tower_service::Service;

use crate::http::Unread;

/// How long a quiet connection of HTTP/2 is left alone.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(10);
/// Who takes nothing of an answer for so long is hung up on: it is in memory until then.
pub(crate) const TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// So much is read ahead, and written for who does not read, on one connection.
const BUFFER_MAX: usize = 64 << 10;
/// So many calls and streams may be open on one connection of HTTP/2.
const STREAMS_MAX: u32 = 100;

/// Answers on a connection until it is over; only once, if it is not kept alive.
pub(crate) async fn answer(
    socket: TcpStream,
    router: Router,
    keeps_alive: bool,
    taken_within: Duration,
) {
    // Without it answers wait for more to come.
    drop(socket.set_nodelay(true));
    // Who says nothing at all is not waited for.
    if timeout(PING_AFTER, socket.peek(&mut [0])).await.is_err() {
        return;
    }
    let unread = Arc::new(Unread::default());
    let here = Arc::clone(&unread);
    let service = service_fn(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Arc::clone(&here));
        router.clone().call(request.map(Body::new))
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PING_AFTER)
        .keep_alive(keeps_alive)
        .max_buf_size(BUFFER_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_AFTER)
        .max_concurrent_streams(STREAMS_MAX);
    tokio::select! {
        // Who hangs up is gone; there is nobody to tell.
        _ = builder.serve_connection(TokioIo::new(socket), service) => {}
        () = unread.is_left(taken_within) => {}
    }
}

#[cfg(test)]
mod tests {
    use hyper::{
        body::Incoming,
        client::conn::http2::{Builder as Http2, SendRequest},
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        sync::watch,
        time::sleep,
    };

    use super::*;
    use crate::{
        bounds::Bounds,
        desk::desk,
        http, links,
        load::Load,
        shared::{Shared, leading},
    };

    const LONG: Duration = Duration::from_secs(30);

    /// A server with room for so many bytes, and how many of its connections are over.
    struct Here {
        shared: Arc<Shared>,
        address: std::net::SocketAddr,
        over: watch::Receiver<usize>,
    }

    async fn here(bytes_max: u64, taken_within: Duration) -> Here {
        let (led, reign, _inbox) = leading();
        let (store, (desk, _)) = (Arc::clone(&led.store), desk());
        let mut shared =
            Shared::new(store, desk, Bounds::default(), "t".to_owned(), "here".to_owned());
        (shared.arriving, shared.leaving) = (Load::new(bytes_max), Load::new(bytes_max));
        shared.stand(crate::shared::Standing::Leads(reign));
        let shared = Arc::new(shared);
        let router = http::router(&shared, links::serve(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ended, over) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (router, ended) = (router.clone(), ended.clone());
                tokio::spawn(async move {
                    answer(socket, router, true, taken_within).await;
                    ended.send_modify(|count| *count += 1);
                });
            }
        });
        Here { shared, address, over }
    }

    impl Here {
        /// Somebody who reads nothing of what it asks for.
        async fn deaf(&self) -> SendRequest<String> {
            let socket = TcpStream::connect(self.address).await.unwrap();
            let mut builder = Http2::new(TokioExecutor::new());
            builder.initial_stream_window_size(0);
            let (send, connection) = builder.handshake(TokioIo::new(socket)).await.unwrap();
            tokio::spawn(connection);
            send
        }

        fn load(&self) -> (u64, u64) {
            let requests = self.shared.counters.requests.load(std::sync::atomic::Ordering::Relaxed);
            (requests, self.shared.leaving.bytes())
        }

        async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
            let so = async {
                while !is_so(self) {
                    sleep(Duration::from_millis(5)).await; // why: connections tell nobody what they have let go
                }
            };
            assert!(timeout(LONG, so).await.is_ok(), "{what}: {:?}", self.load());
        }

        /// A request with so much of a body that is longer, and what is said to it.
        async fn sends(&self, bytes: usize) -> TcpStream {
            let mut socket = TcpStream::connect(self.address).await.unwrap();
            let head = "POST /v1/namespaces/default/plan HTTP/1.1\r\nHost: sterna\r\nAuthorization: \
                        Bearer t\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
            socket.write_all(head.as_bytes()).await.unwrap();
            socket.write_all(&vec![b' '; bytes]).await.unwrap();
            socket
        }
    }

    async fn ask(send: &mut SendRequest<String>, path: &str) -> ::http::Response<Incoming> {
        let request = Request::get(format!("http://sterna{path}"));
        let request = request.header("authorization", "Bearer t").body(String::new()).unwrap();
        timeout(LONG, send.send_request(request)).await.expect("in time").expect("an answer")
    }

    const LARGE: &str = "/openapi.json";

    #[tokio::test]
    async fn an_answer_that_nobody_reads_keeps_its_place_and_counts_by_its_bytes() {
        let bytes = http::description().len() as u64;
        // It is written in fewer bytes than it is committed in.
        let here = here(bytes * 3 / 2, LONG).await;
        let mut client = here.deaf().await;
        let mut answers = vec![ask(&mut client, LARGE).await];
        let (requests, one) = here.load();
        assert_eq!(requests, 1);
        assert!(one > bytes / 3, "{one}");
        while answers.last().is_some_and(|answer| answer.status() == 200) {
            assert!(answers.len() < 10, "nothing bounds them: {:?}", here.load());
            answers.push(ask(&mut client, LARGE).await);
        }
        assert_eq!(answers.last().map(|answer| answer.status().as_u16()), Some(429));
        assert!(here.load().1 <= here.shared.leaving.max, "{:?}", here.load());
        assert_eq!(here.load().0, answers.len() as u64);
        drop((answers, client));
        here.until("all is given back", |here| here.load() == (0, 0)).await;
        // Whoever reads is answered.
        let mut client = here.deaf().await;
        assert_eq!(ask(&mut client, LARGE).await.status(), 200);
    }

    #[tokio::test]
    async fn who_takes_nothing_of_an_answer_is_hung_up_on_and_who_reads_a_stream_is_not() {
        let mut here = here(64 << 20, Duration::from_millis(200)).await;
        let (mut reader, mut client) = (here.deaf().await, here.deaf().await);
        let stream = ask(&mut reader, "/v1/events").await;
        let answer = ask(&mut client, LARGE).await;
        assert_eq!((stream.status().as_u16(), answer.status().as_u16()), (200, 200));
        timeout(LONG, here.over.wait_for(|over| *over == 1)).await.expect("it ends").unwrap();
        here.until("all is given back", |here| here.load() == (0, 0)).await;
        here.until("it is hung up on", |_| client.is_closed()).await;
        assert!(*here.over.borrow() == 1 && !reader.is_closed());
        drop((stream, answer));
    }

    #[tokio::test]
    async fn what_is_sent_beyond_what_may_be_on_its_way_is_refused() {
        let here = here(1_000_000, LONG).await;
        let first = here.sends(600_000).await;
        here.until("it has come", |here| here.shared.arriving.bytes() == 600_000).await;
        let mut second = here.sends(600_000).await;
        let mut head = [0; 12];
        timeout(LONG, second.read_exact(&mut head)).await.expect("in time").expect("an answer");
        assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 429");
        here.until("its own is given back", |here| here.shared.arriving.bytes() == 600_000).await;
        drop(first);
        here.until("all is given back", |here| here.shared.arriving.bytes() == 0).await;
    }
}
