//! The task that commits: everything that waits becomes one group and one transaction.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::{join, join4};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_postgres::Error;
use uuid::Uuid;

use super::{
    columns::{Columns, number, place, revision},
    group::{self, Doubt, Found, Needs},
    link::{ATTEMPT_MAX, CALL_MAX, Link, within},
    session::{Hints, Session, hint},
    trouble::{Kind, Trouble},
};
use crate::{Commit, Outcome, StoreError, WentBack, own::Own};

/// Commits that wait for the writer. When full, committers wait, which is the back-pressure, and
/// are told `Unavailable` when that takes too long.
pub(super) const COMMITS_WAITING: usize = 2_048;
/// How long everything may take that is tried for one group.
const GROUP_MAX: Duration = Duration::from_secs(6);
/// How old a commit may be when its group begins, so that it is answered within [`CALL_MAX`].
pub(super) const WAIT_MAX: Duration = CALL_MAX.saturating_sub(GROUP_MAX);
/// How often a group is tried that loses against other transactions.
const TRIES_MAX: usize = 5;

/// A commit on its way.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) commit: Commit,
    pub(super) since: Instant,
    pub(super) caller: oneshot::Sender<Result<Outcome, StoreError>>,
}

/// What the writer has.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) link: Link,
    pub(super) hints: Hints,
    pub(super) own: Arc<Mutex<Own>>,
}

impl Writer {
    /// Commits until nobody can send commits any more.
    pub(super) async fn run(self, mut queue: mpsc::Receiver<Request>) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                let Some(first) = queue.recv().await else { return };
                waiting.push_back(first);
            }
            while waiting.len() < group::COMMITS_MAX
                && let Ok(next) = queue.try_recv()
            {
                waiting.push_back(next);
            }
            let (mut commits, mut callers) = (Vec::new(), Vec::new());
            for Request { commit, since, caller } in group::take(&mut waiting, |it| &it.commit) {
                if since.elapsed() < WAIT_MAX {
                    commits.push(commit);
                    callers.push(caller);
                } else {
                    let crowded = Trouble::Crowded { waiting: waiting.len() + queue.len() };
                    drop(caller.send(Err(StoreError::Unavailable(crowded.into()))));
                }
            }
            if commits.is_empty() {
                continue;
            }
            let answers = self.settle(&commits).await;
            for (caller, answer) in callers.into_iter().zip(answers) {
                // A caller that has gone needs no answer; its commit stands.
                drop(caller.send(answer));
            }
        }
    }

    /// Tries the group until it is settled, or until nothing more can be tried.
    ///
    /// The whole group may be tried again even after its transaction was sent to be committed and
    /// no answer came. Whoever then holds the counter's lock knows that the lost transaction,
    /// which held it, is over; and a commit that it applied is known by its write id.
    async fn settle(&self, group: &[Commit]) -> Vec<Result<Outcome, StoreError>> {
        let until = Instant::now() + GROUP_MAX;
        let mut doubt = Doubt::default();
        let mut tries = 0;
        loop {
            tries += 1;
            let failure = match self.attempt(group, until, &mut doubt).await {
                Ok(outcomes) => return outcomes.into_iter().map(Ok).collect(),
                Err(failure) => failure,
            };
            let is_time_left = Instant::now() < until;
            if !is_time_left || !failure.may_try_again(doubt.is_some(), tries) {
                let answer = |index| answer_of(&failure, doubt.covers(index));
                return (0..group.len()).map(answer).collect();
            }
        }
    }

    async fn attempt(
        &self,
        group: &[Commit],
        until: Instant,
        doubt: &mut Doubt,
    ) -> Result<Vec<Outcome>, Failure> {
        let reached = &self.link.reached;
        let mark = reached.mark()?;
        let session = self.link.session(until).await.map_err(Failure::NoSession)?;
        let needs = Needs::of(group);
        let limit = || ATTEMPT_MAX.min(until.saturating_duration_since(Instant::now()));
        let found = within(limit(), &session, read(&session, &needs)).await?;
        let before = found.revision;
        if let Err(error) = reached.note(mark, before) {
            // Under the lock: nothing was written to it, and nothing will be.
            session.discard();
            return Err(error.into());
        }
        if !doubt.can_be_settled(found.floor) {
            session.discard();
            return Err(Failure::Forgotten);
        }
        let verdict = group::decide(group, found);
        if verdict.plan.commits.is_empty() && verdict.is_found.contains(&true) {
            // Who committed it was told nothing: it may be on this server alone, because the wait
            // for a standby was broken off. What is committed behind it waits for both.
            doubt.begin(before, &verdict);
            let touch = session.client.execute(&session.statements.touch, &[]);
            return match finish(&session, limit(), touch).await {
                Stored::Committed => Ok(verdict.outcomes),
                Stored::RolledBack(trouble) | Stored::Unknown(trouble) => {
                    Err(Failure::Trouble(trouble))
                }
            };
        }
        if verdict.plan.commits.is_empty() {
            // Judged under the lock, so it stands whether or not this is answered.
            drop(within(limit(), &session, session.client.batch_execute("ROLLBACK")).await);
            return Ok(verdict.outcomes);
        }
        let earlier = doubt.copy();
        doubt.begin(before, &verdict);
        let columns = Columns::of(&verdict.plan);
        let params = columns.params();
        let written = session.client.execute(&session.statements.store, &params);
        match finish(&session, limit(), written).await {
            Stored::Committed => {
                // Noted before the hint, which sends watches to look here.
                verdict.plan.note(&mut self.own.lock());
                if let Some((revision, ..)) = verdict.plan.commits.last() {
                    reached.note(mark, *revision)?;
                    hint(&self.hints, *revision);
                }
                Ok(verdict.outcomes)
            }
            Stored::RolledBack(trouble) => {
                doubt.undo(earlier);
                Err(Failure::Trouble(trouble))
            }
            Stored::Unknown(trouble) => Err(Failure::Trouble(trouble)),
        }
    }
}

/// Why an attempt did not settle its group.
#[derive(Clone, Debug, thiserror::Error)]
enum Failure {
    /// There is no connection.
    #[error(transparent)]
    NoSession(Trouble),
    /// There was one.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// An earlier attempt may have applied, and history no longer tells.
    #[error("the history that would tell was compacted meanwhile")]
    Forgotten,
    /// The store lacks what it had acknowledged.
    #[error(transparent)]
    WentBack(#[from] WentBack),
}

impl Failure {
    /// A group in doubt is tried for as long as there is time: it may yet be settled. Otherwise
    /// callers hear soon, and once more is enough to get past a connection that had died unseen.
    const fn may_try_again(&self, is_in_doubt: bool, tries: usize) -> bool {
        match self {
            Self::Forgotten | Self::WentBack(_) => false,
            Self::NoSession(_) => is_in_doubt,
            Self::Trouble(trouble) => match trouble.kind() {
                Kind::Again => tries < TRIES_MAX,
                Kind::Lost => is_in_doubt || tries < 2,
                Kind::Refused => is_in_doubt && tries < TRIES_MAX,
            },
        }
    }
}

fn answer_of(failure: &Failure, may_be_written: bool) -> Result<Outcome, StoreError> {
    if may_be_written {
        return Err(StoreError::Unknown(Box::new(failure.clone())));
    }
    Err(match failure {
        Failure::WentBack(fallen) => (*fallen).into(),
        Failure::NoSession(_) | Failure::Trouble(_) | Failure::Forgotten => {
            StoreError::Unavailable(Box::new(failure.clone()))
        }
    })
}

/// Takes the counter's lock and reads what is needed, in one round trip.
async fn read(session: &Session, needs: &Needs) -> Result<Found, Error> {
    let (client, statements) = (&session.client, &session.statements);
    let keys: Vec<&[u8]> = needs.keys.iter().map(|(key, _)| key.as_bytes()).collect();
    let wants: Vec<bool> = needs.keys.iter().map(|(_, wants)| *wants).collect();
    let ids: Vec<Uuid> = needs.ids.iter().map(|id| Uuid::from_bytes(*id.as_bytes())).collect();
    let (begun, locked, sought, seen) = join4(
        client.batch_execute("BEGIN"),
        client.query_one(&statements.lock, &[]),
        client.query(&statements.seek, &[&keys, &wants]),
        client.query(&statements.seen, &[&ids]),
    )
    .await;
    begun?;
    let counter = locked?;
    let mut found = Found::at(revision(&counter, 0)?, revision(&counter, 1)?, number(&counter, 2)?);
    for row in sought? {
        let (key, _) = &needs.keys[place(&row)?];
        let value = row.try_get::<_, Option<&[u8]>>(2)?.map(Bytes::copy_from_slice);
        found.items.insert(key.clone(), (revision(&row, 1)?, value.unwrap_or_default()));
    }
    for row in seen? {
        found.written.insert(needs.ids[place(&row)?], revision(&row, 1)?);
    }
    Ok(found)
}

/// How the storing of a plan ended.
enum Stored {
    Committed,
    /// The server said so.
    RolledBack(Trouble),
    /// It said nothing that would settle it.
    Unknown(Trouble),
}

/// Writes and commits, in one round trip.
async fn finish(
    session: &Session,
    limit: Duration,
    written: impl Future<Output = Result<u64, Error>>,
) -> Stored {
    drop(session.take_warning());
    let both = async { Ok(join(written, session.client.batch_execute("COMMIT")).await) };
    match within(limit, session, both).await {
        Ok((Ok(_), Ok(()))) => match session.take_warning() {
            None => Stored::Committed,
            Some(said) => {
                session.discard();
                Stored::Unknown(Trouble::Warned { said })
            }
        },
        Ok((Ok(_), Err(error))) => {
            session.discard();
            // Even an error that the server words may follow upon a commit that it made.
            Stored::Unknown(error.into())
        }
        Ok((Err(error), _)) => {
            session.discard();
            let trouble = Trouble::from(error);
            // What the server says of the writing it says before it looks at the COMMIT behind
            // it, which then only ends what has failed.
            if trouble.is_said_by_server() {
                Stored::RolledBack(trouble)
            } else {
                Stored::Unknown(trouble)
            }
        }
        Err(trouble) => Stored::Unknown(trouble),
    }
}
