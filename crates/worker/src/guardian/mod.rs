//! The guardian: a small single-threaded process beside the worker that parents every container and
//! outlives the worker for as long as it must (safety rules 12 to 15).
//!
//! ```text
//!   worker ──launch──▶ guardian (its own session and name, every signal blocked)
//!     │                   │  listens at guardian.sock, holds guardian.lock
//!     └── words, frames ──┘
//!                         ├── serve, perform   the loop around the pure core
//!                         ├── runs, hold, tree  processes, and all of them at once
//!                         ├── owner            with whom everything ends
//!                         ├── started          what the runtime of an image has made
//!                         ├── taken            what is of an earlier guardian
//!                         └── kept             what the next guardian must know
//! ```
//!
//! Invariant: it decides nothing: `sterna_executor::guardian` does, and what it says is done in order.
//!
//! Invariant: what became of a run stands in its journal before anybody is told.
//!
//! Invariant: it never waits for a worker, and never reads a run's output.

mod frames;
#[cfg(test)]
mod golden;
mod hold;
mod kept;
mod launch;
mod owner;
mod perform;
mod runs;
mod serve;
mod started;
mod taken;
mod tree;
mod words;

use std::{
    env, fs,
    io::{self, Write},
    os::{
        fd::AsFd,
        unix::{fs::PermissionsExt, net::UnixListener},
    },
    path::{Path, PathBuf},
    process::ExitCode,
};

use rustix::{
    event::epoll::EventFlags,
    fs::{Mode, OFlags},
    process::{
        PidfdFlags, Resource, Rlimit, getpid, getppid, getrlimit, pidfd_open, set_child_subreaper,
        setrlimit, setsid,
    },
};
use sterna_executor::{
    container::Exit,
    guardian::{Fate, Found, Guardian, Input},
};
use sterna_model::{RunId, Span};

pub(crate) use self::{
    frames::{Channel, FDS_MAX, LENGTH_MAX, Line},
    hold::{Holding, has_ended},
    kept::{JOURNAL, RUNS, SPARE_JOURNAL, confirmed},
    launch::{IsNew, Launched, Replaced, connect, kill, replace},
    words::{
        Ask, ContractWord, FateWord, HeldWord, Plan, REMEDY, RoleWord, RuntimeWord, Say,
        StreamWord, UNDERSTOOD,
    },
};
use self::{
    kept::{Left, State},
    serve::{Serving, Source},
};
use crate::{
    clock::{boot_id, boot_time},
    directory::private,
    sys,
};

/// What the process is called, so that whoever ends workers by their name does not end it.
pub const NAME: &str = "guardian";
const SOCKET: &str = "guardian.sock";
const LOCK: &str = "guardian.lock";
const LOG: &str = "guardian.log";
/// Tells its allocator to do without huge pages: a fork copies an entry for every page of one, however
/// little of it is used.
const SMALL_PAGES: (&str, &str) = ("MIMALLOC_ALLOW_THP", "0");
/// The kill wait until a worker says another.
const KILL_WAIT: Span = Span::from_secs(5);

/// Whether this process was started to be a guardian: it must then call [`run`] before anything else.
pub fn is_called() -> bool {
    env::args_os().next().is_some_and(|name| name == NAME)
}

/// Is the guardian of the data directory that it was started in, until nothing is left to be guarded.
pub fn run() -> ExitCode {
    match guard() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Its worker reads this; a later one finds it in the log.
            drop(writeln!(io::stdout(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

fn guard() -> io::Result<()> {
    sys::close_inherited();
    sys::be_deaf()?;
    if env::var_os(SMALL_PAGES.0).is_some() {
        // The allocator has forbidden them to this process, and so to its commands, who may have them.
        let _ = rustix::thread::disable_transparent_huge_pages(false);
    }
    // Whoever is in a group of its own already has left the worker's.
    let _ = setsid();
    let _ = rustix::thread::set_name(c"guardian");
    set_child_subreaper(Some(getpid()))?;
    let own = getrlimit(Resource::Nofile);
    // Five descriptors for each run; what commands get is said with each of them.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: own.maximum, maximum: own.maximum });
    // Before it is told that we are here: who has ended before this cannot be told.
    let starter = getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
    let directory = env::current_dir()?;
    let lock = private(&directory.join(LOCK))?;
    if lock.try_lock().is_err() {
        return Err(io::Error::other("there is a guardian already"));
    }
    let boot = boot_id();
    let (state, kept) = State::open(&directory, &boot)?;
    let mut left = kept::left(&directory, &boot)?;
    let found = left.iter_mut().map(|left| (left.run, left.found.take()));
    let found: Vec<(RunId, Option<Found>)> = found.collect();
    let mut core = Guardian::new(boot_time(), KILL_WAIT, kept, found);
    if starter.is_some() {
        core = core.that_sees_its_starter();
    }
    let listener = listen(&directory)?;
    let mut serving = Serving::new(directory.clone(), boot, core, state, listener)?;
    if let Some(starter) = starter {
        serving.watch_starter(starter)?;
    }
    for left in left {
        serving.take_over(left);
    }
    if say_ready().is_err() {
        // What it runs is ours all the same.
        serving.inputs.push_back(Input::StarterGone);
    }
    be_quiet(&directory)?;
    sys::keep_heap_to_itself();
    let worked = serving.work();
    // From now on a worker must start another one.
    drop(fs::remove_file(directory.join(SOCKET)));
    drop(lock);
    worked
}

/// Says that it is there.
///
/// # Errors
/// Whoever has started it is gone.
fn say_ready() -> io::Result<()> {
    writeln!(io::stdout(), "ready")?;
    io::stdout().flush()
}

/// Lets go of what it was started with.
fn be_quiet(directory: &Path) -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty())?;
    // What a panic says may hold words of the work.
    let log = private(&directory.join(LOG))?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(log.as_fd())?;
    env::set_current_dir("/")
}

/// The path that fits into an address, however deep the directory lies.
fn address(directory: &Path) -> io::Result<(rustix::fd::OwnedFd, PathBuf)> {
    use std::os::fd::AsRawFd;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(directory, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", fd.as_raw_fd());
    Ok((fd, PathBuf::from(path)))
}

fn listen(directory: &Path) -> io::Result<UnixListener> {
    // Left by one that was killed; we have the lock.
    drop(fs::remove_file(directory.join(SOCKET)));
    let (_directory, address) = address(directory)?;
    let listener = UnixListener::bind(address)?;
    fs::set_permissions(directory.join(SOCKET), fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Serving {
    /// Goes on with what an earlier guardian has left. What cannot be held by us has no group any
    /// more, and so no processes; the worker sweeps whatever else there is.
    fn take_over(&mut self, left: Left) {
        let Left { run, known, processes, numbers, journal, .. } = left;
        let driven = known.and_then(|(hold, stop)| runs::reopened(&hold, stop, journal));
        let Some(mut driven) = driven else {
            return self.inputs.push_back(Input::Empty(run));
        };
        let fates = self.core.fates(run);
        // Of one that never began it stands nowhere that it did not.
        let is_written = !numbers.is_empty() || fates.contains(&Fate::Empty);
        driven.recorded = if is_written { fates.len() } else { 0 };
        driven.numbers = numbers;
        driven.is_stopping = self.core.kill_at(run).is_some();
        // Nobody says whether it is; a group that is not frozen is not changed by being thawed.
        driven.is_frozen = !driven.is_tree();
        for (part, role, process) in processes {
            if !driven.take_over(part, role, process) {
                // It has ended since, and whoever took it does not tell how.
                let exited = Input::Exited(run, part, Exit::Unknown);
                self.inputs.push_back(exited);
            }
        }
        let parts: Vec<_> = driven.parts.keys().copied().collect();
        self.runs.insert(run, driven);
        if parts.is_empty() && self.core.kill_at(run).is_some() {
            // Whoever was asked to end has done so while nobody looked.
            self.look(run);
        }
        for part in parts {
            // First that it has ended wakes us, then that it was taken: how it ended is known then.
            self.watch(Source::Foreign(run, part), EventFlags::IN | EventFlags::ET);
        }
    }
}
