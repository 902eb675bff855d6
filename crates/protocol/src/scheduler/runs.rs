//! Runs: sent once, and in the table until they are settled.

use std::collections::BTreeMap;

use sterna_model::{
    BootTime, Contract, Incarnation, Lock, Name, RunId, Span, TaskIncarnation, WorkKey,
};

use super::{
    Alarm, Claim, Dispatch, Effect, Fleet, NotSent,
    peer::{Enrolment, Peer},
    peers::Slot,
};
use crate::{
    message::{Held, Kill, Order, Run, RunAnswer, RunRefusal},
    planted::{Mistake, is_planted},
};

/// A run that is not answered within this is unsure, even if its stream seems well.
const ANSWER_WITHIN: Span = Span::from_secs(10);

/// How a run was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It never left this leader.
    NotSent(NotSent),
    /// The worker has not started it, and never will.
    Refused(RunRefusal),
    /// It is certainly gone.
    Gone(GoneBy),
}

/// How it is known that a run is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GoneBy {
    /// Its worker was given up, and its deadline has passed.
    Deadline,
    /// A later life of its worker does not know it (safety rule 5).
    Absence,
    /// The life that it was meant for does not know it, in a later reign: it never came there.
    NeverCame,
    /// Its machine was rebooted.
    Reboot,
    /// Somebody who must know said so.
    Declaration,
}

/// One run that is running, or may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) key: WorkKey,
    pub(super) task: Option<TaskIncarnation>,
    pub(super) contract: Contract,
    pub(super) phase: Phase,
    kill: Option<Kill>,
    /// Whether [`Effect::Silent`] was said.
    pub(super) is_silent: bool,
    /// Whether a later life than it was meant for has come.
    pub(super) is_outlived: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Of an earlier association: the next `get_running` settles it.
    Presumed,
    /// Sent, and not answered yet; unsure from then on.
    Sent(BootTime),
    /// Sent, and not answered in time, or the stream broke; perhaps asked about.
    Unsure { is_asked: bool },
    /// The worker has it.
    Running,
}

impl Entry {
    const fn new(
        key: WorkKey,
        task: Option<TaskIncarnation>,
        contract: Contract,
        phase: Phase,
    ) -> Self {
        Self { key, task, contract, phase, kill: None, is_silent: false, is_outlived: false }
    }

    /// After which silence another copy may start.
    pub(super) const fn silence(&self) -> Option<Span> {
        match self.contract {
            Contract::Replace { after } => Some(after),
            Contract::Stop { .. } | Contract::Keep => None,
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.key.name_bytes()
    }
}

impl Phase {
    pub(super) const fn is_unsure(self) -> bool {
        match self {
            Self::Unsure { .. } => true,
            Self::Presumed | Self::Sent(_) | Self::Running => false,
        }
    }
}

impl Peer {
    /// It was heard: nothing on it is silent any more. Gives whether something was.
    pub(super) fn forgive_silence(&mut self) -> bool {
        let had_silent_runs = std::mem::take(&mut self.has_silent_runs);
        if had_silent_runs {
            self.runs_mut().for_each(|(_, entry)| entry.is_silent = false);
            self.silent_after = self.runs().iter().filter_map(|(_, entry)| entry.silence()).min();
        }
        had_silent_runs
    }
}

/// How long after a kill was said it is said again.
const KILL_AGAIN: Span = Span::from_secs(10);

impl Fleet {
    /// A claim of the store: the run may be running there.
    pub(super) fn presume(&mut self, now: BootTime, claim: Claim) {
        let Claim { holder, run, key, task, contract } = claim;
        let slot = self.peers.find(&holder.lock).unwrap_or_else(|| {
            self.peers.insert(holder.lock, Peer::claimed(now, holder, unnamed()))
        });
        // Whose process is not known may be another one with the same life.
        let is_outlived = |peer: &Peer| peer.incarnation != holder || peer.birth == 0;
        let is_outlived = self.peers.at(slot).is_some_and(is_outlived);
        let entry = Entry::new(key, task, contract, Phase::Presumed);
        self.put_run(slot, run, Entry { is_outlived, ..entry });
    }

    /// Puts a run into the table of a machine. Another one may have said that it has it, too.
    fn put_run(&mut self, slot: Slot, run: RunId, entry: Entry) {
        self.keys.insert(&entry.key, run);
        self.places.insert((run, slot));
        if let Some(peer) = self.peers.at_mut(slot) {
            peer.put_run(run, entry);
        }
    }

    /// Sends runs, those for one worker in one frame.
    pub(super) fn dispatch(
        &mut self,
        now: BootTime,
        runs: Vec<Dispatch>,
        effects: &mut Vec<Effect>,
    ) {
        let mut frames: BTreeMap<Lock, Vec<Run>> = BTreeMap::new();
        for dispatch in runs {
            let (run, lock) = (dispatch.run, dispatch.to.lock);
            if self.holders(run).next().is_some() {
                // It was sent, or is being held: to say that it was not would be a lie.
                continue;
            }
            match self.number(now, dispatch) {
                Ok(numbered) => frames.entry(lock).or_default().push(numbered),
                Err(why) => effects.push(Effect::Settled(run, Settlement::NotSent(why))),
            }
        }
        for (lock, runs) in frames {
            self.send_to(lock, Order::Run(runs), effects);
        }
    }

    /// Puts a run into the table, before it is sent, and gives it its number.
    fn number(&mut self, now: BootTime, dispatch: Dispatch) -> Result<Run, NotSent> {
        let Dispatch { to, run, key, task, contract, ordinal, work } = dispatch;
        self.contract_objection(&key, contract).map_or(Ok(()), Err)?;
        self.worker_objection(to).map_or(Ok(()), Err)?;
        let slot = self.peers.find(&to.lock).ok_or(NotSent::NotHere)?;
        let peer = self.peers.at_mut(slot).ok_or(NotSent::NotHere)?;
        let sequence = peer.sequence.next().ok_or(NotSent::NoMoreNumbers)?;
        peer.sequence = sequence;
        let unsure_at = now.plus(ANSWER_WITHIN);
        peer.unsure_at.get_or_insert(unsure_at);
        let notify = peer.unsure.sequence();
        self.put_run(slot, run, Entry::new(key.clone(), task, contract, Phase::Sent(unsure_at)));
        Ok(Run { sequence, notify, run, key, task, contract, ordinal, work })
    }

    /// A wish that is kept: it is said again on every new stream, when this leader may speak again, and
    /// from time to time, until the run is settled.
    pub(super) fn kill(&mut self, run: RunId, kill: Kill, effects: &mut Vec<Effect>) {
        for (lock, kill) in self.note_kill(run, kill) {
            self.send_to(lock, Order::Kill(run, kill), effects);
        }
    }

    /// Gives whom to tell, and what.
    pub(super) fn note_kill(&mut self, run: RunId, kill: Kill) -> Vec<(Lock, Kill)> {
        let slots: Vec<Slot> = self.holders(run).collect();
        let note = |slot: Slot| {
            let peer = self.peers.at_mut(slot)?;
            let lock = peer.incarnation.lock;
            let entry = peer.run_mut(run)?;
            // A gentler wish does not soften an earlier one.
            let kill = entry.kill.map_or(kill, |earlier| earlier.max(kill));
            entry.kill = Some(kill);
            peer.has_kills = true;
            Some((lock, kill))
        };
        slots.into_iter().filter_map(note).collect()
    }

    /// With a heartbeat, from time to time: on a stream that goes on a kill may have been lost.
    pub(super) fn kill_again(&mut self, now: BootTime, slot: Slot, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.at_mut(slot).filter(|peer| peer.has_kills) else { return };
        let due = *peer.kills_again_at.get_or_insert(now.plus(KILL_AGAIN));
        if now < due {
            return;
        }
        let lock = peer.incarnation.lock;
        let has_kills = peer.runs().iter().any(|(_, entry)| entry.kill.is_some());
        peer.has_kills = has_kills;
        peer.kills_again_at = peer.has_kills.then(|| now.plus(KILL_AGAIN));
        if peer.has_kills {
            self.repeat_kills(lock, effects);
        }
    }

    pub(super) fn repeat_kills(&self, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get(&lock) else { return };
        for run in &peer.purge {
            self.send_to(lock, Order::Kill(*run, Kill::Now), effects);
        }
        for (run, entry) in peer.runs().iter() {
            if let Some(kill) = entry.kill {
                self.send_to(lock, Order::Kill(run, kill), effects);
            }
        }
    }

    /// The first answer to `get_running` in an association, and the only one that counts.
    pub(super) fn learn_running(
        &mut self,
        from: Incarnation,
        held: Vec<Held>,
        effects: &mut Vec<Effect>,
    ) {
        let lock = from.lock;
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        let is_first = !peer.has_answered || is_planted(Mistake::CountsAnyAbsence);
        if !is_first || peer.enrolment != Enrolment::Done || peer.is_lost() {
            return;
        }
        if !peer.is_declared_dead
            && let Some(raised) = self.book.raised_for(&held)
        {
            // The next leader must know how long such runs may last, before this one is at ease. The
            // worker is asked again with its next heartbeat.
            return effects.push(Effect::Raise(raised));
        }
        peer.has_answered = true;
        peer.is_known = true;
        peer.vitals.settle();
        effects.push(Effect::Health(from, peer.vitals.health()));
        let gone_by = |entry: &Entry| match (peer.has_rebooted, entry.is_outlived) {
            (true, true | false) => GoneBy::Reboot,
            (false, true) => GoneBy::Absence,
            (false, false) => GoneBy::NeverCame,
        };
        let held: BTreeMap<RunId, Held> = held.into_iter().map(|held| (held.run, held)).collect();
        let is_absent = |(run, _): &(RunId, &Entry)| !held.contains_key(run);
        let absent = peer.runs().iter().filter(is_absent);
        let absent: Vec<_> = absent.map(|(run, entry)| (run, gone_by(entry))).collect();
        for (run, gone_by) in absent {
            self.settle(lock, run, Settlement::Gone(gone_by), effects);
        }
        for (_, held) in held {
            self.adopt(from, held, effects);
        }
        // After everything that it does not have, or has to everybody's surprise.
        effects.push(Effect::Heard(from));
        self.repeat_kills(lock, effects);
        self.finish_purge(lock, effects);
        if let Some(peer) = self.peers.get_mut(&lock) {
            peer.take_seat(&mut self.consensus);
        }
    }

    /// One run that a worker said that it has.
    fn adopt(&mut self, from: Incarnation, held: Held, effects: &mut Vec<Effect>) {
        let Some(slot) = self.peers.find(&from.lock) else { return };
        let Some(peer) = self.peers.get_mut(&from.lock) else { return };
        let status = held.status.clone();
        if peer.is_declared_dead {
            // It was said not to run, and its key may run elsewhere: it ends first.
            peer.purge.insert(held.run);
        } else if peer.runs().contains(held.run) {
            peer.turn(held.run, Phase::Running);
        } else {
            let Held { run, key, task, contract, .. } = held.clone();
            if let Some(other) = self.place(run) {
                effects.push(Effect::Alarm(from, Alarm::RunIsElsewhere(run, other)));
            }
            self.put_run(slot, run, Entry::new(key, task, contract, Phase::Running));
            effects.push(Effect::Found(from, held));
        }
        if let Some(status) = status {
            self.take_status(from, status, effects);
        }
    }

    pub(super) fn learn_answers(
        &mut self,
        now: BootTime,
        lock: Lock,
        answers: Vec<(RunId, RunAnswer)>,
        effects: &mut Vec<Effect>,
    ) {
        for (run, answer) in answers {
            let Some(peer) = self.peers.get_mut(&lock) else { return };
            let Some(entry) = peer.runs().get(run) else { continue };
            match (entry.phase, answer) {
                (Phase::Sent(_) | Phase::Unsure { .. } | Phase::Running, RunAnswer::Started) => {
                    let kill = entry.kill;
                    peer.turn(run, Phase::Running);
                    // The wish may have come before the run, and was nothing to the worker then.
                    if let Some(kill) = kill {
                        self.send_to(lock, Order::Kill(run, kill), effects);
                    }
                }
                (
                    Phase::Sent(_) | Phase::Unsure { .. } | Phase::Running,
                    RunAnswer::Refused(why),
                ) => {
                    // Until its next heartbeat says otherwise: who was refused is not to be sent again.
                    peer.thinks_it_drains |= why == RunRefusal::Draining;
                    self.doubt(now, lock, why, effects);
                    self.settle(lock, run, Settlement::Refused(why), effects);
                }
                // Of an association that is over.
                (Phase::Presumed, RunAnswer::Started | RunAnswer::Refused(_)) => {}
            }
        }
    }

    /// A worker that is not well, by its own word, is not sent anything before a heartbeat says that it
    /// was checked: else what it has refused would come back to it, until it was refused too often.
    fn doubt(&mut self, now: BootTime, lock: Lock, why: RunRefusal, effects: &mut Vec<Effect>) {
        let is_unwell = match why {
            RunRefusal::NotHealthy => true,
            RunRefusal::Draining
            | RunRefusal::Overtaken
            | RunRefusal::KeyIsHere(_)
            | RunRefusal::TooLate => false,
        };
        let Some(peer) = self.peers.get_mut(&lock).filter(|_| is_unwell) else { return };
        peer.vitals.doubt();
        if peer.judge(now, &self.terms, &self.consensus) {
            self.tell_health(lock, effects);
        }
    }

    /// Takes a run out of the table of a machine, for one of the reasons that there are. It is settled
    /// when no other has it.
    pub(super) fn settle(
        &mut self,
        lock: Lock,
        run: RunId,
        settlement: Settlement,
        effects: &mut Vec<Effect>,
    ) {
        if self.remove(lock, run) && self.holders(run).next().is_none() {
            effects.push(Effect::Settled(run, settlement));
        }
    }

    pub(super) fn remove(&mut self, lock: Lock, run: RunId) -> bool {
        let Some(slot) = self.peers.find(&lock) else { return false };
        let Some(peer) = self.peers.get_mut(&lock) else { return false };
        let Some(entry) = peer.take_run(run) else { return false };
        self.places.remove(&(run, slot));
        // Another machine may have said that it has this run, too.
        if self.holders(run).next().is_none() {
            self.keys.remove(&entry.key, run);
        }
        true
    }

    pub(super) fn declare_dead(&mut self, now: BootTime, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        peer.is_declared_dead = true;
        self.dead.insert(lock);
        // What this life has answered is of no use to the next one, which must end what it has.
        peer.has_answered = false;
        if peer.enrolment == Enrolment::Reviving {
            // What is under way takes off the earlier mark, not this one.
            peer.enrolment = Enrolment::Asked;
        }
        if !peer.is_lost() {
            self.lose(lock, effects);
        }
        self.free_declared(lock, effects);
        self.open_doors(now, effects);
    }

    /// A worker that was declared dead is believed again when a life that was not given up has said what
    /// it has, and has ended that (safety rule 24). Nothing is sent to it before the roster says so: the
    /// next leader would not wait for it.
    pub(super) fn finish_purge(&mut self, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        let has_ended = peer.has_answered && !peer.is_lost() && peer.purge.is_empty()
            || is_planted(Mistake::RevivesTheDead);
        if peer.is_declared_dead && has_ended && peer.enrolment == Enrolment::Done {
            peer.enrolment = Enrolment::Reviving;
            effects.push(Effect::Revive(peer.incarnation));
        }
    }
}

/// What a machine is called of which only a claim is known.
fn unnamed() -> Name {
    Name::new("unknown").expect("it is a name")
}
