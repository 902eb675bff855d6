//! How what runs on a machine that is drained is moved, as the acknowledged drain says: it goes on until
//! another copy takes requests.
//!
//! It is told to end because another has its place when that one was ready, or had crashed, or when it
//! took no requests itself. That it ends with the deadline of its drain, for an update, or because nobody
//! wants it, has other reasons. All of this is seen in the log of commits, and by what workers said.
//!
//! Not held against a leader: what it ends after the store was set back, whose claims may be lost.

use sterna_engine::control::{Record, RecordKey};
use sterna_model::{
    RunId,
    record::{Instance, InstanceState, StopReason, Twin, TwinReason},
};

use super::{
    Changed, Sight,
    ready::{Said, is_ready},
};

/// A copy that was being moved and was ended by a commit, though nobody took its place.
pub(super) fn ended_too_early(sight: &Sight<'_>, said: &Said, changed: &Changed) -> Option<String> {
    let RecordKey::Instance(key) = &changed.key else { return None };
    let Some(Record::Instance(before)) = &changed.before else { return None };
    let after = sight.stored.instance(key)?;
    let was = moving(before)?;
    let run = was.copy.placed.run;
    let is_ended = |twin: &&Twin| twin.copy.stopping == Some(StopReason::Elsewhere);
    let is = after.twin().filter(|twin| twin.copy.placed.run == run).filter(is_ended)?;
    let is_same = own_run(before) == own_run(after);
    let is_replaced = is_replaced(said, before) || is_replaced(said, after);
    let took_none = [was, is].into_iter().any(|twin| !is_ready(&twin.copy));
    let took_none = took_none || said.was_unready(sight.now, run);
    (is_same && !is_replaced && !took_none)
        .then(|| format!("{run:?} of {key} was moved, and the next one was never ready"))
}

/// Whether the copy in its place has been ready, or is gone.
fn is_replaced(said: &Said, instance: &Instance) -> bool {
    match instance.state() {
        InstanceState::Unclaimed { .. } => false,
        InstanceState::Claimed { copy, .. } => said.was_ready(copy.placed.run),
        InstanceState::Running { copy, .. } => is_ready(copy) || said.was_ready(copy.placed.run),
        InstanceState::Crashed { .. } => true,
    }
}

/// The copy of an instance that is being moved, and goes on.
fn moving(instance: &Instance) -> Option<&Twin> {
    let twin = instance.twin().filter(|twin| twin.reason == TwinReason::Evacuating)?;
    twin.copy.stopping.is_none().then_some(twin)
}

fn own_run(instance: &Instance) -> Option<RunId> {
    instance.copy().map(|copy| copy.placed.run)
}
