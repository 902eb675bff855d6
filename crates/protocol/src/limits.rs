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

use std::{error::Error, fmt};

use sterna_model::{Contract, Marks, Span, Work, WorkKey};

use crate::{
    message::Held,
    planted::{Mistake, is_planted},
};

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
        }
    }
}

/// A limit that nobody can go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsError {
    /// Its name.
    pub limit: &'static str,
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "limit {} is zero: whoever went by it would never rest; set 1 ms or more",
            self.limit
        )
    }
}

impl Error for LimitsError {}

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

    /// Whether they can be gone by; to be asked before they are committed, and of whatever comes from
    /// outside. Marks may be zero: then nothing was started yet.
    pub fn check(&self) -> Result<(), LimitsError> {
        let spans = [
            ("heartbeat_every", self.heartbeat_every),
            ("check_every", self.check_every),
            ("judge_every", self.judge_every),
            ("lose_after", self.lose_after),
        ];
        let zero = spans.into_iter().find(|(_, span)| *span == Span::ZERO);
        zero.map_or(Ok(()), |(limit, _)| Err(LimitsError { limit }))
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
        }
    }

    /// These, with marks that allow for those as well.
    fn with(self, marks: Marks) -> Self {
        let Marks { batch_stop_after_max, stop_after_max, has_kept_batches } =
            self.marks().max(marks);
        Self { batch_stop_after_max, stop_after_max, has_kept_batches, ..self }
    }

    /// These, with marks that allow for such a run, if they do not yet (safety rule 11).
    #[must_use]
    pub fn raised_for(&self, key: &WorkKey, contract: Contract) -> Option<Self> {
        let is_batch = match key.work {
            Work::Node { .. } => true,
            Work::Task(_) | Work::Instance { .. } => false,
        };
        let mut raised = *self;
        match contract {
            Contract::Stop { after } => {
                raised.stop_after_max = raised.stop_after_max.max(after);
                if is_batch {
                    raised.batch_stop_after_max = raised.batch_stop_after_max.max(after);
                }
            }
            // Of other work claims tell where it is kept.
            Contract::Keep => raised.has_kept_batches |= is_batch,
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
        stop_after.minus(self.kill_wait).minus(Self::margin(stop_after))
    }

    /// The shortest `stop_after`: a run is not stopped before its worker is given up.
    pub const fn stop_after_min(&self) -> Span {
        // Its own margin grows with it, by 1/500: so divide by 499/500, rounding up.
        let needed = self.time_to_loss().plus(self.kill_wait).plus(Span::from_millis(2_000));
        Span::from_millis(needed.as_millis().saturating_mul(500).div_ceil(499) + 1)
    }
}

/// The limits in force, with those that some worker may still go by (safety rule 11).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Book {
    newest: Limits,
    /// Not yet retired, oldest first.
    older: Vec<Limits>,
}

impl Book {
    /// The limits as they stand in the store, with those not yet retired.
    pub const fn new(newest: Limits, older: Vec<Limits>) -> Self {
        Self { newest, older }
    }

    /// What workers are told.
    pub const fn newest(&self) -> &Limits {
        &self.newest
    }

    /// New limits were committed; they must not be sent before.
    ///
    /// A version that is not above the newest changes nothing, nor do limits that nobody can go by.
    pub fn committed(&mut self, limits: Limits) {
        if limits.version > self.newest.version && limits.check().is_ok() {
            let limits = limits.after(&self.newest);
            self.older.push(std::mem::replace(&mut self.newest, limits));
        }
    }

    /// The limits after the newest, with marks that allow for all that a worker has, if these do not:
    /// a store that was set back has lost the marks that were raised since.
    pub fn raised_for(&self, held: &[Held]) -> Option<Limits> {
        let raise = |limits: Limits, held: &Held| {
            limits.raised_for(&held.key, held.contract).unwrap_or(limits)
        };
        let has_not_ended =
            |held: &&Held| held.status.as_ref().is_none_or(|status| !status.news.is_end());
        self.next(held.iter().filter(has_not_ended).fold(self.newest, raise))
    }

    /// The same for marks that somebody has seen.
    pub fn raised_to(&self, marks: Marks) -> Option<Limits> {
        self.next(self.newest.with(marks))
    }

    /// These as the limits after the newest, if they are others.
    fn next(&self, raised: Limits) -> Option<Limits> {
        (raised != self.newest)
            .then(|| Limits { version: self.newest.version.saturating_add(1), ..raised })
    }

    /// What was ever started under those that may be in use.
    pub fn marks(&self) -> Marks {
        self.older.iter().map(Limits::marks).fold(self.newest.marks(), Marks::max)
    }

    /// Whether somebody may go by other limits than the newest.
    pub const fn has_older(&self) -> bool {
        !self.older.is_empty()
    }

    /// Retires what nobody goes by any more. `echoes` are the versions that everybody who may run
    /// something has said last, 0 for nothing. Gives the oldest version that is left, if any was
    /// retired.
    pub fn retire(&mut self, echoes: impl Iterator<Item = u64>) -> Option<u64> {
        let lowest = echoes.min().unwrap_or(self.newest.version);
        let before = self.older.len();
        // A worker goes by what it echoed last, so that one, and all after it, may be in use.
        self.older.retain(|limits| limits.version >= lowest);
        let oldest = self.older.first().unwrap_or(&self.newest).version;
        (self.older.len() < before).then_some(oldest)
    }

    /// The largest of a limit among those that may be in use.
    pub fn largest(&self, limit: impl Fn(&Limits) -> Span) -> Span {
        self.older.iter().map(&limit).fold(limit(&self.newest), Span::max)
    }

    /// How the leader judges: by the most patient of the limits that may be in use.
    pub fn terms(&self) -> Terms {
        let of = |part: fn(&Terms) -> Span| self.largest(|limits| part(&limits.leader_terms()));
        Terms {
            heartbeat_gap: of(|terms| terms.heartbeat_gap),
            check_gap: of(|terms| terms.check_gap),
            lose_after: Some(self.largest(|limits| limits.lose_after)),
        }
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
    fn limits_of_nothing_are_refused_by_name() {
        let usual = Limits::default();
        assert_eq!(usual.check(), Ok(()));
        let none = Limits { judge_every: Span::ZERO, version: 2, ..usual };
        assert_eq!(none.check(), Err(LimitsError { limit: "judge_every" }));
        let mut book = Book::new(usual, Vec::new());
        book.committed(none);
        assert_eq!(book.newest(), &usual);
        let fresh = Limits { batch_stop_after_max: Span::ZERO, ..usual };
        assert_eq!(fresh.check(), Ok(()));
    }

    #[test]
    fn a_worker_gives_itself_up_before_the_leader_does() {
        let limits = Limits::default();
        assert!(limits.worker_terms().lose_after < limits.leader_terms().lose_after);
    }

    #[test]
    fn rule_11_lowered_limits_count_only_when_everybody_has_echoed_them() {
        let old = Limits::default();
        let new = Limits { version: 2, lose_after: Span::from_secs(10), ..old };
        let mut book = Book::new(old, Vec::new());
        book.committed(new);
        assert_eq!(book.newest(), &new);
        let mut after =
            |echoes: [u64; 2]| (book.retire(echoes.into_iter()), book.terms().lose_after);
        // One of them was not heard yet.
        assert_eq!(after([2, 0]), (None, Some(Span::from_secs(60))));
        assert_eq!(after([2, 1]), (None, Some(Span::from_secs(60))));
        assert_eq!(after([2, 2]), (Some(2), Some(Span::from_secs(10))));
        assert_eq!(after([2, 2]), (None, Some(Span::from_secs(10))));
    }

    /// A run that was started under a longer `stop_after` has it frozen: who goes by new limits may
    /// still have it.
    #[test]
    fn rule_11_the_marks_of_what_was_started_do_not_fall() {
        let minutes = |count: u64| Span::from_secs(60 * count);
        let old = Limits {
            batch_stop_after_max: minutes(10),
            stop_after_max: minutes(20),
            has_kept_batches: true,
            ..Limits::default()
        };
        let mut book = Book::new(old, Vec::new());
        book.committed(Limits { version: 2, ..Limits::default() });
        book.retire([2].into_iter());
        assert_eq!(book.marks(), old.marks());
        assert_eq!(book.newest().marks(), old.marks());
        assert_eq!(book.newest().version, 2);
    }

    #[test]
    fn rule_11_raised_limits_count_at_once() {
        let old = Limits::default();
        let mut book = Book::new(old, Vec::new());
        book.committed(Limits { version: 2, lose_after: Span::from_secs(90), ..old });
        assert_eq!(book.terms().lose_after, Some(Span::from_secs(90)));
        // A version from before changes nothing.
        book.committed(Limits { version: 1, lose_after: Span::from_secs(99), ..old });
        assert_eq!(book.terms().lose_after, Some(Span::from_secs(90)));
    }
}
