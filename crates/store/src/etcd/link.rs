//! A connection to one of the members, made again to the next one whenever it is lost.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use prost::Message;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use super::{
    session::{Connector, Session},
    trouble::{Next, Trouble},
};
use crate::backoff::Backoff;

/// How long one call may take, with everything that is tried on its behalf.
pub(super) const CALL_MAX: Duration = Duration::from_secs(10);
/// How long to wait before something is sent again that etcd had no time for.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// A connection that lived so long starts the back-off anew.
const STEADY_AFTER: Duration = Duration::from_secs(1);

/// The one way to one connection; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Link {
    states: watch::Receiver<State>,
    /// How many members there are to try before it is said that none is there.
    members: usize,
}

#[derive(Clone, Debug)]
enum State {
    /// Being made.
    Connecting,
    /// There to be used.
    Up(Arc<Session>),
    /// The last attempt failed; the next one comes by itself.
    Down(Trouble),
}

impl Link {
    /// Keeps a connection, by a task that ends with `tasks`. It begins with the session given.
    pub(super) fn keep(connector: Connector, first: Opened, tasks: &mut JoinSet<()>) -> Self {
        let members = connector.target.endpoints.len();
        let (state, states) = watch::channel(State::Connecting);
        tasks.spawn(keep(connector, first, state));
        Self { states, members }
    }

    /// The connection. If there is none, waits until every member was tried once more.
    pub(super) async fn session(&self, until: Instant) -> Result<Arc<Session>, Trouble> {
        let mut states = self.states.clone();
        let (mut failures, mut is_news) = (0, false);
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                State::Up(session) if session.is_open() => return Ok(session),
                State::Down(trouble) if is_news => {
                    failures += 1;
                    if failures >= self.members {
                        return Err(trouble);
                    }
                }
                State::Up(_) | State::Down(_) | State::Connecting => {}
            }
            match timeout_at(until, states.changed()).await {
                Ok(Ok(())) => is_news = true,
                Ok(Err(_)) => return Err(Trouble::Closed),
                Err(_) => return Err(Trouble::NoTime { limit: CALL_MAX }),
            }
        }
    }

    /// Asks what changes nothing, or nothing more when it is asked again; over another connection
    /// if one is lost, for as long as there is time.
    pub(super) async fn ask<M, A>(&self, path: &'static str, request: M) -> Result<A, Trouble>
    where
        M: Message + Default + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.ask_or_change(path, request, |_, _| false).await
    }

    /// The same, but `change` may make another request of one that failed; it says whether it did.
    pub(super) async fn ask_or_change<M, A>(
        &self,
        path: &'static str,
        mut request: M,
        mut change: impl FnMut(&mut M, &Trouble) -> bool,
    ) -> Result<A, Trouble>
    where
        M: Message + Default + Clone + 'static,
        A: Message + Default + 'static,
    {
        let until = Instant::now() + CALL_MAX;
        loop {
            let session = self.session(until).await?;
            match session.ask(path, request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => {
                    let is_changed = change(&mut request, &trouble);
                    let is_hopeless = trouble.next() == Next::Nothing && !is_changed;
                    if is_hopeless || Instant::now() >= until {
                        return Err(trouble);
                    }
                    if trouble.next() == Next::Again {
                        sleep(PAUSE).await;
                    }
                }
            }
        }
    }
}

/// A session to begin with, and which member it leads to.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) session: Session,
    pub(super) member: usize,
}

async fn keep(connector: Connector, first: Opened, state: watch::Sender<State>) {
    let endpoints = &connector.target.endpoints;
    let mut pause = Backoff::new(RandomState::new().hash_one(0));
    let mut member = first.member;
    let mut next = Ok(first.session);
    let mut failures = 0;
    loop {
        match next {
            Ok(session) => {
                failures = 0;
                let begun = Instant::now();
                let session = Arc::new(session);
                state.send_replace(State::Up(Arc::clone(&session)));
                session.over().await;
                session.discard();
                state.send_replace(State::Connecting);
                if begun.elapsed() >= STEADY_AFTER {
                    pause.begin_anew();
                }
            }
            Err(trouble) => {
                failures += 1;
                state.send_replace(State::Down(trouble));
            }
        }
        // Every member gets its try before there is a rest.
        if failures == 0 || failures % endpoints.len() == 0 {
            sleep(pause.next()).await;
        }
        member = (member + 1) % endpoints.len();
        next = connector.session(&endpoints[member]).await;
    }
}
