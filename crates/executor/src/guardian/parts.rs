//! The commands that a run is made of.

use std::collections::BTreeMap;

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
    /// Asks whether the work is well; nothing follows from its end.
    Probe,
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
pub(super) struct Parts(BTreeMap<Part, (Role, Progress)>);

impl Parts {
    pub(super) fn get(&self, part: Part) -> Option<(Role, Progress)> {
        self.0.get(&part).copied()
    }

    /// The newest that is no probe.
    pub(super) fn newest(&self) -> Option<Part> {
        let is_step = |role: Role| match role {
            Role::Setup | Role::Main => true,
            Role::Probe => false,
        };
        self.0.iter().rev().find(|(_, (role, _))| is_step(*role)).map(|(part, _)| *part)
    }

    /// Whether the work itself was asked for, and is no more.
    pub(super) fn is_main_over(&self) -> bool {
        self.0
            .values()
            .any(|(role, progress)| matches!((role, progress), (Role::Main, Progress::Over)))
    }

    /// Takes in a part; gives whether it is new.
    pub(super) fn insert(&mut self, part: Part, role: Role, progress: Progress) -> bool {
        let is_new = self.0.keys().next_back().is_none_or(|last| *last < part);
        if is_new {
            // Probes come for as long as the run lives; what they became is not asked again.
            self.0.retain(|_, known| !matches!(known, (Role::Probe, Progress::Over)));
            self.0.insert(part, (role, progress));
        }
        is_new
    }

    pub(super) fn advance(&mut self, part: Part, to: Progress) {
        if let Some((_, progress)) = self.0.get_mut(&part) {
            *progress = to;
        }
    }
}
