//! The commands that a run is made of.

use std::collections::BTreeMap;

use sterna_model::{BootTime, Span};

/// One command of a run, counted by whoever asks for it; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part(u32);

impl Part {
    /// The command with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// What a part is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Another one follows.
    Setup,
    /// The work itself: when it ends, the run ends.
    Main,
    /// Asks whether the work is well; nothing follows from its end. Within so long it must be over.
    Probe(Option<Span>),
}

/// How far a part has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its process is being made, or waits for the go byte.
    Cloning,
    /// It was let go; it has become its command, or will at once.
    Going,
    /// It was let go no further, or has ended.
    Over,
}

/// All parts of one run that were ever asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    known: BTreeMap<Part, (Role, Progress)>,
    /// When each probe that is not over is ended; said once.
    until: BTreeMap<Part, BootTime>,
}

impl Parts {
    pub(super) fn get(&self, part: Part) -> Option<(Role, Progress)> {
        self.known.get(&part).copied()
    }

    /// The newest that is no probe.
    pub(super) fn newest(&self) -> Option<Part> {
        let is_step = |role: Role| match role {
            Role::Setup | Role::Main => true,
            Role::Probe(_) => false,
        };
        self.known.iter().rev().find(|(_, (role, _))| is_step(*role)).map(|(part, _)| *part)
    }

    /// The newest of all.
    pub(super) fn last(&self) -> Option<Part> {
        self.known.keys().next_back().copied()
    }

    /// When the first probe must be over.
    pub(super) fn due(&self) -> Option<BootTime> {
        self.until.values().min().copied()
    }

    /// The probes whose time is over.
    pub(super) fn take_late(&mut self, now: BootTime) -> Vec<Part> {
        let late = self.until.iter().filter(|(_, until)| now >= **until);
        let late: Vec<Part> = late.map(|(part, _)| *part).collect();
        self.until.retain(|part, _| !late.contains(part));
        late
    }

    /// Whether the work itself was asked for, and is no more.
    pub(super) fn is_main_over(&self) -> bool {
        self.known
            .values()
            .any(|(role, progress)| matches!((role, progress), (Role::Main, Progress::Over)))
    }

    /// Takes in a part; gives whether it is new.
    pub(super) fn insert(
        &mut self,
        now: BootTime,
        part: Part,
        role: Role,
        progress: Progress,
    ) -> bool {
        let is_new = self.last().is_none_or(|last| last < part);
        if is_new {
            // Probes come for as long as the run lives; what they became is not asked again.
            self.known.retain(|_, known| !matches!(known, (Role::Probe(_), Progress::Over)));
            self.known.insert(part, (role, progress));
        }
        match (role, progress) {
            (Role::Probe(Some(timeout)), Progress::Cloning | Progress::Going) if is_new => {
                self.until.insert(part, now.plus(timeout));
            }
            (
                Role::Probe(_) | Role::Setup | Role::Main,
                Progress::Cloning | Progress::Going | Progress::Over,
            ) => {}
        }
        is_new
    }

    pub(super) fn advance(&mut self, part: Part, to: Progress) {
        if let Some((_, progress)) = self.known.get_mut(&part) {
            *progress = to;
        }
        match to {
            Progress::Over => drop(self.until.remove(&part)),
            Progress::Cloning | Progress::Going => {}
        }
    }
}
