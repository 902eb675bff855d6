//! How a worker comes to a guardian in place of one that is gone (safety rule 14).
//!
//! ```text
//!   there ── hangs up ──▶ sought ── found ──▶ greeted ── says what it holds ──▶ there
//!                         ▲    │                │
//!                         │    └─ none ─▶ resting
//!                         └─────────────────────┴─ its time is over, or it is gone
//! ```
//!
//! Invariant: meanwhile time passes for all runs, and whatever the worker can do without a guardian is
//! done: it never waits for one. What only a guardian can do is kept for the next.

use std::collections::BTreeMap;

use rustix::event::epoll;
use sterna_executor::ward::Input;
use sterna_model::{BootTime, RunId, Span};

use super::{Command, Event, adopt::Held, driver::Driver, live::Live};
use crate::{
    clock::boot_time,
    guardian::{self, Ask, Channel, FDS_MAX, IsNew, Line, Replaced, Say, UNDERSTOOD},
};

/// So long it is not tried again after no guardian could be had.
const REST: Span = Span::from_millis(500);

/// The way to the next guardian.
#[derive(Debug)]
pub(super) struct Search {
    step: Step,
    /// Why the first of them is gone.
    why: Option<String>,
    /// What was asked meanwhile and needs a guardian, in order.
    later: Vec<Command>,
}

#[derive(Debug)]
enum Step {
    /// A thread looks for it.
    Sought,
    /// It is to say what it holds before then.
    Greeted(Channel, IsNew, BootTime),
    /// There was none; it is tried again then.
    Resting(BootTime),
}

impl Search {
    pub(super) const fn deadline(&self) -> Option<BootTime> {
        match self.step {
            Step::Sought => None,
            Step::Greeted(_, _, until) | Step::Resting(until) => Some(until),
        }
    }

    /// Whether no command waits for it.
    pub(super) const fn is_idle(&self) -> bool {
        self.later.is_empty()
    }
}

impl Driver {
    /// The guardian is gone, or is given up. Its runs go on; another one takes them over.
    pub(super) fn find_another_guardian(&mut self) {
        let mut child = self.child.take();
        let search = self.search.take().unwrap_or_else(|| {
            // One that cannot be watched was not.
            let _ = epoll::delete(&self.epoll, &self.channel);
            self.channel.hang_up();
            Search { step: Step::Sought, why: None, later: Vec::new() }
        });
        match search.step {
            // It has given nothing to anybody yet.
            Step::Greeted(_, IsNew::Yes, _) => child.as_mut().map_or((), guardian::kill),
            // What runs may be a child of it, and end with it.
            Step::Greeted(_, IsNew::No, _) | Step::Sought | Step::Resting(_) => {}
        }
        let (directory, orders) = (self.at.layout.path.clone(), self.orders.clone());
        let thread = std::thread::Builder::new().name("next-guardian".to_owned());
        let is_sought = thread.spawn(move || {
            let replaced = guardian::replace(&directory, child);
            orders.send(Command::Replaced(Box::new(replaced)));
        });
        let step = match is_sought {
            Ok(_) => Step::Sought,
            Err(_) => Step::Resting(boot_time().plus(REST)),
        };
        self.search = Some(Search { step, ..search });
        let runs: Vec<RunId> = self.lives.keys().copied().collect();
        runs.into_iter().for_each(|run| self.step(run, Input::Unguarded));
    }

    /// Whoever looked for another guardian is back.
    pub(super) fn greet_next(&mut self, replaced: Replaced) {
        let Some(search) = &mut self.search else { return };
        let Replaced { why, channel, child } = replaced;
        search.why.get_or_insert(why);
        self.child = child;
        let Ok((mut channel, is_new)) = channel else {
            return self.rest();
        };
        self.introduction().iter().for_each(|ask| channel.push(ask, self.fds_of(ask)));
        let is_good = channel.flush().and_then(|()| self.watch_guardian(&channel)).is_ok();
        let until = boot_time();
        // One that is gone already is given up at once.
        let until = if is_good { until.plus(Self::PATIENCE) } else { until };
        if let Some(search) = &mut self.search {
            search.step = Step::Greeted(channel, is_new, until);
        }
    }

    /// Takes what the next guardian has said.
    pub(super) fn hear_next(&mut self) {
        let Some(Search { step: Step::Greeted(channel, ..), .. }) = &mut self.search else {
            return;
        };
        let line = channel.fill().unwrap_or(Line::Closed);
        loop {
            match channel.next::<Say>() {
                Ok(Some((Say::Adopted { held, has_images, needs }, _)))
                    if needs.is_none_or(|needs| needs <= UNDERSTOOD) =>
                {
                    self.has_images = has_images;
                    return self.greeted(&Held::all(&held));
                }
                // One of another version, which somebody else has started: it may go.
                Ok(Some((Say::Adopted { .. } | Say::Refused { .. }, _))) => return self.rest(),
                Ok(Some((Say::Fate { .. } | Say::Pong { .. }, _))) => {}
                Ok(None) if line == Line::Open => return,
                Ok(None) | Err(_) => return self.find_another_guardian(),
            }
        }
    }

    /// Tries again a little later.
    fn rest(&mut self) {
        if let Some(search) = &mut self.search {
            search.step = Step::Resting(boot_time().plus(REST));
        }
    }

    /// Does what is due in looking for another guardian.
    pub(super) fn go_on_searching(&mut self) {
        let deadline = self.search.as_ref().and_then(Search::deadline);
        if deadline.is_some_and(|at| boot_time() >= at) {
            self.find_another_guardian();
        }
    }

    /// The next guardian says what it holds.
    fn greeted(&mut self, held: &BTreeMap<RunId, Held>) {
        let Some(Search { step: Step::Greeted(channel, ..), why, later }) = self.search.take()
        else {
            return;
        };
        let asked = std::mem::replace(&mut self.channel, channel);
        self.channel.take_over(asked);
        let why = why.unwrap_or_default();
        let runs: Vec<RunId> = self.lives.keys().copied().collect();
        for run in runs {
            self.say_replaced(run, &why);
            if let Some(held) = held.get(&run) {
                if self.lives.get(&run).is_some_and(Live::is_noted) {
                    // The one before it was told so.
                    self.forget(run);
                }
                self.give_pipes(run);
                self.give_claims(run);
                self.freeze_again(run);
                self.step(run, Input::Held(held.phase, held.part));
            } else {
                self.step(run, Input::Lost);
            }
        }
        (self.listener)(Event::GuardianReplaced(why));
        later.into_iter().for_each(|command| self.obey(command));
        // What came with the answer, or right after it; an end of the line is seen next.
        self.heed();
    }

    /// Stops every container where it is, or lets it go on. While there is no guardian the worker does
    /// it: it may be stopped next, and then nobody tells the next one.
    pub(super) fn freeze(&mut self, is_frozen: bool) {
        self.frozen = Some(is_frozen);
        if self.search.is_some() {
            return self.lives.values().for_each(|live| live.freeze(is_frozen));
        }
        let runs: Vec<RunId> = self.lives.keys().copied().collect();
        for run in runs {
            self.ask(&Ask::Freeze { run, is_frozen });
        }
        self.flush();
    }

    /// A new guardian lets go on whatever it has found, and may not know what the one before it stopped.
    /// What is being ended must be able to heed its signal.
    fn freeze_again(&mut self, run: RunId) {
        let is_ending = self.lives.get(&run).is_some_and(|live| live.ward.cause().is_some());
        if let Some(is_frozen) = self.frozen {
            self.ask(&Ask::Freeze { run, is_frozen: is_frozen && !is_ending });
        }
    }

    /// The new guardian keeps the pipes open from now on.
    fn give_pipes(&mut self, run: RunId) {
        let Some(live) = self.lives.get(&run) else { return };
        for (part, pipes) in &live.pipes {
            let streams = pipes.iter().map(|(stream, _)| *stream).collect();
            let fds = pipes.iter().map(|(_, fd)| fd.clone()).collect();
            self.channel.push(&Ask::Pipes { run, part: part.get(), streams }, fds);
        }
    }

    /// The guardian keeps the names of a run's ports from now on.
    pub(super) fn give_claims(&mut self, run: RunId) {
        let Some(live) = self.lives.get(&run) else { return };
        for some in self.ports.claims(&live.ports).chunks(FDS_MAX) {
            self.channel.push(&Ask::Claims { run }, some.to_vec());
        }
    }

    /// Keeps what needs a guardian until there is one; gives back what is to be done now.
    pub(super) fn keep_for_guardian(&mut self, command: Command) -> Option<Command> {
        let Some(search) = &mut self.search else { return Some(command) };
        let is_kept = match &command {
            // What would be asked for before the next guardian says what it holds would be told as lost,
            // and begin all the same.
            Command::Start(..) => true,
            // Of one that is yet to be started.
            Command::Stop(run, ..) | Command::Signal(run, ..) => !self.lives.contains_key(run),
            Command::ShutDown => {
                if !search.is_idle() {
                    // It ends what is yet to be started, too.
                    search.later.push(Command::ShutDown);
                }
                false
            }
            Command::Acknowledge(_)
            | Command::Confirmed(_)
            | Command::KillWait(_)
            | Command::Ping(_)
            | Command::Adopt(_)
            // Whoever asks for it waits until it is done, or on its way.
            | Command::Freeze(..)
            | Command::Drained(..)
            | Command::Measured(..)
            | Command::NotRemoved(..)
            | Command::Probed(..)
            | Command::Replaced(_)
            | Command::End => false,
        };
        if is_kept {
            search.later.push(command);
            return None;
        }
        Some(command)
    }
}
