//! One run, as its guardian's driver has it: its processes, its pipes, its journal.

use std::{
    collections::BTreeMap,
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use rustix::{
    fs::{Gid, Mode, OFlags, Uid, fchown, open},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal},
};
use sterna_executor::{
    container::Exit,
    guardian::{Part, SocketId},
};
use sterna_model::{BootTime, RunId, payload::To};

use super::{
    hold::{Holding, has_ended},
    kept::{Entry, Journal, Process},
    tree,
    words::{ContractWord, Plan, RoleWord, RuntimeWord, StreamWord},
};
use crate::{
    cgroup::Hold,
    stop::StopSignal,
    sys::{self, Image, Shape, Streams},
};

/// One run.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) holding: Holding,
    pub(super) stop: StopSignal,
    pub(super) journal: Journal,
    pub(super) parts: BTreeMap<Part, Proc>,
    /// Where the kernel tells that the run has become empty, once somebody waits for it.
    pub(super) events: Option<OwnedFd>,
    /// Whether it was asked to end.
    pub(super) is_stopping: bool,
    /// Whether it was killed, so that it must become empty.
    pub(super) is_dying: bool,
    /// Whether what stood above one of its commands was killed, so that what was below fell to us.
    pub(super) has_strays: bool,
    /// The names of its ports.
    pub(super) claims: Vec<OwnedFd>,
    /// Whether its processes may stand still.
    pub(super) is_frozen: bool,
    /// How many of its fates stand in the journal.
    pub(super) recorded: usize,
    /// The numbers of processes that an earlier guardian has made.
    pub(super) numbers: BTreeMap<Part, i32>,
}

/// The process of one part.
#[derive(Debug)]
pub(super) struct Proc {
    pub(super) role: RoleWord,
    /// The process; in a tree the one in between.
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    /// Whether it is our child: until we take it, nobody else has its number.
    pub(super) is_ours: bool,
    /// Open until the command has begun, or has not.
    pub(super) sync: Option<OwnedFd>,
    /// In a tree: where the one in between says how the command ended.
    pub(super) report: Option<OwnedFd>,
    /// In a tree: the command itself, once the one in between has said who it is.
    pub(super) main: Option<(i32, OwnedFd)>,
    pub(super) is_introduced: bool,
    /// It is the runtime of an image, which makes the command's process and ends.
    pub(super) starting: Option<RuntimeWord>,
    /// Kept open for as long as the run is, whoever reads them.
    pub(super) pipes: Vec<(StreamWord, Arc<OwnedFd>)>,
    /// Who has them already.
    pub(super) reader: Option<SocketId>,
    pub(super) ended: Option<(Exit, u64, u64)>,
    /// Not our child: since when it has ended, while it is not known how.
    pub(super) gone_since: Option<BootTime>,
}

impl Driven {
    /// Makes the run's journal, which must not be there.
    pub(super) fn create(
        directory: &Path,
        boot: &str,
        run: RunId,
        contract: ContractWord,
        plan: &Plan,
    ) -> Result<Self, String> {
        let holding = Holding::open(&plan.hold)
            .map_err(|error| format!("cannot open the cgroup of the run: {error}"))?;
        let (hold, stop) = (plan.hold.clone(), plan.stop);
        let first = Entry::Run { boot: boot.to_owned(), contract, hold, stop };
        let journal = Journal::create(directory, run, &first)
            .map_err(|error| format!("cannot make the journal of the run: {error}"))?;
        Ok(Self::new(holding, stop, journal))
    }

    pub(super) const fn new(holding: Holding, stop: StopSignal, journal: Journal) -> Self {
        Self {
            holding,
            stop,
            journal,
            parts: BTreeMap::new(),
            events: None,
            is_stopping: false,
            is_dying: false,
            has_strays: false,
            claims: Vec::new(),
            is_frozen: false,
            recorded: 0,
            numbers: BTreeMap::new(),
        }
    }

    /// Makes the process of a part; it waits for its go byte.
    pub(super) fn spawn(
        &mut self,
        part: Part,
        role: RoleWord,
        plan: &Plan,
        given: Given,
    ) -> Result<i32, String> {
        let image = image(plan).map_err(|error| error.to_string())?;
        let (pipes, reader) = given.pipes(plan)?;
        let end = |wanted: StreamWord| {
            pipes.iter().find(|(stream, ..)| *stream == wanted).map(|(_, _, write)| write.as_fd())
        };
        let streams = Streams {
            stdout: end(StreamWord::Stdout),
            stderr: end(StreamWord::Stderr),
            status: end(StreamWord::Status),
        };
        let leaf = plan.leaf.as_deref().map(open_group).transpose()?;
        let shape = match &self.holding {
            Holding::Cgroup2 { directory, .. } => {
                Shape::Cgroup(leaf.as_ref().unwrap_or(directory).as_fd())
            }
            Holding::Freezer { .. } => Shape::Plain,
            Holding::Tree { .. } => Shape::Tree,
        };
        let spawned = sys::spawn(&image, shape, streams)
            .map_err(|error| format!("cannot make a process: {error}"))?;
        for door in &plan.doors {
            if let Err(error) = fs::write(door, spawned.pid.to_string()) {
                // Without its go byte it ends by itself.
                return Err(format!("cannot enter {}: {error}", door.display()));
            }
        }
        match &mut self.holding {
            Holding::Tree { roots, .. } => drop(roots.insert(spawned.pid)),
            Holding::Cgroup2 { .. } | Holding::Freezer { .. } => {}
        }
        let pipes = pipes.into_iter().map(|(stream, read, _)| (stream, Arc::new(read))).collect();
        let proc = Proc {
            role,
            pid: spawned.pid,
            pidfd: spawned.pidfd,
            is_ours: true,
            sync: Some(spawned.sync),
            report: spawned.report,
            main: None,
            is_introduced: false,
            starting: plan.runtime.clone(),
            pipes,
            reader,
            ended: None,
            gone_since: None,
        };
        self.parts.insert(part, proc);
        if self.is_noted(role) {
            let is_runtime = plan.runtime.is_some();
            let began = if self.is_tree() { tree::began(spawned.pid) } else { None };
            let entry = Entry::Part { part: part.get(), role, pid: spawned.pid, began, is_runtime };
            self.journal.add(&entry).map_err(|error| {
                // Without its go byte it ends by itself.
                self.parts.remove(&part);
                self.let_go(spawned.pid);
                format!("cannot write to the journal of the run: {error}")
            })?;
        }
        Ok(spawned.pid)
    }

    pub(super) const fn is_tree(&self) -> bool {
        matches!(self.holding, Holding::Tree { .. })
    }

    /// Whether the next guardian must know such a part. Probes come for as long as a run lives; a group
    /// tells who they are, but a tree does not.
    fn is_noted(&self, role: RoleWord) -> bool {
        match role {
            RoleWord::Setup | RoleWord::Main => true,
            RoleWord::Probe => self.is_tree(),
        }
    }

    /// A probe is over, and nothing of it is asked again.
    pub(super) fn drop_probe(&mut self, part: Part) {
        if self.parts.remove(&part).is_some() && self.is_noted(RoleWord::Probe) {
            self.journal.drop_probe(part);
        }
    }

    /// Ends one part: before its command if that has not begun, or with what is below it and in its
    /// group. Nothing else of the run is touched.
    pub(super) fn end_part(&mut self, part: Part) {
        let is_tree = self.is_tree();
        let Some(proc) = self.parts.get_mut(&part) else { return };
        proc.sync = None;
        match proc.role {
            RoleWord::Probe if proc.ended.is_none() => {}
            RoleWord::Setup | RoleWord::Main | RoleWord::Probe => return,
        }
        for process in tree::below(proc.pid) {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        if is_tree {
            // What we put above it ends when nobody is left below it.
            return;
        }
        if let Some(group) = Pid::from_raw(proc.pid).filter(|_| proc.is_ours) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = pidfd_send_signal(&proc.pidfd, Signal::KILL);
    }

    /// What stood above a command was killed. Whoever was below it is a child of the guardian now, if
    /// that made it: these are all that nobody else accounts for.
    pub(super) fn take_strays(&mut self, fallen: &[i32]) {
        if !self.has_strays {
            return;
        }
        let Holding::Tree { strays, .. } = &mut self.holding else { return };
        strays.retain(|_, process| !has_ended(process));
        for pid in fallen {
            if !strays.contains_key(pid)
                && let Some(number) = Pid::from_raw(*pid)
                && let Ok(process) = pidfd_open(number, PidfdFlags::empty())
            {
                strays.insert(*pid, process);
            }
        }
    }

    /// What stood above this part's command was killed.
    pub(super) fn lose_house(&mut self, part: Part) {
        let Holding::Tree { strays, .. } = &mut self.holding else { return };
        self.has_strays = true;
        // It may have fallen to somebody else, if an earlier guardian made it.
        if let Some((pid, process)) = self.parts.get_mut(&part).and_then(|proc| proc.main.take()) {
            strays.insert(pid, process);
        }
    }

    /// Takes over a process of an earlier guardian; gives whether it is still there.
    pub(super) fn take_over(&mut self, part: Part, role: RoleWord, process: Process) -> bool {
        let Process { pid, began } = process;
        let Some(number) = Pid::from_raw(pid) else { return false };
        let Ok(pidfd) = pidfd_open(number, PidfdFlags::empty()) else { return false };
        match &mut self.holding {
            Holding::Tree { roots, .. } if is_house(pid, began) => drop(roots.insert(pid)),
            Holding::Tree { .. } | Holding::Cgroup2 { .. } | Holding::Freezer { .. } => {}
        }
        if !self.holding.has(pid) {
            return false;
        }
        let main = if self.is_tree() { tree::children(pid).first().copied() } else { None };
        let main = main.and_then(|pid| {
            let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
            Some((pid, process))
        });
        let proc = Proc {
            role,
            pid,
            pidfd,
            is_ours: false,
            sync: None,
            report: None,
            main,
            is_introduced: false,
            starting: None,
            pipes: Vec::new(),
            reader: None,
            ended: None,
            gone_since: None,
        };
        self.parts.insert(part, proc);
        true
    }

    /// The process that is asked to end.
    fn command(&self) -> Option<&Proc> {
        let is_command = |proc: &&Proc| match proc.role {
            RoleWord::Setup | RoleWord::Main => proc.ended.is_none(),
            RoleWord::Probe => false,
        };
        self.parts.values().rev().find(is_command)
    }

    /// Sends a signal to the command, its group, or everybody. Only to a command that was not taken
    /// yet: its number, and its group's, is still its own.
    pub(super) fn signal(&self, signal: Signal, to: To) {
        let Some(command) = self.command() else {
            return self.holding.signal_all(signal);
        };
        let process = command.main.as_ref().map_or(&command.pidfd, |(_, process)| process);
        // In a tree the group is that of the command, whose number is not known for sure.
        let group = match &self.holding {
            Holding::Cgroup2 { .. } | Holding::Freezer { .. } => Pid::from_raw(command.pid),
            Holding::Tree { .. } => None,
        };
        // Who has ended meanwhile needs no signal.
        match (to, group) {
            (To::Process, Some(_) | None) => {
                let _ = pidfd_send_signal(process, signal);
            }
            (To::Group, Some(group)) if command.is_ours => {
                let _ = kill_process_group(group, signal);
            }
            (To::Group, Some(group)) => self.holding.signal_group(group.as_raw_pid(), signal),
            (To::Group, None) | (To::All, Some(_) | None) => self.holding.signal_all(signal),
        }
    }

    /// Whether nothing is left of it.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.values().all(|proc| proc.ended.is_some()) && self.holding.is_empty()
    }

    /// Whether it must be looked at from time to time, because nobody tells what happens to it.
    pub(super) fn is_looked_at(&self) -> bool {
        self.is_dying || self.parts.values().any(|proc| proc.gone_since.is_some())
    }
}

impl Proc {
    /// The read ends, for a worker that has none.
    pub(super) fn pipe_fds(&self, to: SocketId) -> Vec<Arc<OwnedFd>> {
        let pipes = self.pipes.iter().filter(|_| self.reader != Some(to));
        pipes.map(|(_, fd)| Arc::clone(fd)).collect()
    }

    pub(super) fn streams(&self, to: SocketId) -> Vec<StreamWord> {
        let pipes = self.pipes.iter().filter(|_| self.reader != Some(to));
        pipes.map(|(stream, _)| *stream).collect()
    }
}

/// What came with a spawn: of each of its streams the end to read and the end to write. Whoever asks
/// has made them, so that it can read what the command writes whatever becomes of us.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) fds: Vec<OwnedFd>,
    pub(super) reader: Option<SocketId>,
}

/// A stream, its read end and its write end.
type Pipe = (StreamWord, OwnedFd, OwnedFd);

impl Given {
    /// The pipes of a command, and who has their read ends already.
    fn pipes(self, plan: &Plan) -> Result<(Vec<Pipe>, Option<SocketId>), String> {
        let (pipes, reader): (Vec<Pipe>, _) = if self.fds.len() == 2 * plan.streams.len() {
            let mut fds = self.fds.into_iter();
            let pipe = |stream: &StreamWord| Some((*stream, fds.next()?, fds.next()?));
            (plan.streams.iter().filter_map(pipe).collect(), self.reader)
        } else {
            // A worker of an earlier version, which gets them when the command has begun.
            let pipe = |stream: &StreamWord| {
                pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (*stream, read, write))
            };
            let pipes = plan.streams.iter().map(pipe).collect::<Result<_, Errno>>();
            (pipes.map_err(|error| format!("cannot make a pipe: {error}"))?, None)
        };
        if let Some((user, group)) =
            plan.ids.as_ref().map(|(user, group, _)| (*user, *group)).or(plan.owner)
        {
            // It may open them again by their path, as it does with the status pipe's.
            for (_, _, write) in &pipes {
                let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
                fchown(write, Some(user), Some(group))
                    .map_err(|error| format!("cannot give it a pipe: {error}"))?;
            }
        }
        Ok((pipes, reader))
    }
}

fn open_group(path: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
        .map_err(|error| format!("cannot open the cgroup {}: {error}", path.display()))
}

/// Whether this is the process that we put above the command of a run, and no later one.
fn is_house(pid: i32, began: Option<u64>) -> bool {
    let is_called_so =
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "run");
    is_called_so && (began.is_none() || tree::began(pid) == began)
}

fn image(plan: &Plan) -> io::Result<Image> {
    let mut image = Image::new(&plan.program, &plan.arguments, &plan.environment, &plan.directory)?;
    image.ids.clone_from(&plan.ids);
    image.rlimits.clone_from(&plan.rlimits);
    image.own_group = plan.own_group;
    image.death_signal = plan.death_signal;
    image.no_new_privileges = plan.no_new_privileges;
    Ok(image)
}

/// How a run is held, as it stands in its journal.
pub(super) fn reopened(hold: &Hold, stop: StopSignal, journal: Journal) -> Option<Driven> {
    Holding::open(hold).ok().map(|holding| Driven::new(holding, stop, journal))
}

/// Why a process has not become its command, for people.
pub(super) fn not_begun(step: sys::Step, error: &io::Error) -> String {
    let (what, remedy) = match step {
        sys::Step::Group => ("cannot make its process group", "try again"),
        sys::Step::Streams => ("cannot give it its pipes", "let the worker have more open files"),
        sys::Step::Rlimits => {
            ("cannot set its resource limits", "ask in rlimits for no more than the worker has")
        }
        sys::Step::User => (
            "user, group: only a worker that is root can run work as another user or group",
            "leave it out, or start the worker as root",
        ),
        sys::Step::Directory => {
            ("cannot enter its directory", "let its user enter it, or leave out directory")
        }
        sys::Step::Privileges => ("cannot give up privileges", "leave out signals.death"),
        sys::Step::Exec => {
            ("cannot run the command", "check that the command and its interpreter exist")
        }
        sys::Step::Between => {
            ("cannot make the process above the command", "let the worker have more processes")
        }
    };
    if error.raw_os_error() == Some(libc::E2BIG) {
        return format!(
            "{what}: {error}: each word and each entry of the environment may have 128 KiB, and all \
             together a quarter of the stack's limit; put what is long into a file, and give its path"
        );
    }
    format!("{what}: {error}; {remedy}")
}

/// Reads four bytes, if they are there.
pub(super) fn four(fd: BorrowedFd<'_>) -> Option<[u8; 4]> {
    let mut bytes = [0; 4];
    (rustix::io::read(fd, &mut bytes) == Ok(4)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process may have the number by now, and even the name.
    #[test]
    fn a_process_of_ours_is_known_by_when_it_began() {
        let path = std::env::temp_dir().join(format!("sterna-house-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::copy("/bin/sleep", path.join("run")).unwrap();
        let mut child = std::process::Command::new(path.join("run")).arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let began = tree::began(pid).unwrap();
        let known = [None, Some(began), Some(began + 1)].map(|began| is_house(pid, began));
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(path).unwrap();
        assert_eq!(known, [true, true, false]);
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!is_house(own, tree::began(own)), "this one is not called so");
    }
}
