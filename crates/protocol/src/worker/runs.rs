//! What this worker runs: each run decided once, and ended by its deadline.

use std::collections::BTreeSet;

use sterna_model::{BootTime, Contract, NotifySequence, RunId, Span, TaskIncarnation, WorkKey};

use super::{Effect, Stop, Worker};
use crate::{
    health::Health,
    limits::Limits,
    message::{Held, Kill, News, Payload, Run, RunAnswer, RunRefusal, Saying},
    planted::{Mistake, is_planted},
};

/// One run, from its acceptance until its end is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    key: WorkKey,
    task: Option<TaskIncarnation>,
    contract: Contract,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Alive,
    /// Its deadline has come; that is not undone (safety rule 8).
    Stopping,
    Ended,
}

impl Worker {
    pub(super) fn adopt(&mut self, held: Held) {
        let has_ended = matches!(&held.status, Some(status) if status.news.is_end());
        let phase = if has_ended { Phase::Ended } else { Phase::Alive };
        let Held { run, key, task, contract, status } = held;
        self.runs.insert(run, Entry { key, task, contract, phase });
        if let Some(status) = status {
            self.outbox.adopt(status);
        }
    }

    /// Decides runs in the order of their numbers.
    pub(super) fn decide(&mut self, now: BootTime, runs: Vec<Run>, effects: &mut Vec<Effect>) {
        let mut answers = Vec::with_capacity(runs.len());
        for run in runs {
            // Decided before, or overtaken by one that was: no word (safety rule 1).
            if run.sequence <= self.decided && !is_planted(Mistake::DecidesTwice) {
                continue;
            }
            self.decided = run.sequence;
            let answer = match self.objection(now, &run) {
                Some(refusal) => RunAnswer::Refused(refusal),
                None => RunAnswer::Started,
            };
            answers.push((run.run, answer));
            if answer == RunAnswer::Started {
                let (key, task, contract) = (run.key.clone(), run.task, run.contract);
                self.runs.insert(run.run, Entry { key, task, contract, phase: Phase::Alive });
                effects.push(Effect::Start(run));
            }
        }
        if !answers.is_empty() {
            self.say(Saying::Answers(answers), effects);
        }
    }

    /// Takes back the starts of these runs, and what was about to be said of them.
    pub(super) fn turn_down(&mut self, runs: &BTreeSet<RunId>, rest: &mut Vec<Effect>) {
        self.runs.retain(|run, _| !runs.contains(run));
        rest.retain_mut(|effect| match effect {
            Effect::Start(run) => !runs.contains(&run.run) || is_planted(Mistake::BeginsTheRefused),
            Effect::Send(_, frame) => {
                if let Saying::Answers(answers) = &mut frame.saying {
                    let theirs = answers.iter_mut().filter(|(run, _)| runs.contains(run));
                    theirs.for_each(|(_, it)| *it = RunAnswer::Refused(RunRefusal::NotHealthy));
                }
                true
            }
            Effect::AskGuardian(_)
            | Effect::Check
            | Effect::Close(_)
            | Effect::Stop(..)
            | Effect::Forget(_)
            | Effect::Confirmed(_)
            | Effect::Remember(..)
            | Effect::Limits(_)
            | Effect::Rebirth
            | Effect::Alarm(_) => true,
        });
    }

    fn objection(&self, now: BootTime, run: &Run) -> Option<RunRefusal> {
        match self.vitals.health() {
            Health::Healthy => {}
            Health::New | Health::Unhealthy | Health::MustDie => {
                return Some(RunRefusal::NotHealthy);
            }
        }
        if self.is_draining || self.is_leaving {
            return Some(RunRefusal::Draining);
        }
        if run.notify < self.notified && !is_planted(Mistake::IgnoresNotify) {
            return Some(RunRefusal::Overtaken);
        }
        let here = self.runs.iter().find(|(_, entry)| entry.key == run.key);
        if let Some((other, _)) = here {
            return Some(RunRefusal::KeyIsHere(*other));
        }
        self.is_past(now, run.contract).then_some(RunRefusal::TooLate)
    }

    /// Whether a run under this contract must have begun to stop. Counted from the last confirmed
    /// stamp and never from an arrival (safety rule 3).
    fn is_past(&self, now: BootTime, contract: Contract) -> bool {
        self.stop_of(contract).is_some_and(|stop| now >= stop)
    }

    fn stop_of(&self, contract: Contract) -> Option<BootTime> {
        let after = contract.stop_after()?;
        // Never confirmed: it should not be here, and is not kept.
        let confirmed = self.confirmed.unwrap_or(BootTime::from_millis(0));
        Some(confirmed.plus(self.limits.stop_begins_after(after)))
    }

    /// When a run's stop begins, unless it has.
    pub(super) fn stop_at(&self, entry: &Entry) -> Option<BootTime> {
        match entry.phase {
            Phase::Alive => self.stop_of(entry.contract),
            Phase::Stopping | Phase::Ended => None,
        }
    }

    /// Begins to stop what has reached its deadline.
    pub(super) fn stop_due(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let is_due = |entry: &Entry| self.stop_at(entry).is_some_and(|stop| now >= stop);
        let due: Vec<RunId> =
            self.runs.iter().filter(|(_, entry)| is_due(entry)).map(|(run, _)| *run).collect();
        for run in due {
            let Some(entry) = self.runs.get_mut(&run) else { continue };
            entry.phase = Phase::Stopping;
            let contract = entry.contract;
            let wait = self.kill_wait_left(now, contract);
            effects.push(Effect::Stop(run, Stop::Deadline(wait)));
        }
    }

    /// A stop that begins late must still be over a margin before the leader counts on it: who was
    /// asleep gives no more time than is left.
    fn kill_wait_left(&self, now: BootTime, contract: Contract) -> Span {
        let (Some(after), Some(confirmed)) = (contract.stop_after(), self.confirmed) else {
            return Span::ZERO;
        };
        let gone_by = confirmed.plus(after.minus(Limits::margin(after)));
        gone_by.since(now).min(self.limits.kill_wait)
    }

    pub(super) fn kill(&self, run: RunId, kill: Kill, effects: &mut Vec<Effect>) {
        match self.runs.get(&run).map(|entry| entry.phase) {
            Some(Phase::Alive) => effects.push(Effect::Stop(run, Stop::Asked(kill))),
            // On its way already, or over.
            Some(Phase::Stopping | Phase::Ended) | None => {}
        }
    }

    /// The answer to `get_running`.
    pub(super) fn tell_running(&self, effects: &mut Vec<Effect>) {
        let held = self.runs.iter().map(|(run, entry)| Held {
            run: *run,
            key: entry.key.clone(),
            task: entry.task,
            contract: entry.contract,
            status: self.outbox.get(*run).cloned(),
        });
        self.say(Saying::Running(held.collect()), effects);
    }

    /// The answer to `notify_if_not_running`. From here on no run is taken that was sent before the
    /// question, so what is said to be not running will not run.
    pub(super) fn note(
        &mut self,
        now: BootTime,
        number: NotifySequence,
        runs: &[RunId],
        effects: &mut Vec<Effect>,
    ) {
        if number <= self.notified {
            return;
        }
        self.notified = number;
        for run in runs {
            if !self.runs.contains_key(run) {
                self.outbox.put(*run, News::WasNotRunning);
            }
        }
        self.say(Saying::Noted(number), effects);
        self.send_statuses(now, effects);
    }

    pub(super) fn progress(
        &mut self,
        now: BootTime,
        run: RunId,
        what: Payload,
        effects: &mut Vec<Effect>,
    ) {
        match self.runs.get(&run).map(|entry| entry.phase) {
            Some(Phase::Alive | Phase::Stopping) => {
                self.outbox.put(run, News::Progress(what));
                self.send_statuses(now, effects);
            }
            Some(Phase::Ended) | None => {}
        }
    }

    pub(super) fn end(
        &mut self,
        now: BootTime,
        run: RunId,
        how: Payload,
        effects: &mut Vec<Effect>,
    ) {
        let Some(entry) = self.runs.get_mut(&run) else { return };
        match entry.phase {
            Phase::Alive | Phase::Stopping => {
                entry.phase = Phase::Ended;
                self.outbox.put(run, News::Ended(how));
                self.send_statuses(now, effects);
            }
            Phase::Ended => {}
        }
    }
}
