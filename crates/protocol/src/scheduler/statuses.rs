//! Statuses: reported to whoever records them, acknowledged when that is done.

use sterna_model::{Incarnation, RunId};

use super::{Effect, Fleet, Report, StreamId, runs::Phase};
use crate::message::{Mandate, Order, Status, StatusAnswer};

impl Fleet {
    pub(super) fn take_statuses(
        &mut self,
        (stream, from, mandate): (StreamId, Incarnation, Option<Mandate>),
        statuses: Vec<Status>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.peers.get(&from.lock) else { return };
        if peer.incarnation != from || peer.stream() != Some(stream) {
            return;
        }
        // What it runs is not known yet, or it takes another for the leader.
        if !peer.has_answered || mandate != Some(self.mandate) {
            let retry = |status: &Status| (status.run, status.number, StatusAnswer::Retry);
            let answers = statuses.iter().map(retry).collect();
            return self.send_to(from.lock, Order::Statuses(self.revision, answers), effects);
        }
        for status in statuses {
            self.take_status(from, status, effects);
        }
    }

    /// Reports a status once, however often it is sent while it is being recorded.
    pub(super) fn take_status(
        &mut self,
        from: Incarnation,
        status: Status,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.peers.get_mut(&from.lock) else { return };
        let Status { number, run, news } = status;
        if peer.recording.get(run).is_some_and(|(recorded, _)| number <= *recorded) {
            return;
        }
        peer.recording.insert(run, (number, news.is_end()));
        let is_awaited = peer.runs().contains(run);
        // Whatever it says, the run was decided.
        peer.turn(run, Phase::Running);
        effects.push(Effect::Reported(Report { from, run, number, news, is_awaited }));
    }

    /// Whoever records is done with a status. After an end the run is out of the table.
    pub(super) fn recorded(
        &mut self,
        to: Incarnation,
        run: RunId,
        number: u64,
        answer: StatusAnswer,
        effects: &mut Vec<Effect>,
    ) {
        if self.note_recorded(to, run, number, answer) {
            let answers = vec![(run, number, answer)];
            self.send_to(to.lock, Order::Statuses(self.revision, answers), effects);
            self.finish_purge(to.lock, effects);
        }
    }

    /// Gives whether that life still waits for the answer; the next one will send it again.
    pub(super) fn note_recorded(
        &mut self,
        to: Incarnation,
        run: RunId,
        number: u64,
        answer: StatusAnswer,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&to.lock) else { return false };
        if peer.incarnation != to {
            return false;
        }
        let recorded = peer.recording.get(run).copied().filter(|(newest, _)| *newest == number);
        if recorded.is_some() {
            peer.recording.remove(run);
        }
        match (recorded, answer) {
            (Some((_, true)), StatusAnswer::Recorded | StatusAnswer::Ignored) => {
                peer.purge.remove(&run);
                self.remove(to.lock, run);
            }
            (Some((_, true)), StatusAnswer::Retry)
            | (
                Some((_, false)) | None,
                StatusAnswer::Recorded | StatusAnswer::Ignored | StatusAnswer::Retry,
            ) => {}
        }
        true
    }
}
