//! Health: one function, judged by both sides of a link.
//!
//! ```text
//!   NEW ──▶ UNHEALTHY ◀──▶ HEALTHY
//!    │          │
//!    └──────────┴──▶ MUST_DIE, for good
//! ```
//!
//! NEW is left when `get_running` was answered: on the leader by that answer, on the worker by the
//! first confirmed heartbeat. Loss takes two judgements in a row that find it not healthy. A worker
//! that is kept back by the consensus alone is never lost.

use sterna_model::{BootTime, Span};

use crate::limits::Terms;

/// How a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// What it runs is not known yet.
    New,
    /// Known, and not to be given work.
    Unhealthy,
    /// May be given work, if the other side agrees.
    Healthy,
    /// Given up. It frees no key (safety rule 9); it never changes any more.
    MustDie,
}

/// Whether the worker-set consensus lets a worker become healthy for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It does.
    Given,
    /// Not yet.
    Withheld,
}

/// What health is judged from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vitals {
    health: Health,
    /// The last heartbeat.
    heard: Option<BootTime>,
    /// When the last good check began.
    checked: Option<BootTime>,
    unhealthy_since: BootTime,
    has_been_healthy: bool,
    /// When whoever judges woke from so long a sleep that this life may be over; until it is known to
    /// have spoken since.
    woke: Option<BootTime>,
}

/// One judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What the worker is from now on.
    pub health: Health,
    /// Whether nothing but the consensus keeps it from being healthy.
    pub is_blocked: bool,
}

impl Vitals {
    /// Of a worker that nothing is known about.
    pub const fn new(now: BootTime) -> Self {
        Self {
            health: Health::New,
            heard: None,
            checked: None,
            unhealthy_since: now,
            has_been_healthy: false,
            woke: None,
        }
    }

    /// As it was last judged.
    pub const fn health(&self) -> Health {
        self.health
    }

    /// When it was last heard.
    pub const fn heard(&self) -> Option<BootTime> {
        self.heard
    }

    /// When its last good check began.
    pub const fn checked(&self) -> Option<BootTime> {
        self.checked
    }

    /// Whether the consensus has no say any more.
    pub const fn has_been_healthy(&self) -> bool {
        self.has_been_healthy
    }

    /// The first moment at which a judgement may find something else, if nothing is heard until then
    /// and the consensus does not change its mind.
    pub fn changes_at(&self, terms: &Terms) -> BootTime {
        const AT_ONCE: BootTime = BootTime::from_millis(0);
        const NEVER: BootTime = BootTime::from_millis(u64::MAX);
        // More than so long after: a millisecond later at the earliest.
        let after = |last: BootTime, gap: Span| last.plus(gap).plus(Span::from_millis(1));
        let silent = |last: Option<BootTime>, gap| last.map_or(AT_ONCE, |last| after(last, gap));
        match self.health {
            Health::Healthy if self.woke.is_some() => AT_ONCE,
            Health::Healthy => {
                silent(self.heard, terms.heartbeat_gap).min(silent(self.checked, terms.check_gap))
            }
            Health::New | Health::Unhealthy => {
                terms.lose_after.map_or(NEVER, |lose| after(self.unhealthy_since, lose))
            }
            Health::MustDie => NEVER,
        }
    }

    /// Of the same worker in a new association: only its checks still count.
    #[must_use]
    pub const fn anew(&self, now: BootTime) -> Self {
        Self { checked: self.checked, ..Self::new(now) }
    }

    /// A heartbeat counts from `at`.
    pub fn hear(&mut self, at: BootTime) {
        self.heard = self.heard.max(Some(at));
    }

    /// A good check counts from `at`.
    pub fn check(&mut self, at: BootTime) {
        self.checked = self.checked.max(Some(at));
    }

    /// Its checks count for nothing any more, until the next good one.
    pub const fn doubt(&mut self) {
        self.checked = None;
    }

    /// What it runs is known now.
    pub const fn settle(&mut self) {
        match self.health {
            Health::New => self.health = Health::Unhealthy,
            Health::Unhealthy | Health::Healthy | Health::MustDie => {}
        }
    }

    /// The other side's verdict that it is healthy, which the consensus is part of.
    pub const fn be_permitted(&mut self) {
        self.has_been_healthy = true;
    }

    /// Whoever judges was asleep for so long; nobody else is to suffer for it (safety rule 10).
    pub const fn excuse(&mut self, asleep: Span) {
        if let Some(heard) = self.heard {
            self.heard = Some(heard.plus(asleep));
        }
        if let Some(checked) = self.checked {
            self.checked = Some(checked.plus(asleep));
        }
        self.unhealthy_since = self.unhealthy_since.plus(asleep);
    }

    /// Whoever judges woke just now, after so long that this life may have given itself up meanwhile:
    /// nothing that it said before counts as being there.
    pub const fn miss(&mut self, now: BootTime) {
        self.woke = Some(now);
    }

    /// Since when it is not known whether this life is over; `None` if it was heard as usual.
    pub const fn missed_since(&self) -> Option<BootTime> {
        self.woke
    }

    /// It has certainly spoken since.
    pub const fn be_found(&mut self) {
        self.woke = None;
    }

    /// Gives the worker up, whatever its vitals say.
    pub const fn give_up(&mut self) {
        self.health = Health::MustDie;
    }

    /// Judges without changing anything.
    pub fn judged(&self, now: BootTime, terms: &Terms, permit: Permit) -> Judgement {
        let is_old = |last: Option<BootTime>, gap| last.is_none_or(|last| now > last.plus(gap));
        let is_silent = self.woke.is_some()
            || is_old(self.heard, terms.heartbeat_gap)
            || is_old(self.checked, terms.check_gap);
        let is_kept_back = !self.has_been_healthy && permit == Permit::Withheld;
        let (health, is_blocked) = match (self.health, is_silent, is_kept_back) {
            (Health::MustDie, true | false, true | false) => (Health::MustDie, false),
            (Health::New, true | false, true | false) => (Health::New, false),
            (Health::Unhealthy | Health::Healthy, true, true | false) => (Health::Unhealthy, false),
            (Health::Unhealthy | Health::Healthy, false, true) => (Health::Unhealthy, true),
            (Health::Unhealthy | Health::Healthy, false, false) => (Health::Healthy, false),
        };
        let is_long = terms.lose_after.is_some_and(|lose| now > self.unhealthy_since.plus(lose));
        // Both the last judgement and this one: else `unhealthy_since` is of an earlier sickness.
        let is_lost =
            is_long && !is_blocked && health != Health::Healthy && self.health != Health::Healthy;
        Judgement { health: if is_lost { Health::MustDie } else { health }, is_blocked }
    }

    /// Judges and remembers; gives what it was before, if that was something else.
    pub fn judge(&mut self, now: BootTime, terms: &Terms, permit: Permit) -> Option<Health> {
        let Judgement { health, .. } = self.judged(now, terms, permit);
        let before = std::mem::replace(&mut self.health, health);
        if before == Health::Healthy && health != Health::Healthy {
            self.unhealthy_since = now;
        }
        self.has_been_healthy |= health == Health::Healthy;
        (before != health).then_some(before)
    }
}

#[cfg(test)]
mod tests;
