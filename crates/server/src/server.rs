//! A server, from its start to its end.

use std::{
    io,
    net::{SocketAddr, TcpListener as Listener},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::Router;
use sterna_engine::{auction::Rules, control::Retention};
use sterna_model::{BootTime, ClusterId, Marks, Position, Span};
use sterna_store::{
    Store,
    cluster::{self, ClusterError, Seen},
    leader::{Candidate, LEASE_KEY, Lease, Timing},
    machine::{boot_time, random, wall_time, write_id},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    because,
    bounds::{Bounds, Files},
    connection::{PING_AFTER, TAKEN_WITHIN, answer},
    desk::{Inbox, desk},
    http, links,
    reign::{self, Ended, Outlets, ReignError},
    seen::{self, SeenError},
    shared::{Shared, Standing},
    token::{self, TokenError},
};

/// How often a follower looks who leads, and a leader that could not begin tries again.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A reign that was shorter than this may have ended for a reason that is still there.
const SHORT: Span = Span::from_secs(5);

/// What a server is started with.
pub struct Config {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Where to listen; on this machine only.
    pub listen: SocketAddr,
    /// Where this server keeps its token, and what it has seen of the store.
    pub data: PathBuf,
    /// Where the token is that clients must show; in `data`, and made there, if nothing is said. Servers
    /// of one cluster must have the same.
    pub token_file: Option<PathBuf>,
    /// Whether a cluster is made if the store is empty and none was seen.
    pub makes_cluster: bool,
    /// How long what is over is kept, while this server leads.
    pub retention: Retention,
    /// How much there may be at a time, while this server leads.
    pub bounds: Bounds,
    /// By what this server places, while it leads. Servers of one cluster must have the same.
    pub rules: Rules,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// It would be heard by others.
    #[error(
        "{address} is not on this machine: there is no TLS yet, so a server listens on loopback only; \
         use 127.0.0.1 or [::1]"
    )]
    Remote {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// It cannot listen there.
    #[error("cannot listen on {address}: choose another port, or end what listens there")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its own files.
    #[error(transparent)]
    Seen(#[from] SeenError),
    /// Its own files.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The store, or what stands in it.
    #[error(transparent)]
    Reign(#[from] ReignError),
    /// Its own directory.
    #[error("cannot make the directory {}", path.display())]
    Data {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A server that runs. Dropped, it is ended without resigning.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: mpsc::Sender<()>,
    ruling: JoinHandle<Result<(), ServerError>>,
    /// The listener and all its connections.
    serving: JoinHandle<()>,
    standing: watch::Receiver<Standing>,
}

/// How a server that can be asked for anything answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It leads.
    Leads,
    /// It asks this other one, which leads.
    Follows(String),
}

/// Tells people what a server does.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

impl Server {
    /// Listens, and takes part in the election.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn start(config: Config, say: Say) -> Result<Self, ServerError> {
        let Config { store, listen, data, token_file, makes_cluster, retention, bounds, rules } =
            config;
        if !listen.ip().is_loopback() {
            return Err(ServerError::Remote { address: listen });
        }
        let failed = |source| ServerError::Data { path: data.clone(), source };
        std::fs::create_dir_all(&data).map_err(failed)?;
        let token = token_file.map_or_else(|| token::own(&data), |path| token::given(&path))?;
        let before = seen::read(&data)?;
        let (listener, address) = bind(listen)?;
        let (desk, inbox) = desk();
        let shared = Arc::new(Shared::new(store, desk, bounds, token, address.to_string()));
        let router = http::router(&shared, links::serve(&shared));
        let serving = tokio::spawn(serve(listener, router, Arc::clone(&shared)));
        let (stop, stopped) = mpsc::channel(1);
        let standing = shared.standings();
        let kept = (retention, rules);
        let rule = Rule { shared, inbox, stopped, data, before, makes_cluster, kept, say };
        Ok(Self { address, stop, ruling: tokio::spawn(rule.run()), serving, standing })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it can be asked for anything: it leads, or knows who does, as `/readyz` has it.
    pub fn ready(&self) -> impl Future<Output = Ready> + Send + use<> {
        let (mut standing, own) = (self.standing.clone(), self.address.to_string());
        async move {
            loop {
                if let Some(ready) = standing.borrow_and_update().ready(&own) {
                    return ready;
                }
                if standing.changed().await.is_err() {
                    // Only its end can be the reason not to be; who waits for that is told.
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Ends it: it resigns first, so that another may lead at once.
    ///
    /// # Errors
    /// What had ended it before.
    pub async fn stop(self) -> Result<(), ServerError> {
        // It may have ended by itself.
        let _: Result<(), _> = self.stop.send(()).await;
        let ended = joined(self.ruling.await);
        self.serving.abort();
        ended
    }

    /// Waits until it ends by itself, which it does only when it cannot go on.
    ///
    /// # Errors
    /// Why.
    pub async fn ended(&mut self) -> Result<(), ServerError> {
        joined((&mut self.ruling).await)
    }
}

fn joined(
    ended: Result<Result<(), ServerError>, tokio::task::JoinError>,
) -> Result<(), ServerError> {
    match ended {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only its runtime's end cancels it.
            Err(_) => Ok(()),
        },
    }
}

fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    let bound = || {
        let listener = Listener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((TcpListener::from_std(listener)?, address))
    };
    bound().map_err(|source| ServerError::Listen { address: listen, source })
}

/// Takes connections, each of which is answered by a task of its own. Some of the files that may be open
/// are left for the store; who comes when no other is left is told so, and hung up on.
async fn serve(listener: TcpListener, router: Router, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let Files { connections: most, spare, .. } = shared.files;
    let full = http::full(&shared, most);
    loop {
        let count = connections.len();
        shared.counters.connections.store(count as u64, Ordering::Relaxed);
        tokio::select! {
            // Beyond these they wait to be taken.
            accepted = listener.accept(), if count < most.saturating_add(spare) => match accepted {
                Ok((socket, _)) if count < most => {
                    connections.spawn(answer(socket, router.clone(), true, TAKEN_WITHIN));
                }
                Ok((socket, _)) => {
                    let told = answer(socket, full.clone(), false, TAKEN_WITHIN);
                    let refuse = timeout(PING_AFTER, told);
                    connections.spawn(async move { drop(refuse.await) });
                }
                // Too many files are open, perhaps: those that are will close.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Everything that it takes to lead, again and again.
struct Rule {
    shared: Arc<Shared>,
    inbox: Inbox,
    stopped: mpsc::Receiver<()>,
    data: PathBuf,
    before: Option<Seen>,
    makes_cluster: bool,
    /// How long things are kept, and by what is placed, while this server leads.
    kept: (Retention, Rules),
    say: Say,
}

impl Rule {
    async fn run(mut self) -> Result<(), ServerError> {
        if self.makes_cluster {
            self.make_cluster().await?;
        }
        if !self.has_cluster().await? {
            return Ok(());
        }
        let (seen, keeper) = seen::keep(self.data.clone());
        let ended = self.lead_on(&seen).await;
        drop(seen);
        // What it has not written yet is written now, and not while it still writes: one would take the
        // file of the other.
        drop(keeper.await);
        if let Some(before) = self.before {
            seen::write(&self.data, &before)?;
        }
        ended
    }

    /// An empty store, of which nothing was seen, becomes that of a new cluster.
    async fn make_cluster(&self) -> Result<(), ServerError> {
        let store = &*self.shared.store;
        let found = cluster::read(store, self.before.as_ref()).await.map_err(ReignError::from)?;
        if found.cluster.is_none() && self.before.is_none() {
            let id = ClusterId::from_parts(wall_time(), random());
            match cluster::make(store, id, write_id()).await {
                Ok(_) => {}
                Err(error @ ClusterError::NotEmpty { .. }) => {
                    let found = cluster::read(store, None).await.map_err(ReignError::from)?;
                    // If somebody else was faster it is theirs, and ours.
                    if found.cluster.is_none() {
                        return Err(ReignError::from(error).into());
                    }
                }
                Err(error) => return Err(ReignError::from(error).into()),
            }
        }
        Ok(())
    }

    /// Who has no cluster has nothing to lead, and takes no part in an election: it would write to a store
    /// that is nobody's. Gives `false` if it was told to end before the store answered.
    async fn has_cluster(&mut self) -> Result<bool, ServerError> {
        while self.before.is_none() {
            match cluster::read(&*self.shared.store, None).await {
                Ok(found) if found.cluster.is_none() => return Err(ReignError::Blank.into()),
                Ok(_) => break,
                Err(ClusterError::Store(error)) => {
                    self.shared.stand(Standing::NotReady(because(&error)));
                }
                Err(error) => return Err(ReignError::from(error).into()),
            }
            tokio::select! {
                _ = self.stopped.recv() => return Ok(false),
                () = sleep(LOOK_EVERY) => {}
            }
        }
        Ok(true)
    }

    /// A reign is over that began then. What ends each of them at once would fill the terms and the log.
    async fn deposed(&self, why: &str, began: BootTime) {
        (self.say)(&format!("leads no longer: {why}"));
        if boot_time().since(began) < SHORT {
            sleep(LOOK_EVERY).await;
        }
    }

    async fn lead_on(&mut self, seen: &watch::Sender<Option<Seen>>) -> Result<(), ServerError> {
        let is_alone = !self.shared.store.about().is_shared;
        let timing = Timing { is_alone, ..Timing::default() };
        loop {
            let store = Arc::clone(&self.shared.store);
            let name = self.shared.name.clone();
            let mut candidate = Candidate::start(store, timing, name);
            if !self.elected(&mut candidate).await {
                candidate.resign().await;
                return Ok(());
            }
            let Some(held) = candidate.until() else { continue };
            // Not before the election was committed.
            let elected = boot_time();
            let (store, rules) = (&self.shared.store, self.kept.1.clone());
            let rules = (rules, self.shared.bounds.workers);
            let begun = reign::begin(store, held, elected, self.before.as_ref(), rules).await;
            let begun = match begun {
                Ok(mut begun) => {
                    begun.leader.retain(self.kept.0);
                    begun
                }
                Err(ReignError::Store(error)) => {
                    let why = because(&error);
                    (self.say)(&format!("cannot start to lead: {why}; retrying"));
                    self.shared.stand(Standing::NotReady(why));
                    candidate.resign().await;
                    sleep(LOOK_EVERY).await;
                    continue;
                }
                Err(error) => {
                    candidate.resign().await;
                    return Err(error.into());
                }
            };
            let lead = (begun.cluster.epoch.get(), begun.reign.term.get());
            (self.say)(&format!("leads, in term {} of epoch {}", lead.1, lead.0));
            let before = &mut self.before;
            let mut note = |newest: Seen| {
                *before = Some(newest);
                seen.send_replace(Some(newest));
            };
            let began = boot_time();
            let ended = reign::drive(
                &self.shared,
                &candidate,
                &mut self.inbox,
                begun,
                &mut self.stopped,
                Outlets { seen: &mut note, say: &self.say },
            )
            .await;
            candidate.resign().await;
            match ended {
                Ended::Told => return Ok(()),
                Ended::Deposed(why) => self.deposed(&why, began).await,
                Ended::Lags(mandate, revision) => {
                    (self.say)(
                        "a worker has seen more of the store than there is: it was restored",
                    );
                    let position = Position { epoch: mandate.epoch, revision };
                    let reign = Some((mandate.term, mandate.nonce));
                    let marks = self.before.map_or(Marks::NONE, |before| before.marks);
                    let cluster = mandate.cluster;
                    self.before = Some(Seen { cluster, position, reign, marks });
                }
            }
        }
    }

    /// Waits for its election; gives whether it was elected and not told to end.
    async fn elected(&mut self, candidate: &mut Candidate) -> bool {
        loop {
            tokio::select! {
                _ = candidate.elected() => return true,
                _ = self.stopped.recv() => return false,
                () = sleep(LOOK_EVERY) => {}
            }
            let store = &self.shared.store;
            let holder = match candidate.trouble() {
                Some(trouble) => {
                    self.shared.stand(Standing::NotReady(trouble.to_string()));
                    continue;
                }
                // Nobody else can lead there: what stands in it is of an earlier life.
                None if !store.about().is_shared => continue,
                None => store.get(LEASE_KEY).await.ok().and_then(|reading| reading.item),
            };
            let lease = holder.and_then(|item| Lease::from_bytes(&item.value).ok());
            let before = self.shared.leader_elsewhere();
            self.shared.stand(Standing::Follows(lease.map(|lease| lease.holder)));
            match self.shared.leader_elsewhere() {
                Some(leader) if before.as_ref() != Some(&leader) => {
                    (self.say)(&format!("follows {leader}, which leads"));
                }
                Some(_) | None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ::http::Method;
    use sterna_api::{
        client::{Client, ClientError},
        rest::{Code, Done},
    };
    use sterna_model::{Epoch, Term};
    use sterna_store::Memory;

    use super::*;
    use crate::{desk::CALLS_WAITING, shared::Lead};

    /// It would leave its lease in a store that is nobody's.
    #[tokio::test]
    async fn a_server_started_before_its_cluster_is_made_leaves_the_store_as_it_is() {
        let data = std::env::temp_dir().join(format!("sterna-early-{}", std::process::id()));
        let memory = Arc::new(Memory::new());
        let config = |makes_cluster| Config {
            store: memory.clone(),
            listen: "127.0.0.1:0".parse().unwrap(),
            data: data.clone(),
            token_file: None,
            makes_cluster,
            retention: Retention::default(),
            rules: Rules::default(),
            bounds: Bounds::default(),
        };
        let say: Say = Arc::new(|_: &str| {});
        let mut early = Server::start(config(false), Arc::clone(&say)).await.unwrap();
        let ended = early.ended().await;
        assert!(matches!(ended, Err(ServerError::Reign(ReignError::Blank))), "{ended:?}");
        assert!(sterna_store::scan_all(&*memory, "").await.unwrap().0.is_empty());
        let server = Server::start(config(true), say).await.unwrap();
        server.ready().await;
        server.stop().await.unwrap();
        std::fs::remove_dir_all(&data).unwrap();
    }

    /// What is not ours is not taken for a store that is empty.
    #[tokio::test]
    async fn a_server_that_finds_something_else_in_its_store_says_what() {
        let data = std::env::temp_dir().join(format!("sterna-other-{}", std::process::id()));
        let store = Arc::new(Memory::new());
        let put = sterna_store::Commit::new(write_id()).put("/theirs", "");
        let stands = store.commit(put).await;
        assert!(matches!(stands, Ok(sterna_store::Outcome::Applied(_))));
        let config = Config {
            store,
            listen: "127.0.0.1:0".parse().unwrap(),
            data: data.clone(),
            token_file: None,
            makes_cluster: true,
            retention: Retention::default(),
            rules: Rules::default(),
            bounds: Bounds::default(),
        };
        let mut server = Server::start(config, Arc::new(|_: &str| {})).await.unwrap();
        let error = because(&server.ended().await.unwrap_err());
        assert!(error.contains("it holds /theirs"), "{error}");
        std::fs::remove_dir_all(&data).unwrap();
    }

    /// Nobody takes anything from the desk here: what a leader does that is busy for long.
    #[tokio::test]
    async fn a_call_beyond_those_that_may_wait_for_the_leader_is_refused() {
        let (desk, mut inbox) = desk();
        let (store, token, name) = (Arc::new(Memory::new()), "t".to_owned(), "here".to_owned());
        let shared = Arc::new(Shared::new(store, desk, Bounds::default(), token, name));
        let (cluster, epoch, term) = (String::new(), Epoch::new(1), Term::new(1));
        shared.stand(Standing::Leads(Lead { cluster, epoch, term }));
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let router = http::router(&shared, links::serve(&shared));
        let serving = tokio::spawn(serve(listener, router, Arc::clone(&shared)));
        let mut waiting = JoinSet::new();
        for _ in 0..CALLS_WAITING {
            let desk = shared.desk.clone();
            waiting.spawn(async move { desk.ask(|_, _| ()).await });
        }
        while inbox.posts.len() < CALLS_WAITING {
            tokio::task::yield_now().await;
        }
        let (mut client, path) =
            (Client::new(address.to_string(), "t"), "/v1/roster/declare-complete");
        let refused = client.call::<Done>(Method::POST, path, None::<&()>).await.unwrap_err();
        let ClientError::Refused(refused) = refused else { panic!("{refused}") };
        assert_eq!((refused.code, refused.code.status()), (Code::TooMuch, 429));
        assert_eq!(&*refused.message, "4096 calls wait for the leader already");
        assert!(!refused.remedy.is_empty());
        // One is taken: there is room for one more, which waits.
        inbox.posts.recv().await.unwrap();
        let asked = tokio::spawn(async move {
            client.call::<Done>(Method::POST, path, None::<&()>).await.map_err(|error| error.code())
        });
        while inbox.posts.len() < CALLS_WAITING {
            assert!(!asked.is_finished(), "it is refused although there is room");
            tokio::task::yield_now().await;
        }
        asked.abort();
        serving.abort();
    }
}
