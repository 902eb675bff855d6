//! One machine lock, as the leader sees it: its newest worker, and what may run there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sterna_model::{BootTime, Incarnation, Name, RunId, RunSequence, Span};

use super::{Claim, runs::Entry, unsure::Unsure};
use crate::{
    consensus::{Consensus, Seat, SetId},
    health::{Health, Permit, Vitals},
    limits::Terms,
    message::{Payload, StreamId},
    planted::{Mistake, is_planted},
    roster::Enrolled,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) incarnation: Incarnation,
    pub(super) name: Name,
    /// The boot of its machine, once it was heard or read.
    pub(super) boot: Option<u128>,
    /// Whether that is another than in the life before.
    pub(super) has_rebooted: bool,
    pub(super) facts: Option<Payload>,
    pub(super) stream: Option<StreamId>,
    /// The last one that it was heard on; earlier ones do not count any more (safety rule 4).
    pub(super) newest_stream: Option<StreamId>,
    /// Its place in the consensus; `None` before its first confirmation in this reign, and after loss.
    pub(super) seat: Option<Seat>,
    /// The set that it holds from an earlier leader, until it has a seat.
    pub(super) came_with: Option<Box<SetId>>,
    pub(super) vitals: Vitals,
    pub(super) enrolment: Enrolment,
    /// Whether `get_running` was answered in this association.
    pub(super) has_answered: bool,
    /// Whether the roster, or a claim, named its lock when this reign began: then it may run something
    /// that nobody here knows of.
    pub(super) was_enrolled: bool,
    /// Whether it ever was in this reign, under this lock: then `runs` is all that may run there.
    pub(super) is_known: bool,
    /// The last confirmation to any life under this lock (safety rule 7).
    pub(super) confirmed: Option<BootTime>,
    pub(super) is_draining: bool,
    /// What it wants of that, as long as whoever stores it has not answered.
    pub(super) asked_drain: Option<bool>,
    pub(super) is_declared_dead: bool,
    /// What it must end before it is believed again (safety rule 24).
    pub(super) purge: BTreeSet<RunId>,
    /// Of the last run that was sent in this association.
    pub(super) sequence: RunSequence,
    pub(super) unsure: Unsure,
    pub(super) runs: BTreeMap<RunId, Entry>,
    /// Runs that were sent and not answered, oldest first, and when they become unsure.
    pub(super) unanswered: VecDeque<(BootTime, RunId)>,
    /// The newest status of each run that is being recorded, and whether it is an end.
    pub(super) recording: BTreeMap<RunId, (u64, bool)>,
    pub(super) has_silent_runs: bool,
    /// The version of the limits that it said last.
    pub(super) echoed: Option<u64>,
}

/// Whether the roster names this life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Enrolment {
    /// Not yet; the commit is under way.
    Asked,
    /// It does.
    Done,
    /// It does, as declared dead; the commit that takes that off is under way.
    Reviving,
    /// It was taken out, or the commit that does so is under way.
    Struck,
}

impl Peer {
    /// One that the roster names, and that was not heard in this reign.
    pub(super) fn awaited(now: BootTime, entry: Enrolled) -> Self {
        let Enrolled { incarnation, name, boot, is_declared_dead, is_draining } = entry;
        Self {
            boot: Some(boot),
            is_declared_dead,
            is_draining,
            enrolment: Enrolment::Done,
            was_enrolled: true,
            ..Self::new(now, incarnation, name)
        }
    }

    /// One that was not known before.
    pub(super) fn new(now: BootTime, incarnation: Incarnation, name: Name) -> Self {
        Self {
            incarnation,
            name,
            boot: None,
            has_rebooted: false,
            facts: None,
            stream: None,
            newest_stream: None,
            seat: None,
            came_with: None,
            vitals: Vitals::new(now),
            enrolment: Enrolment::Asked,
            has_answered: false,
            was_enrolled: false,
            is_known: false,
            confirmed: None,
            is_draining: false,
            asked_drain: None,
            is_declared_dead: false,
            purge: BTreeSet::new(),
            sequence: RunSequence::ZERO,
            unsure: Unsure::NOTHING,
            runs: BTreeMap::new(),
            unanswered: VecDeque::new(),
            recording: BTreeMap::new(),
            has_silent_runs: false,
            echoed: None,
        }
    }

    /// As it stands in the roster.
    pub(super) fn entry(&self) -> Enrolled {
        Enrolled {
            incarnation: self.incarnation,
            name: self.name.clone(),
            boot: self.boot.unwrap_or_default(),
            is_declared_dead: self.is_declared_dead,
            is_draining: self.is_draining,
        }
    }

    /// What its worker is told: not that its wish is granted before that is stored. What is so now may
    /// be changed by an earlier wish that is still on its way.
    pub(super) const fn shows_draining(&self) -> bool {
        match self.asked_drain {
            Some(wish) => !wish,
            None => self.is_draining,
        }
    }

    /// The next life under this lock: a new association, with the runs of the old one.
    pub(super) fn be_reborn(&mut self, now: BootTime, incarnation: Incarnation) {
        self.incarnation = incarnation;
        // They are told under a life.
        self.facts = None;
        self.seat = None;
        self.came_with = None;
        self.vitals = Vitals::new(now);
        self.has_answered = false;
        self.purge.clear();
        self.sequence = RunSequence::ZERO;
        self.unsure = Unsure::NOTHING;
        self.unanswered.clear();
        self.recording.clear();
        for entry in self.runs.values_mut() {
            entry.presume();
        }
    }

    /// Takes its place in the consensus as soon as it can be confirmed. Not before: who is only welcome
    /// is not told the set, and everybody would wait for its echo.
    pub(super) fn take_seat(&mut self, consensus: &mut Consensus) {
        if self.seat.is_none() && self.is_heard() && self.is_confirmable() {
            let initial = self.came_with.take().map(|set| *set);
            self.seat = Some(consensus.join(&self.incarnation, initial));
        }
    }

    /// Everything that may be running there.
    pub(super) fn held(&self) -> impl Iterator<Item = Claim> {
        self.runs.iter().map(|(run, entry)| Claim {
            holder: self.incarnation,
            run: *run,
            key: entry.key.clone(),
            task: entry.task,
            contract: entry.contract,
        })
    }

    /// Judges its health; gives whether that is another now.
    pub(super) fn judge(&mut self, now: BootTime, terms: &Terms, consensus: &Consensus) -> bool {
        let is_granted =
            self.seat.is_some_and(|seat| consensus.permits_becoming_healthy(seat).is_granted());
        let permit = if is_granted { Permit::Given } else { Permit::Withheld };
        self.vitals.judge(now, terms, permit).is_some()
    }

    /// Whether time alone may do something to what runs there.
    pub(super) fn is_due(&self, now: BootTime, heartbeat_every: Span) -> bool {
        let is_silent = self.vitals.heard().is_none_or(|heard| now.since(heard) >= heartbeat_every);
        is_silent
            || self.is_lost()
            || !self.unanswered.is_empty()
            || !self.unsure.is_empty()
            || is_planted(Mistake::FreesTheUnsure)
    }

    /// Whether this life was heard in this reign.
    pub(super) const fn is_heard(&self) -> bool {
        self.vitals.heard().is_some()
    }

    /// Whether nothing is heard of it that could be believed.
    pub(super) fn is_lost(&self) -> bool {
        self.vitals.health() == Health::MustDie
    }

    /// Whether what it runs is known in this association, and nothing that it must end is left.
    pub(super) fn is_confirmable(&self) -> bool {
        self.enrolment == Enrolment::Done
            && (self.has_answered || is_planted(Mistake::ConfirmsTooEarly))
            && self.purge.is_empty()
            && !self.is_lost()
    }
}
