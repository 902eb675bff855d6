use std::{ffi::OsStr, process::Command, time::Duration};

use anyhow::Result;

use crate::{
    args::Rounds,
    cargo::cargo,
    gate::counts::Counts,
    run::{self, Finished},
    screen::{Paint, Screen},
    workspace::Workspace,
};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// What it looks for holds.
    Passed,
    /// It does not.
    Failed,
    /// Nobody looked; a loud line or a failed build says why.
    Skipped,
}

impl Verdict {
    /// How to show it.
    pub(super) const fn shown(self) -> (Paint, &'static str) {
        match self {
            Self::Passed => (Paint::Good, "ok"),
            Self::Failed => (Paint::Bad, "FAILED"),
            Self::Skipped => (Paint::Loud, "skipped"),
        }
    }
}

/// What a step found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    /// The tests that it ran, if it runs any.
    pub(super) counts: Counts,
}

impl Outcome {
    /// The outcome of a step without tests.
    pub(super) const fn of(is_success: bool) -> Self {
        Self::with(is_success, Counts::NONE)
    }

    /// The outcome of a step that ran tests.
    pub(super) const fn with(is_success: bool, counts: Counts) -> Self {
        let verdict = if is_success { Verdict::Passed } else { Verdict::Failed };
        Self { verdict, counts }
    }

    /// The outcome of a step that was not taken.
    pub(super) const fn skipped() -> Self {
        Self { verdict: Verdict::Skipped, counts: Counts::NONE }
    }
}

/// What a step has at hand while it is its turn.
pub(super) struct Turn<'a> {
    pub(super) name: &'static str,
    pub(super) workspace: &'a Workspace,
    pub(super) screen: Screen,
    pub(super) rounds: Rounds,
}

impl Turn<'_> {
    /// A cargo in the root of the project.
    pub(super) fn cargo<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = cargo(&self.workspace.root, args);
        command.env("CARGO_TERM_COLOR", self.screen.cargo_color());
        if self.rounds == Rounds::Long {
            command.env("STERNA_LONG", "1");
        }
        command
    }

    /// Runs `command` and shows what it said only if it fails.
    pub(super) fn quietly(&self, command: Command) -> Result<Finished> {
        let finished = self.silently(self.patience(), command)?;
        if !finished.is_success {
            self.quote(&finished.output);
        }
        Ok(finished)
    }

    /// Runs `command` for no longer than `limit` and leaves it to the caller to show what it said.
    pub(super) fn silently(&self, limit: Duration, command: Command) -> Result<Finished> {
        run::follow(command, limit, |line| self.screen.progress(self.name, line))
    }

    /// Runs `command` and shows what it says as it says it.
    pub(super) fn aloud(&self, command: Command) -> Result<Finished> {
        run::follow(command, self.patience(), |line| self.screen.quote(line))
    }

    /// No child takes this long unless it hangs; a gate that hangs says nothing to anyone.
    pub(super) const fn patience(&self) -> Duration {
        match self.rounds {
            Rounds::Short => HOUR,
            Rounds::Long => HOUR.saturating_mul(12),
        }
    }

    /// Shows `text` as somebody else's words.
    pub(super) fn quote(&self, text: &str) {
        text.lines().for_each(|line| self.screen.quote(line));
    }
}
