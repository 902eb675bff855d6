//! How a worker comes to the runs of earlier lives, and to a guardian in place of one that was killed.

use std::{collections::BTreeMap, io, os::unix::process::ExitStatusExt};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sterna_executor::{
    container::How,
    guardian::{Part, Phase},
    ward::{Input, Ward},
};
use sterna_model::{BootTime, RunId};

use super::{
    Event,
    driver::Driver,
    live::{Live, spec},
    prepare::{Ground, Prepared},
    spare,
    stored::{self, Begun},
    sweeper::Chore,
};
use crate::{
    clock::boot_time,
    guardian::{self, Ask, HeldWord, Line, RUNS, Say},
};

/// What a guardian says of a run that it holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    phase: Phase,
    /// The newest of its steps.
    part: Option<Part>,
    /// The newest of all its parts.
    last: Option<Part>,
}

impl Held {
    fn of(word: &HeldWord) -> Self {
        let part = |number: Option<u32>| number.map(Part::new);
        Self { phase: word.phase.phase(), part: part(word.part), last: part(word.last) }
    }
}

impl Driver {
    /// Takes over what the guardian holds, tells what was not acknowledged, and removes every other
    /// leftover (safety rule 15).
    pub(super) fn adopt_all(&mut self) -> io::Result<()> {
        let held = self.greet().or_else(|_| self.greet_another())?;
        for run in self.at.layout.runs() {
            let directory = self.at.layout.run(run);
            if let Some(report) = stored::read_end(&directory, run) {
                self.reported(run, report);
            } else if let Some(held) = held.get(&run) {
                self.adopt(run, *held);
            } else {
                self.sweeper.tell(Chore::Directory(directory));
            }
        }
        for spare in spare::left(&self.at.layout.path.join(RUNS)) {
            self.sweeper.tell(Chore::Directory(spare));
        }
        for run in held.keys().filter(|run| !self.lives.contains_key(run)) {
            self.channel.push(&Ask::Stop { run: *run, grace_ms: 0 }, Vec::new());
        }
        for name in self.cgroups.names() {
            // Of a run whose end was told nothing is left; its worker may have been killed before it
            // had removed its groups.
            let is_told =
                |run: RunId| self.lives.get(&run).is_some_and(|live| live.report.is_some());
            let is_held =
                name.parse::<RunId>().is_ok_and(|run| held.contains_key(&run) && !is_told(run));
            if !is_held {
                let group = self.cgroups.end(&name);
                self.sweeper.tell(Chore::End(group));
            }
        }
        // What came with the answer, or right after it.
        self.heed();
        self.flush();
        Ok(())
    }

    /// Says who we are, and waits for what is held.
    fn greet(&mut self) -> io::Result<BTreeMap<RunId, Held>> {
        let (incarnation, process) = (self.at.incarnation, self.at.process);
        self.ask(&Ask::Adopt { incarnation, process });
        self.ask(&Ask::KillWait { ms: self.options.kill_wait.as_millis() });
        if let Some(stamp) = self.confirmed {
            self.ask(&Ask::Confirmed { stamp_ms: stamp.as_millis() });
        }
        self.channel.flush()?;
        let until = boot_time().plus(Self::PATIENCE);
        loop {
            if let Some((say, _)) = self.channel.next::<Say>()? {
                match say {
                    Say::Adopted { held, has_images } => {
                        self.has_images = has_images;
                        let held = held.into_iter().map(|held| (held.run, Held::of(&held)));
                        return Ok(held.collect());
                    }
                    Say::Fate { .. } | Say::Pong { .. } => continue,
                }
            }
            let left = until.since(boot_time());
            if boot_time() >= until {
                return Err(io::Error::other("the guardian does not say what it holds"));
            }
            let timeout = Timespec::try_from(left.as_duration()).map_err(io::Error::other)?;
            let mut fds = [PollFd::new(&self.channel, PollFlags::IN)];
            poll(&mut fds, Some(&timeout))?;
            if self.channel.fill()? == Line::Closed {
                return Err(io::Error::other("the guardian went before it said what it holds"));
            }
        }
    }

    /// An end that nobody has acknowledged.
    fn reported(&mut self, run: RunId, report: super::Report) {
        let work = Begun::read(&self.at.layout.run(run), run).map(|begun| begun.work);
        let mut live = Live::new(Ward::over(report.end.clone()), work.unwrap_or_default());
        live.report = Some(report.clone());
        self.ask(&Ask::Forget { run });
        self.lives.insert(run, live);
        (self.listener)(Event::Completed(run, Box::new(report)));
    }

    fn adopt(&mut self, run: RunId, held: Held) {
        let directory = self.at.layout.run(run);
        let Some(begun) = Begun::read(&directory, run).filter(|begun| begun.boot == self.at.boot)
        else {
            return;
        };
        let (layout, cgroups) = (&self.at.layout, &self.cgroups);
        let ground = Ground { layout, cgroups, options: &self.options };
        let described = Prepared::describe(ground, run, &begun.work, &begun.ports, begun.who);
        let Ok(prepared) = described else { return };
        let now = boot_time();
        let begun_at = BootTime::from_millis(begun.begun_ms);
        let mut ward = Ward::adopt(now, spec(&begun.work), begun_at, held.part);
        if let Some(last) = held.last {
            ward.number_probes_after(last);
        }
        let mut live = Live::new(ward, begun.work);
        live.prepared = Some(prepared);
        live.ports.clone_from(&begun.ports);
        self.ports.adopt(&begun.ports);
        let state = live.ward.state();
        self.lives.insert(run, live);
        if !begun.ports.is_empty() {
            (self.listener)(Event::Ports(run, begun.ports));
        }
        (self.listener)(Event::Became(run, state));
        if let Some(cause) = stored::read_asked(&directory) {
            // Asked again it ends no later, and its first cause is known.
            self.step(run, Input::Stop(cause, How::Gracefully));
        }
    }

    /// The guardian is gone. Its runs go on; another one takes them over (safety rule 14).
    pub(super) fn find_another_guardian(&mut self) {
        let why = self.take_guardian();
        let Ok(held) = self.greet_another() else {
            // Without a guardian no heartbeat is sent, and every run has its deadline; so it is tried
            // again, at the next thing that happens.
            return;
        };
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
                self.step(run, Input::Held(held.phase, held.part));
            } else {
                self.step(run, Input::Lost);
            }
        }
        (self.listener)(Event::GuardianReplaced(why));
        self.heed();
        self.flush();
    }

    /// Takes the end of a guardian that was started here; gives why it is gone, for people.
    fn take_guardian(&mut self) -> String {
        // It has ended, or is about to.
        let status = self.child.take().and_then(|mut child| child.wait().ok());
        let signal = status.and_then(|status| status.signal());
        let gone = "the guardian is gone".to_owned();
        signal.map_or(gone, |signal| format!("the guardian was ended by signal {signal}"))
    }

    /// One that is just leaving makes room for the next.
    fn greet_another(&mut self) -> io::Result<BTreeMap<RunId, Held>> {
        let mut last = io::Error::other("no guardian stays");
        for _ in 0..10 {
            self.take_guardian();
            let launched = guardian::connect(&self.at.layout.path)?;
            self.channel = launched.channel;
            self.child = launched.child;
            self.watch_guardian()?;
            match self.greet() {
                Ok(held) => return Ok(held),
                Err(error) => last = error,
            }
        }
        Err(last)
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
}
