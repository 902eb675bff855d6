//! What the guardian tells, and what it means for the cores.

use std::{os::fd::OwnedFd, sync::Arc};

use sterna_executor::{
    container::Exit,
    guardian::{Fate, Part},
    ward::Input,
};
use sterna_model::{RunId, Span};

use super::{
    Event,
    driver::Driver,
    output::Order,
    pipes::Pipes,
    sweeper::{Chore, Removal},
};
use crate::{
    clock::boot_time,
    guardian::{Ask, FateWord, Line, Say, StreamWord},
};

/// Within this the guardian is told that an end was noted.
const FORGET_WITHIN: Span = Span::from_millis(20);

impl Driver {
    /// Takes whatever the guardian has said.
    pub(super) fn hear(&mut self) {
        if self.search.is_some() {
            return self.hear_next();
        }
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
                Say::Adopted { .. } | Say::Refused { .. } => {}
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
        for order in std::mem::take(&mut self.early).into_values().flatten() {
            self.output.tell(order);
        }
        self.output.flush();
        self.tell_forgotten();
        if self.search.is_some() {
            return;
        }
        if self.channel.flush().is_err() {
            return self.find_another_guardian();
        }
        self.watch_room();
    }

    /// The guardian need not know of this run any more.
    pub(super) fn forget(&mut self, run: RunId) {
        self.forgotten.push(run);
        self.forget_by.get_or_insert_with(|| boot_time().plus(FORGET_WITHIN));
    }

    /// Says what is to be forgotten, if something else is said or it is time.
    pub(super) fn tell_forgotten(&mut self) {
        let is_due = self.forget_by.is_some_and(|by| boot_time() >= by);
        if is_due || self.channel.is_waiting() {
            self.push_forgotten();
        }
    }

    pub(super) fn push_forgotten(&mut self) {
        self.forget_by = None;
        for run in std::mem::take(&mut self.forgotten) {
            self.ask(&Ask::Forget { run });
        }
    }

    /// A run that was ended because nothing is known of it.
    fn of_nobody(&mut self, run: RunId, fate: &FateWord) {
        match fate {
            FateWord::Empty => {
                self.ask(&Ask::Forget { run });
                let group = self.cgroups.end(&run.to_string());
                self.sweeper.tell(Chore::End(group));
                self.sweeper.tell(Chore::Directory(Removal {
                    directory: self.at.layout.run(run),
                    of: None,
                }));
            }
            FateWord::Started { .. }
            | FateWord::NotStarted { .. }
            | FateWord::Stopping { .. }
            | FateWord::Exited { .. } => {}
        }
    }

    fn fate(&mut self, run: RunId, fate: FateWord, fds: Vec<OwnedFd>) {
        match &fate {
            FateWord::Started { part, pid, streams } => {
                let pipes = streams.iter().copied().zip(fds);
                self.started(run, Part::new(*part), *pid, pipes);
                self.told(run, fate.fate());
            }
            FateWord::NotStarted { part, why } => {
                let part = Part::new(*part);
                if self.lives.get(&run).is_some_and(|live| live.ward.is_open(part)) {
                    self.refused(run, why);
                }
                self.told(run, fate.fate());
            }
            FateWord::Exited { part, cpu_us, peak_bytes, .. } => {
                let part = Part::new(*part);
                let Some(live) = self.lives.get_mut(&run) else { return };
                live.usage.cpu_us = live.usage.cpu_us.max(*cpu_us);
                live.usage.memory_peak_bytes = live.usage.memory_peak_bytes.max(*peak_bytes);
                self.exited(run, part, fate.fate());
            }
            FateWord::Empty => {
                let begun = self.lives.get(&run).map(|live| live.ward.begun());
                for part in begun.unwrap_or_default() {
                    // Nobody has seen how.
                    self.say_exited(run, part, Exit::Unknown);
                }
                self.told(run, fate.fate());
            }
            FateWord::Stopping { .. } => self.told(run, fate.fate()),
        }
    }

    fn started(
        &mut self,
        run: RunId,
        part: Part,
        pid: i32,
        pipes: impl Iterator<Item = (StreamWord, OwnedFd)>,
    ) {
        let Some(live) = self.lives.get_mut(&run) else { return };
        if !live.ward.is_new(part) {
            return;
        }
        live.hold_on_to(pid);
        let theirs: Pipes = pipes.map(|(stream, fd)| (stream, Arc::new(fd))).collect();
        if !theirs.is_empty() {
            // Another worker has made them; or a guardian of an earlier version, which did not take ours.
            live.pipes.insert(part, theirs);
        }
        let pipes = live.pipes.get(&part).cloned().unwrap_or_default();
        let origin = live.origin();
        if !std::mem::replace(&mut live.is_shown, true) {
            self.early.insert(run, Vec::new());
        }
        self.show(run, Order::Add(run, origin, pipes));
        let step = part.get();
        let pid = if pid > 0 { format!(",\"pid\":{pid}") } else { String::new() };
        self.say(run, format!("{{\"event\":\"started\",\"step\":{step}{pid}}}"));
    }

    fn exited(&mut self, run: RunId, part: Part, fate: Fate) {
        let Fate::Exited(_, exit) = fate else { return };
        let Some(live) = self.lives.get_mut(&run) else { return };
        // Whoever of it was killed for memory, it did not do its work for that; unless somebody else
        // has ended it.
        let is_its_own = live.ward.is_open(part) && live.ward.cause().is_none();
        let exit = if is_its_own && !exit.is_success() && live.is_out_of_memory() {
            Exit::OutOfMemory
        } else {
            exit
        };
        self.say_exited(run, part, exit);
        self.told(run, Fate::Exited(part, exit));
    }

    /// Says how a step ended, if that is news.
    fn say_exited(&mut self, run: RunId, part: Part, exit: Exit) {
        if self.lives.get(&run).is_some_and(|live| live.ward.is_open(part)) {
            let step = part.get();
            self.say(
                run,
                format!("{{\"event\":\"exited\",\"step\":{step},\"exit\":\"{exit:?}\"}}"),
            );
        }
    }

    /// Says in the log of a run that is not over that it has another guardian, and why.
    pub(super) fn say_replaced(&mut self, run: RunId, why: &str) {
        let Some(live) = self.lives.get_mut(&run) else { return };
        if !live.ward.is_asked() || live.is_draining || live.report.is_some() {
            // A log that has ended would be opened again, and nobody would end it.
            return;
        }
        let origin = live.origin();
        live.is_shown = true;
        self.show(run, Order::Add(run, origin, Vec::new()));
        self.say(run, serde_json::json!({ "event": "guardian_replaced", "why": why }).to_string());
    }

    /// Says in its log why a run did not begin.
    pub(super) fn refused(&mut self, run: RunId, why: &str) {
        let Some(live) = self.lives.get(&run) else { return };
        let origin = live.origin();
        self.show(run, Order::Add(run, origin, Vec::new()));
        self.say(run, serde_json::json!({ "event": "not_started", "why": why }).to_string());
    }

    /// Says that a directory is left, in the log of its run, too, which is over.
    pub(super) fn not_removed(&mut self, removal: Removal, why: &str) {
        let Removal { directory, of } = removal;
        if let Some((run, origin)) = of {
            let said =
                serde_json::json!({ "event": "not_removed", "directory": directory, "why": why });
            self.output.tell(Order::Add(run, origin, Vec::new()));
            self.output.tell(Order::Say(run, format!("{said}\n")));
            self.output.tell(Order::Finish(run));
        }
        (self.listener)(Event::NotRemoved(directory, why.to_owned()));
    }

    fn say(&mut self, run: RunId, line: String) {
        self.show(run, Order::Say(run, line + "\n"));
    }

    /// Has it read or written by whoever does that, now or after what else is to be heard.
    fn show(&mut self, run: RunId, order: Order) {
        match self.early.get_mut(&run) {
            Some(early) => early.push(order),
            None => self.output.tell(order),
        }
    }

    /// Has what a run of which nothing is left has written read to its end. Of one that was short, and
    /// wrote nothing, nobody need be woken for that.
    pub(super) fn drain(&mut self, run: RunId) {
        if let Some(live) = self.lives.get_mut(&run) {
            live.is_draining = true;
        }
        let early = self.early.remove(&run).unwrap_or_default();
        match self.output.keep_silent(early) {
            Ok(()) => self.step(run, Input::Drained),
            Err(early) => {
                early.into_iter().for_each(|order| self.output.tell(order));
                self.output.tell(Order::Finish(run));
            }
        }
    }

    /// The longest that somebody waits for the guardian to say what it holds.
    pub(super) const PATIENCE: Span = Span::from_secs(10);
}
