//! Settling commits that got no answer: first nothing of them may come any more, then look.

use sterna_model::{Revision, WriteId};

use super::record::{REIGN_KEY, Reign};
use crate::{Commit, Outcome, Store, StoreError};

/// What became of commits that were Unknown. It is final: what did not apply never will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// What later commits are fenced by; `None` if somebody else leads now.
    pub reign: Option<Reign>,
    /// For each write id that was asked about, in order, the revision that it made, if it applied.
    pub applied: Vec<Option<Revision>>,
}

/// Settles commits that were fenced by `reign` and got no answer.
///
/// It raises the fence counter, so that none of them can apply from then on, and reads which of
/// them have. Until this has answered, nothing may be sent or acknowledged on the strength of them.
///
/// # Errors
/// The store did not answer: call it again, with the same `raise_id`.
///
/// # Panics
/// The counter has come to its end, after 2^64 settlings of one reign.
pub async fn settle(
    store: &(impl Store + ?Sized),
    reign: Reign,
    raise_id: WriteId,
    unknown: &[WriteId],
) -> Result<Settled, StoreError> {
    let raised = reign.raised().expect("no reign settles 2^64 times");
    let raise = reign.fenced(Commit::new(raise_id)).put(REIGN_KEY, raised.to_string());
    let is_ours = match store.commit(raise).await? {
        Outcome::Applied(_) => true,
        // Either way the reign is no longer what those commits expect: it was raised by an earlier
        // call that the store has forgotten, or somebody else's has begun.
        Outcome::Conflict(_) => {
            let found = store.get(REIGN_KEY).await?.item.map(|item| item.value);
            found == Some(raised.to_string().into())
        }
    };
    let mut applied = Vec::with_capacity(unknown.len());
    for id in unknown {
        applied.push(store.written(*id).await?);
    }
    Ok(Settled { reign: is_ours.then_some(raised), applied })
}
