//! Probes: when to make the next one, and what their answers mean.
//!
//! ```text
//!   starting ──── one good probe ───▶ healthy ──── too many bad ones in a row ───▶ failed
//!      └───── none in time ──────────────────────────────────────────────────────▶ failed
//! ```
//!
//! A probe that is not answered within its timeout was a bad one; its answer, if it comes, is
//! dropped. One that nobody can answer is neither good nor bad.

pub use sterna_model::payload::Failure;
use sterna_model::{BootTime, Span, payload};

/// How a container is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Between two probes until the first good one.
    pub starting_every: Span,
    /// Between two probes after that.
    pub healthy_every: Span,
    /// Within this a probe must be answered.
    pub timeout: Span,
    /// So many bad probes in a row, once healthy, mean failure.
    pub failures_max: u32,
    /// Within this the first good probe must come; `None` for whenever.
    pub start_timeout: Option<Span>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            starting_every: Span::from_millis(500),
            healthy_every: Span::from_secs(30),
            timeout: Span::from_secs(5),
            failures_max: 3,
            start_timeout: Some(Span::from_secs(60)),
        }
    }
}

impl From<&payload::Monitor> for Limits {
    fn from(monitor: &payload::Monitor) -> Self {
        Self {
            starting_every: monitor.starting_every,
            healthy_every: monitor.healthy_every,
            timeout: monitor.timeout,
            failures_max: monitor.failures_max,
            start_timeout: monitor.start_timeout,
        }
    }
}

/// What probes have said so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// No good one yet.
    Starting,
    /// Good ones, and not too many bad ones since.
    Healthy,
    /// To be ended.
    Failed(Failure),
}

/// Names one probe, so that a late answer is not taken for another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeId(u64);

/// The probing of one container.
#[derive(Clone, Debug)]
pub struct Monitor {
    limits: Limits,
    health: Health,
    since: BootTime,
    bad_ones: u32,
    last: u64,
    next: Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Make a probe then.
    Probe(BootTime),
    /// Count it as a bad one then.
    GiveUp(BootTime),
    Nothing,
}

impl Monitor {
    /// Begins to probe at once.
    pub const fn new(now: BootTime, limits: Limits) -> Self {
        let health = Health::Starting;
        Self { limits, health, since: now, bad_ones: 0, last: 0, next: Next::Probe(now) }
    }

    /// Begins again from the beginning, with a pause: answers to earlier probes count no more.
    pub fn begin_again(&mut self, now: BootTime) {
        let at = now.plus(self.limits.starting_every);
        (self.health, self.since, self.bad_ones) = (Health::Starting, at, 0);
        self.next = Next::Probe(at);
    }

    /// What probes have said so far.
    pub const fn health(&self) -> Health {
        self.health
    }

    /// When to call [`Monitor::tick`].
    pub fn deadline(&self) -> Option<BootTime> {
        let next = match self.next {
            Next::Probe(at) | Next::GiveUp(at) => Some(at),
            Next::Nothing => None,
        };
        let start = match self.health {
            Health::Starting => self.limits.start_timeout.map(|timeout| self.since.plus(timeout)),
            Health::Healthy | Health::Failed(_) => None,
        };
        next.into_iter().chain(start).min()
    }

    /// Passes time; gives the probe to make now, if one is due.
    pub fn tick(&mut self, now: BootTime) -> Option<ProbeId> {
        match self.next {
            Next::GiveUp(at) if now >= at => self.judge(now, false),
            Next::GiveUp(_) | Next::Probe(_) | Next::Nothing => {}
        }
        let timeout = self.limits.start_timeout;
        if self.health == Health::Starting
            && timeout.is_some_and(|timeout| now >= self.since.plus(timeout))
        {
            self.fail(Failure::NeverHealthy);
        }
        match self.next {
            Next::Probe(at) if now >= at => {
                self.last += 1;
                self.next = Next::GiveUp(now.plus(self.limits.timeout));
                Some(ProbeId(self.last))
            }
            Next::Probe(_) | Next::GiveUp(_) | Next::Nothing => None,
        }
    }

    /// Takes the answer of a probe.
    pub fn answered(&mut self, now: BootTime, probe: ProbeId, is_good: bool) {
        match self.next {
            Next::GiveUp(_) if probe.0 == self.last => self.judge(now, is_good),
            Next::GiveUp(_) | Next::Probe(_) | Next::Nothing => {}
        }
    }

    /// Nobody can answer this probe: it says nothing, and the next one is made as after a bad one. Until
    /// then the time within which the first good one must come stands still.
    pub fn unanswerable(&mut self, now: BootTime, probe: ProbeId) {
        match self.next {
            Next::GiveUp(_) if probe.0 == self.last => {
                self.since = self.since.plus(self.pause());
                self.next = Next::Probe(now.plus(self.pause()));
            }
            Next::GiveUp(_) | Next::Probe(_) | Next::Nothing => {}
        }
    }

    const fn judge(&mut self, now: BootTime, is_good: bool) {
        self.bad_ones = if is_good { 0 } else { self.bad_ones.saturating_add(1) };
        match (self.health, is_good) {
            (Health::Starting | Health::Healthy, true) => self.health = Health::Healthy,
            (Health::Starting, false) => {}
            (Health::Healthy, false) => {
                if self.bad_ones >= self.limits.failures_max {
                    return self.fail(Failure::Unhealthy);
                }
            }
            (Health::Failed(_), true | false) => return,
        }
        self.next = Next::Probe(now.plus(self.pause()));
    }

    /// Between two probes.
    const fn pause(&self) -> Span {
        match self.health {
            Health::Starting => self.limits.starting_every,
            Health::Healthy | Health::Failed(_) => self.limits.healthy_every,
        }
    }

    const fn fail(&mut self, failure: Failure) {
        self.health = Health::Failed(failure);
        self.next = Next::Nothing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootTime {
        BootTime::from_millis(seconds * 1_000)
    }

    fn limits() -> Limits {
        Limits {
            starting_every: Span::from_secs(1),
            healthy_every: Span::from_secs(10),
            timeout: Span::from_secs(5),
            failures_max: 2,
            start_timeout: Some(Span::from_secs(20)),
        }
    }

    #[test]
    fn one_good_probe_makes_it_healthy_and_probes_rarer() {
        let mut monitor = Monitor::new(at(0), limits());
        let first = monitor.tick(at(0)).unwrap();
        assert_eq!(monitor.tick(at(1)), None, "one at a time");
        monitor.answered(at(1), first, false);
        assert_eq!(monitor.deadline(), Some(at(2)));
        let second = monitor.tick(at(2)).unwrap();
        monitor.answered(at(2), second, true);
        assert_eq!((monitor.health(), monitor.deadline()), (Health::Healthy, Some(at(12))));
    }

    #[test]
    fn too_many_bad_ones_in_a_row_fail_it_and_good_ones_begin_the_count_anew() {
        let mut monitor = Monitor::new(at(0), limits());
        let mut answer = |now: u64, is_good| {
            let probe = monitor.tick(at(now)).unwrap();
            monitor.answered(at(now), probe, is_good);
            monitor.health()
        };
        assert_eq!(answer(0, true), Health::Healthy);
        assert_eq!(answer(10, false), Health::Healthy);
        assert_eq!(answer(20, true), Health::Healthy);
        assert_eq!(answer(30, false), Health::Healthy);
        assert_eq!(answer(40, false), Health::Failed(Failure::Unhealthy));
        assert_eq!(monitor.deadline(), None);
    }

    #[test]
    fn silence_is_a_bad_answer_and_a_late_one_is_dropped() {
        let mut monitor = Monitor::new(at(0), limits());
        let probe = monitor.tick(at(0)).unwrap();
        assert_eq!(monitor.tick(at(5)), None);
        let next = monitor.tick(at(6)).unwrap();
        monitor.answered(at(6), probe, true);
        assert_eq!(monitor.health(), Health::Starting);
        monitor.answered(at(6), next, true);
        assert_eq!(monitor.health(), Health::Healthy);
    }

    #[test]
    fn a_container_that_is_never_healthy_fails_in_time() {
        let mut monitor = Monitor::new(at(0), limits());
        for second in 0..20 {
            if let Some(probe) = monitor.tick(at(second)) {
                monitor.answered(at(second), probe, false);
            }
        }
        assert_eq!(monitor.health(), Health::Starting);
        assert_eq!(monitor.tick(at(20)), None);
        assert_eq!(monitor.health(), Health::Failed(Failure::NeverHealthy));
    }

    #[test]
    fn a_probe_that_nobody_can_answer_is_neither_good_nor_bad() {
        let mut monitor = Monitor::new(at(0), limits());
        let first = monitor.tick(at(0)).unwrap();
        monitor.answered(at(0), first, true);
        let bad = monitor.tick(at(10)).unwrap();
        monitor.answered(at(10), bad, false);
        for second in [20, 30, 40, 50] {
            let probe = monitor.tick(at(second)).unwrap();
            monitor.unanswerable(at(second), probe);
            assert_eq!(monitor.health(), Health::Healthy);
            assert_eq!(monitor.deadline(), Some(at(second + 10)));
            monitor.answered(at(second), probe, false);
        }
        let bad = monitor.tick(at(60)).unwrap();
        monitor.answered(at(60), bad, false);
        let failed = Health::Failed(Failure::Unhealthy);
        assert_eq!(monitor.health(), failed, "bad ones are still counted");
    }

    #[test]
    fn the_time_to_be_healthy_stands_still_while_nobody_can_answer() {
        let mut monitor = Monitor::new(at(0), limits());
        for second in 0..100 {
            let probe = monitor.tick(at(second)).unwrap();
            monitor.unanswerable(at(second), probe);
        }
        assert_eq!(monitor.health(), Health::Starting);
        for second in 100..120 {
            let probe = monitor.tick(at(second)).unwrap();
            monitor.answered(at(second), probe, false);
        }
        assert_eq!(monitor.tick(at(120)), None);
        assert_eq!(monitor.health(), Health::Failed(Failure::NeverHealthy), "and not for ever");
    }
}
