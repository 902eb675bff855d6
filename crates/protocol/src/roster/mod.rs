//! The roster, and for whom a new leader waits.
//!
//! The roster is the stored list of machine locks that may run something. A worker joins it by a
//! commit before its first run, and leaves it by a commit when everything that it may run is
//! certainly gone (safety rule 19). So a new leader knows for whom to wait:
//!
//! | work | waits for |
//! | --- | --- |
//! | claimed tasks and instances | the worker that holds the claim, alone |
//! | unclaimed ones | nobody; in a recovered epoch: the full wait, and under `keep`, or where anything of the kind was ever kept, the roster, too |
//! | batches under `stop` | the consensus and the roster, or the safe wait |
//! | batches under `keep` | the roster |
//!
//! In a recovered epoch claims, marks and part of the roster may be lost with the store. Somebody who
//! must know can say that the roster is whole again, which brings neither claims nor marks back: the
//! full wait stays, and who is missing may run anything (safety rule 25).
//!
//! In a virgin cluster nobody waits. The consensus alone is not sound where workers are reborn
//! (safety rule 20): the roster carries the safety, the consensus is one more thing to agree.

use sterna_model::{BootTime, Incarnation, Lock, Name};

/// One entry of the roster, as it is stored. Who declares a machine dead, or drains it, commits that
/// mark; enrolling a life leaves the marks alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Enrolled {
    /// The newest life under its lock.
    pub incarnation: Incarnation,
    /// What the worker is called.
    pub name: Name,
    /// The boot of its machine in that life.
    pub boot: u128,
    /// Drawn by the process that this life is: another process with the same life has a data directory
    /// that was set back. 0 if that is not known.
    pub birth: u64,
    /// Whether it was declared dead, and has not ended since what it ran then.
    pub is_declared_dead: bool,
    /// Whether it is being drained.
    pub is_draining: bool,
    /// Whether it is only here for that it was declared dead: nobody is shown it, unless it comes back.
    pub is_forgotten: bool,
    /// Where it is. Kept by whoever reads what a worker says of itself: this core does not.
    pub zone: Zone,
}

/// The zone of a machine, as it was last said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Zone {
    /// Nobody has said it.
    #[default]
    Unsaid,
    /// It is in none that has a name.
    Nameless,
    /// It is in this one.
    Named(Name),
}

/// What the store is to the leader that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Made by `init` or the first `dev`, and nobody was ever on the roster (safety rule 21).
    Virgin,
    /// It has been in use.
    Continued,
    /// It lags behind what somebody has seen of it: the roster is not to be believed, nor are claims
    /// and marks (safety rule 25).
    Recovered,
    /// The same, and somebody who must know has said in this reign that the roster is whole: nobody is
    /// missing from it. Claims and marks are still not to be believed.
    Rebuilt,
}

/// How those on the roster stand, as far as one kind of work is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Every one is back, or certainly gone.
    Complete,
    /// Somebody is missing who may be running such work.
    Missing,
}

/// Whether the worker-set consensus was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The workers that are here agree that they are all.
    Reached,
    /// They do not.
    Lacking,
}

/// Whether the safe wait has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not yet.
    Waiting,
    /// Whatever could run under `stop` has ended.
    Over,
}

/// Whether batches under `stop` may start.
#[rustfmt::skip]
pub const fn stop_batches(
    origin: Origin,
    presence: Presence,
    agreement: Agreement,
    patience: Patience,
) -> bool {
    use Agreement as A;
    use Origin as O;
    use Patience as W;
    use Presence as P;
    match (origin, presence, agreement, patience) {
        (O::Virgin,    P::Complete | P::Missing, A::Reached | A::Lacking, W::Waiting | W::Over) => true,
        (O::Continued, P::Complete,              A::Reached,              W::Waiting)           => true,
        (O::Continued, P::Complete,              A::Lacking,              W::Waiting)           => false,
        (O::Continued, P::Missing,               A::Reached | A::Lacking, W::Waiting)           => false,
        // The full wait, whoever is back.
        (O::Recovered | O::Rebuilt,
                       P::Complete | P::Missing, A::Reached | A::Lacking, W::Waiting)           => false,
        (O::Continued | O::Recovered | O::Rebuilt,
                       P::Complete | P::Missing, A::Reached | A::Lacking, W::Over)              => true,
    }
}

/// Whether batches under `keep` may start. No wait is long enough for them.
#[rustfmt::skip]
pub const fn keep_batches(origin: Origin, presence: Presence) -> bool {
    match (origin, presence) {
        (Origin::Virgin, Presence::Complete | Presence::Missing)      => true,
        (Origin::Continued | Origin::Rebuilt, Presence::Complete)     => true,
        (Origin::Continued | Origin::Rebuilt, Presence::Missing)      => false,
        // Until somebody says that the roster is whole.
        (Origin::Recovered, Presence::Complete | Presence::Missing)   => false,
    }
}

/// Whether tasks and instances without a claim may start.
#[rustfmt::skip]
pub const fn unclaimed(origin: Origin, patience: Patience) -> bool {
    match (origin, patience) {
        (Origin::Virgin | Origin::Continued, Patience::Waiting | Patience::Over) => true,
        // Their claims may have been made since, and lost with the store.
        (Origin::Recovered | Origin::Rebuilt, Patience::Waiting)                 => false,
        (Origin::Recovered | Origin::Rebuilt, Patience::Over)                    => true,
    }
}

/// Whether tasks and instances without a claim may start under `keep`. Where claims may be lost with
/// the store, a worker that is missing may keep them, and no wait is long enough for that.
#[rustfmt::skip]
pub const fn unclaimed_kept(origin: Origin, presence: Presence, patience: Patience) -> bool {
    use Origin as O;
    use Patience as W;
    use Presence as P;
    match (origin, presence, patience) {
        (O::Virgin | O::Continued, P::Complete | P::Missing, W::Waiting | W::Over) => true,
        (O::Rebuilt,               P::Complete,              W::Over)              => true,
        (O::Rebuilt,               P::Complete,              W::Waiting)           => false,
        (O::Rebuilt,               P::Missing,               W::Waiting | W::Over) => false,
        // Until somebody says that the roster is whole.
        (O::Recovered,             P::Complete | P::Missing, W::Waiting | W::Over) => false,
    }
}

/// What may start, as long as this leader reigns; nothing of it is ever taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Doors {
    /// Tasks and instances without a claim, under `stop` and `replace`.
    pub unclaimed: bool,
    /// The same, under `keep`.
    pub unclaimed_kept: bool,
    /// Batches under `stop`.
    pub stop_batches: bool,
    /// Batches under `keep`.
    pub keep_batches: bool,
}

impl Doors {
    /// Nothing waits.
    pub const OPEN: Self =
        Self { unclaimed: true, unclaimed_kept: true, stop_batches: true, keep_batches: true };

    /// Opens what may be opened; gives whether anything was.
    pub fn open(&mut self, may: Self) -> bool {
        let before = *self;
        self.unclaimed |= may.unclaimed;
        self.unclaimed_kept |= may.unclaimed_kept;
        self.stop_batches |= may.stop_batches;
        self.keep_batches |= may.keep_batches;
        before != *self
    }

    /// Whether nothing waits any more.
    pub const fn are_all_open(&self) -> bool {
        self.unclaimed && self.unclaimed_kept && self.stop_batches && self.keep_batches
    }
}

/// Somebody for whom the leader waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The machine.
    pub lock: Lock,
    /// What its worker was called.
    pub name: Name,
    /// Until when at most; `None` where it may keep something: until it is back or declared dead.
    pub until: Option<BootTime>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESENCES: [Presence; 2] = [Presence::Complete, Presence::Missing];

    #[test]
    fn a_virgin_cluster_waits_for_nothing() {
        for presence in PRESENCES {
            assert!(keep_batches(Origin::Virgin, presence));
            assert!(unclaimed(Origin::Virgin, Patience::Waiting));
            let open =
                stop_batches(Origin::Virgin, presence, Agreement::Lacking, Patience::Waiting);
            assert!(open);
        }
    }

    #[test]
    fn agreement_shortens_the_wait_only_with_the_roster() {
        let stop = |presence, agreement| {
            stop_batches(Origin::Continued, presence, agreement, Patience::Waiting)
        };
        assert!(stop(Presence::Complete, Agreement::Reached));
        assert!(!stop(Presence::Missing, Agreement::Reached));
        assert!(!stop(Presence::Complete, Agreement::Lacking));
    }

    #[test]
    fn a_recovered_epoch_waits_in_full() {
        for origin in [Origin::Recovered, Origin::Rebuilt] {
            for presence in PRESENCES {
                assert!(!unclaimed(origin, Patience::Waiting));
                let stop = |patience| stop_batches(origin, presence, Agreement::Reached, patience);
                assert!(!stop(Patience::Waiting));
                assert!(stop(Patience::Over));
            }
        }
    }

    #[test]
    fn a_word_about_the_roster_is_no_word_about_who_is_missing() {
        assert!(PRESENCES.iter().all(|presence| !keep_batches(Origin::Recovered, *presence)));
        assert!(keep_batches(Origin::Rebuilt, Presence::Complete));
        assert!(!keep_batches(Origin::Rebuilt, Presence::Missing));
    }

    #[test]
    fn what_is_kept_by_the_missing_waits_for_them_where_claims_may_be_lost() {
        for patience in [Patience::Waiting, Patience::Over] {
            for presence in PRESENCES {
                assert!(!unclaimed_kept(Origin::Recovered, presence, patience));
                // Its claim says where it is.
                assert!(unclaimed_kept(Origin::Continued, presence, patience));
            }
            assert!(!unclaimed_kept(Origin::Rebuilt, Presence::Missing, patience));
        }
        assert!(!unclaimed_kept(Origin::Rebuilt, Presence::Complete, Patience::Waiting));
        assert!(unclaimed_kept(Origin::Rebuilt, Presence::Complete, Patience::Over));
    }

    #[test]
    fn what_is_open_stays_open() {
        let mut doors = Doors::default();
        assert!(doors.open(Doors::OPEN));
        assert!(!doors.open(Doors::default()));
        assert!(doors.are_all_open());
    }
}
