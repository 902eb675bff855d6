//! How long things may take: one stored record, from which every deadline is computed.
//!
//! ```text
//!  worker  stamp ───────────────────────────────┬─ stop begins ─┬─ killed ─┬
//!            │                                  │   kill wait   │  margin  │
//!  leader    └─▶ confirms ──────────────────────┴───────────────┴──────────┴──▶ deadline
//!                │◀────────────────────────── stop_after ──────────────────────▶│
//! ```
//!
//! The worker counts from its stamp, taken before it sends; the leader from its confirmation, made
//! after it heard. So the worker's deadline falls before the leader's whatever the network does,
//! and the margin is left for clocks that run differently (safety rules 7 and 10).

mod book;
mod check;

use sterna_model::{Contract, Marks, Span, WorkKey};

pub use self::{
    book::Book,
    check::{LimitsError, Wrong},
};
use crate::planted::{Mistake, is_planted};

/// The limits of a cluster. The same record is judged by on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Raised with each change; echoed by workers (safety rule 11).
    pub version: u64,
    /// How often a worker sends a heartbeat.
    pub heartbeat_every: Span,
    /// How much later than that it may be heard.
    pub heartbeat_grace: Span,
    /// How often a worker checks that it can run a real subprocess.
    pub check_every: Span,
    /// How much later than that the next good check may begin.
    pub check_grace: Span,
    /// How often health is judged.
    pub judge_every: Span,
    /// How long a worker may be unhealthy before it is given up.
    pub lose_after: Span,
    /// The time between TERM and KILL at a deadline, whatever the workload asks for.
    pub kill_wait: Span,
    /// The largest `stop_after` that a batch was ever started with: a high-water mark.
    pub batch_stop_after_max: Span,
    /// The same of any run.
    pub stop_after_max: Span,
    /// Whether a batch was ever started under `keep`.
    pub has_kept_batches: bool,
    /// Whether a task or an instance was. Claims tell where, but may be lost with the store.
    pub has_kept_claims: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            version: 1,
            heartbeat_every: Span::from_secs(1),
            heartbeat_grace: Span::from_secs(4),
            check_every: Span::from_secs(10),
            check_grace: Span::from_secs(10),
            judge_every: Span::from_millis(500),
            lose_after: Span::from_secs(60),
            kill_wait: Span::from_secs(5),
            batch_stop_after_max: Span::from_secs(120),
            stop_after_max: Span::from_secs(600),
            has_kept_batches: false,
            has_kept_claims: false,
        }
    }
}

/// What health is judged by on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// A worker is unhealthy when its last heartbeat is older than this.
    pub heartbeat_gap: Span,
    /// And when its last good check is older than this.
    pub check_gap: Span,
    /// It is given up when it has been unhealthy for longer than this; `None` for never.
    pub lose_after: Option<Span>,
}

impl Limits {
    /// By how much a deadline of this length is kept early: two seconds, and 0.2 % for clocks that
    /// run differently.
    pub fn margin(deadline: Span) -> Span {
        if is_planted(Mistake::HasNoMargin) {
            return Span::ZERO;
        }
        Span::from_millis(2_000 + deadline.as_millis() / 500)
    }

    /// These, as they are to be committed after `before`: what was ever started may still be running,
    /// so its marks do not fall.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        if is_planted(Mistake::LetsMarksFall) {
            return self;
        }
        self.with(before.marks())
    }

    /// What was ever started under these.
    pub const fn marks(&self) -> Marks {
        Marks {
            batch_stop_after_max: self.batch_stop_after_max,
            stop_after_max: self.stop_after_max,
            has_kept_batches: self.has_kept_batches,
            has_kept_claims: self.has_kept_claims,
        }
    }

    /// These, with marks that allow for those as well.
    fn with(self, marks: Marks) -> Self {
        let Marks { batch_stop_after_max, stop_after_max, has_kept_batches, has_kept_claims } =
            self.marks().max(marks);
        Self { batch_stop_after_max, stop_after_max, has_kept_batches, has_kept_claims, ..self }
    }

    /// These, with marks that allow for such a run, if they do not yet (safety rule 11).
    #[must_use]
    pub fn raised_for(&self, key: &WorkKey, contract: Contract) -> Option<Self> {
        let is_batch = key.is_in_batch();
        let mut raised = *self;
        match contract {
            Contract::Stop { after } => {
                raised.stop_after_max = raised.stop_after_max.max(after);
                if is_batch {
                    raised.batch_stop_after_max = raised.batch_stop_after_max.max(after);
                }
            }
            Contract::Keep => {
                raised.has_kept_batches |= is_batch;
                raised.has_kept_claims |= !is_batch;
            }
            Contract::Replace { .. } => {}
        }
        (raised != *self).then_some(raised)
    }

    /// How the leader judges.
    pub const fn leader_terms(&self) -> Terms {
        Terms {
            heartbeat_gap: self.heartbeat_every.plus(self.heartbeat_grace),
            check_gap: self.check_every.plus(self.check_grace).plus(self.judge_every),
            lose_after: Some(self.lose_after),
        }
    }

    /// How the worker judges itself: it gives up one judgement earlier.
    pub const fn worker_terms(&self) -> Terms {
        let lose_after = Some(self.lose_after.minus(self.judge_every));
        Terms { lose_after, ..self.leader_terms() }
    }

    /// How long after its last heartbeat a silent worker is given up, at the latest.
    pub const fn time_to_loss(&self) -> Span {
        let Terms { heartbeat_gap, check_gap, .. } = self.leader_terms();
        let gap = if heartbeat_gap.as_millis() > check_gap.as_millis() {
            heartbeat_gap
        } else {
            check_gap
        };
        // Two judgements: one that finds it unhealthy, and one that gives it up.
        gap.plus(self.lose_after).plus(self.judge_every.times(2))
    }

    /// How long after the stamp of its last confirmed heartbeat a worker begins to stop a run.
    pub fn stop_begins_after(&self, stop_after: Span) -> Span {
        if is_planted(Mistake::StopsAtTheDeadline) {
            return stop_after;
        }
        stop_after.minus(self.kill_wait).minus(Self::margin(stop_after))
    }

    /// The shortest `stop_after`: a run is not stopped before its worker is given up.
    pub const fn stop_after_min(&self) -> Span {
        // Its own margin grows with it, by 1/500: so divide by 499/500, rounding up.
        let needed = self.time_to_loss().plus(self.kill_wait).plus(Span::from_millis(2_000));
        Span::from_millis(needed.as_millis().saturating_mul(500).div_ceil(499) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_07_a_worker_has_stopped_a_margin_before_the_leader_counts_on_it() {
        let limits = Limits::default();
        for stop_after in [limits.stop_after_min(), Span::from_secs(120), Span::from_secs(86_400)] {
            let killed = limits.stop_begins_after(stop_after).plus(limits.kill_wait);
            // The worker's clock may be slow by 0.1 % and the leader's fast by as much.
            let drift = Span::from_millis(stop_after.as_millis() / 500);
            assert!(killed.plus(drift) < stop_after, "{stop_after}");
        }
    }

    #[test]
    fn rule_11_nothing_is_stopped_before_its_worker_is_given_up() {
        let limits = Limits::default();
        let shortest = limits.stop_after_min();
        assert!(limits.stop_begins_after(shortest) >= limits.time_to_loss());
        let shorter = shortest.minus(Span::from_millis(10));
        assert!(limits.stop_begins_after(shorter) < limits.time_to_loss());
    }

    #[test]
    fn a_worker_gives_itself_up_before_the_leader_does() {
        let limits = Limits::default();
        assert!(limits.worker_terms().lose_after < limits.leader_terms().lose_after);
    }
}
