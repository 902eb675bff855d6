//! Statuses, sent again until they are acknowledged.

use std::collections::BTreeMap;

use sterna_model::{BootTime, Revision, RunId, Span};

use super::{Effect, Worker};
use crate::message::{News, Saying, Status, StatusAnswer};

/// What was not acknowledged is sent again after this.
const RETRY_EVERY: Span = Span::from_secs(1);
/// Statuses in one frame at most.
const FRAME_MAX: usize = 512;

/// The newest unacknowledged status of each run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Outbox {
    statuses: BTreeMap<RunId, Status>,
    /// How far each run had come that was acknowledged last.
    told: BTreeMap<RunId, News>,
    /// Of the newest status.
    number: u64,
    /// All up to here were sent since the last retry.
    sent: u64,
    retry_at: Option<BootTime>,
}

impl Outbox {
    pub(super) fn put(&mut self, run: RunId, news: News) {
        self.number += 1;
        self.statuses.insert(run, Status { number: self.number, run, news });
    }

    pub(super) fn adopt(&mut self, status: Status) {
        self.number = self.number.max(status.number);
        self.statuses.insert(status.run, status);
    }

    pub(super) fn get(&self, run: RunId) -> Option<&Status> {
        self.statuses.get(&run)
    }

    /// Tells again how far each run has come: the store may have lost it.
    pub(super) fn tell_again(&mut self) {
        for (run, news) in std::mem::take(&mut self.told) {
            if !self.statuses.contains_key(&run) {
                self.put(run, news);
            }
        }
    }

    /// Everything is due again.
    pub(super) const fn hurry(&mut self, now: BootTime) {
        self.retry_at = Some(now);
    }

    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.retry_at.filter(|_| !self.statuses.is_empty())
    }

    pub(super) fn is_due(&self, now: BootTime) -> bool {
        self.deadline().is_some_and(|retry| now >= retry)
    }

    /// What to send now: all of it when that is due, else what was not sent yet.
    fn take(&mut self, now: BootTime) -> Vec<Status> {
        if self.is_due(now) {
            self.sent = 0;
        }
        let unsent = self.statuses.values().filter(|status| status.number > self.sent);
        let taken: Vec<Status> = unsent.cloned().collect();
        if self.sent == 0 || self.retry_at.is_none() {
            self.retry_at = Some(now.plus(RETRY_EVERY));
        }
        self.sent = self.number;
        taken
    }

    /// Takes out the status that was answered, unless a newer one stands in its place.
    fn settle(&mut self, run: RunId, number: u64) -> Option<Status> {
        self.statuses.get(&run).filter(|status| status.number == number)?;
        let settled = self.statuses.remove(&run);
        if let Some(Status { news, .. }) = &settled {
            if news.is_end() {
                self.told.remove(&run);
            } else {
                self.told.insert(run, news.clone());
            }
        }
        if self.statuses.is_empty() {
            self.retry_at = None;
        }
        settled
    }
}

impl Worker {
    /// Whether somebody hears a status. If not they wait, and go out when somebody does.
    pub(super) const fn can_report(&self) -> bool {
        self.stream.is_some()
            && self.has_greeted
            && self.mandate.is_some()
            && !self.pulse.is_dying()
    }

    pub(super) fn send_statuses(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if !self.can_report() {
            return;
        }
        let statuses = self.outbox.take(now);
        for frame in statuses.chunks(FRAME_MAX) {
            self.say(Saying::Statuses(frame.to_vec()), effects);
        }
    }

    pub(super) fn acknowledge(
        &mut self,
        revision: Revision,
        answers: &[(RunId, u64, StatusAnswer)],
        effects: &mut Vec<Effect>,
    ) {
        self.told = self.told.max(revision);
        for (run, number, answer) in answers {
            match answer {
                StatusAnswer::Recorded | StatusAnswer::Ignored => {}
                StatusAnswer::Retry => continue,
            }
            let Some(status) = self.outbox.settle(*run, *number) else { continue };
            if status.news.is_end() && self.runs.remove(run).is_some() {
                effects.push(Effect::Forget(*run));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::{
        ClusterId, DirectoryId, Epoch, Incarnation, Lock, MachineId, Name, Nonce, NotifySequence,
        Term, WallTime,
    };

    use super::*;
    use crate::{
        limits::Limits,
        message::{FromLeader, Mandate, Order, StreamId, VERSION},
        worker::{Input, Start},
    };

    const NOW: BootTime = BootTime::from_millis(1_000);

    #[test]
    fn a_frame_has_512_statuses_at_most() {
        let directory = DirectoryId::from_parts(WallTime::EPOCH, [1; 10]);
        let lock = Lock { directory, machine: MachineId::from_bytes([1; 16]).unwrap() };
        let incarnation = Incarnation { lock, life: 1 };
        let start = Start {
            incarnation,
            name: Name::new("w1").unwrap(),
            boot: 1,
            birth: 1,
            facts: [].into(),
            seen: None,
            confirmed: None,
            held: Vec::new(),
            limits: Limits::default(),
        };
        let cluster = ClusterId::from_parts(WallTime::EPOCH, [1; 10]);
        let (epoch, term, nonce) = (Epoch::new(1), Term::new(1), Nonce::new(1));
        let mandate = Mandate { cluster, epoch, term, nonce };
        let run = |number: u16| {
            let mut unique = [0; 10];
            unique[8..].copy_from_slice(&number.to_be_bytes());
            RunId::from_parts(WallTime::EPOCH, unique)
        };
        let asked = Order::NotifyIfNotRunning(NotifySequence::new(1), (0..513).map(run).collect());
        let frame = FromLeader { version: VERSION, mandate, incarnation, order: asked };
        let mut worker = Worker::new(NOW, start);
        let mut effects = Vec::new();
        worker.step(NOW, Input::Opened(StreamId::new(1)), &mut effects);
        worker.step(NOW, Input::GuardianAnswered(1), &mut effects);
        worker.step(NOW, Input::Frame(StreamId::new(1), frame), &mut effects);
        let mut counts = Vec::new();
        for effect in effects {
            if let Effect::Send(_, frame) = effect
                && let Saying::Statuses(statuses) = frame.saying
            {
                counts.push(statuses.len());
            }
        }
        assert_eq!(counts, [512, 1]);
    }
}
