//! What the guardian tells, and what it means for the cores.

use std::{os::fd::OwnedFd, sync::Arc};

use sterna_executor::container::{Cause, Exit, How, Input};
use sterna_model::{RunId, Span};

use super::{Event, driver::Driver, output::Order, sweeper::Chore};
use crate::guardian::{Ask, FateWord, Line, Say, StreamWord, WhyWord};

impl Driver {
    /// Takes whatever the guardian has said.
    pub(super) fn hear(&mut self) {
        let line = self.channel.fill().unwrap_or(Line::Closed);
        self.heed();
        match line {
            Line::Open => {}
            Line::Closed => self.find_another_guardian(),
        }
    }

    /// Takes what was read already.
    pub(super) fn heed(&mut self) {
        while let Ok(Some((say, fds))) = self.channel.next::<Say>() {
            match say {
                Say::Adopted { .. } => {}
                Say::Pong { number } => (self.listener)(Event::GuardianAnswered(number)),
                Say::Fate { run, fate } => {
                    if self.lives.contains_key(&run) {
                        self.fate(run, fate, fds);
                    } else {
                        self.of_nobody(run, &fate);
                    }
                }
            }
        }
    }

    pub(super) fn flush(&mut self) {
        if self.channel.flush().is_err() {
            self.find_another_guardian();
        }
    }

    /// A run that was ended because nothing is known of it.
    fn of_nobody(&mut self, run: RunId, fate: &FateWord) {
        match fate {
            FateWord::Empty => {
                self.ask(&Ask::Forget { run });
                let group = self.cgroups.end(&run.to_string());
                self.sweeper.tell(Chore::Groups(Some(group)));
                self.sweeper.tell(Chore::Directory(self.at.layout.run(run)));
            }
            FateWord::Started { .. }
            | FateWord::NotStarted { .. }
            | FateWord::Stopping { .. }
            | FateWord::Exited { .. } => {}
        }
    }

    fn fate(&mut self, run: RunId, fate: FateWord, fds: Vec<OwnedFd>) {
        match fate {
            FateWord::Started { part, pid, streams } => {
                self.started(run, part, pid, streams.into_iter().zip(fds));
            }
            FateWord::NotStarted { part, why } => self.not_started(run, part, why),
            FateWord::Stopping { why } => {
                let cause = match why {
                    WhyWord::Deadline => Cause::Deadline,
                    WhyWord::WorkerGone => Cause::WorkerExit,
                };
                // The guardian does it; the core must know the first cause.
                let how = How::Within(self.options.kill_wait);
                self.step(run, Input::Stop(cause, how));
            }
            FateWord::Exited { part, exit, cpu_us, peak_bytes } => {
                let Some(live) = self.lives.get_mut(&run) else { return };
                live.usage.cpu_us = live.usage.cpu_us.max(cpu_us);
                live.usage.memory_peak_bytes = live.usage.memory_peak_bytes.max(peak_bytes);
                self.exited(run, part, exit.exit());
            }
            FateWord::Empty => self.emptied(run),
        }
    }

    fn started(
        &mut self,
        run: RunId,
        part: u32,
        pid: i32,
        pipes: impl Iterator<Item = (StreamWord, OwnedFd)>,
    ) {
        let Some(live) = self.lives.get_mut(&run) else { return };
        // A guardian tells again what was told by the one before it.
        if !live.started.insert(part) || live.step_of(part).is_none() {
            return;
        }
        let pipes: Vec<_> = pipes.map(|(stream, fd)| (stream, Arc::new(fd))).collect();
        live.pipes.insert(part, pipes.clone());
        let origin = live.origin();
        self.output.tell(Order::Add(run, origin, pipes));
        self.say(run, format!("{{\"event\":\"started\",\"step\":{part},\"pid\":{pid}}}"));
        self.step(run, Input::Started);
    }

    fn not_started(&mut self, run: RunId, part: u32, why: String) {
        let Some(live) = self.lives.get_mut(&run) else { return };
        if !live.over.insert(part) {
            return;
        }
        if let Some((question, probe)) = live.probes.remove(&part) {
            live.over.remove(&part);
            return self.probed(run, question, probe, false);
        }
        self.refused(run, &why);
        self.step(run, Input::NotStarted(why));
    }

    pub(super) fn exited(&mut self, run: RunId, part: u32, exit: Exit) {
        let Some(live) = self.lives.get_mut(&run) else { return };
        if !live.over.insert(part) {
            return;
        }
        if let Some((question, probe)) = live.probes.remove(&part) {
            live.over.remove(&part);
            return self.probed(run, question, probe, exit.is_success());
        }
        let has_memory_limit = live.work.limits.memory.is_some();
        let kills = || live.prepared.as_ref().map_or(0, |prepared| prepared.group.oom_kills());
        // Whoever of it was killed for memory, it did not do its work for that.
        let exit = if !exit.is_success() && has_memory_limit && kills() > 0 {
            Exit::OutOfMemory
        } else {
            exit
        };
        self.say(run, format!("{{\"event\":\"exited\",\"step\":{part},\"exit\":\"{exit:?}\"}}"));
        self.step(run, Input::Exited(exit));
    }

    pub(super) fn emptied(&mut self, run: RunId) {
        let Some(live) = self.lives.get_mut(&run) else { return };
        if std::mem::replace(&mut live.is_empty, true) {
            return;
        }
        // A guardian that was killed could not tell how it ended.
        let begun: Vec<u32> = live.started.difference(&live.over).copied().collect();
        let is_silent = live.over.is_empty() && begun.is_empty();
        for part in begun {
            self.exited(run, part, Exit::Unknown);
        }
        if is_silent {
            self.step(run, Input::Exited(Exit::Unknown));
        }
        self.output.tell(Order::Finish(run));
    }

    /// Says in its log why a run did not begin.
    pub(super) fn refused(&self, run: RunId, why: &str) {
        let Some(live) = self.lives.get(&run) else { return };
        self.output.tell(Order::Add(run, live.origin(), Vec::new()));
        self.say(run, serde_json::json!({ "event": "not_started", "why": why }).to_string());
    }

    fn say(&self, run: RunId, line: String) {
        self.output.tell(Order::Say(run, line + "\n"));
    }

    /// The longest that somebody waits for the guardian to say what it holds.
    pub(super) const PATIENCE: Span = Span::from_secs(10);
}
