//! How a worker goes: first what must end with it ends, then that is told, and that it leaves.

use sterna_model::{BootTime, Span};
use sterna_protocol::{
    message::{HeartbeatAnswer, Order, Saying},
    worker,
};

use super::{Effect, Keeper};
use crate::link::remark::Remark;

/// How long ends are told, and that it leaves, once everything has ended, to somebody who listens.
const TELL_FOR: Span = Span::from_secs(2);

/// How far it is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Working,
    /// What must end with it is ending.
    Ending,
    /// It has ended, and is told until then.
    Telling {
        until: BootTime,
    },
    Left,
}

/// Whether the leader knows that it leaves: whoever takes its place would wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    NotSaid,
    /// With the heartbeat of this stamp.
    Said(BootTime),
    Heard,
}

impl Farewell {
    pub(super) const fn say(&mut self, saying: &Saying) {
        if let (Saying::Heartbeat(heartbeat), Self::NotSaid) = (saying, *self)
            && heartbeat.is_leaving
        {
            *self = Self::Said(heartbeat.stamp);
        }
    }

    pub(super) fn hear(&mut self, order: &Order) {
        let Self::Said(stamp) = *self else { return };
        let is_heard = match order {
            Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmed)) => confirmed.stamp >= stamp,
            // It is nobody whom anybody would wait for.
            Order::Heartbeat(HeartbeatAnswer::Welcome | HeartbeatAnswer::Refused(_)) => true,
            Order::Statuses(..)
            | Order::GetRunning
            | Order::Run(_)
            | Order::NotifyIfNotRunning(..)
            | Order::Kill(..)
            | Order::Die => false,
        };
        if is_heard {
            *self = Self::Heard;
        }
    }
}

impl Phase {
    /// Whether a lost stream is to be followed by another: who only tells what was is not worth it.
    pub(super) const fn has_link(self) -> bool {
        match self {
            Self::Working | Self::Ending => true,
            Self::Telling { .. } | Self::Left => false,
        }
    }

    pub(super) const fn deadline(self) -> Option<BootTime> {
        match self {
            Self::Telling { until } => Some(until),
            Self::Working | Self::Ending | Self::Left => None,
        }
    }
}

impl Keeper {
    /// Somebody wants it to end; twice means at once, and the guardian does the rest.
    pub(super) fn end(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Working => {
                self.phase = Phase::Ending;
                self.say(now, Remark::Ending, effects);
                self.inputs.push_back(worker::Input::Leave);
                effects.push(Effect::ShutDown);
            }
            Phase::Ending | Phase::Telling { .. } => {
                self.say(now, Remark::Leaving, effects);
                self.leave(now, effects);
            }
            Phase::Left => {}
        }
    }

    /// Everything that must end with it has ended.
    pub(super) const fn shut_down(&mut self, now: BootTime) {
        match self.phase {
            Phase::Ending => self.phase = Phase::Telling { until: now.plus(TELL_FOR) },
            Phase::Working | Phase::Telling { .. } | Phase::Left => {}
        }
    }

    /// Goes when the leader has every end and knows that it leaves, or nobody listens any more.
    pub(super) fn leave_when_told(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let Phase::Telling { until } = self.phase else { return };
        let is_told = self.ends.is_empty() && self.farewell == Farewell::Heard;
        if is_told || !self.dialer.is_open() || now >= until {
            self.leave(now, effects);
        }
    }

    fn leave(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        self.phase = Phase::Left;
        if !self.ends.is_empty() {
            self.say(now, Remark::Untold(self.ends.len()), effects);
        }
        self.say(now, Remark::Done, effects);
        effects.push(Effect::Leave);
    }
}
