//! What the guardian does when its core says so, and what it is asked.

use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use sterna_executor::guardian::{Effect, Fate, Input, Part, Process, Request, Role, SocketId};
use sterna_model::{BootTime, RunId, Span};

use super::{
    kept::Entry,
    runs::{Driven, Given},
    serve::{Serving, Source, TOGETHER, Wanted, signal},
    words::{Ask, ContractWord, FateWord, HeldWord, PhaseWord, REMEDY, Say, UNDERSTOOD},
};
use crate::clock::boot_time;

/// What is told of a command that was asked for in words of a later version.
const NOT_UNDERSTOOD: &str = "its guardian is of an earlier version than its worker, and does not \
     understand what is asked for: it is replaced when it holds nothing any more and its worker starts \
     anew";

impl Serving {
    /// Takes what a worker says.
    pub(super) fn ask(&mut self, socket: SocketId, ask: Ask, fds: Vec<OwnedFd>) {
        let request = match ask {
            Ask::Adopt { needs, .. } if needs.is_some_and(|needs| needs > UNDERSTOOD) => {
                return self.refuse(socket, needs.unwrap_or_default());
            }
            Ask::Adopt { incarnation, process, needs: _ } => {
                self.offer_owner(fds.into_iter().next());
                Request::Adopt(incarnation, Process::new(process))
            }
            Ask::Spawn { run, part, role, contract, plan } => {
                let part = Part::new(part);
                let of = role.role(plan.timeout());
                if self.core.hears(socket) {
                    let pipes = Given { fds, reader: Some(socket) };
                    let wanted = Wanted { role, contract, plan: *plan, pipes };
                    self.wanted.entry((run, part)).or_insert(wanted);
                }
                Request::Spawn(run, contract.spawn(), part, of)
            }
            Ask::Unread { run, part } => {
                // Nothing is wanted for it, and that is answered.
                let contract = ContractWord { stop_after_ms: Some(0), is_kept: false };
                Request::Spawn(run, contract.spawn(), Part::new(part), Role::Setup)
            }
            Ask::Stop { run, grace_ms } => Request::Stop(run, Span::from_millis(grace_ms)),
            Ask::Confirmed { stamp_ms } => Request::Confirmed(BootTime::from_millis(stamp_ms)),
            Ask::KillWait { ms } => Request::KillWait(Span::from_millis(ms)),
            Ask::Forget { run } => Request::Forget(run),
            Ask::Ping { number } => Request::Ping(number),
            Ask::Pipes { run, part, streams } => {
                let held = self.runs.get_mut(&run).filter(|_| self.core.hears(socket));
                if let Some(proc) = held.and_then(|run| run.parts.get_mut(&Part::new(part))) {
                    proc.pipes = streams.into_iter().zip(fds.into_iter().map(Into::into)).collect();
                    proc.reader = Some(socket);
                }
                return;
            }
            Ask::Claims { run } => {
                if let Some(driven) = self.runs.get_mut(&run).filter(|_| self.core.hears(socket)) {
                    driven.claims.extend(fds);
                }
                return;
            }
            Ask::Freeze { run, is_frozen } => {
                if let Some(driven) = self.runs.get_mut(&run).filter(|_| self.core.hears(socket)) {
                    driven.is_frozen = is_frozen;
                    driven.holding.freeze(is_frozen);
                }
                return;
            }
            Ask::Signal { run, signal: number, to } => {
                let held = self.runs.get(&run).filter(|_| self.core.hears(socket));
                if let (Some(driven), Some(signal)) = (held, signal(number)) {
                    driven.signal(signal, to);
                }
                return;
            }
        };
        self.inputs.push_back(Input::Request(socket, request));
        self.drive();
        // What the core did not want cloned is not kept.
        self.wanted.clear();
    }

    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Close(socket) => self.hang_up(socket),
            Effect::Adopted(socket, held) => {
                let held = held.into_iter().map(|(run, phase, part)| HeldWord {
                    run,
                    phase: PhaseWord::of(phase),
                    part: part.map(Part::get),
                    last: self.core.last(run).map(Part::get),
                });
                let held = held.collect();
                self.take_owner();
                // Whoever froze it is gone, if it was frozen.
                for driven in self.runs.values_mut().filter(|driven| driven.is_frozen) {
                    driven.is_frozen = false;
                    driven.holding.freeze(false);
                }
                self.say(socket, &Say::Adopted { held, has_images: true, needs: None }, None);
            }
            Effect::Tell(socket, run, fate) => {
                self.touched.insert(run);
                self.tell(socket, run, &fate);
            }
            Effect::Pong(socket, number) => self.say(socket, &Say::Pong { number }, None),
            // A stamp that is not kept only makes the next guardian stop earlier.
            Effect::Keep(kept) => drop(self.state.write(kept)),
            Effect::Clone(run, part) => self.make(run, part),
            Effect::Go(run, part) => self.let_begin(run, part),
            Effect::Abort(run, part) => self.abort(run, part),
            Effect::Terminate(run) => self.terminate(run),
            Effect::Hurry(run) => self.keep_stop(run, Vec::new()),
            Effect::Kill(run) => self.kill(run),
            Effect::Release(run) => {
                self.runs.remove(&run);
                self.unwatch(run);
            }
            Effect::Exit => self.is_over = true,
        }
    }

    /// Says that it cannot be the guardian of a worker that needs more than it understands.
    fn refuse(&mut self, socket: SocketId, needs: u32) {
        let why = format!(
            "this guardian understands version {UNDERSTOOD} of what workers ask, and the worker needs \
             version {needs}: {REMEDY}"
        );
        if let Some(channel) = self.channels.get_mut(&socket) {
            channel.push(&Say::Refused { why }, Vec::new());
            // Who does not read it sees that it is over.
            drop(channel.flush());
        }
        self.hang_up(socket);
    }

    fn say(&mut self, socket: SocketId, say: &Say, with: Option<(RunId, Part)>) {
        let proc = with.and_then(|(run, part)| self.runs.get(&run)?.parts.get(&part));
        let fds = proc.map(|proc| proc.pipe_fds(socket)).unwrap_or_default();
        match with {
            Some(_) => self.say_soon(),
            None => self.is_pressing = true,
        }
        if let Some(channel) = self.channels.get_mut(&socket) {
            channel.push(say, fds);
        }
    }

    fn tell(&mut self, socket: SocketId, run: RunId, fate: &Fate) {
        let mut with = None;
        let proc = |part| self.runs.get(&run).and_then(|run| run.parts.get(part));
        let fate = match fate {
            Fate::Started(part) => {
                with = Some((run, *part));
                let streams = proc(part).map_or_else(Vec::new, |proc| proc.streams(socket));
                let pid = proc(part).map(|proc| proc.pid).or_else(|| {
                    self.runs.get(&run).and_then(|driven| driven.numbers.get(part)).copied()
                });
                let pid = pid.unwrap_or(0);
                FateWord::Started { part: part.get(), pid, streams }
            }
            Fate::Exited(part, exit) => {
                let ended = proc(part).and_then(|proc| proc.ended);
                let (cpu_us, peak_bytes) = ended.map_or((0, 0), |(_, cpu, peak)| (cpu, peak));
                let exit = *exit;
                FateWord::Exited { part: part.get(), exit, cpu_us, peak_bytes }
            }
            Fate::NotStarted(..) | Fate::Stopping(_) | Fate::Empty => FateWord::of(fate),
        };
        self.say(socket, &Say::Fate { run, fate }, with);
    }

    fn make(&mut self, run: RunId, part: Part) {
        let made = match self.wanted.remove(&(run, part)) {
            Some(wanted) => self.spawn(run, part, wanted),
            None => Err(NOT_UNDERSTOOD.to_owned()),
        };
        self.inputs.push_back(match made {
            Ok(()) => Input::Cloned(run, part),
            Err(why) => Input::NotCloned(run, part, why),
        });
    }

    fn spawn(&mut self, run: RunId, part: Part, wanted: Wanted) -> Result<(), String> {
        if !self.runs.contains_key(&run) {
            let (boot, contract) = (&self.boot, wanted.contract);
            let driven = Driven::create(&self.directory, boot, run, contract, &wanted.plan)?;
            self.runs.insert(run, driven);
        }
        let Some(driven) = self.runs.get_mut(&run) else { return Ok(()) };
        let pid = driven.spawn(part, wanted.role, &wanted.plan, wanted.pipes)?;
        self.children.insert(pid, (run, part));
        Ok(())
    }

    fn let_begin(&mut self, run: RunId, part: Part) {
        let Some(proc) = self.runs.get(&run).and_then(|run| run.parts.get(&part)) else { return };
        let Some(sync) = &proc.sync else { return };
        // If it is gone already, its end says so.
        let _ = rustix::io::write(sync, &[1]);
        let has_report = proc.report.is_some();
        self.going.push((run, part));
        self.look_at.get_or_insert_with(|| boot_time().plus(TOGETHER));
        if has_report {
            self.watch(Source::Report(run, part), EventFlags::IN);
        }
    }

    /// Commands that were let go a moment ago. Of a short one its end has said everything by now; who
    /// would be woken because it has begun would be woken twice for it.
    pub(super) fn look_at_the_going(&mut self) {
        if self.look_at.is_none_or(|at| boot_time() < at) {
            return;
        }
        self.look_at = None;
        for (run, part) in std::mem::take(&mut self.going) {
            self.synced(run, part);
            self.watch(Source::Sync(run, part), EventFlags::IN);
        }
        // It was kept back already.
        self.is_pressing = true;
    }

    fn abort(&mut self, run: RunId, part: Part) {
        self.unwatch_sync(run, part);
        if let Some(driven) = self.runs.get_mut(&run) {
            driven.end_part(part);
        }
    }

    fn terminate(&mut self, run: RunId) {
        // Why stands there before that.
        self.record(run);
        self.keep_stop(run, vec![Entry::Stopping]);
        let Some(driven) = self.runs.get_mut(&run) else { return };
        driven.is_stopping = true;
        let stop = driven.stop;
        if let Some(signal) = signal(stop.signal) {
            driven.signal(signal, stop.to);
        }
        // A frozen run could not heed it.
        driven.holding.freeze(false);
        self.look(run);
    }

    /// Writes to the journal of a run when it is killed. What is not kept makes the next guardian begin
    /// the stop anew.
    fn keep_stop(&mut self, run: RunId, mut entries: Vec<Entry>) {
        let kill_at = self.core.kill_at(run);
        let Some(driven) = self.runs.get_mut(&run) else { return };
        entries.extend(kill_at.map(|at| Entry::KillAt { boot_ms: at.as_millis() }));
        drop(driven.journal.add_all(&entries));
    }

    fn kill(&mut self, run: RunId) {
        self.gather_strays();
        let Some(driven) = self.runs.get_mut(&run) else { return };
        driven.is_dying = true;
        if driven.is_empty() {
            return self.emptied(run);
        }
        self.record(run);
        let Some(driven) = self.runs.get_mut(&run) else { return };
        drop(driven.journal.add(&Entry::Stopping));
        driven.holding.kill();
        driven.events = driven.holding.events();
        self.watch(Source::Events(run), EventFlags::PRI | EventFlags::ET);
        self.look(run);
    }

    /// Writes what became of a run to its journal, before anybody is told.
    pub(super) fn record(&mut self, run: RunId) {
        let Some(driven) = self.runs.get_mut(&run) else { return };
        let fates = self.core.fates(run);
        let news = fates.iter().skip(driven.recorded).filter_map(|fate| match fate {
            // That it was let go stands there already.
            Fate::Started(_) => None,
            Fate::NotStarted(..) | Fate::Stopping(_) | Fate::Exited(..) | Fate::Empty => {
                Some(Entry::Fate(FateWord::of(fate)))
            }
        });
        let news: Vec<Entry> = news.collect();
        if driven.journal.add_all(&news).is_ok() {
            driven.recorded = fates.len();
        } else {
            // A full disk. Its worker is told all the same, and it is tried again.
            self.is_behind = true;
        }
    }

    /// Tries again to write what could not be written.
    pub(super) fn catch_up(&mut self) {
        if std::mem::take(&mut self.is_behind) {
            let runs: Vec<RunId> = self.runs.keys().copied().collect();
            runs.into_iter().for_each(|run| self.record(run));
        }
    }
}

impl Driven {
    /// The process was taken by whoever is its parent.
    pub(super) fn let_go(&mut self, pid: i32) {
        match &mut self.holding {
            super::hold::Holding::Tree { roots, .. } => drop(roots.remove(&pid)),
            super::hold::Holding::Cgroup2 { .. } | super::hold::Holding::Freezer { .. } => {}
        }
    }
}
