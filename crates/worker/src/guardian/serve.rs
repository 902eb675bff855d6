//! The guardian's loop: it waits, asks the core, and does what it says.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixListener,
    },
    path::PathBuf,
};

use rustix::{
    event::{Timespec, epoll},
    process::{Pid, PidfdFlags, Signal, pidfd_open},
};
use sterna_executor::{
    container::Exit,
    guardian::{Guardian, Input, Part, SocketId},
};
use sterna_model::{BootTime, RunId, Span};

use super::{
    frames::{Channel, Line},
    kept::State,
    owner::Owner,
    runs::{Driven, Given, four, not_begun},
    tree,
    words::{ContractWord, Plan, RoleWord},
};
use crate::{clock::boot_time, sys};

/// How often a run that was killed is looked at again, where the kernel does not tell.
const LINGER: Span = Span::from_millis(20);

/// How often it is tried again to write what a full disk did not take.
const BEHIND: Span = Span::from_millis(500);

/// So long it is kept back that a command has begun, and nothing else: of a short one its end is told
/// with it.
pub(super) const TOGETHER: Span = Span::from_millis(3);

/// What an event is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Listener,
    Children,
    /// The worker that has started us has ended.
    Starter,
    /// Whoever owns the newest worker has ended.
    Owner,
    Socket(SocketId),
    /// The command has begun, or has not.
    Sync(RunId, Part),
    /// In a tree: the command has ended.
    Report(RunId, Part),
    /// A process that is not our child has ended.
    Foreign(RunId, Part),
    /// A cgroup has changed.
    Events(RunId),
}

/// A spawn that was asked for and is not done yet.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) role: RoleWord,
    pub(super) contract: ContractWord,
    pub(super) plan: Plan,
    /// Both ends of its pipes, and who has made them and reads them.
    pub(super) pipes: Given,
}

/// The guardian at work.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) directory: PathBuf,
    pub(super) boot: String,
    pub(super) core: Guardian,
    pub(super) state: State,
    pub(super) channels: BTreeMap<SocketId, Channel>,
    pub(super) runs: BTreeMap<RunId, Driven>,
    pub(super) wanted: BTreeMap<(RunId, Part), Wanted>,
    pub(super) children: BTreeMap<i32, (RunId, Part)>,
    /// Ends of those whom nobody knew, while runtimes are at work.
    pub(super) strangers: Vec<(BootTime, sys::Ended)>,
    pub(super) inputs: VecDeque<Input>,
    pub(super) is_over: bool,
    /// Whether something that became of a run does not stand in its journal yet.
    pub(super) is_behind: bool,
    /// Runs of which something new may have to be written before it is told.
    pub(super) touched: BTreeSet<RunId>,
    /// Until when what is to be said can wait; `None` if it cannot, or nothing is.
    pub(super) later: Option<BootTime>,
    /// Whether something is to be said at once.
    pub(super) is_pressing: bool,
    /// Commands that were let go and are not watched yet, and when they are looked at.
    pub(super) going: Vec<(RunId, Part)>,
    pub(super) look_at: Option<BootTime>,
    /// Connections that have no room for what is to be said.
    waiting: BTreeSet<SocketId>,
    listener: UnixListener,
    /// The worker that has started us, while it lives.
    starter: Option<OwnedFd>,
    pub(super) owner: Owner,
    signals: sys::Signals,
    pub(super) epoll: OwnedFd,
    pub(super) sources: BTreeMap<u64, Source>,
    next_source: u64,
    next_socket: u64,
}

impl Serving {
    pub(super) fn new(
        directory: PathBuf,
        boot: String,
        core: Guardian,
        state: State,
        listener: UnixListener,
    ) -> io::Result<Self> {
        let signals = sys::watch(&[libc::SIGCHLD])?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut serving = Self {
            directory,
            boot,
            core,
            state,
            channels: BTreeMap::new(),
            runs: BTreeMap::new(),
            wanted: BTreeMap::new(),
            children: BTreeMap::new(),
            strangers: Vec::new(),
            inputs: VecDeque::from([Input::Tick]),
            is_over: false,
            is_behind: false,
            touched: BTreeSet::new(),
            later: None,
            is_pressing: false,
            going: Vec::new(),
            look_at: None,
            waiting: BTreeSet::new(),
            listener,
            starter: None,
            owner: Owner::default(),
            signals,
            epoll,
            sources: BTreeMap::new(),
            next_source: 0,
            next_socket: 1,
        };
        let token = serving.token(Source::Listener);
        let data = epoll::EventData::new_u64(token);
        epoll::add(&serving.epoll, &serving.listener, data, epoll::EventFlags::IN)?;
        let token = serving.token(Source::Children);
        let data = epoll::EventData::new_u64(token);
        epoll::add(&serving.epoll, &serving.signals, data, epoll::EventFlags::IN)?;
        Ok(serving)
    }

    /// Waits for the end of the worker that has started us.
    pub(super) fn watch_starter(&mut self, starter: OwnedFd) -> io::Result<()> {
        let data = epoll::EventData::new_u64(self.token(Source::Starter));
        epoll::add(&self.epoll, &starter, data, epoll::EventFlags::IN)?;
        self.starter = Some(starter);
        Ok(())
    }

    pub(super) fn token(&mut self, source: Source) -> u64 {
        self.next_source += 1;
        self.sources.insert(self.next_source, source);
        self.next_source
    }

    /// Waits for something of a run until it is closed; an event that comes later is dropped. What
    /// cannot be watched is no loss: it is seen when its process is taken.
    pub(super) fn watch(&mut self, source: Source, flags: epoll::EventFlags) {
        let token = self.token(source);
        let part = |run: RunId, part: Part| self.runs.get(&run)?.parts.get(&part);
        let fd = match source {
            Source::Sync(run, of) => part(run, of).and_then(|proc| proc.sync.as_ref()),
            Source::Report(run, of) => part(run, of).and_then(|proc| proc.report.as_ref()),
            Source::Foreign(run, of) => part(run, of).map(|proc| &proc.pidfd),
            Source::Events(run) => self.runs.get(&run).and_then(|driven| driven.events.as_ref()),
            Source::Listener
            | Source::Children
            | Source::Starter
            | Source::Owner
            | Source::Socket(_) => None,
        };
        if let Some(fd) = fd {
            let _ = epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), flags);
        } else {
            self.sources.remove(&token);
        }
    }

    /// Drops what is watched of a run; its descriptors leave the poll by being closed.
    pub(super) fn unwatch(&mut self, gone: RunId) {
        self.sources.retain(|_, source| match source {
            Source::Listener
            | Source::Children
            | Source::Starter
            | Source::Owner
            | Source::Socket(_) => true,
            Source::Sync(run, _)
            | Source::Report(run, _)
            | Source::Foreign(run, _)
            | Source::Events(run) => *run != gone,
        });
    }

    /// Takes a part's socket out of the poll before it is closed: a process that was just made may hold
    /// a copy of it for a moment, and it would wake us again and again.
    pub(super) fn unwatch_sync(&self, run: RunId, part: Part) {
        let proc = self.runs.get(&run).and_then(|driven| driven.parts.get(&part));
        if let Some(sync) = proc.and_then(|proc| proc.sync.as_ref()) {
            let _ = epoll::delete(&self.epoll, sync);
        }
    }

    /// Works until nothing is left to be guarded.
    pub(super) fn work(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        loop {
            self.catch_up();
            self.drive();
            self.flush();
            if !self.inputs.is_empty() {
                // Somebody could not be told, and is gone: what follows from that is written, too.
                continue;
            }
            if self.is_over && !self.is_behind {
                break;
            }
            // What became of its runs is for the next guardian to tell: it must stand somewhere.
            self.is_over = false;
            events.clear();
            let timeout = self.timeout();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.inputs.push_back(Input::Tick);
            for event in &events {
                if let Some(source) = self.sources.get(&event.data.u64()).copied() {
                    self.heed(event.data.u64(), source);
                }
            }
            self.look_at_the_going();
            self.look_at_the_dying();
            self.look_at_the_taken();
        }
        Ok(())
    }

    fn timeout(&self) -> Option<Timespec> {
        let now = boot_time();
        let dying = self.runs.values().any(Driven::is_looked_at);
        let again = dying.then(|| now.plus(LINGER));
        let behind = self.is_behind.then(|| now.plus(BEHIND));
        let others = again.into_iter().chain(behind).chain(self.later).chain(self.look_at);
        let at: BootTime = self.core.deadline().into_iter().chain(others).min()?;
        // A millisecond more, so that it is over and not just before.
        let wait = at.since(now).plus(Span::from_millis(1)).as_duration();
        Timespec::try_from(wait).ok()
    }

    fn heed(&mut self, token: u64, source: Source) {
        match source {
            Source::Listener => self.accept(),
            Source::Children => self.reap(),
            Source::Starter => {
                // Whoever has ended stays so, and would wake us again and again.
                self.sources.remove(&token);
                self.starter = None;
                self.inputs.push_back(Input::StarterGone);
            }
            Source::Owner => self.lose_owner(),
            Source::Socket(socket) => self.hear(socket),
            Source::Sync(run, part) => {
                self.sources.remove(&token);
                self.synced(run, part);
            }
            Source::Report(run, part) => self.reported(token, run, part),
            Source::Foreign(run, part) => self.foreign(token, run, part),
            Source::Events(run) => self.look(run),
        }
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            let id = SocketId::new(self.next_socket);
            self.next_socket += 1;
            let Ok(channel) = Channel::new(socket) else { continue };
            let data = epoll::EventData::new_u64(self.token(Source::Socket(id)));
            if epoll::add(&self.epoll, &channel, data, epoll::EventFlags::IN).is_ok() {
                self.channels.insert(id, channel);
            }
        }
    }

    fn hear(&mut self, socket: SocketId) {
        let Some(channel) = self.channels.get_mut(&socket) else { return };
        let line = channel.fill().unwrap_or(Line::Closed);
        loop {
            let Some(channel) = self.channels.get_mut(&socket) else { return };
            match channel.next() {
                Ok(Some((ask, fds))) => self.ask(socket, ask, fds),
                Ok(None) => break,
                Err(_) => return self.hang_up(socket),
            }
            // In order: what follows may depend on what this one has begun, or may not be heard.
            self.drive();
        }
        if line == Line::Closed {
            self.hang_up(socket);
        }
    }

    pub(super) fn hang_up(&mut self, socket: SocketId) {
        self.channels.remove(&socket);
        self.sources.retain(|_, source| *source != Source::Socket(socket));
        self.inputs.push_back(Input::Closed(socket));
    }

    /// Takes every child that has ended, those that fell to us included.
    fn reap(&mut self) {
        // What comes after this one wakes us again.
        let _ = self.signals.take();
        while let Some(ended) = sys::ended() {
            if self.children.contains_key(&ended.pid) {
                self.take(ended);
            } else {
                self.keep_stranger(ended);
            }
        }
    }

    pub(super) fn take(&mut self, ended: sys::Ended) {
        let Some((run, part)) = self.children.remove(&ended.pid) else { return };
        self.reported(0, run, part);
        let Some(driven) = self.runs.get_mut(&run) else { return };
        driven.let_go(ended.pid);
        if let Exit::Signal(_) = ended.exit {
            // In a tree it stood above the command, and would have ended last.
            driven.lose_house(part);
            self.gather_strays();
        }
        let Some(driven) = self.runs.get_mut(&run) else { return };
        let Some(proc) = driven.parts.get_mut(&part) else { return };
        let role = proc.role;
        if proc.starting.is_some() {
            self.started(run, part, ended);
        } else if proc.ended.is_none() {
            // In a tree this is the one in between, which was killed before it could say more.
            let exit = if proc.report.is_some() { Exit::Unknown } else { ended.exit };
            proc.ended = Some((exit, ended.cpu_us, ended.peak_bytes));
            self.inputs.push_back(Input::Exited(run, part, exit));
        }
        let is_ending = |driven: &Driven| driven.is_dying || driven.is_stopping;
        if self.runs.get(&run).is_some_and(is_ending) {
            // The other orders about it go first.
            self.drive();
            self.look(run);
        }
        self.drop_probe(run, part, role);
    }

    /// Lets go of everything that was kept for a probe that is over, once that was told.
    pub(super) fn drop_probe(&mut self, run: RunId, part: Part, role: RoleWord) {
        match role {
            RoleWord::Setup | RoleWord::Main => return,
            RoleWord::Probe => self.drive(),
        }
        if let Some(driven) = self.runs.get_mut(&run) {
            driven.drop_probe(part);
        }
        self.sources.retain(|_, source| match source {
            Source::Listener
            | Source::Children
            | Source::Starter
            | Source::Owner
            | Source::Socket(_)
            | Source::Events(_) => true,
            Source::Sync(of, known) | Source::Report(of, known) | Source::Foreign(of, known) => {
                (*of, *known) != (run, part)
            }
        });
    }

    /// Finds those that fell to us because what stood above them was killed. Every other child of ours
    /// is known, or is in the group of a run.
    pub(super) fn gather_strays(&mut self) {
        if !self.runs.values().any(|driven| driven.has_strays) {
            return;
        }
        let own = rustix::process::getpid().as_raw_pid();
        let is_known = |pid: &i32| {
            self.children.contains_key(pid)
                || self.runs.values().any(|driven| driven.holding.has(*pid))
        };
        let fallen: Vec<i32> =
            tree::children(own).into_iter().filter(|pid| !is_known(pid)).collect();
        for driven in self.runs.values_mut() {
            driven.take_strays(&fallen);
        }
    }

    /// Whether the command of a part has begun; said once.
    pub(super) fn synced(&mut self, run: RunId, part: Part) {
        let Some(proc) = self.runs.get_mut(&run).and_then(|driven| driven.parts.get_mut(&part))
        else {
            return;
        };
        let Some(sync) = &proc.sync else { return };
        let Some(heard) = sys::heard(sync.as_fd()) else { return };
        // As in `unwatch_sync`.
        let _ = epoll::delete(&self.epoll, sync);
        proc.sync = None;
        let input = match heard {
            // A runtime has begun, and no command yet.
            sys::Heard::Begun if proc.starting.is_some() => return,
            sys::Heard::Begun => Input::Execed(run, part),
            sys::Heard::Failed(step, error) => {
                proc.starting = None;
                Input::NotExeced(run, part, not_begun(step, &error))
            }
        };
        self.inputs.push_back(input);
    }

    /// In a tree it is said first which process the command is, and then how it ended.
    fn reported(&mut self, token: u64, run: RunId, part: Part) {
        self.synced(run, part);
        let Some(proc) = self.runs.get_mut(&run).and_then(|driven| driven.parts.get_mut(&part))
        else {
            return;
        };
        while let Some(said) = proc.report.as_ref().and_then(|fd| four(fd.as_fd())) {
            if !proc.is_introduced {
                proc.is_introduced = true;
                let pid = Pid::from_raw(i32::from_ne_bytes(said));
                proc.main = pid.and_then(|pid| {
                    Some((pid.as_raw_pid(), pidfd_open(pid, PidfdFlags::empty()).ok()?))
                });
                continue;
            }
            self.sources.remove(&token);
            proc.report = None;
            let exit = sys::reported(said);
            proc.ended = Some((exit, 0, 0));
            self.inputs.push_back(Input::Exited(run, part, exit));
        }
    }

    /// Says so if nothing is left of a run that should not go on.
    pub(super) fn look(&mut self, run: RunId) {
        if self.runs.get(&run).is_some_and(Driven::is_empty) {
            self.emptied(run);
        }
    }

    /// Nothing of a run was left just now.
    pub(super) fn emptied(&mut self, run: RunId) {
        if self.runs.get(&run).is_some_and(Driven::is_tree) {
            // What was below those that have just ended has fallen to us by now.
            self.gather_strays();
            if !self.runs.get(&run).is_some_and(Driven::is_empty) {
                return;
            }
        }
        let Some(driven) = self.runs.get_mut(&run) else { return };
        driven.is_dying = false;
        driven.events = None;
        self.inputs.push_back(Input::Empty(run));
    }

    fn look_at_the_dying(&mut self) {
        let dying: Vec<RunId> =
            self.runs.iter().filter_map(|(run, driven)| driven.is_dying.then_some(*run)).collect();
        for run in dying {
            self.look(run);
            self.gather_strays();
            if let Some(driven) = self.runs.get_mut(&run).filter(|driven| driven.is_dying) {
                // Somebody was born while the others were killed.
                driven.holding.kill();
            }
        }
    }

    /// Lets the core decide, and does what it says, until nothing more follows.
    pub(super) fn drive(&mut self) {
        let mut effects = Vec::new();
        while let Some(input) = self.inputs.pop_front() {
            self.touched.extend(input.concerned());
            self.core.step(boot_time(), input, &mut effects);
            for effect in effects.drain(..) {
                self.perform(effect);
            }
        }
    }

    fn record_news(&mut self) {
        for run in std::mem::take(&mut self.touched) {
            self.record(run);
        }
    }

    /// That a command has begun can wait for what follows.
    pub(super) fn say_soon(&mut self) {
        self.later.get_or_insert_with(|| boot_time().plus(TOGETHER));
    }

    /// Says what there is to say, once it stands in the journals: all that became of a run since is
    /// one write.
    fn flush(&mut self) {
        self.record_news();
        let can_wait = !self.is_pressing && self.waiting.is_empty();
        if self.later.is_some_and(|until| can_wait && boot_time() < until) {
            return;
        }
        (self.later, self.is_pressing) = (None, false);
        let failed: Vec<SocketId> = self
            .channels
            .iter_mut()
            .filter_map(|(socket, channel)| channel.flush().is_err().then_some(*socket))
            .collect();
        for socket in failed {
            self.hang_up(socket);
        }
        self.watch_room();
    }
}

impl Serving {
    /// Waits for room where something waits to be sent, and nowhere else: it would wake us whenever
    /// the other end has read.
    fn watch_room(&mut self) {
        for (socket, channel) in &self.channels {
            let is_waiting = channel.is_waiting();
            if is_waiting == self.waiting.contains(socket) {
                continue;
            }
            let is_it = |source: &Source| *source == Source::Socket(*socket);
            let token = self.sources.iter().find(|(_, source)| is_it(source));
            let Some((token, _)) = token else { continue };
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, is_waiting);
            let data = epoll::EventData::new_u64(*token);
            if epoll::modify(&self.epoll, channel, data, flags).is_ok() {
                if is_waiting {
                    self.waiting.insert(*socket);
                } else {
                    self.waiting.remove(socket);
                }
            }
        }
    }
}

/// The signal with this number, if there is one that can be sent to all of a run.
pub(super) fn signal(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}
