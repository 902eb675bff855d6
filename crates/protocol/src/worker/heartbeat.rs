//! Heartbeats, and the life that they keep up.

use sterna_model::{BootTime, Incarnation, Span};

use super::{Alarm, Effect, Worker};
use crate::{
    health::Health,
    message::{Confirmation, Heartbeat, HeartbeatAnswer, Refusal, Saying},
    planted::{Mistake, is_planted},
};

/// After a refusal, the next heartbeat comes this much later, twice as much each time.
const BACK_OFF: Span = Span::from_secs(1);
/// But not later than this.
const BACK_OFF_MAX: Span = Span::from_secs(32);

/// Until it is healthy, a worker does not wait for its next heartbeat: it comes this long after an
/// answer, twice as long each time, so that somebody who has just come is soon given work.
const SETTLE: Span = Span::from_millis(20);
/// So many of these heartbeats come on one stream: a crowd that cannot become healthy is no burden.
const SETTLE_BEATS: u32 = 6;

/// When to send what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pulse {
    beat_at: BootTime,
    check_at: BootTime,
    /// The number of the last question to the guardian.
    asked: u64,
    /// Whether the guardian owes the answer to it.
    asking: bool,
    back_off: Span,
    /// How many early heartbeats came on this stream, beside those that come anyway.
    settling: u32,
    early_at: Option<BootTime>,
    phase: Phase,
}

/// What the operator of this machine wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wish {
    pub(super) drain: bool,
    /// The stamp of the first heartbeat that said so: an earlier one's answer does not know of it.
    pub(super) said: Option<BootTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Alive,
    /// The identity is given up, and the next one is not synced yet.
    Dying,
}

impl Pulse {
    pub(super) const fn new(now: BootTime) -> Self {
        Self {
            beat_at: now,
            check_at: now,
            asked: 0,
            asking: false,
            back_off: BACK_OFF,
            settling: 0,
            early_at: None,
            phase: Phase::Alive,
        }
    }

    /// The next heartbeat is due now.
    pub(super) const fn hurry(&mut self, now: BootTime) {
        self.beat_at = now;
        // The guardian's answer to an earlier question does for the old stream only.
        self.asking = false;
        (self.settling, self.early_at) = (0, None);
    }

    /// An answer came to somebody who is not healthy yet: a heartbeat comes early.
    fn settle(&mut self, now: BootTime) {
        if self.settling < SETTLE_BEATS {
            let wait = SETTLE.times(1 << self.settling);
            self.settling += 1;
            self.early_at = Some(now.plus(wait));
        }
    }

    /// Nothing waits longer than these, whatever was asked for before: the leader judges by them.
    fn quicken(&mut self, now: BootTime, beat_every: Span, check_every: Span) {
        self.beat_at = self.beat_at.min(now.plus(beat_every));
        self.check_at = self.check_at.min(now.plus(check_every));
    }

    pub(super) const fn is_dying(&self) -> bool {
        matches!(self.phase, Phase::Dying)
    }

    pub(super) fn deadline(&self) -> Option<BootTime> {
        let beats = [Some(self.beat_at), self.early_at].into_iter().flatten();
        beats.filter(|_| !self.is_dying()).chain([self.check_at]).min()
    }
}

impl Worker {
    /// Asks for what the next heartbeat needs, when it is due.
    pub(super) fn pulse_due(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if now >= self.pulse.check_at {
            self.pulse.check_at = now.plus(self.limits.check_every);
            effects.push(Effect::Check);
        }
        // A question that got no answer is asked again: the guardian may be another one by now.
        let is_early = self.pulse.early_at.is_some_and(|at| now >= at);
        if (now < self.pulse.beat_at && !is_early) || self.pulse.is_dying() {
            return;
        }
        self.pulse.early_at = None;
        if now >= self.pulse.beat_at {
            self.pulse.beat_at = now.plus(self.limits.heartbeat_every);
        }
        if self.stream.is_some() {
            self.pulse.asked += 1;
            self.pulse.asking = true;
            effects.push(Effect::AskGuardian(self.pulse.asked));
        }
    }

    /// The guardian is well: stamp and send. An answer to an earlier question may be as old as that,
    /// and says nothing of now (safety rule 12).
    pub(super) fn beat(&mut self, now: BootTime, number: u64, effects: &mut Vec<Effect>) {
        if number != self.pulse.asked || self.pulse.is_dying() {
            return;
        }
        if !std::mem::take(&mut self.pulse.asking) {
            return;
        }
        if let Some(wish) = &mut self.wish {
            wish.said.get_or_insert(now);
        }
        let heartbeat = Heartbeat {
            name: self.name.clone(),
            stamp: now,
            checked: self.vitals.checked().map(|checked| now.since(checked)),
            boot: self.boot,
            birth: self.birth,
            seen: self.seen.map(|(mandate, revision)| (mandate, revision.max(self.told))),
            limits: self.limits.version,
            set: self.set.echo(),
            wants_drain: self.wish.map(|wish| wish.drain),
            is_leaving: self.is_leaving,
            facts: self.facts.clone(),
        };
        self.say(Saying::Heartbeat(heartbeat), effects);
        if !std::mem::replace(&mut self.has_greeted, true) {
            self.outbox.hurry(now);
            self.send_statuses(now, effects);
        }
    }

    pub(super) fn hear(
        &mut self,
        now: BootTime,
        answer: HeartbeatAnswer,
        effects: &mut Vec<Effect>,
    ) {
        match answer {
            HeartbeatAnswer::Welcome => {
                self.pulse.back_off = BACK_OFF;
                self.pulse.settle(now);
            }
            HeartbeatAnswer::Confirmed(confirmation) => {
                self.pulse.back_off = BACK_OFF;
                self.be_confirmed(now, &confirmation, effects);
            }
            HeartbeatAnswer::Refused(Refusal::Die) => self.die(effects),
            HeartbeatAnswer::Refused(Refusal::NameTaken) => {
                // Heard, though not let in: no reason to give this life up.
                self.vitals = self.vitals.anew(now);
                self.put_off(now, Alarm::NameTaken, effects);
            }
            HeartbeatAnswer::Refused(Refusal::RosterFull) => {
                self.vitals = self.vitals.anew(now);
                self.put_off(now, Alarm::RosterFull, effects);
            }
            HeartbeatAnswer::Refused(Refusal::WentBack(newest)) => {
                // Another life would only come nearer to one that was.
                self.vitals = self.vitals.anew(now);
                self.put_off(now, Alarm::WentBack(newest), effects);
            }
            HeartbeatAnswer::Refused(Refusal::WrongCluster) => {
                // Of a leader that was followed meanwhile: its other frames tell which it leads.
            }
            HeartbeatAnswer::Refused(Refusal::WrongVersion(theirs)) => {
                self.put_off(now, Alarm::WrongVersion(theirs), effects);
            }
        }
    }

    /// Only this re-arms deadlines (safety rule 7).
    fn be_confirmed(
        &mut self,
        now: BootTime,
        confirmation: &Confirmation,
        effects: &mut Vec<Effect>,
    ) {
        let Confirmation { stamp, limits, verdict, set, revision, is_draining } = confirmation;
        if *stamp > now {
            // Not ours: no heartbeat of this boot was sent then.
            return;
        }
        let stamp = if is_planted(Mistake::CountsFromArrival) { &now } else { stamp };
        if self.confirmed < Some(*stamp) {
            self.confirmed = Some(*stamp);
            effects.push(Effect::Confirmed(*stamp));
        }
        self.vitals.hear(*stamp);
        self.vitals.settle();
        if self.confirmed <= Some(*stamp) {
            // What an earlier heartbeat was answered is not news.
            self.is_draining = *is_draining;
        }
        // Granted: from here on the leader's word counts, whoever changes it.
        self.wish.take_if(|wish| {
            wish.drain == *is_draining && wish.said.is_some_and(|said| *stamp >= said)
        });
        if limits.version >= self.limits.version && *limits != self.limits {
            self.limits = *limits;
            self.pulse.quicken(now, limits.heartbeat_every, limits.check_every);
            effects.push(Effect::Limits(*limits));
        }
        if let Some(set) = set {
            self.set.take(*set);
        }
        if let Some((mandate, seen)) = &mut self.seen
            && *seen < *revision
        {
            *seen = *revision;
            effects.push(Effect::Remember(*mandate, *revision));
        }
        match verdict {
            Health::Healthy => {
                self.pulse.early_at = None;
                self.vitals.be_permitted();
            }
            Health::MustDie => return self.die(effects),
            Health::New | Health::Unhealthy => self.pulse.settle(now),
        }
        self.judge(now, effects);
    }

    /// Asks again later, and later still each time.
    pub(super) fn put_off(&mut self, now: BootTime, alarm: Alarm, effects: &mut Vec<Effect>) {
        effects.push(Effect::Alarm(alarm));
        self.pulse.beat_at = now.plus(self.pulse.back_off);
        self.pulse.back_off = self.pulse.back_off.times(2).min(BACK_OFF_MAX);
    }

    /// Gives up this identity, and nothing that it runs.
    pub(super) fn die(&mut self, effects: &mut Vec<Effect>) {
        if !self.pulse.is_dying() {
            self.vitals.give_up();
            self.pulse.phase = Phase::Dying;
            self.pulse.asking = false;
            effects.push(Effect::Rebirth);
        }
    }

    /// Begins the next life. Its contracts go on: the last confirmed stamp is still the last.
    pub(super) fn be_reborn(
        &mut self,
        now: BootTime,
        incarnation: Incarnation,
        effects: &mut Vec<Effect>,
    ) {
        if !self.pulse.is_dying() || incarnation.life <= self.incarnation.life {
            return;
        }
        self.incarnation = incarnation;
        self.mandate = None;
        if is_planted(Mistake::ForgetsAtOwnRebirth) {
            self.runs.clear();
        }
        // What the earlier life held names a set with that life in it.
        self.set = crate::consensus::Held::default();
        self.vitals = self.vitals.anew(now);
        let Pulse { check_at, asked, .. } = self.pulse;
        self.pulse = Pulse { check_at, asked, ..Pulse::new(now) };
        self.pulse_due(now, effects);
    }
}
