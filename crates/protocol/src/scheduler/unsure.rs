//! Runs whose sending was not answered: asked about, with longer and longer pauses.

use sterna_model::{BootTime, Lock, NotifySequence, RunId, Span};

use super::{Effect, Fleet, GoneBy, Settlement, peer::Peer, runs::Phase};
use crate::{
    message::Order,
    planted::{Mistake, is_planted},
};

/// The first pause between two questions is twice this; each is twice the one before.
const PERIOD: Span = Span::from_secs(1);
/// So often a pause is doubled.
const DOUBLINGS_MAX: u32 = 8;

/// The questions about what is unsure on one machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unsure {
    /// How many runs are.
    count: u32,
    /// Questions since there was nothing unsure.
    questions: u32,
    /// The number of the last question in this association.
    sequence: NotifySequence,
    /// Whether that one waits for its answer.
    is_open: bool,
    ask_at: BootTime,
}

impl Unsure {
    /// Nothing, in an association that begins.
    pub(super) const NOTHING: Self = Self {
        count: 0,
        questions: 0,
        sequence: NotifySequence::ZERO,
        is_open: false,
        ask_at: BootTime::from_millis(0),
    };

    /// The number that runs carry: of the last question that was asked before them.
    pub(super) const fn sequence(&self) -> NotifySequence {
        self.sequence
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A run was in one phase, and is in another, or in none.
    pub(super) const fn count_change(&mut self, before: Phase, after: Option<Phase>) {
        self.count -= before.is_unsure() as u32;
        if let Some(after) = after {
            self.count += after.is_unsure() as u32;
        }
    }

    /// Its answer would come on a stream that is gone.
    pub(super) const fn forget_question(&mut self) {
        self.is_open = false;
    }

    /// The number of the next question, if it is due.
    fn next(&mut self, now: BootTime) -> Option<NotifySequence> {
        if self.is_empty() || now < self.ask_at {
            return None;
        }
        // Greater than that of every run in the question, since they were sent before it.
        self.sequence = self.sequence.next()?;
        self.questions += 1;
        let pause = PERIOD.times(1 << self.questions.min(DOUBLINGS_MAX));
        self.ask_at = now.plus(pause);
        self.is_open = true;
        Some(self.sequence)
    }
}

impl Peer {
    /// What was sent and not answered may have been lost.
    pub(super) fn doubt_all(&mut self, now: BootTime) {
        self.unsure.forget_question();
        self.doubt(now, |_| true);
    }

    /// What was sent, and should have been answered by now, is unsure.
    pub(super) fn doubt_due(&mut self, now: BootTime) {
        if self.unsure_at.is_some_and(|at| now >= at) {
            self.doubt(now, |at| now >= at);
        }
    }

    fn doubt(&mut self, now: BootTime, is_meant: impl Fn(BootTime) -> bool) {
        if self.unsure_at.take().is_none() {
            return;
        }
        let was_empty = self.unsure.is_empty();
        for (run, at) in self.sent() {
            if is_meant(at) {
                self.turn(run, Phase::Unsure { is_asked: false });
            } else {
                self.unsure_at = Some(self.unsure_at.map_or(at, |first| first.min(at)));
            }
        }
        if was_empty && !self.unsure.is_empty() {
            self.unsure.questions = 0;
            self.unsure.ask_at = now;
        }
    }

    fn sent(&self) -> Vec<(RunId, BootTime)> {
        let sent = self.runs().iter().filter_map(|(run, entry)| match entry.phase {
            Phase::Sent(at) => Some((run, at)),
            Phase::Presumed | Phase::Unsure { .. } | Phase::Running => None,
        });
        sent.collect()
    }

    /// The next question, if it is due.
    fn question(&mut self, now: BootTime) -> Option<(NotifySequence, Vec<RunId>)> {
        let number = self.unsure.next(now)?;
        let unsure = self.runs().iter().filter(|(_, entry)| entry.phase.is_unsure());
        let runs: Vec<RunId> = unsure.map(|(run, _)| run).collect();
        for run in &runs {
            self.turn(*run, Phase::Unsure { is_asked: true });
        }
        Some((number, runs))
    }
}

impl Fleet {
    pub(super) fn ask_unsure(&mut self, now: BootTime, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        if is_planted(Mistake::FreesTheUnsure) {
            let unsure = peer.runs().iter().filter(|(_, entry)| entry.phase.is_unsure());
            for run in unsure.map(|(run, _)| run).collect::<Vec<_>>() {
                self.settle(lock, run, Settlement::Gone(GoneBy::Absence), effects);
            }
            return;
        }
        // Only who can hear, and has said what it runs.
        if peer.stream().is_none() || !peer.is_confirmable() {
            return;
        }
        if let Some((number, runs)) = peer.question(now) {
            self.send_to(lock, Order::NotifyIfNotRunning(number, runs), effects);
        }
    }

    /// The worker has reported, or will, which of the runs in question are not running. The others
    /// are.
    pub(super) fn learn_noted(&mut self, lock: Lock, number: NotifySequence) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        if number != peer.unsure.sequence || !std::mem::take(&mut peer.unsure.is_open) {
            return;
        }
        let asked = peer.runs().iter().filter(|(_, entry)| match entry.phase {
            Phase::Unsure { is_asked } => is_asked,
            Phase::Presumed | Phase::Sent(_) | Phase::Running => false,
        });
        for run in asked.map(|(run, _)| run).collect::<Vec<_>>() {
            peer.turn(run, Phase::Running);
        }
    }
}
