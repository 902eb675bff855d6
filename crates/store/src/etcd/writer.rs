//! Commits: each is one transaction, and is settled inside if its answer is lost.

use tokio::time::{Instant, sleep, timeout_at};

use super::{
    keys::revision,
    known::Known,
    link::{CALL_MAX, Link, PAUSE},
    plan::{self, Floor, Lost, Verdict},
    reader,
    session::Session,
    trouble::{Fate, Next, Topic, Trouble},
    wire::{TxnResponse, path},
};
use crate::{Commit, Outcome, StoreError, WentBack};
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
    until: Instant,
    commit: &Commit,
) -> Result<Outcome, StoreError> {
    let mut attempts = Attempts { until, floor: known.floor(), doubt: None };
    loop {
        // Before it is sent: every copy applies later than this.
        let seen = known.reached.highest();
        let trouble = match attempts.send(link, known, commit).await {
            Ok(Verdict::Applied(revision)) => return Ok(Outcome::Applied(revision)),
            Ok(Verdict::FloorMoved(floor)) => match attempts.begin_anew(floor) {
                Ok(()) => continue,
                Err(trouble) => trouble,
            },
            Ok(Verdict::Lost(_)) if attempts.doubt.is_some() => Trouble::Outstanding,
            Ok(Verdict::Lost(lost)) => {
                let explained = timeout_at(until, explain(link, known, commit, lost)).await;
                match explained.unwrap_or(Err(Trouble::Silent { limit: CALL_MAX })) {
                    Ok(outcome) => return Ok(outcome),
                    Err(trouble) => Attempts::unexplained(trouble),
                }
            }
            Ok(Verdict::Nonsense) => Trouble::Nonsense,
            Err(Failure::WentBack(fallen)) if attempts.doubt.is_none() => {
                return Err(fallen.into());
            }
            Err(Failure::WentBack(fallen) | Failure::AppliedBack(fallen)) => {
                return Err(StoreError::Unknown(fallen.into()));
            }
            Err(Failure::Unexplained(trouble)) => Attempts::unexplained(trouble),
            // A commit that writes nothing can have done nothing.
            Err(Failure::Unanswered(trouble))
                if commit.writes.is_empty() || trouble.fate() == Fate::NotDone =>
            {
                trouble
            }
            Err(Failure::Unanswered(trouble)) if trouble.topic() == Topic::Full => {
                match attempts.settle(link, known, commit, seen).await {
                    Ok(Some(revision)) => return Ok(Outcome::Applied(revision)),
                    Ok(None) => trouble,
                    Err(unsettled) => {
                        attempts.doubt.get_or_insert(seen);
                        unsettled
                    }
                }
            }
            Err(Failure::Unanswered(trouble)) => {
                attempts.doubt.get_or_insert(seen);
                trouble
            }
        };
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
    async fn send(&self, link: &Link, known: &Known, commit: &Commit) -> Result<Verdict, Failure> {
        let mark = known.reached.mark().map_err(Failure::WentBack)?;
        let session = link.session(self.until).await.map_err(Failure::Unanswered)?;
        let request = plan::transaction(&known.keys, self.floor, commit);
        let answer: TxnResponse =
            session.ask(path::TXN, request).await.map_err(Failure::Unanswered)?;
        let Some(header) = &answer.header else { return Ok(Verdict::Nonsense) };
        let at = revision(header.revision);
        let has_written = answer.succeeded && !commit.writes.is_empty();
        let noted = match has_written {
            true => known.reached.note_applied(mark, at),
            false => known.reached.note(mark, at),
        };
        if answer.succeeded {
            if noted.is_ok()
                && !commit.writes.is_empty()
                && let Some(changes) = plan::changes(commit, &answer)
            {
                known.note_own(at, changes);
            }
            return noted.map(|()| Verdict::Applied(at)).map_err(Failure::AppliedBack);
        }
        noted.map_err(Failure::WentBack)?;
        let question = plan::question(&known.keys, at, commit);
        let answer: TxnResponse =
            link.ask(path::TXN, question).await.map_err(Failure::Unexplained)?;
        let verdict = plan::verdict(self.floor, at, commit, &answer);
        if let Verdict::FloorMoved(floor) = verdict {
            known.note_floor(floor);
        }
        Ok(verdict)
    }

    /// Finds out whether a copy applied of which etcd said only that its database is full.
    ///
    /// It says so of a copy that it never proposes, of one that it refuses when its turn comes, and
    /// of one that it has just applied. In each case the copy has had its turn: it is not on its
    /// way any more, and reads are linearizable, so if its record is not there now, the copy did
    /// not apply and never will. Unless the record was there and is removed already: that is ruled
    /// out by the floor, which is read behind it. Earlier copies that are in doubt stay in doubt.
    async fn settle(
        &self,
        link: &Link,
        known: &Known,
        commit: &Commit,
        seen: Revision,
    ) -> Result<Option<Revision>, Trouble> {
        let written = reader::put_at(&reader::record(link, known, commit.write_id).await?);
        if written.is_some() || self.keeps_records(reader::floor(link, known).await?, seen) {
            return Ok(written);
        }
        Err(Trouble::Forgotten)
    }

    /// Whether, by this floor, the record of a copy must still be there that applied behind `seen`.
    fn keeps_records(&self, floor: Floor, seen: Revision) -> bool {
        floor == self.floor || floor.up_to <= seen
    }

    /// What to do about a copy that is known not to have applied, if why is not. What it lost
    /// against may be compacted already: then it is sent again.
    fn unexplained(trouble: Trouble) -> Trouble {
        match trouble.topic() {
            Topic::Compacted => Trouble::Outrun,
            Topic::Future
            | Topic::Leader
            | Topic::Login
            | Topic::Permission
            | Topic::NoAuthentication
            | Topic::TooLarge
            | Topic::Full
            | Topic::Other => trouble,
        }
    }

    /// No copy applied, and none that was sent so far ever will: the floor that they expect is no
    /// more. But if history is gone beyond where they began, one may have applied before.
    fn begin_anew(&mut self, floor: Floor) -> Result<(), Trouble> {
        if self.doubt.is_some_and(|seen| !self.keeps_records(floor, seen)) {
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

/// Why an attempt brought no verdict.
enum Failure {
    /// The commit itself got no answer.
    Unanswered(Trouble),
    /// The commit did not apply, and why could not be found out.
    Unexplained(Trouble),
    /// The store lacks what it had acknowledged, and the commit did not apply to it.
    WentBack(WentBack),
    /// The same, but it did.
    AppliedBack(WentBack),
}

/// Finds out which keys were not as expected.
async fn explain(
    link: &Link,
    known: &Known,
    commit: &Commit,
    mut lost: Lost,
) -> Result<Outcome, Trouble> {
    for key in lost.unread(commit) {
        let value = reader::at(link, known, &key, lost.at).await?;
        lost.note(&key, value.ok_or(Trouble::Nonsense)?);
    }
    lost.outcome(commit).ok_or(Trouble::Nonsense)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(doubt: Option<u64>) -> Attempts {
        let floor = Floor { up_to: Revision::ZERO, put_at: 0 };
        Attempts { until: Instant::now(), floor, doubt: doubt.map(Revision::new) }
    }

    fn raised(up_to: u64) -> Floor {
        Floor { up_to: Revision::new(up_to), put_at: 99 }
    }

    #[test]
    fn a_raised_floor_settles_what_began_above_it() {
        let mut attempts = attempts(Some(50));
        assert!(attempts.begin_anew(raised(50)).is_ok());
        assert_eq!((attempts.doubt, attempts.floor), (None, raised(50)));
    }

    #[test]
    fn a_record_is_missed_only_above_the_floor_or_below_one_that_was_not_raised() {
        let attempts = attempts(None);
        assert!(attempts.keeps_records(raised(50), Revision::new(50)));
        assert!(!attempts.keeps_records(raised(51), Revision::new(50)));
        assert!(attempts.keeps_records(attempts.floor, Revision::ZERO));
    }

    #[test]
    fn what_began_below_a_raised_floor_stays_in_doubt() {
        let mut in_doubt = attempts(Some(50));
        assert!(matches!(in_doubt.begin_anew(raised(51)), Err(Trouble::Forgotten)));
        assert_eq!(in_doubt.doubt, Some(Revision::new(50)));
        assert!(attempts(None).begin_anew(raised(51)).is_ok(), "nothing was in doubt");
    }
}
