//! How a worker comes to the runs of earlier lives.

use std::{collections::BTreeMap, io, os::fd::OwnedFd, sync::Arc};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sterna_executor::{
    container::How,
    guardian::{Part, Phase},
    ward::{Input, Ward},
};
use sterna_model::{BootTime, RunId, payload::RunReport};

use super::{
    Event,
    driver::Driver,
    live::{Live, spec},
    prepare::{Ground, Prepared},
    spare,
    stored::{self, Begun},
    sweeper::{Chore, Removal},
};
use crate::{
    clock::boot_time,
    guardian::{self, Ask, HeldWord, IsNew, Line, REMEDY, RUNS, Say, UNDERSTOOD},
};

/// What a guardian says of a run that it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) phase: Phase,
    /// The newest of its steps.
    pub(super) part: Option<Part>,
    /// The newest of all its parts.
    last: Option<Part>,
}

impl Held {
    /// What a guardian holds.
    pub(super) fn all(words: &[HeldWord]) -> BTreeMap<RunId, Self> {
        words.iter().map(|word| (word.run, Self::of(word))).collect()
    }

    fn of(word: &HeldWord) -> Self {
        let part = |number: Option<u32>| number.map(Part::new);
        Self { phase: word.phase.phase(), part: part(word.part), last: part(word.last) }
    }
}

/// Worker and guardian do not understand each other, and trying again does not help.
fn misunderstood(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

fn is_misunderstood(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

impl Driver {
    /// Takes over what the guardian holds, tells what was not acknowledged, and removes every other
    /// leftover (safety rule 15).
    pub(super) fn adopt_all(&mut self) -> io::Result<()> {
        let held = self.greet().or_else(|error| {
            if is_misunderstood(&error) { Err(error) } else { self.greet_another() }
        })?;
        for run in self.at.layout.runs() {
            let directory = self.at.layout.run(run);
            if let Some(report) = stored::read_end(&directory, run) {
                self.reported(run, report);
            } else if let Some(held) = held.get(&run) {
                self.adopt(run, *held);
            } else {
                let begun = Begun::read(&directory, run);
                let of = begun.map(|begun| (run, Live::origin_of(&begun.work)));
                self.sweeper.tell(Chore::Directory(Removal { directory, of }));
            }
        }
        for directory in spare::left(&self.at.layout.path.join(RUNS)) {
            self.sweeper.tell(Chore::Directory(Removal { directory, of: None }));
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

    /// Who we are, and what a guardian must know first.
    pub(super) fn introduction(&self) -> Vec<Ask> {
        let (incarnation, process) = (self.at.incarnation, self.at.process);
        let kill_wait = Ask::KillWait { ms: self.options.kill_wait.as_millis() };
        let confirmed = self.confirmed.map(|at| Ask::Confirmed { stamp_ms: at.as_millis() });
        let adopt = Ask::Adopt { incarnation, process, needs: None };
        [adopt, kill_wait].into_iter().chain(confirmed).collect()
    }

    /// Says one word of that.
    pub(super) fn introduce(&mut self, ask: &Ask) {
        let fds = self.fds_of(ask);
        self.channel.push(ask, fds);
    }

    /// Whoever owns us comes with who we are.
    pub(super) fn fds_of(&self, ask: &Ask) -> Vec<Arc<OwnedFd>> {
        match ask {
            Ask::Adopt { .. } => self.options.owner.clone().into_iter().collect(),
            Ask::Spawn { .. }
            | Ask::Stop { .. }
            | Ask::Confirmed { .. }
            | Ask::KillWait { .. }
            | Ask::Forget { .. }
            | Ask::Ping { .. }
            | Ask::Pipes { .. }
            | Ask::Claims { .. }
            | Ask::Freeze { .. }
            | Ask::Signal { .. }
            | Ask::Unread { .. } => Vec::new(),
        }
    }

    /// Says who we are, and waits for what is held.
    fn greet(&mut self) -> io::Result<BTreeMap<RunId, Held>> {
        self.introduction().iter().for_each(|ask| self.introduce(ask));
        self.channel.flush()?;
        let until = boot_time().plus(Self::PATIENCE);
        loop {
            if let Some((say, _)) = self.channel.next::<Say>()? {
                match say {
                    Say::Refused { why } => return Err(misunderstood(&why)),
                    Say::Adopted { needs: Some(needs), .. } if needs > UNDERSTOOD => {
                        return Err(misunderstood(&format!(
                            "the guardian of this directory needs version {needs} of what it says to \
                             be understood, and this worker understands version {UNDERSTOOD}: {REMEDY}"
                        )));
                    }
                    Say::Adopted { held, has_images, needs: _ } => {
                        self.has_images = has_images;
                        return Ok(Held::all(&held));
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
    fn reported(&mut self, run: RunId, report: RunReport) {
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

    /// One that is just leaving makes room for the next.
    fn greet_another(&mut self) -> io::Result<BTreeMap<RunId, Held>> {
        let mut last = io::Error::other("no guardian stays");
        let mut is_new = if self.child.is_some() { IsNew::Yes } else { IsNew::No };
        for _ in 0..10 {
            self.channel.hang_up();
            let mut child = self.child.take();
            match is_new {
                // It has given nothing to anybody yet.
                IsNew::Yes => child.as_mut().map_or((), guardian::kill),
                IsNew::No => {}
            }
            let replaced = guardian::replace(&self.at.layout.path, child);
            self.child = replaced.child;
            (self.channel, is_new) = replaced.channel?;
            self.watch_guardian(&self.channel)?;
            match self.greet() {
                Ok(held) => return Ok(held),
                Err(error) if is_misunderstood(&error) => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
