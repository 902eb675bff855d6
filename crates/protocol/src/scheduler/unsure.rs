//! Runs whose sending was not answered: asked about, with longer and longer pauses.

use std::collections::BTreeSet;

use sterna_model::{BootTime, Lock, NotifySequence, RunId, Span};

use super::{Effect, Fleet, runs::Phase};
use crate::message::Order;

/// The first pause between two questions is twice this; each is twice the one before.
const PERIOD: Span = Span::from_secs(1);
/// So often a pause is doubled.
const DOUBLINGS_MAX: u32 = 8;

/// What is unsure on one machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unsure {
    runs: BTreeSet<RunId>,
    /// The number of the last question in this association.
    sequence: NotifySequence,
    /// The question that waits for its answer, by the last number.
    asked: BTreeSet<RunId>,
    /// Questions since there was nothing unsure.
    questions: u32,
    ask_at: BootTime,
}

impl Unsure {
    /// Nothing, in an association that begins.
    pub(super) const NOTHING: Self = Self {
        runs: BTreeSet::new(),
        sequence: NotifySequence::ZERO,
        asked: BTreeSet::new(),
        questions: 0,
        ask_at: BootTime::from_millis(0),
    };

    /// The number that runs carry: of the last question that was asked before them.
    pub(super) const fn sequence(&self) -> NotifySequence {
        self.sequence
    }

    pub(super) fn add(&mut self, now: BootTime, run: RunId) {
        if self.runs.is_empty() {
            self.questions = 0;
            self.ask_at = now;
        }
        self.runs.insert(run);
    }

    pub(super) fn remove(&mut self, run: RunId) {
        self.runs.remove(&run);
        self.asked.remove(&run);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The worker is given up, and is asked nothing more. Its numbers are not used again.
    pub(super) fn give_up(&mut self) {
        self.runs.clear();
        self.asked.clear();
    }

    /// Its answer would come on a stream that is gone.
    pub(super) fn forget_question(&mut self) {
        self.asked.clear();
    }

    /// The next question, if it is due.
    fn question(&mut self, now: BootTime) -> Option<(NotifySequence, Vec<RunId>)> {
        if self.runs.is_empty() || now < self.ask_at {
            return None;
        }
        // Greater than that of every run in the question, since they were sent before it.
        self.sequence = self.sequence.next()?;
        self.questions += 1;
        let pause = PERIOD.times(1 << self.questions.min(DOUBLINGS_MAX));
        self.ask_at = now.plus(pause);
        self.asked = self.runs.clone();
        Some((self.sequence, self.asked.iter().copied().collect()))
    }
}

impl Fleet {
    pub(super) fn ask_unsure(&mut self, now: BootTime, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        // Only who can hear, and has said what it runs.
        if peer.stream.is_none() || !peer.is_confirmable() {
            return;
        }
        if let Some((number, runs)) = peer.unsure.question(now) {
            self.send_to(lock, Order::NotifyIfNotRunning(number, runs), effects);
        }
    }

    /// The worker has reported, or will, which of the runs in question are not running. The others
    /// are.
    pub(super) fn learn_noted(&mut self, lock: Lock, number: NotifySequence) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        if number != peer.unsure.sequence {
            return;
        }
        for run in std::mem::take(&mut peer.unsure.asked) {
            peer.unsure.runs.remove(&run);
            if let Some(entry) = peer.runs.get_mut(&run) {
                entry.phase = Phase::Running;
            }
        }
    }
}
