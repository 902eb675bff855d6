//! A stretch of network that cuts connections and holds bytes back, to order.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sterna_store::conformance::Rng;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

/// How late, when it is slow: less than any attempt waits.
const LATE_BY: Duration = Duration::from_secs(1);

/// What befalls the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// They arrive.
    Fair,
    /// None arrives any more, and no connection ends; what was held back arrives when it is fair,
    /// even if whoever sent it is gone by then.
    Silent,
    /// As `Silent`, from the moment when a marked commit has gone through.
    SilentAfterCommit,
    /// As `Silent`, from the moment before a marked commit would have gone through, which is lost.
    SilentBeforeCommit,
    /// Each piece of an answer arrives late.
    Slow,
    /// Every connection is cut after a random number of pieces, in the middle of whatever it does.
    Cutting,
}

/// The proxy; it ends when it is dropped.
pub(crate) struct Proxy {
    address: String,
    weather: Arc<watch::Sender<Weather>>,
    /// Whether a marked commit was met while one was waited for.
    met: Arc<AtomicBool>,
    _tasks: JoinSet<()>,
}

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Proxy {
    /// Stands before the server at this address. Bytes with this mark in them are of a commit.
    pub(crate) async fn before(server: &str, mark: &'static str, seed: u64) -> Self {
        Self::before_other(server, mark, seed, Vec::new()).await
    }

    /// Stands before the server at this address and lets it seem another one: it says the second of
    /// each two wherever it said the first, which is as long.
    pub(crate) async fn before_other(
        server: &str,
        mark: &'static str,
        seed: u64,
        said: Vec<[Vec<u8>; 2]>,
    ) -> Self {
        let said = Arc::new(said);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let weather = Arc::new(watch::channel(Weather::Fair).0);
        let met = Arc::new(AtomicBool::new(false));
        let rng = Arc::new(Mutex::new(Rng::new(seed)));
        let mut tasks = JoinSet::new();
        let (server, sky, seen) = (server.to_owned(), Arc::clone(&weather), Arc::clone(&met));
        tasks.spawn(async move {
            // Dropped with this task, and so are the connections.
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                // A server that is down cuts whoever comes to it.
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let pieces = 50 + rng.lock().unwrap().below(400);
                let (weather, met, said) = (Arc::clone(&sky), Arc::clone(&seen), Arc::clone(&said));
                connections.spawn(carry(client, server, Lane { mark, weather, met, said }, pieces));
            }
        });
        Self { address, weather, met, _tasks: tasks }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Changes the weather from now on.
    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// Whether a marked commit was met while one was waited for.
    pub(crate) fn has_met_commit(&self) -> bool {
        self.met.load(Ordering::SeqCst)
    }
}

/// Both ways of one connection; when one ends, so does the other.
async fn carry(client: TcpStream, server: TcpStream, lane: Lane, pieces: u64) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = lane.carry(Way::ToServer, from_client, to_server, pieces) => {}
        () = lane.carry(Way::ToClient, from_server, to_client, pieces) => {}
    }
}

struct Lane {
    mark: &'static str,
    weather: Arc<watch::Sender<Weather>>,
    met: Arc<AtomicBool>,
    said: Arc<Vec<[Vec<u8>; 2]>>,
}

impl Lane {
    async fn carry(&self, way: Way, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, pieces: u64) {
        let mut sky = self.weather.subscribe();
        let mut piece = vec![0; 16 << 10];
        let mut is_late = false;
        for count in 0_u64.. {
            let Ok(length @ 1..) = from.read(&mut piece).await else {
                if is_late && way == Way::ToServer {
                    // The server finds out by its answer that nobody waits for it.
                    return std::future::pending().await;
                }
                return;
            };
            let mark = self.mark.as_bytes();
            let is_commit = way == Way::ToServer
                && piece[..length].windows(mark.len()).any(|part| part == mark);
            let weather = *sky.borrow();
            match weather {
                Weather::Cutting if count >= pieces => return,
                // This connection never hears of fair weather again: what it lost is lost.
                Weather::SilentBeforeCommit if is_commit => {
                    self.met.store(true, Ordering::SeqCst);
                    self.weather.send_replace(Weather::Silent);
                    return std::future::pending().await;
                }
                Weather::SilentAfterCommit if is_commit => {
                    self.met.store(true, Ordering::SeqCst);
                    self.weather.send_replace(Weather::Silent);
                }
                Weather::Silent => {
                    if sky.wait_for(|weather| *weather == Weather::Fair).await.is_err() {
                        return;
                    }
                    is_late = true;
                }
                Weather::Slow if way == Way::ToClient => {
                    tokio::time::sleep(LATE_BY).await; // why: a network that takes its time
                }
                Weather::Fair
                | Weather::Slow
                | Weather::Cutting
                | Weather::SilentBeforeCommit
                | Weather::SilentAfterCommit => {}
            }
            if way == Way::ToClient {
                self.said.iter().for_each(|[from, to]| replace(&mut piece[..length], from, to));
            }
            if to.write_all(&piece[..length]).await.is_err() {
                return;
            }
        }
    }
}

/// Puts `to` wherever `from` stands, which is as long.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    for at in 0..=bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
    }
}
