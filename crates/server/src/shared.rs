//! What all parts of a server share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use sterna_api::rest::{Code, Refused};
use sterna_engine::control::Row;
use sterna_model::{Epoch, Revision, ServiceKey, Term, WorkKey};
use sterna_store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::{
    bounds::{Bounds, Files, ON_THE_WAY_MAX},
    counts::Workers,
    desk::Desk,
    events::Log,
    load::Load,
    mirror::Mirror,
    server::Ready,
};

/// What all parts of a server share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) desk: Desk,
    pub(crate) bounds: Bounds,
    pub(crate) log: Log,
    /// What clients must show.
    pub(crate) token: String,
    /// What this server is called, and where it is reached.
    pub(crate) name: String,
    pub(crate) counters: Counters,
    /// How the files of this process are shared out.
    pub(crate) files: Files,
    /// Connections to the server that leads, while this one follows.
    pub(crate) lines: Lines,
    /// Bodies of requests, until they are answered.
    pub(crate) arriving: Arc<Load>,
    /// Answers, until they are written; no streams.
    pub(crate) leaving: Arc<Load>,
    mirror: RwLock<Mirror>,
    /// How many workers were how when they were counted last.
    workers: Mutex<Workers>,
    waiting: Mutex<Waiting<WorkKey>>,
    /// Who waits for any instance of a service, or the service itself.
    of_services: Mutex<Waiting<ServiceKey>>,
    standing: watch::Sender<Standing>,
    /// What the store says that takes no commit, while this server leads.
    stuck: Mutex<Option<String>>,
}

/// Who waits for a key to change.
#[derive(Debug)]
struct Waiting<K> {
    of: BTreeMap<K, Vec<oneshot::Sender<()>>>,
    /// With so many keys those are looked for that nobody waits for any more.
    look_at: usize,
}

/// So many keys are not worth a look.
const FEW: usize = 1_024;

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        Self { of: BTreeMap::new(), look_at: 0 }
    }
}

impl<K: Clone + Ord> Waiting<K> {
    fn add(&mut self, key: &K) -> oneshot::Receiver<()> {
        let (waiter, woken) = oneshot::channel();
        if self.of.len() >= self.look_at.max(FEW) {
            self.of.retain(|_, waiters| {
                waiters.retain(|waiter| !waiter.is_closed());
                !waiters.is_empty()
            });
            self.look_at = self.of.len() * 2;
        }
        let waiters = self.of.entry(key.clone()).or_default();
        waiters.retain(|waiter| !waiter.is_closed());
        waiters.push(waiter);
        woken
    }

    fn wake(&mut self, keys: impl IntoIterator<Item = K>) {
        if self.of.is_empty() {
            return;
        }
        for key in keys {
            for waiter in self.of.remove(&key).into_iter().flatten() {
                // Who no longer waits needs not be woken.
                let _: Result<(), ()> = waiter.send(());
            }
        }
    }
}

/// What this server is to its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has not found out yet, or something is wrong that it says.
    NotReady(String),
    /// It leads.
    Leads(Lead),
    /// Another one does, as far as is known.
    Follows(Option<String>),
}

impl Standing {
    /// How a server of this name, which stands so, answers; `None` if it cannot be asked yet.
    pub(crate) fn ready(&self, own: &str) -> Option<Ready> {
        match self {
            Self::NotReady(_) | Self::Follows(None) => None,
            Self::Leads(_) => Some(Ready::Leads),
            // Its own lease, of an earlier life, leads back to it.
            Self::Follows(Some(leader)) if leader == own => None,
            Self::Follows(Some(leader)) => Some(Ready::Follows(leader.clone())),
        }
    }
}

/// One reign, for those who ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lead {
    pub(crate) cluster: String,
    pub(crate) epoch: Epoch,
    pub(crate) term: Term,
}

/// Connections to the server that leads: each is a file, of which there are so many.
#[derive(Debug)]
pub(crate) struct Lines {
    free: Arc<Semaphore>,
    pub(crate) max: usize,
}

impl Lines {
    pub(crate) fn new(max: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(max)), max }
    }

    /// A place for one more, to be given back when its file is closed; `None` if there is none.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.max.saturating_sub(self.free.available_permits())
    }
}

/// What is counted, for `/metrics`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) commit_micros: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) forwarded: AtomicU64,
    pub(crate) readers: AtomicU64,
    /// Streams of events, logs and endpoints.
    pub(crate) open_streams: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) too_much: AtomicU64,
    pub(crate) streams: AtomicU64,
    pub(crate) alarms: AtomicU64,
    pub(crate) callbacks: AtomicU64,
    pub(crate) busy_micros: AtomicU64,
    /// Names that stay taken of tasks whose record went.
    pub(crate) names: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        desk: Desk,
        bounds: Bounds,
        token: String,
        name: String,
    ) -> Self {
        let files = Files::of_process();
        let begins = Standing::NotReady("this server has just started".to_owned());
        Self {
            store,
            desk,
            bounds,
            log: Log::new(bounds.events),
            token,
            name,
            counters: Counters::default(),
            files,
            lines: Lines::new(files.forwards),
            arriving: Load::new(ON_THE_WAY_MAX),
            leaving: Load::new(ON_THE_WAY_MAX),
            mirror: RwLock::new(Mirror::new(Revision::new(0))),
            workers: Mutex::default(),
            waiting: Mutex::default(),
            of_services: Mutex::default(),
            standing: watch::Sender::new(begins),
            stuck: Mutex::default(),
        }
    }

    /// What stands in the store. Not to be held while anything is awaited.
    pub(crate) fn mirror(&self) -> RwLockReadGuard<'_, Mirror> {
        self.mirror.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many workers were how when they were counted last; none while this server does not lead.
    pub(crate) fn workers(&self) -> Workers {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workers were counted.
    pub(crate) fn count_workers(&self, workers: Workers) {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) = workers;
    }

    /// A reign begins with what it has read.
    pub(crate) fn reset(&self, mirror: Mirror) {
        *self.mirror.write().unwrap_or_else(PoisonError::into_inner) = mirror;
    }

    /// A commit stands: it is shown, and who waits for its keys is woken.
    pub(crate) fn apply(&self, revision: Revision, rows: Vec<Row>) {
        let keys: Vec<WorkKey> = rows.iter().filter_map(|row| row.key().work()).collect();
        let services: Vec<_> = rows.iter().filter_map(service_of).cloned().collect();
        self.mirror.write().unwrap_or_else(PoisonError::into_inner).apply(revision, rows);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).wake(keys);
        self.of_services.lock().unwrap_or_else(PoisonError::into_inner).wake(services);
    }

    /// Waits for the next change of a key. To be called before the key is looked at.
    pub(crate) fn changed(&self, key: &WorkKey) -> oneshot::Receiver<()> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).add(key)
    }

    /// Waits for the next change of a service or any of its instances. To be called before they are looked
    /// at.
    pub(crate) fn service_changed(&self, key: &ServiceKey) -> oneshot::Receiver<()> {
        self.of_services.lock().unwrap_or_else(PoisonError::into_inner).add(key)
    }

    /// Waits until a reign is over: what was asked of it is not told by the next one.
    pub(crate) async fn is_over(&self, reign: &Lead) {
        let leads = |standing: &Standing| *standing == Standing::Leads(reign.clone());
        // Without a server there is no reign.
        drop(self.standings().wait_for(|standing| !leads(standing)).await);
    }

    pub(crate) fn stand(&self, standing: Standing) {
        self.standing.send_replace(standing);
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// What the store says that has taken no commit for long, though this server leads.
    pub(crate) fn stuck(&self) -> Option<String> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_stuck(&self, stuck: Option<String>) {
        *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) = stuck;
    }

    /// Who watches what this server is.
    pub(crate) fn standings(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Waits until it is known that this other server leads no more. That the store does not say who does
    /// is no such knowledge.
    pub(crate) async fn follows_no_more(&self, leader: &str) {
        let is_over = |standing: &Standing| match standing {
            Standing::Follows(now) => now.as_deref() != Some(leader),
            Standing::Leads(_) => true,
            Standing::NotReady(_) => false,
        };
        // Without a server nobody follows.
        drop(self.standings().wait_for(is_over).await);
    }

    /// Who leads, if it is another server that is known.
    pub(crate) fn leader_elsewhere(&self) -> Option<String> {
        match self.standing.borrow().ready(&self.name) {
            Some(Ready::Follows(leader)) => Some(leader),
            Some(Ready::Leads) | None => None,
        }
    }

    /// The reign, if this server leads.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn lead(&self) -> Result<Lead, Refused> {
        match self.standing() {
            Standing::Leads(lead) => Ok(lead),
            Standing::NotReady(why) => Err(Refused::new(Code::NotReady, why)),
            Standing::Follows(leader) => {
                let message = match &leader {
                    Some(leader) => format!("this server does not lead; {leader} does"),
                    None => "this server does not lead, and does not know the leader".to_owned(),
                };
                let leader = leader.map(String::into_boxed_str);
                Err(Refused { leader, ..Refused::new(Code::NotLeading, message) })
            }
        }
    }
}

/// The service of a row: its own, or the one of an instance.
fn service_of(row: &Row) -> Option<&ServiceKey> {
    match row {
        Row::Service(key, _) => Some(key),
        Row::Instance(key, _) => Some(&key.service),
        Row::Task(..)
        | Row::Tombstone(..)
        | Row::Roster(..)
        | Row::Drain(..)
        | Row::Domain(..)
        | Row::Definition(..)
        | Row::Limits(_)
        | Row::Stage(_) => None,
    }
}

/// What a server shares that leads, on a store with nothing in it; and where its desk is read.
#[cfg(test)]
pub(crate) fn leading() -> (Arc<Shared>, Lead, crate::desk::Inbox) {
    let (desk, inbox) = crate::desk::desk();
    let (store, name) = (Arc::new(sterna_store::Memory::new()), "here".to_owned());
    let shared = Shared::new(store, desk, Bounds::default(), String::new(), name);
    let lead = Lead { cluster: String::new(), epoch: Epoch::new(1), term: Term::new(1) };
    shared.stand(Standing::Leads(lead.clone()));
    (Arc::new(shared), lead, inbox)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_when_it_leads_or_knows_who_else_does() {
        let lead = Lead { cluster: String::new(), epoch: Epoch::new(1), term: Term::new(1) };
        let follows = |leader: Option<&str>| Standing::Follows(leader.map(ToOwned::to_owned));
        assert_eq!(Standing::Leads(lead).ready("here"), Some(Ready::Leads));
        let there = Ready::Follows("there".to_owned());
        assert_eq!(follows(Some("there")).ready("here"), Some(there));
        assert_eq!(follows(Some("here")).ready("here"), None, "an earlier life of its own");
        assert_eq!(follows(None).ready("here"), None);
        assert_eq!(Standing::NotReady("it is early".to_owned()).ready("here"), None);
    }
}
