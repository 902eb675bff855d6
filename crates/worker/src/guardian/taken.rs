//! Processes of an earlier guardian, which somebody else takes when they have ended.

use std::os::fd::AsFd;

use sterna_executor::{
    container::Exit,
    guardian::{Input, Part},
};
use sterna_model::{RunId, Span};

use super::serve::{Serving, Source};
use crate::{clock::boot_time, sys};

/// Within this somebody takes a process of an earlier guardian that has ended, if anybody does.
const TAKEN_WITHIN: Span = Span::from_secs(5);

impl Serving {
    /// A process of an earlier guardian has ended. How is known once somebody else has taken it, which
    /// is not waited for for long.
    pub(super) fn foreign(&mut self, token: u64, run: RunId, part: Part) {
        let Some(driven) = self.runs.get_mut(&run) else { return };
        let Some(proc) = driven.parts.get_mut(&part) else { return };
        let now = boot_time();
        let since = *proc.gone_since.get_or_insert(now);
        let exit = match sys::exit_of(proc.pidfd.as_fd()) {
            Some(Some(exit)) => exit,
            Some(None) if now.since(since) < TAKEN_WITHIN => return,
            Some(None) | None => Exit::Unknown,
        };
        let (pid, role) = (proc.pid, proc.role);
        proc.gone_since = None;
        proc.ended = Some((exit, 0, 0));
        driven.let_go(pid);
        if let Exit::Signal(_) | Exit::Unknown = exit {
            driven.lose_house(part);
        }
        self.sources.remove(&token);
        self.inputs.push_back(Input::Exited(run, part, exit));
        self.drive();
        self.look(run);
        self.drop_probe(run, part, role);
    }

    /// Processes of an earlier guardian whose end waits to be known.
    pub(super) fn look_at_the_taken(&mut self) {
        let waiting = self.sources.iter().filter_map(|(token, source)| match source {
            Source::Foreign(run, part) => Some((*token, *run, *part)),
            Source::Listener
            | Source::Children
            | Source::Starter
            | Source::Owner
            | Source::Socket(_)
            | Source::Sync(..)
            | Source::Report(..)
            | Source::Events(_) => None,
        });
        let waiting: Vec<_> = waiting.filter(|(_, run, part)| self.is_taken(*run, *part)).collect();
        for (token, run, part) in waiting {
            self.foreign(token, run, part);
        }
    }

    fn is_taken(&self, run: RunId, part: Part) -> bool {
        let proc = self.runs.get(&run).and_then(|driven| driven.parts.get(&part));
        proc.is_some_and(|proc| proc.gone_since.is_some())
    }
}
