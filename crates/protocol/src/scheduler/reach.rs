//! How far a machine is within reach, and from when its silence counts: for whoever asks.

use sterna_model::{BootTime, Contract, Lock};

use super::Fleet;
use crate::health::Health;

/// How far a machine is within reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It is heard, and nothing speaks against it.
    Near,
    /// It is heard, and its checks fail: it gets no work, and what it has runs on.
    Sick {
        /// When its last good check began, if this leader has seen one.
        since: Option<BootTime>,
    },
    /// It is not heard.
    Silent {
        /// When it was last heard in this reign.
        heard: Option<BootTime>,
        /// When its silence counts from, for a copy beside what it has.
        beside_from: BootTime,
        /// When its silence counts from, for what it ends by itself (safety rule 7).
        ended_from: BootTime,
        /// When it is given up; nothing is taken for ended before.
        lost_at: BootTime,
    },
}

impl Reach {
    /// When something is done about a run on it, if it stays as it is; `None` if nothing is.
    pub fn acts_at(self, contract: Contract) -> Option<BootTime> {
        match (self, contract) {
            (Self::Near | Self::Sick { .. }, Contract::Replace { .. } | Contract::Stop { .. })
            | (Self::Near | Self::Sick { .. } | Self::Silent { .. }, Contract::Keep) => None,
            (Self::Silent { beside_from, .. }, Contract::Replace { after }) => {
                Some(beside_from.plus(after))
            }
            (Self::Silent { ended_from, lost_at, .. }, Contract::Stop { after }) => {
                Some(ended_from.plus(after).max(lost_at))
            }
        }
    }
}

impl Fleet {
    /// How far a machine is within reach now.
    pub fn reach(&self, now: BootTime, lock: Lock) -> Reach {
        let Some(peer) = self.peers.get(&lock) else {
            let elected = self.elected;
            let (beside_from, ended_from, lost_at) = (elected, elected, elected);
            return Reach::Silent { heard: None, beside_from, ended_from, lost_at };
        };
        let vitals = &peer.vitals;
        let is_old = |last: Option<BootTime>, gap| last.is_none_or(|last| now > last.plus(gap));
        let heard = vitals.heard();
        if is_old(heard, self.terms.heartbeat_gap) || vitals.missed_since().is_some() {
            let lost_at = match vitals.health() {
                Health::MustDie => now,
                // It is judged so first.
                Health::Healthy => self.terms.lose_after.map_or(now, |lose| now.plus(lose)),
                Health::New | Health::Unhealthy => vitals.changes_at(&self.terms),
            };
            return Reach::Silent {
                heard,
                beside_from: heard.unwrap_or(self.elected),
                ended_from: self.counted_from(peer),
                lost_at,
            };
        }
        let is_sick = match vitals.health() {
            // What it runs is not known yet, and neither are its checks.
            Health::New => false,
            Health::Unhealthy | Health::Healthy => is_old(vitals.checked(), self.terms.check_gap),
            Health::MustDie => true,
        };
        if is_sick { Reach::Sick { since: vitals.checked() } } else { Reach::Near }
    }
}
