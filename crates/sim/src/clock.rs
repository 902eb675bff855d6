//! Clocks: every machine has its own, which runs a little differently, and one for people, which is
//! set.

use sterna_model::{BootTime, WallTime};

use crate::rng::Rng;

/// Milliseconds of the world, which no process knows.
pub(crate) type Moment = u64;

/// What a machine's wall clock shows when the world begins.
const BEGIN: i64 = 1_700_000_000_000;

/// The clocks of one machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: u64,
    /// From 0 (0.1 % fast) to 2,000 (0.1 % slow).
    millionths_slow: u64,
    /// How wrong the wall clock is.
    wall_off: i64,
}

impl Clock {
    pub(crate) const fn new(rng: &mut Rng) -> Self {
        Self { zero: rng.between(1, 1_000_000), millionths_slow: rng.below(2_001), wall_off: 0 }
    }

    /// What it shows at this moment.
    pub(crate) const fn at(&self, now: Moment) -> BootTime {
        BootTime::from_millis(
            self.zero + now + now / 1_000 - now * self.millionths_slow / 1_000_000,
        )
    }

    /// The first moment at which it shows this, or more.
    pub(crate) fn when(&self, shown: BootTime) -> Moment {
        let passed = shown.as_millis().saturating_sub(self.zero);
        let mut moment =
            (passed * 1_000_000 / (1_001_000 - self.millionths_slow)).saturating_sub(2);
        while self.at(moment) < shown {
            moment += 1;
        }
        moment
    }

    /// What people see. Nothing but ids is made of it.
    pub(crate) fn wall(&self, now: Moment) -> WallTime {
        let now = i64::try_from(now).unwrap_or(i64::MAX / 2);
        WallTime::from_millis(BEGIN + now + self.wall_off).unwrap_or(WallTime::EPOCH)
    }

    /// Somebody sets the wall clock.
    pub(crate) const fn set_wall(&mut self, off: i64) {
        self.wall_off = off;
    }

    /// The machine boots again: its clock begins anew.
    pub(crate) const fn reboot(&mut self, rng: &mut Rng) {
        let wall_off = self.wall_off;
        *self = Self::new(rng);
        self.wall_off = wall_off;
    }
}
