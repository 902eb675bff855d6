//! A connection that is made again whenever it is lost.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_postgres::{Row, Statement, types::ToSql};

use super::{
    columns::{revision, unreadable},
    session::{Connector, Duty, Session, Statements},
    trouble::{Kind, Trouble},
};
use crate::{StoreError, backoff::Backoff, reached::Reached};

/// How long one call may take, with everything that is tried on its behalf.
pub(super) const CALL_MAX: Duration = Duration::from_secs(10);
/// How long the server may be silent on one attempt.
pub(super) const ATTEMPT_MAX: Duration = Duration::from_secs(4);
/// How often a reading is tried: once on a connection that may be dead, then on fresh ones.
const READS_MAX: usize = 3;
/// A connection that lived so long starts the back-off anew.
const STEADY_AFTER: Duration = Duration::from_secs(1);

/// The one way to one connection; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Link {
    states: watch::Receiver<State>,
    pub(super) reached: Arc<Reached>,
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
    /// Keeps a connection for this duty, by a task that ends with `tasks`.
    pub(super) fn keep(connector: Connector, duty: Duty, tasks: &mut JoinSet<()>) -> Self {
        let (state, states) = watch::channel(State::Connecting);
        let reached = Arc::clone(&connector.reached);
        tasks.spawn(keep(connector, duty, state));
        Self { states, reached }
    }

    /// The connection. If there is none, waits for the end of the attempt that is or will be next.
    pub(super) async fn session(&self, until: Instant) -> Result<Arc<Session>, Trouble> {
        let mut states = self.states.clone();
        let mut is_news = false;
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                State::Up(session) if session.is_open() => return Ok(session),
                State::Down(trouble) if is_news => return Err(trouble),
                State::Up(_) | State::Down(_) | State::Connecting => {}
            }
            match timeout_at(until, states.changed()).await {
                Ok(Ok(())) => is_news = true,
                Ok(Err(_)) => return Err(Trouble::Closed),
                Err(_) => return Err(Trouble::Silent { limit: CALL_MAX }),
            }
        }
    }

    /// Asks one question that changes nothing, over another connection if one is lost. Its answer
    /// begins with the store's revision.
    pub(super) async fn ask(
        &self,
        which: fn(&Statements) -> &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let mark = self.reached.mark()?;
        let rows = self.query(which, params).await?;
        if let Some(row) = rows.first() {
            self.reached.note(mark, revision(row, 0).map_err(unreadable)?)?;
        }
        Ok(rows)
    }

    async fn query(
        &self,
        which: fn(&Statements) -> &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let until = Instant::now() + CALL_MAX;
        let mut tries = 0;
        loop {
            tries += 1;
            let asked = async {
                let session = self.session(until).await.map_err(|trouble| (trouble, true))?;
                let answer = session.client.query(which(&session.statements), params);
                within(ATTEMPT_MAX, &session, answer).await.map_err(|trouble| (trouble, false))
            };
            match asked.await {
                Ok(rows) => return Ok(rows),
                Err((trouble, is_down)) => {
                    let may_try = !is_down && tries < READS_MAX && Instant::now() < until;
                    if trouble.kind() == Kind::Refused || !may_try {
                        return Err(StoreError::Unavailable(trouble.into()));
                    }
                }
            }
        }
    }

    /// Sends a statement that changes something once; gives the number of rows.
    pub(super) async fn tell(
        &self,
        which: fn(&Statements) -> &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        self.reached.mark()?;
        let unavailable = |trouble: Trouble| StoreError::Unavailable(trouble.into());
        let session = self.session(Instant::now() + CALL_MAX).await.map_err(unavailable)?;
        let done = session.client.execute(which(&session.statements), params);
        within(ATTEMPT_MAX, &session, done).await.map_err(|trouble| {
            if trouble.is_said_by_server() {
                StoreError::Unavailable(trouble.into())
            } else {
                StoreError::Unknown(trouble.into())
            }
        })
    }
}

/// Waits for an answer, but not for ever. A session that failed or fell silent is discarded: what
/// it is in the middle of is not known.
pub(super) async fn within<T>(
    limit: Duration,
    session: &Session,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Trouble> {
    let answer = match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(Trouble::from),
        Err(_) => Err(Trouble::Silent { limit }),
    };
    if answer.is_err() {
        session.discard();
    }
    answer
}

async fn keep(connector: Connector, duty: Duty, state: watch::Sender<State>) {
    let mut pause = Backoff::new(RandomState::new().hash_one(0));
    loop {
        match connector.session(duty).await {
            Ok(session) => {
                let begun = Instant::now();
                let session = Arc::new(session);
                state.send_replace(State::Up(Arc::clone(&session)));
                session.over().await;
                state.send_replace(State::Connecting);
                if begun.elapsed() >= STEADY_AFTER {
                    pause.begin_anew();
                }
            }
            Err(trouble) => drop(state.send_replace(State::Down(trouble))),
        }
        sleep(pause.next()).await;
    }
}
