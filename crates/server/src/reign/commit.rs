//! One commit of a reign: fenced, tried again while nothing was written, settled when nobody knows.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sterna_model::Revision;
use sterna_store::{
    Commit, Key, Outcome, Store, StoreError,
    leader::{Fate, Reign, Unanswered, settle},
    machine::write_id,
};
use tokio::time::sleep;

/// How long after a store did not answer it is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// What is to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    pub(super) puts: Vec<(Key, bytes::Bytes)>,
    pub(super) removes: Vec<Key>,
}

/// What the store said last that has not taken a commit. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(Arc<Mutex<Option<String>>>);

impl Refusals {
    fn note(&self, error: &StoreError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(crate::because(error));
    }

    /// `None` if it has said nothing.
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// It stands.
#[derive(Debug)]
pub(super) struct Stands {
    pub(super) revision: Revision,
    /// By what later commits are fenced: settling raises it.
    pub(super) reign: Reign,
}

/// Why a commit will never stand: this reign is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum Over {
    #[error("another server leads now")]
    Deposed,
    #[error("the outcome of a commit is unknown; the server reads everything again")]
    Forgotten,
    #[error("the store refuses a commit of ours")]
    Store(#[source] StoreError),
}

/// Writes all of it, or finds out that this reign is over. It tries for as long as it must: a store
/// that does not answer is waited for.
pub(super) async fn commit(
    store: Arc<dyn Store>,
    mut reign: Reign,
    after: Revision,
    writes: Writes,
    refusals: Refusals,
) -> Result<Stands, Over> {
    loop {
        let id = write_id();
        let mut commit = reign.fenced(Commit::new(id));
        for (key, value) in &writes.puts {
            commit = commit.put(key.clone(), value.clone());
        }
        for key in &writes.removes {
            commit = commit.delete(key.clone());
        }
        match store.commit(commit).await {
            Ok(Outcome::Applied(revision)) => return Ok(Stands { revision, reign }),
            Ok(Outcome::Conflict(_)) => return Err(Over::Deposed),
            Err(error @ StoreError::Unavailable(_)) => {
                refusals.note(&error);
                sleep(AGAIN).await;
            }
            Err(error @ StoreError::Unknown(_)) => {
                refusals.note(&error);
                let unanswered = Unanswered { write_id: id, after };
                let (raised, fate) = find_out(&*store, reign, unanswered, &refusals).await?;
                match fate {
                    Fate::Applied(revision) => return Ok(Stands { revision, reign: raised }),
                    Fate::Never => reign = raised,
                    Fate::Forgotten => return Err(Over::Forgotten),
                }
            }
            Err(error) => return Err(Over::Store(error)),
        }
    }
}

/// Settles a commit that got no answer (safety rule 18).
async fn find_out(
    store: &dyn Store,
    reign: Reign,
    unanswered: Unanswered,
    refusals: &Refusals,
) -> Result<(Reign, Fate), Over> {
    let raise = write_id();
    loop {
        match settle(store, reign, raise, &[unanswered]).await {
            Ok(settled) => {
                let raised = settled.reign.ok_or(Over::Deposed)?;
                let fate = settled.fates.first().copied().unwrap_or(Fate::Forgotten);
                return Ok((raised, fate));
            }
            Err(error @ (StoreError::Unavailable(_) | StoreError::Unknown(_))) => {
                refusals.note(&error);
                sleep(AGAIN).await;
            }
            Err(error) => return Err(Over::Store(error)),
        }
    }
}
