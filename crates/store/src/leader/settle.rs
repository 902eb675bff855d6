//! Settling commits that got no answer: first nothing of them may come any more, then look.

use sterna_model::{
    Revision, WriteId,
    planted::{Mistake, is_planted},
};

use super::record::{REIGN_KEY, Reign};
use crate::{Commit, Outcome, Scan, Store, StoreError};

/// A commit that was fenced and got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Its write id.
    pub write_id: WriteId,
    /// A revision that the store had before the commit was sent. Write ids are remembered with the
    /// history: if that is gone beyond here, nothing can be said any more.
    pub after: Revision,
}

/// What became of a commit that was Unknown. It is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It applied, at this revision.
    Applied(Revision),
    /// It did not apply, and never will.
    Never,
    /// It will not apply any more, but whether it has is forgotten: read what it would have written.
    Forgotten,
}

/// What became of commits that were Unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// What later commits are fenced by; `None` if somebody else leads now.
    pub reign: Option<Reign>,
    /// For each commit that was asked about, in order.
    pub fates: Vec<Fate>,
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
    unknown: &[Unanswered],
) -> Result<Settled, StoreError> {
    let raised = reign.raised().expect("no reign settles 2^64 times");
    if is_planted(Mistake::TakesUnknownForFailed) {
        let fates = vec![Fate::Never; unknown.len()];
        return Ok(Settled { reign: Some(reign), fates });
    }
    let raised = if is_planted(Mistake::RaisesNoFence) { reign } else { raised };
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
    let mut fates = Vec::with_capacity(unknown.len());
    for unanswered in unknown {
        fates.push(fate(store, unanswered).await?);
    }
    Ok(Settled { reign: is_ours.then_some(raised), fates })
}

async fn fate(store: &(impl Store + ?Sized), unanswered: &Unanswered) -> Result<Fate, StoreError> {
    if let Some(revision) = store.written(unanswered.write_id).await? {
        return Ok(Fate::Applied(revision));
    }
    // Asked after the id: if history from there on is still whole, then it was when the id was looked
    // for, and an id that is not in it was never there.
    match store.scan(Scan::of(REIGN_KEY).limit(1).at(unanswered.after)).await {
        Ok(_) => Ok(Fate::Never),
        Err(StoreError::Compacted { .. }) => Ok(Fate::Forgotten),
        Err(error) => Err(error),
    }
}
