//! One machine lock, as the leader sees it: its newest worker, and what may run there.

use std::collections::BTreeSet;

use sterna_model::{BootTime, Incarnation, Name, RunId, RunSequence, Span};

use super::{
    Claim,
    runs::{Entry, Phase},
    table::Table,
    unsure::Unsure,
};
use crate::{
    consensus::{Consensus, Seat, SetId},
    health::{Health, Permit, Vitals},
    limits::Terms,
    message::StreamId,
    planted::{Mistake, is_planted},
    roster::{Enrolled, Zone},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) incarnation: Incarnation,
    pub(super) name: Name,
    /// Drawn by the process that was heard or read as this life; 0 if neither.
    pub(super) birth: u64,
    /// The boot of its machine, once it was heard or read.
    boot: Option<[u8; 16]>,
    /// Whether that is another than in the life before.
    pub(super) has_rebooted: bool,
    /// What it has said last that it has: by a number, for it is long, and whoever needs it keeps it.
    pub(super) facts: Option<u64>,
    /// The last stream that it was heard on; earlier ones do not count any more (safety rule 4).
    newest_stream: Option<StreamId>,
    is_connected: bool,
    /// Its place in the consensus; `None` before its first confirmation in this reign, and after loss.
    pub(super) seat: Option<Seat>,
    /// The set that it holds from an earlier leader, until it has a seat.
    pub(super) came_with: Option<Box<SetId>>,
    pub(super) vitals: Vitals,
    /// The stamp of its last heartbeat, by its own clock, and when that was heard.
    stamped: Option<(BootTime, BootTime)>,
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
    /// Whether this life was told that it is healthy: it takes no work before.
    pub(super) is_permitted: bool,
    /// Whether it was told last that it drains: it takes no work until it is told otherwise.
    pub(super) thinks_it_drains: bool,
    /// Whether this life takes no more work: its process is about to end.
    pub(super) is_leaving: bool,
    pub(super) is_draining: bool,
    /// What it wants of that, as long as whoever stores it has not answered.
    pub(super) asked_drain: Option<bool>,
    pub(super) is_declared_dead: bool,
    /// What it must end before it is believed again (safety rule 24).
    pub(super) purge: BTreeSet<RunId>,
    /// Of the last run that was sent in this association.
    pub(super) sequence: RunSequence,
    pub(super) unsure: Unsure,
    runs: Table<Entry>,
    /// When the first of the runs that were sent and not answered becomes unsure, or earlier.
    pub(super) unsure_at: Option<BootTime>,
    /// The newest status of each run that is being recorded, and whether it is an end.
    pub(super) recording: Table<(u64, bool)>,
    /// The shortest silence after which another copy of one of its runs may start, or shorter.
    pub(super) silent_after: Option<Span>,
    pub(super) has_silent_runs: bool,
    /// Whether somebody wants one of its runs to end, or did.
    pub(super) has_kills: bool,
    /// When it is told so again.
    pub(super) kills_again_at: Option<BootTime>,
    /// The version of the limits that it said last.
    pub(super) echoed: u64,
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
        let Enrolled { incarnation, name, boot, birth, is_declared_dead, is_draining, .. } = entry;
        Self {
            boot: Some(boot.to_ne_bytes()),
            birth,
            is_declared_dead,
            is_draining,
            enrolment: Enrolment::Done,
            was_enrolled: true,
            ..Self::new(now, incarnation, name)
        }
    }

    /// One that only a claim names: believed to be running something all the same.
    pub(super) fn claimed(now: BootTime, holder: Incarnation, name: Name) -> Self {
        let peer = Self::new(now, holder, name);
        Self { enrolment: Enrolment::Struck, was_enrolled: true, ..peer }
    }

    /// One that was not known before.
    pub(super) fn new(now: BootTime, incarnation: Incarnation, name: Name) -> Self {
        Self {
            incarnation,
            name,
            birth: 0,
            boot: None,
            has_rebooted: false,
            facts: None,
            newest_stream: None,
            is_connected: false,
            seat: None,
            came_with: None,
            vitals: Vitals::new(now),
            stamped: None,
            enrolment: Enrolment::Asked,
            has_answered: false,
            was_enrolled: false,
            is_known: false,
            confirmed: None,
            is_permitted: false,
            thinks_it_drains: false,
            is_leaving: false,
            is_draining: false,
            asked_drain: None,
            has_kills: false,
            kills_again_at: None,
            is_declared_dead: false,
            purge: BTreeSet::new(),
            sequence: RunSequence::ZERO,
            unsure: Unsure::NOTHING,
            runs: Table::EMPTY,
            unsure_at: None,
            recording: Table::EMPTY,
            silent_after: None,
            has_silent_runs: false,
            echoed: 0,
        }
    }

    /// As it stands in the roster.
    pub(super) fn entry(&self) -> Enrolled {
        Enrolled {
            incarnation: self.incarnation,
            name: self.name.clone(),
            boot: u128::from_ne_bytes(self.boot.unwrap_or_default()),
            birth: self.birth,
            is_declared_dead: self.is_declared_dead,
            is_draining: self.is_draining,
            is_forgotten: false,
            zone: Zone::Unsaid,
        }
    }

    /// The stream to its worker.
    pub(super) fn stream(&self) -> Option<StreamId> {
        self.newest_stream.filter(|_| self.is_connected)
    }

    /// Whether it was heard on a later stream than this.
    pub(super) fn has_left(&self, stream: StreamId) -> bool {
        self.newest_stream > Some(stream)
    }

    /// Whether it was heard last on this stream, which may have broken since.
    pub(super) fn was_heard_on(&self, stream: StreamId) -> bool {
        self.newest_stream == Some(stream)
    }

    /// Takes another stream, or none; gives the one that it had. Only for [`Peers::connect`].
    ///
    /// [`Peers::connect`]: super::peers::Peers::connect
    pub(super) fn connect(&mut self, stream: Option<StreamId>) -> Option<StreamId> {
        let old = self.stream();
        self.newest_stream = stream.or(self.newest_stream);
        self.is_connected = stream.is_some();
        old
    }

    /// What its worker is told: not that its wish is granted before that is stored. What is so now may
    /// be changed by an earlier wish that is still on its way.
    pub(super) const fn shows_draining(&self) -> bool {
        match self.asked_drain {
            Some(wish) => !wish,
            None => self.is_draining,
        }
    }

    /// Its life tells which boot of its machine this is.
    pub(super) fn note_boot(&mut self, boot: u128) {
        let boot = boot.to_ne_bytes();
        self.has_rebooted = self.boot.is_some_and(|before| before != boot);
        self.boot = Some(boot);
    }

    /// The next life under this lock: a new association, with the runs of the old one.
    pub(super) fn be_reborn(&mut self, now: BootTime, incarnation: Incarnation) {
        self.incarnation = incarnation;
        // They are told under a life.
        self.facts = None;
        self.seat = None;
        self.came_with = None;
        self.vitals = Vitals::new(now);
        self.stamped = None;
        self.has_answered = false;
        self.is_permitted = false;
        self.is_leaving = false;
        self.purge.clear();
        self.sequence = RunSequence::ZERO;
        self.recording.clear();
        for (_, entry) in self.runs.iter_mut() {
            entry.phase = Phase::Presumed;
            entry.is_outlived = true;
        }
        self.unsure = Unsure::NOTHING;
        self.unsure_at = None;
    }

    /// This leader has just woken up: whoever it has not heard for so long, awake or asleep, may have given
    /// itself up meanwhile.
    pub(super) fn miss_if_unheard(&mut self, now: BootTime, lose_after: Span) {
        if self.stamped.is_some_and(|(_, heard)| now >= heard.plus(lose_after)) {
            self.vitals.miss(now);
        }
    }

    /// Finds out when a heartbeat was sent, by what has passed on its clock since the one before. What was
    /// waiting here while this leader slept does not show that its sender is still there. But all that is
    /// read soon, and who is heard later is there, even if its clock stood still meanwhile.
    pub(super) fn note_stamp(&mut self, now: BootTime, stamp: BootTime, soon: Span) {
        if let (Some(woke), Some((before, heard))) = (self.vitals.missed_since(), self.stamped)
            && stamp.since(before) < woke.since(heard)
            && now < woke.plus(soon)
        {
            return;
        }
        self.vitals.be_found();
        self.stamped = Some((stamp, now));
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
            run,
            key: entry.key.clone(),
            task: entry.task,
            contract: entry.contract,
        })
    }

    pub(super) const fn runs(&self) -> &Table<Entry> {
        &self.runs
    }

    pub(super) fn run_mut(&mut self, run: RunId) -> Option<&mut Entry> {
        self.runs.get_mut(run)
    }

    pub(super) fn runs_mut(&mut self) -> impl Iterator<Item = (RunId, &mut Entry)> {
        self.runs.iter_mut()
    }

    pub(super) fn put_run(&mut self, run: RunId, entry: Entry) {
        if let Some(after) = entry.silence() {
            self.silent_after = Some(self.silent_after.map_or(after, |least| least.min(after)));
        }
        self.runs.insert(run, entry);
    }

    pub(super) fn take_run(&mut self, run: RunId) -> Option<Entry> {
        let entry = self.runs.remove(run)?;
        self.unsure.count_change(entry.phase, None);
        Some(entry)
    }

    /// The one way in which a run's phase changes within an association.
    pub(super) fn turn(&mut self, run: RunId, phase: Phase) {
        if let Some(entry) = self.runs.get_mut(run) {
            let before = std::mem::replace(&mut entry.phase, phase);
            self.unsure.count_change(before, Some(phase));
        }
    }

    /// Judges its health; gives whether that is another now.
    pub(super) fn judge(&mut self, now: BootTime, terms: &Terms, consensus: &Consensus) -> bool {
        let permit = self.permit(consensus);
        self.vitals.judge(now, terms, permit).is_some()
    }

    /// How it would be judged.
    pub(super) fn judged(&self, now: BootTime, terms: &Terms, consensus: &Consensus) -> Health {
        self.vitals.judged(now, terms, self.permit(consensus)).health
    }

    fn permit(&self, consensus: &Consensus) -> Permit {
        // Nobody is asked again about who has been healthy; that spares a look at a distant table.
        let is_granted = self.vitals.has_been_healthy()
            || self.seat.is_some_and(|seat| consensus.permits_becoming_healthy(seat).is_granted());
        if is_granted { Permit::Given } else { Permit::Withheld }
    }

    /// Whether this life was heard in this reign.
    pub(super) const fn is_heard(&self) -> bool {
        self.vitals.heard().is_some()
    }

    /// Whether this is the life that is known under its lock, and yet another process: its data
    /// directory was set back, and has counted to the same life again.
    pub(super) fn is_doubled_by(&self, incarnation: Incarnation, birth: u64) -> bool {
        let is_known = self.is_heard() || self.birth != 0;
        self.incarnation == incarnation && is_known && self.birth != birth
    }

    /// Nearly always: who was heard and is not given up holds its name, and nothing changes.
    pub(super) fn is_at_home(&self, incarnation: Incarnation, name: &Name) -> bool {
        self.incarnation == incarnation
            && self.is_heard()
            && !self.is_lost()
            && self.enrolment != Enrolment::Struck
            && self.name == *name
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

    pub(super) fn heap_bytes(&self) -> usize {
        let keys = self.runs.iter().map(|(_, entry)| entry.heap_bytes());
        self.name.as_str().len()
            + self.came_with.as_ref().map_or(0, |_| size_of::<SetId>())
            + self.purge.len() * 2 * size_of::<RunId>()
            + self.runs.heap_bytes()
            + keys.sum::<usize>()
            + self.recording.heap_bytes()
    }
}
