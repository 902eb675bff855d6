//! The election on a real store, clock and source of randomness. It decides nothing.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use sterna_model::BootTime;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use super::{Effect, Election, Ended, Input, LEASE_KEY, Lease, Reign, Timing};
use crate::{
    Commit, Outcome, Store, StoreError,
    machine::{boot_time as now, nonce, write_id},
};

/// Commands that wait for the driver; it takes them at once, whatever the store does.
const COMMANDS_WAITING: usize = 16;

/// A process that takes part in the election. Dropping it leaves the lease to run out;
/// [`Candidate::resign`] hands it over at once.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use sterna_store::{Memory, leader::{Candidate, Timing}};
///
/// let store = Arc::new(Memory::new());
/// let mut candidate = Candidate::start(store, Timing::default(), "server-1");
/// let reign = candidate.elected().await;
/// assert_eq!(candidate.leading(), Some(reign));
/// candidate.resign().await;
/// # });
/// ```
#[derive(Debug)]
pub struct Candidate {
    commands: mpsc::Sender<Command>,
    standing: watch::Receiver<Standing>,
    task: JoinHandle<Option<(Reign, BootTime)>>,
}

/// Waits for changes of a candidate, beside whoever has it.
#[derive(Clone, Debug)]
pub struct Follow {
    standing: watch::Receiver<Standing>,
}

impl Follow {
    /// Waits for the next change: elected, renewed or deposed. Gives whether there can be another.
    pub async fn changed(&mut self) -> bool {
        self.standing.changed().await.is_ok()
    }
}

/// What is published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    until: Option<(Reign, BootTime)>,
    /// Why the last call to the store did not succeed, if it did not.
    trouble: Option<Arc<str>>,
}

#[derive(Debug)]
enum Command {
    Raised(Reign, oneshot::Sender<()>),
    Resign,
}

impl Candidate {
    /// Begins to take part, under the name that others see in the lease.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its timer.
    pub fn start(store: Arc<dyn Store>, timing: Timing, holder: impl Into<String>) -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS_WAITING);
        let (published, standing) = watch::channel(Standing::default());
        let election = Election::new(timing, holder, now());
        let driver = Driver { store, election, inbox, published, trouble: None, under_way: None };
        Self { commands, standing, task: tokio::spawn(driver.run()) }
    }

    /// The reign under which this process may act at this moment.
    ///
    /// Ask again before every act: a process may be stopped between the question and the act, so
    /// what it sends must be fenced by the reign as well.
    pub fn leading(&self) -> Option<Reign> {
        self.until().filter(|(_, until)| now() < *until).map(|(reign, _)| reign)
    }

    /// The reign, and the moment of this machine's clock when it ends unless it is renewed.
    pub fn until(&self) -> Option<(Reign, BootTime)> {
        self.standing.borrow().until
    }

    /// Why the last look at the lease, or the last try to change it, failed; `None` if it did not.
    /// While this stays, nobody here can be elected, so whoever waits should show it.
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.standing.borrow().trouble.clone()
    }

    /// Waits until this process leads.
    pub async fn elected(&mut self) -> Reign {
        loop {
            if let Some(reign) = self.leading() {
                return reign;
            }
            if self.standing.changed().await.is_err() {
                // Its task has ended, so nobody will ever be elected here.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Who waits for changes without having the candidate.
    pub fn follow(&self) -> Follow {
        Follow { standing: self.standing.clone() }
    }

    /// Waits for the next change: elected, renewed or deposed.
    pub async fn changed(&mut self) {
        if self.standing.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Says that `settle` has raised the fence counter. When it returns, [`Candidate::leading`] gives
    /// the new reign.
    pub async fn raised(&self, reign: Reign) {
        let (done, published) = oneshot::channel();
        // Nobody listens only when it has resigned, and then it does not matter.
        if self.commands.send(Command::Raised(reign, done)).await.is_ok() {
            drop(published.await);
        }
    }

    /// Stops leading at once, and then gives the lease up, so that another may take over without
    /// waiting for its end. Gives the reign that ended so, and since when it was mute.
    pub async fn resign(self) -> Option<(Reign, BootTime)> {
        drop(self.commands.send(Command::Resign).await);
        let Self { task, .. } = self;
        match task.await {
            Ok(mute) => mute,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only its runtime's end cancels it.
                Err(_) => None,
            },
        }
    }
}

struct Driver {
    store: Arc<dyn Store>,
    election: Election,
    inbox: mpsc::Receiver<Command>,
    published: watch::Sender<Standing>,
    trouble: Option<Arc<str>>,
    /// The one call of the store that is awaited.
    under_way: Option<BoxFuture<'static, Answer>>,
}

/// What a call of the store came to, and what was wrong with it.
type Answer = (Input, Option<Arc<str>>);

impl Driver {
    /// Gives what it led when it was told to resign, and since when that was mute.
    async fn run(mut self) -> Option<(Reign, BootTime)> {
        let (mut input, mut mute) = (Input::Tick, None);
        loop {
            let mut effects = Vec::new();
            let is_resigning = input == Input::Resign;
            self.election.step(now(), nonce(), input, &mut effects);
            self.publish();
            if is_resigning {
                mute = self.election.until();
            }
            for effect in effects {
                self.perform(effect);
            }
            if self.election.has_retired() {
                return mute;
            }
            input = self.next().await?;
        }
    }

    /// Waits for whatever comes first; `None` when nobody is interested any more.
    async fn next(&mut self) -> Option<Input> {
        loop {
            let wait = self.election.deadline().map(|due| due.since(now()).as_duration());
            tokio::select! {
                (input, trouble) = answered(&mut self.under_way) => {
                    self.under_way = None;
                    self.trouble = trouble;
                    return Some(input);
                }
                command = self.inbox.recv() => match command {
                    Some(Command::Raised(reign, done)) => {
                        self.election.raised(reign);
                        self.publish();
                        // Who does not wait for it needs no answer.
                        let _: Result<(), ()> = done.send(());
                    }
                    Some(Command::Resign) => return Some(Input::Resign),
                    None => return None,
                },
                () = sleep(wait) => return Some(Input::Tick),
            }
        }
    }

    fn publish(&self) {
        let standing = Standing { until: self.election.until(), trouble: self.trouble.clone() };
        self.published.send_if_modified(|seen| {
            let is_new = *seen != standing;
            *seen = standing;
            is_new
        });
    }

    fn perform(&mut self, effect: Effect) {
        let store = Arc::clone(&self.store);
        match effect {
            Effect::Read => self.under_way = Some(async move { read(&*store).await }.boxed()),
            Effect::Commit { attempt, expect, writes } => {
                let mut commit = Commit::new(write_id()).expect(LEASE_KEY, expect);
                commit.writes.extend(writes);
                let ended = async move {
                    let (ended, trouble) = ended(store.commit(commit).await);
                    (Input::Answered(attempt, ended), trouble)
                };
                self.under_way = Some(ended.boxed());
            }
            // Both show in what was published.
            Effect::Elected(_) | Effect::Deposed(_) => {}
        }
    }
}

async fn answered(under_way: &mut Option<BoxFuture<'static, Answer>>) -> Answer {
    match under_way {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

async fn read(store: &dyn Store) -> Answer {
    let item = match store.get(LEASE_KEY).await {
        Ok(reading) => reading.item,
        Err(error) => return (Input::NotSeen, Some(told(&error))),
    };
    let Some(item) = item else { return (Input::Seen(None), None) };
    // A lease that this build cannot read is somebody's: not to be taken over.
    match Lease::from_bytes(&item.value) {
        Ok(lease) => (Input::Seen(Some((lease, item.revision))), None),
        Err(error) => (Input::NotSeen, Some(told(&error))),
    }
}

fn ended(answer: Result<Outcome, StoreError>) -> (Ended, Option<Arc<str>>) {
    match answer {
        Ok(Outcome::Applied(revision)) => (Ended::Applied(revision), None),
        Ok(Outcome::Conflict(_)) => (Ended::Conflict, None),
        Err(error @ StoreError::Unknown(_)) => (Ended::Unknown, Some(told(&error))),
        // Every other error says that nothing was written.
        Err(error) => (Ended::Unavailable, Some(told(&error))),
    }
}

/// An error with its causes, for people.
fn told(error: &dyn std::error::Error) -> Arc<str> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ").into()
}
