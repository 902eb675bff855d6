//! One reign: from what the store says, through everything that is decided, to its end.
//!
//! ```text
//!   elected ──▶ read the store ──▶ Leader ──▶ drive: inputs in, effects out ──▶ over
//!                    │ lags behind what was seen                │ one commit at a time
//!                    ▼                                          ▼
//!              a recovered epoch                              commit
//! ```
//!
//! Invariant: nothing is sent and nobody is told before the commit stands that it follows from; what
//! stands is shown.
//!
//! Invariant: a reign that is over says nothing more, to anybody.

mod asides;
mod commit;
mod drive;
mod room;
mod words;

use std::{collections::BTreeMap, sync::Arc};

use sterna_engine::{
    Leader,
    auction::Rules,
    control::{self, Now, Row},
};
use sterna_model::{BootTime, Marks, Revision};
use sterna_protocol::{
    limits::{Book, Limits, LimitsError},
    message::Mandate,
    roster::Origin,
    scheduler::{self, Bump},
};
use sterna_store::{
    Store, StoreError,
    cluster::{self, CLUSTER_KEY, Cluster, ClusterError, Floor, Seen, Verdict},
    leader::{Reign, term_in},
    machine::{boot_time, random, wall_time, write_id},
    scan_all,
};

pub(crate) use self::{
    drive::{Ended, Outlets, drive},
    room::fits,
};
use crate::{
    mirror::Mirror,
    records::{self, RecordError},
};

/// Why a server cannot lead with this store.
#[derive(Debug, thiserror::Error)]
pub enum ReignError {
    /// The store does not answer.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// Whose it is cannot be told, or somebody was faster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// What stands in it cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// It belongs to another cluster.
    #[error(
        "the store belongs to cluster {found}, and this server to another: give it the right store, or \
         another data directory"
    )]
    Foreign {
        /// Whose it is.
        found: sterna_model::ClusterId,
    },
    /// Its cluster goes on elsewhere.
    #[error(
        "the cluster of this store was moved to another store: start the server with the URL of that store"
    )]
    Moved,
    /// There is nothing in it.
    #[error(
        "the store is empty: make a cluster in it first, with `sterna dev` or `sterna server --make`"
    )]
    Blank,
    /// The limits in it make no sense.
    #[error("the limits in the store make no sense: restore it from a backup")]
    Limits(#[from] LimitsError),
    /// No epoch is left.
    #[error("the store has been restored too often to be counted: begin with an empty one")]
    Exhausted,
}

/// Everything that a reign begins with.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) reign: Reign,
    pub(crate) cluster: Cluster,
    pub(crate) leader: Leader,
    pub(crate) mirror: Mirror,
    pub(crate) events: Vec<bytes::Bytes>,
    pub(crate) revision: Revision,
}

/// Now, on both clocks.
pub(crate) fn now() -> Now {
    Now { boot: boot_time(), wall: wall_time() }
}

/// Reads everything, and begins. A store that lags behind what this server has seen gets a recovered
/// epoch first (safety rule 25).
pub(crate) async fn begin(
    store: &Arc<dyn Store>,
    (reign, lease_until): (Reign, BootTime),
    elected: BootTime,
    seen: Option<&Seen>,
    (rules, roster_max): (Rules, usize),
) -> Result<Begun, ReignError> {
    let cluster = open(&**store, reign, seen).await?;
    let (items, revision) = scan_all(&**store, records::ALL).await?;
    let (mut mirror, mut all, mut events) = (Mirror::new(revision), Vec::new(), Vec::new());
    let (mut roster, mut limits, mut reigns) = (Vec::new(), Vec::new(), BTreeMap::new());
    for item in items {
        if item.key.starts_with(records::EVENTS) {
            events.push(item.value);
            continue;
        }
        if let Some((term, began)) = term_in(&item) {
            reigns.insert(term, began);
            continue;
        }
        let Some(row) = records::decode(&item.key, &item.value)? else { continue };
        match &row {
            Row::Roster(_, entry) => roster.extend(entry.clone()),
            Row::Limits(stored) => limits.clone_from(stored),
            Row::Service(..)
            | Row::Instance(..)
            | Row::Task(..)
            | Row::Tombstone(..)
            | Row::Drain(..)
            | Row::Domain(..)
            | Row::Definition(..)
            | Row::Stage(_) => {}
        }
        mirror.apply(revision, vec![row.clone()]);
        all.push(row);
    }
    let (stage, origin) = match cluster.stage {
        cluster::Stage::Virgin => (control::Stage::Virgin, Origin::Virgin),
        cluster::Stage::Used | cluster::Stage::Moved => (control::Stage::Used, Origin::Continued),
        cluster::Stage::Recovered => (control::Stage::Recovered, Origin::Recovered),
    };
    let newest: Limits = limits.pop().unwrap_or_default();
    let mandate =
        Mandate { cluster: cluster.id, epoch: cluster.epoch, term: reign.term, nonce: reign.nonce };
    let fleet = scheduler::Begin {
        mandate,
        elected,
        lease_until,
        revision,
        reigns,
        book: Book::new(newest, limits)?,
        marks: seen.map_or(Marks::NONE, |seen| seen.marks),
        roster,
        claims: Vec::new(),
        origin,
        bump: Bump::Forbidden,
        roster_max,
    };
    let (epoch, seed) = (cluster.epoch, random());
    let records = control::Begin { epoch, stage, records: all, seed, rules };
    let leader = Leader::new(now(), fleet, records);
    Ok(Begun { reign, cluster, leader, mirror, events, revision })
}

/// Whose store it is; a recovered epoch is opened if it must be.
async fn open(store: &dyn Store, reign: Reign, seen: Option<&Seen>) -> Result<Cluster, ReignError> {
    let found = cluster::read(store, seen).await?;
    // tidy: not a table
    match (cluster::judge(&found, seen), found.cluster) {
        (Verdict::Whole, Some(cluster)) => Ok(cluster),
        (Verdict::Lags(epoch), stored) => {
            let id = seen.map(|seen| seen.cluster).or(stored.map(|stored| stored.id));
            let id = id.ok_or(ReignError::Blank)?;
            let stage = cluster::Stage::Recovered;
            let floor = stored.map_or(Floor::FIRST, |stored| stored.floor);
            let recovered = Cluster { id, epoch, stage, floor };
            let id = write_id();
            Ok(cluster::recover(store, reign, stored.as_ref(), recovered, id).await?)
        }
        (Verdict::Blank | Verdict::Whole, _) => Err(ReignError::Blank),
        (Verdict::Moved, _) => Err(ReignError::Moved),
        (Verdict::Foreign(found), _) => Err(ReignError::Foreign { found }),
        (Verdict::Exhausted, _) => Err(ReignError::Exhausted),
    }
}

/// What is written of these rows, and the cluster's record as it stands then: its stage changes with
/// a row, and its floor rises with the first row that an older version would forget.
fn put(writes: &mut commit::Writes, rows: &[Row], cluster: &Cluster) -> Cluster {
    let mut next = *cluster;
    for row in rows {
        next.floor = next.floor.max(floor(row));
        if let Row::Stage(stage) = row {
            next.stage = stage_of(*stage);
            continue;
        }
        let path = records::path(&row.key()).into();
        match records::encode(row) {
            Some(bytes) => writes.puts.push((path, bytes.into())),
            None => writes.removes.push(path),
        }
    }
    if next != *cluster {
        writes.puts.push((CLUSTER_KEY.into(), next.to_string().into()));
    }
    next
}

/// The oldest version that does not forget such a row.
const fn floor(row: &Row) -> Floor {
    match row {
        Row::Service(..)
        | Row::Instance(..)
        | Row::Task(..)
        | Row::Tombstone(..)
        | Row::Roster(..)
        | Row::Drain(..)
        | Row::Domain(..)
        | Row::Limits(_)
        | Row::Stage(_) => Floor::FIRST,
        Row::Definition(..) => Floor::DEFINITIONS,
    }
}

const fn stage_of(stage: control::Stage) -> cluster::Stage {
    match stage {
        control::Stage::Virgin => cluster::Stage::Virgin,
        control::Stage::Used => cluster::Stage::Used,
        control::Stage::Recovered => cluster::Stage::Recovered,
    }
}

#[cfg(test)]
mod tests {
    use sterna_api::spec::{Source, read};
    use sterna_model::{ClusterId, DefinitionKey, Epoch, Namespace, WallTime};

    use super::*;

    /// What an older version would forget raises the floor in its own commit, and nothing lowers it.
    #[test]
    fn the_commit_that_writes_the_first_definition_raises_the_floor() {
        let text = "version = 1\n[task.a]\nrun = [\"a\"]\n";
        let specs = read(&[Source { name: "a.toml", text }]).unwrap();
        let (name, task) = specs.tasks.into_iter().next().unwrap();
        let key = DefinitionKey { namespace: Namespace::default(), name };
        let definition = Row::Definition(key.clone(), 1, Some(Arc::new(task.stored())));
        let id = ClusterId::from_parts(WallTime::EPOCH, [1; 10]);
        let (epoch, stage, floor) = (Epoch::new(1), cluster::Stage::Used, Floor::FIRST);
        let first = Cluster { id, epoch, stage, floor };

        let mut writes = commit::Writes::default();
        assert_eq!(put(&mut writes, &[Row::Limits(Vec::new())], &first), first);
        assert!(!writes.puts.iter().any(|(key, _)| &**key == CLUSTER_KEY));

        let mut writes = commit::Writes::default();
        let next = put(&mut writes, &[definition], &first);
        assert_eq!(next.floor, Floor::DEFINITIONS);
        let record = writes.puts.iter().find(|(key, _)| &**key == CLUSTER_KEY);
        let (_, record) = record.expect("the cluster's record is written");
        assert_eq!(**record, *format!("1 {id} 1 used floor:0.2.0").as_bytes());

        let mut writes = commit::Writes::default();
        assert_eq!(put(&mut writes, &[Row::Definition(key, 1, None)], &next), next);
        assert!(writes.puts.is_empty(), "it stays where it is");
    }
}
