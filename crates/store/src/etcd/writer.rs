//! Commits: each is one transaction, and is settled inside if its answer is lost.

use tokio::time::{Instant, sleep};

use super::{
    known::Known,
    link::{CALL_MAX, Link, PAUSE},
    plan::{self, Floor, Lost, Verdict},
    reader,
    session::Session,
    trouble::{Fate, Next, Topic, Trouble},
    wire::{TxnResponse, path},
};
use crate::{Commit, Outcome, StoreError};
use sterna_model::Revision;

/// Commits `commit`, once, however often it has to be sent for that.
///
/// After a copy was sent and got no answer, the same commit is sent again: of all copies at most
/// one applies (see [`plan`]), and whichever answer comes tells of that one. Not so a lost race:
/// what the second copy lost against may change back before the first one arrives. That is told
/// as `Unknown`.
pub(super) async fn commit(
    link: &Link,
    known: &Known,
    commit: &Commit,
) -> Result<Outcome, StoreError> {
    let mut attempts =
        Attempts { until: Instant::now() + CALL_MAX, floor: known.floor(), doubt: None };
    loop {
        // Before it is sent: every copy applies later than this.
        let seen = known.seen();
        let trouble = match attempts.send(link, known, commit).await {
            Ok(Verdict::Applied(revision)) => return Ok(Outcome::Applied(revision)),
            Ok(Verdict::FloorMoved(floor)) => match attempts.begin_anew(floor) {
                Ok(()) => continue,
                Err(trouble) => trouble,
            },
            Ok(Verdict::Lost(_)) if attempts.doubt.is_some() => Trouble::Outstanding,
            Ok(Verdict::Lost(lost)) => match explain(link, known, commit, lost).await {
                Ok(Some(outcome)) => return Ok(outcome),
                // What it lost against is compacted already: it may as well try again.
                Ok(None) => continue,
                // It is known not to have applied, whatever happened to the question why.
                Err(trouble) => return Err(StoreError::Unavailable(trouble.into())),
            },
            Ok(Verdict::Nonsense) => Trouble::Nonsense,
            Err(trouble) => trouble,
        };
        // A commit that writes nothing can have done nothing.
        if trouble.fate() == Fate::Open && !commit.writes.is_empty() {
            attempts.doubt.get_or_insert(seen);
        }
        if attempts.is_over(&trouble) {
            return Err(match attempts.doubt {
                Some(_) => StoreError::Unknown(trouble.into()),
                None => StoreError::Unavailable(trouble.into()),
            });
        }
        if trouble.next() == Next::Again {
            sleep(PAUSE).await;
        }
    }
}

/// What has been done for one commit.
struct Attempts {
    until: Instant,
    /// The floor that all copies in doubt expect.
    floor: Floor,
    /// Whether a copy got no answer, and which revision the store had reached before.
    doubt: Option<Revision>,
}

impl Attempts {
    async fn send(&self, link: &Link, known: &Known, commit: &Commit) -> Result<Verdict, Trouble> {
        let session = link.session(self.until).await?;
        let request = plan::transaction(&known.keys, self.floor, commit);
        let answer: TxnResponse = session.ask(path::TXN, request).await?;
        known.note(answer.header.as_ref());
        let verdict = plan::verdict(self.floor, commit, &answer);
        if let Verdict::FloorMoved(floor) = verdict {
            known.note_floor(floor);
        }
        Ok(verdict)
    }

    /// No copy applied, and none that was sent so far ever will: the floor that they expect is no
    /// more. But if history is gone beyond where they began, one may have applied before.
    fn begin_anew(&mut self, floor: Floor) -> Result<(), Trouble> {
        if self.doubt.is_some_and(|seen| floor.up_to > seen) {
            return Err(Trouble::Forgotten);
        }
        (self.floor, self.doubt) = (floor, None);
        Ok(())
    }

    /// A commit in doubt is tried for as long as there is time: it may yet be settled. Of others
    /// the caller hears when no member can be reached.
    fn is_over(&self, trouble: &Trouble) -> bool {
        let is_unreached = matches!(trouble, Trouble::NotConnected { .. });
        trouble.next() == Next::Nothing
            || Instant::now() >= self.until
            || (is_unreached && self.doubt.is_none())
    }
}

/// Finds out which keys were not as expected; `None` if that is no longer known.
async fn explain(
    link: &Link,
    known: &Known,
    commit: &Commit,
    mut lost: Lost,
) -> Result<Option<Outcome>, Trouble> {
    for key in lost.unread(commit) {
        match reader::at(link, known, &key, lost.at).await {
            Ok(Some(value)) => lost.note(&key, value),
            Ok(None) => return Err(Trouble::Nonsense),
            Err(trouble) if trouble.topic() == Topic::Compacted => return Ok(None),
            Err(trouble) => return Err(trouble),
        }
    }
    lost.outcome(commit).map(Some).ok_or(Trouble::Nonsense)
}

/// A bare conditional put, as anybody would send it, for measuring beside a store.
pub(super) async fn put_if_at(
    session: &Session,
    key: bytes::Bytes,
    at: i64,
    value: bytes::Bytes,
) -> Result<Option<i64>, Trouble> {
    use super::wire::{Compare, PutRequest, Request, TxnRequest};
    let request = TxnRequest {
        compare: vec![Compare::was_put_at(key.clone(), at)],
        success: vec![Request::Put(PutRequest { key, value }).into()],
        failure: Vec::new(),
    };
    let answer: TxnResponse = session.ask(path::TXN, request).await?;
    let revision = answer.header.map_or(0, |header| header.revision);
    Ok(answer.succeeded.then_some(revision))
}
