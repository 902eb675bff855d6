//! The two questions that are asked of the consensus, and every answer to them.

use super::{Seat, SetHash, SetId};

/// Whether a worker that never was healthy may become so, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may: from now on nobody can agree without it.
    Granted,
    /// It may: that was so at an earlier judgement, and what nobody could do then nobody can do
    /// later, whoever has joined or left since.
    GrantedBefore,
    /// It waits outside until those inside agree.
    Queued,
    /// It has not echoed a set with itself in it yet.
    Unheard,
    /// It has echoed an older set than the newest.
    Behind,
    /// Somebody in the set has not echoed any: what it holds is not known.
    OthersUnheard,
    /// Somebody could still agree on a set without it.
    OthersUnaware,
    /// It has left.
    Gone,
}

impl Permission {
    /// Whether the answer is yes.
    pub const fn is_granted(self) -> bool {
        match self {
            Self::Granted | Self::GrantedBefore => true,
            Self::Queued
            | Self::Unheard
            | Self::Behind
            | Self::OthersUnheard
            | Self::OthersUnaware
            | Self::Gone => false,
        }
    }
}

/// How far the worker itself has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Gone,
    Queued,
    Unheard,
    Behind,
    Newest,
}

/// How far everybody in the set has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// Somebody has echoed nothing.
    Unheard,
    /// Somebody requires only sets from before the worker.
    Unaware,
    /// Everybody requires the worker, directly or through others.
    Aware,
}

/// A worker may become healthy when it requires everybody, and everybody requires it.
#[rustfmt::skip]
pub(super) const fn permission(standing: Standing, others: Others) -> Permission {
    use Others as O;
    use Standing as S;
    match (standing, others) {
        (S::Gone,    O::Unheard | O::Unaware | O::Aware) => Permission::Gone,
        (S::Queued,  O::Unheard | O::Unaware | O::Aware) => Permission::Queued,
        (S::Unheard, O::Unheard | O::Unaware | O::Aware) => Permission::Unheard,
        (S::Behind,  O::Unheard | O::Unaware | O::Aware) => Permission::Behind,
        // Not asked, it may hold a set with nobody in it but those who were there before.
        (S::Newest,  O::Unheard)                         => Permission::OthersUnheard,
        (S::Newest,  O::Unaware)                         => Permission::OthersUnaware,
        (S::Newest,  O::Aware)                           => Permission::Granted,
    }
}

/// Whether the workers that have come back agree on who they all are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// They do: everybody who was in the last leader's set is here.
    Reached,
    /// Nobody is here, and nobody cannot agree.
    NoWorkers,
    /// This worker came without an id, so that it may be anybody.
    Blank(Seat),
    /// This worker came with another id than the first one.
    Split(Seat),
    /// All came with the same id, but it names other workers than those who are here.
    Others {
        /// How many workers the id names.
        named: u32,
        /// How many are here.
        here: u32,
    },
}

/// Judges the ids that workers came with, against the hash of those who are here.
pub(super) fn agreement(
    came_with: impl IntoIterator<Item = (Seat, Option<SetId>)>,
    here: SetHash,
) -> Agreement {
    let mut agreed: Option<SetId> = None;
    for (seat, initial) in came_with {
        let Some(initial) = initial else { return Agreement::Blank(seat) };
        if *agreed.get_or_insert(initial) != initial {
            return Agreement::Split(seat);
        }
    }
    match agreed {
        None => Agreement::NoWorkers,
        Some(id) if id.hash == here => Agreement::Reached,
        Some(id) => Agreement::Others { named: id.hash.count(), here: here.count() },
    }
}
