//! How what runs on a machine that is drained is moved, as the acknowledged drain says: it goes on until
//! another copy takes requests, also if it was silent meanwhile.
//!
//! It is told to end because another has its place when that one was ready, or had crashed, or when it
//! took no requests itself; or because its drain is nearly over. That it ends for an update, or because
//! nobody wants it, has other reasons. All of this is seen in the log of commits, and by what workers said.
//!
//! Not held against a leader: what it ends after the store was set back, whose claims may be lost.

use sterna_engine::control::{Row, RowKey};
use sterna_model::{
    Contract, RunId, Span, WallTime,
    record::{Instance, InstanceCopy, InstancePhase, InstanceState, StopReason, Twin, TwinReason},
};

use super::{Changed, Sight, ready::Said};

/// A copy that was being moved and was ended by a commit, though nobody took its place.
pub(super) fn ended_too_early(
    sight: &Sight<'_>,
    said: &Said,
    changes: &[Changed],
    changed: &Changed,
) -> Option<String> {
    let RowKey::Instance(key) = &changed.key else { return None };
    let Some(Row::Instance(_, Some(before))) = &changed.before else { return None };
    let after = sight.stored.instance(key)?;
    let was = moving(sight, changes, before)?;
    let run = was.copy.placed.run;
    let is_ended = |twin: &&Twin| twin.copy.stopping == Some(StopReason::Elsewhere);
    let is = after.twin().filter(|twin| twin.copy.placed.run == run).filter(is_ended)?;
    let is_same = own_run(before) == own_run(after);
    let is_replaced = is_replaced(said, before) || is_replaced(said, after);
    let took_none = [was, is].into_iter().any(|twin| !twin.copy.is_ready());
    let took_none = took_none || said.was_unready(sight.now, run);
    (is_same && !is_replaced && !took_none)
        .then(|| format!("{run:?} of {key} was moved, and the next one was never ready"))
}

/// A copy that may be moved and was asked to end because the drain of its machine does, though that had
/// more than a minute left, or more than half of its time: another could come for it until then.
pub(super) fn asked_too_early(
    sight: &Sight<'_>,
    latest: Option<WallTime>,
    changes: &[Changed],
    changed: &Changed,
) -> Option<String> {
    let RowKey::Instance(key) = &changed.key else { return None };
    let Some(Row::Instance(_, Some(before))) = &changed.before else { return None };
    let may_overlap = |contract: Contract| matches!(contract, Contract::Replace { .. });
    let is_asked = |twin: &&Twin| {
        twin.copy.stopping == Some(StopReason::Drain) && may_overlap(twin.copy.placed.contract)
    };
    let copy = &sight.stored.instance(key)?.twin().filter(is_asked)?.copy;
    // One that was starting ends: nobody asks it anything yet.
    let run = copy.placed.run;
    running(before).find(|one| one.placed.run == run).filter(|one| one.stopping.is_none())?;
    // What no spec wants any more may end alone, for all that is known.
    let is_alone = !may_overlap(sight.stored.service(&key.service)?.spec.contract);
    let lock = copy.placed.on.lock;
    let Some(Row::Drain(_, Some(drain))) = sight.stored.get(&RowKey::Drain(lock)) else {
        return None;
    };
    // One commit may stand for two drains: it may have been asked for the earlier.
    let is_second = |one: &Changed| one.key == RowKey::Drain(lock) && one.before.is_some();
    let is_other = changes.iter().any(is_second);
    let half = Span::from_millis(drain.deadline.since(drain.since).as_millis() / 2);
    let earliest = drain.deadline.minus(half.min(Span::from_secs(60)));
    let is_early = latest.is_some_and(|latest| latest < earliest);
    (is_early && !is_alone && !is_other).then(|| {
        format!("{run:?} of {key} is asked to end before {earliest}, and might have been moved")
    })
}

/// The copies of an instance that stand as running.
fn running(instance: &Instance) -> impl Iterator<Item = &InstanceCopy> {
    let own = instance.copy().filter(|_| instance.phase() == InstancePhase::Running);
    let twin = instance.twin().filter(|twin| twin.running_since.is_some());
    own.into_iter().chain(twin.map(|twin| &twin.copy))
}

/// Whether the copy in its place has been ready, or is gone.
fn is_replaced(said: &Said, instance: &Instance) -> bool {
    match instance.state() {
        InstanceState::Unclaimed { .. } => false,
        InstanceState::Claimed { copy, .. } => said.was_ready(copy.placed.run),
        InstanceState::Running { copy, .. } => copy.is_ready() || said.was_ready(copy.placed.run),
        InstanceState::Crashed { .. } => true,
    }
}

/// The copy of an instance that is being moved, and goes on; it may have been silent meanwhile.
fn moving<'a>(sight: &Sight<'_>, changes: &[Changed], instance: &'a Instance) -> Option<&'a Twin> {
    let twin = instance.twin().filter(|twin| twin.running_since.is_some())?;
    let drain = RowKey::Drain(twin.copy.placed.on.lock);
    // Of a drain that comes with the same commit nothing was known yet when its machine was heard.
    let is_new = changes.iter().any(|one| one.key == drain && one.before.is_none());
    let is_moving = match twin.reason {
        TwinReason::Evacuating => true,
        TwinReason::Silent => sight.stored.get(&drain).is_some() && !is_new,
        TwinReason::Surplus => false,
    };
    (is_moving && twin.copy.stopping.is_none()).then_some(twin)
}

fn own_run(instance: &Instance) -> Option<RunId> {
    instance.copy().map(|copy| copy.placed.run)
}
