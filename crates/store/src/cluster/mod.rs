//! Whose store this is, and whether it has lost something (safety rule 25).
//!
//! ```text
//!   the store:  /v1/-/cluster   id, epoch, stage, floor
//!   a server:   Seen            id, and the highest position and marks that it has seen
//!   a worker:   the same, with its heartbeats
//!
//!   store behind what somebody has seen ──▶ recovered epoch: the next number, by a fenced commit
//! ```
//!
//! A store is restored from an older backup, or an asynchronous replica takes over: it answers as
//! if nothing had happened, and what was acknowledged since is gone. Nobody can bring that back; but
//! whoever has seen more than the store knows can notice, and then nothing is believed too early.
//!
//! Invariant: no server leads with a store whose [`Floor`] is above its own: it would forget what it
//! does not know.
//!
//! Invariant: an epoch is opened once; positions of a later one are greater than all of an earlier.
//!
//! [`judge`] decides; the functions below it read and commit.

mod record;
#[cfg(test)]
mod tests;

use sterna_model::{ClusterId, Epoch, Marks, Nonce, Position, Revision, WriteId};

pub use self::record::{CLUSTER_KEY, COPYING_KEY, Cluster, ClusterError, Floor, Seen, Stage};
use crate::{
    Commit, Expect, Item, Outcome, Reading, Scan, Store,
    leader::{LEASE_KEY, REIGN_KEY, Reign, term_in, term_key},
};

/// What the store is to a server that opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody's: it may be made ours.
    Blank,
    /// Ours, and it lacks nothing that was seen.
    Whole,
    /// Ours, and it lags behind what was seen, or has lost its very name: this epoch must be opened.
    Lags(Epoch),
    /// Its cluster goes on in another store.
    Moved,
    /// Another cluster's.
    Foreign(ClusterId),
    /// There is no epoch left to count; nothing is safe but to stop.
    Exhausted,
}

/// What a store says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whose it is.
    pub cluster: Option<Cluster>,
    /// How far it has come.
    pub revision: Revision,
    /// The nonce of the term that the asking server has followed last, as this store knows it.
    pub nonce: Option<Nonce>,
    /// When the term after that one began.
    pub next_began: Option<Revision>,
}

/// Decides by what the store says of itself, and what this server has seen.
///
/// A restored store may count past what was seen before anybody looks. But the reigns that it lived
/// through since are not those that were followed: the nonce of the last one tells, and so does the
/// next one, if it began before what was seen, when that one still lasted.
///
/// What cannot be told so is a store that lost something and counted past it in one and the same
/// reign. Its leader stops the reign when it notices, which it does unless others counted for it:
/// see [`StoreError::WentBack`](crate::StoreError::WentBack).
pub fn judge(found: &Found, seen: Option<&Seen>) -> Verdict {
    let Found { cluster: stored, revision, nonce, next_began } = found;
    let next = |epoch: Epoch| epoch.next().map_or(Verdict::Exhausted, Verdict::Lags);
    let has_lived_so = |seen: &Seen| {
        let is_followed = seen.reign.is_none_or(|(_, followed)| *nonce == Some(followed));
        is_followed && next_began.is_none_or(|at| at > seen.position.revision)
    };
    match (stored, seen) {
        (None, None) => Verdict::Blank,
        (None, Some(seen)) => next(seen.position.epoch),
        (Some(stored), Some(_) | None) if stored.stage == Stage::Moved => Verdict::Moved,
        (Some(_), None) => Verdict::Whole,
        (Some(stored), Some(seen)) if stored.id != seen.cluster => Verdict::Foreign(stored.id),
        (Some(stored), Some(seen)) => {
            let position = Position { epoch: stored.epoch, revision: *revision };
            // A later epoch was opened by somebody who knew that something is lost.
            let is_later = stored.epoch > seen.position.epoch;
            if is_later || (position >= seen.position && has_lived_so(seen)) {
                Verdict::Whole
            } else {
                next(stored.epoch.max(seen.position.epoch))
            }
        }
    }
}

/// Reads what a store says of itself, to a server that has seen this of it.
///
/// # Errors
/// The store does not answer, what stands there cannot be read or is of a newer sterna, or it is
/// half of a copy.
pub async fn read(
    store: &(impl Store + ?Sized),
    seen: Option<&Seen>,
) -> Result<Found, ClusterError> {
    if store.get(COPYING_KEY).await?.item.is_some() {
        return Err(ClusterError::HalfCopied);
    }
    let (mut nonce, mut next_began) = (None, None);
    if let Some((term, _)) = seen.and_then(|seen| seen.reign) {
        let item = store.get(&term_key(term)).await?.item;
        nonce = item.as_ref().and_then(term_in).map(|(_, (nonce, _))| nonce);
        if let Some(next) = term.next() {
            next_began = store.get(&term_key(next)).await?.item.map(|item| item.revision);
        }
    }
    let reading = store.get(CLUSTER_KEY).await?;
    let cluster = reading.item.map(|item| Cluster::from_bytes(&item.value)).transpose()?;
    if let Some(Cluster { floor, .. }) = cluster.filter(|it| it.floor > Floor::OURS) {
        return Err(ClusterError::TooNew { floor });
    }
    Ok(Found { cluster, revision: reading.revision, nonce, next_began })
}

/// What a server of this cluster sees of its store now, to be remembered where the store's own
/// losses do not reach: after what stands there, by [`Seen::after`], with the marks of the limits that
/// it goes by.
///
/// # Errors
/// The store does not answer, or the reign cannot be read.
pub async fn see(store: &(impl Store + ?Sized), cluster: &Cluster) -> Result<Seen, ClusterError> {
    // One reading for both: the reign is the one that lasted at that revision.
    let Reading { item, revision } = store.get(REIGN_KEY).await?;
    let reign =
        item.map(|item| String::from_utf8_lossy(&item.value).parse::<Reign>()).transpose()?;
    Ok(Seen {
        cluster: cluster.id,
        position: Position { epoch: cluster.epoch, revision },
        reign: reign.map(|reign| (reign.term, reign.nonce)),
        marks: Marks::NONE,
    })
}

/// Makes an empty store the store of a new cluster, in its first epoch: a virgin one.
///
/// # Errors
/// The store belongs to somebody, holds anything but what an election writes, or does not answer.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use sterna_model::{ClusterId, WallTime, WriteId};
/// use sterna_store::{Memory, cluster};
///
/// let store = Memory::new();
/// let id = ClusterId::from_parts(WallTime::EPOCH, [1; 10]);
/// let made = cluster::make(&store, id, WriteId::from_parts(WallTime::EPOCH, [2; 10])).await?;
/// assert_eq!(cluster::read(&store, None).await?.cluster, Some(made));
/// # Ok::<(), cluster::ClusterError>(()) }).unwrap();
/// ```
pub async fn make(
    store: &(impl Store + ?Sized),
    id: ClusterId,
    write_id: WriteId,
) -> Result<Cluster, ClusterError> {
    let mut question = Scan::of("");
    loop {
        let page = store.scan(question.clone()).await?;
        if let Some(item) = page.items.iter().find(|item| !is_of_election(item)) {
            return Err(ClusterError::NotEmpty { key: item.key.to_string() });
        }
        match question.following(&page) {
            Some(next) => question = next,
            None => break,
        }
    }
    let (epoch, floor) = (Epoch::new(1), Floor::FIRST);
    let cluster = Cluster { id, epoch, stage: Stage::Virgin, floor };
    let commit = Commit::new(write_id)
        .expect(CLUSTER_KEY, Expect::Absent)
        .put(CLUSTER_KEY, cluster.to_string());
    match store.commit(commit).await? {
        Outcome::Applied(_) => Ok(cluster),
        Outcome::Conflict(_) => Err(ClusterError::NotEmpty { key: CLUSTER_KEY.to_owned() }),
    }
}

/// Whether an election wrote it: a server that was started before its cluster was made may have held one.
fn is_of_election(item: &Item) -> bool {
    [LEASE_KEY, REIGN_KEY].contains(&&*item.key) || term_in(item).is_some()
}

/// Opens a recovered epoch, as the leader that found the store to lag.
///
/// # Errors
/// Somebody else leads, or has opened an epoch meanwhile, or the store does not answer. After
/// [`StoreError::Unknown`](crate::StoreError::Unknown) read again: the epoch says whether it did.
pub async fn recover(
    store: &(impl Store + ?Sized),
    reign: Reign,
    found: Option<&Cluster>,
    recovered: Cluster,
    write_id: WriteId,
) -> Result<Cluster, ClusterError> {
    let expect = match found {
        Some(found) => Expect::Value(found.to_string().into()),
        None => Expect::Absent,
    };
    let recovered = Cluster { stage: Stage::Recovered, ..recovered };
    let commit = reign
        .fenced(Commit::new(write_id))
        .expect(CLUSTER_KEY, expect)
        .put(CLUSTER_KEY, recovered.to_string());
    match store.commit(commit).await? {
        Outcome::Applied(_) => Ok(recovered),
        Outcome::Conflict(_) => Err(ClusterError::Overtaken),
    }
}
