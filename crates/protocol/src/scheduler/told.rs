//! Of which refused workers people were told lately: each of them asks again and again.
//!
//! Invariant: what is kept is bounded, whoever comes, and so is what people are told in a while.

use std::collections::BTreeMap;

use sterna_model::{BootTime, Lock, Span};

use super::{Alarm, peers::tree_bytes};

/// Why a worker is refused, as far as that is told again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Why {
    NameTaken,
    RosterFull,
    Foreign,
    WentBack,
}

impl Why {
    const fn of(alarm: &Alarm) -> Option<Self> {
        match alarm {
            Alarm::NameTaken(_) => Some(Self::NameTaken),
            Alarm::RosterFull(_) => Some(Self::RosterFull),
            Alarm::Foreign(_) => Some(Self::Foreign),
            Alarm::WentBack(_) => Some(Self::WentBack),
            // Once for each run.
            Alarm::RunIsElsewhere(..) => None,
        }
    }

    /// How long the same machine is not told of again, and of how many it is told in that time.
    const fn bounds(self) -> (Span, usize) {
        match self {
            // What is to be done is the same, whoever comes: one says it.
            Self::RosterFull => (Span::from_secs(60), 1),
            Self::NameTaken | Self::Foreign | Self::WentBack => (Span::from_secs(600), 16),
        }
    }
}

/// When people were told of whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Told(BTreeMap<(Why, Lock), BootTime>);

impl Told {
    pub(super) const EMPTY: Self = Self(BTreeMap::new());

    /// Whether people are told of this now.
    pub(super) fn tells(&mut self, now: BootTime, lock: Lock, alarm: &Alarm) -> bool {
        let Some(why) = Why::of(alarm) else { return true };
        let (again, most) = why.bounds();
        self.0.retain(|(other, _), told| *other != why || now < told.plus(again));
        let count = self.0.keys().filter(|(other, _)| *other == why).count();
        let tells = count < most && !self.0.contains_key(&(why, lock));
        if tells {
            self.0.insert((why, lock), now);
        }
        tells
    }

    /// What it holds on the heap, at most.
    pub(super) fn heap_bytes(&self) -> usize {
        tree_bytes::<(Why, Lock), BootTime>(self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::{DirectoryId, MachineId, WallTime};

    use super::*;

    fn lock(number: u8) -> Lock {
        let directory = DirectoryId::from_parts(WallTime::EPOCH, [number; 10]);
        Lock { directory, machine: MachineId::from_bytes([number; 16]).unwrap() }
    }

    fn at(seconds: u64) -> BootTime {
        BootTime::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_refused_machine_is_told_of_once_in_a_while_and_for_each_reason() {
        let mut told = Told::EMPTY;
        let all: Vec<_> =
            (0..1_300).filter(|s| told.tells(at(*s), lock(1), &Alarm::WentBack(7))).collect();
        assert_eq!(all, [0, 600, 1_200]);
        assert!(told.tells(at(1_300), lock(2), &Alarm::WentBack(7)), "another machine");
        assert!(told.tells(at(1_300), lock(1), &Alarm::RosterFull(5)), "another reason");
        assert!(!told.tells(at(1_300), lock(2), &Alarm::RosterFull(5)), "one says it");
        assert!(told.tells(at(1_360), lock(2), &Alarm::RosterFull(5)));
    }

    #[test]
    fn however_many_are_refused_few_are_told_of_and_kept() {
        let mut told = Told::EMPTY;
        let tell = |told: &mut Told, seconds| {
            let alarm = Alarm::WentBack(7);
            (1..=200).filter(|number| told.tells(at(seconds), lock(*number), &alarm)).count()
        };
        assert_eq!(tell(&mut told, 0), 16);
        assert_eq!(tell(&mut told, 599), 0);
        assert_eq!(tell(&mut told, 600), 16);
        assert_eq!(told.0.len(), 16);
    }
}
