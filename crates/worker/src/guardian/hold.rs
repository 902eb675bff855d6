//! All processes of one run, whatever they did to get away: who they are, and what is done to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, open, openat},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::tree;
use crate::cgroup::Hold;

/// The processes of one run.
#[derive(Debug)]
pub(crate) enum Holding {
    Cgroup2 {
        directory: OwnedFd,
        path: PathBuf,
    },
    Freezer {
        path: PathBuf,
    },
    /// Below these processes, which we put above each command and which end last.
    Tree {
        roots: BTreeSet<i32>,
        /// Those that fell to us because what stood above them was killed, and what is below them.
        strays: BTreeMap<i32, OwnedFd>,
    },
}

impl Holding {
    pub(crate) fn open(hold: &Hold) -> io::Result<Self> {
        Ok(match hold {
            Hold::Cgroup2(path) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let directory = open(path, flags, Mode::empty())?;
                Self::Cgroup2 { directory, path: path.clone() }
            }
            Hold::Freezer(path) => Self::Freezer { path: path.clone() },
            Hold::Tree => Self::Tree { roots: BTreeSet::new(), strays: BTreeMap::new() },
        })
    }

    /// Whether nobody is left. Whoever cannot be asked any more is gone with its group.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Cgroup2 { directory, .. } => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let mut bytes = [0; 256];
                let read = openat(directory, "cgroup.events", flags, Mode::empty())
                    .and_then(|file| rustix::io::read(file, &mut bytes));
                let said = bytes.get(..read.unwrap_or(0)).unwrap_or_default();
                !said.split(|byte| *byte == b'\n').any(|line| line == b"populated 1")
            }
            Self::Freezer { path } => processes(path).is_empty(),
            // Each goes when nobody is left below it.
            Self::Tree { roots, strays } => roots.is_empty() && strays.values().all(has_ended),
        }
    }

    /// Something to wait on for a change of [`Holding::is_empty`], where the machine has it.
    pub(super) fn events(&self) -> Option<OwnedFd> {
        match self {
            Self::Cgroup2 { directory, .. } => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let file = openat(directory, "cgroup.events", flags, Mode::empty()).ok()?;
                // It tells of changes since it was read last.
                rustix::io::pread(&file, &mut [0; 64], 0).ok().map(|_| file)
            }
            Self::Freezer { .. } | Self::Tree { .. } => None,
        }
    }

    /// Kills everybody. Where this is not one act of the kernel it must be done again until nobody is
    /// left, because somebody may be born meanwhile.
    pub(crate) fn kill(&self) {
        match self {
            Self::Cgroup2 { directory, .. } => drop(write(directory, "cgroup.kill", "1")),
            Self::Freezer { path } => {
                // Nobody is born while all are frozen; KILL takes effect when they thaw.
                drop(fs::write(path.join("freezer.state"), "FROZEN"));
                self.signal_all(Signal::KILL);
                drop(fs::write(path.join("freezer.state"), "THAWED"));
            }
            Self::Tree { .. } => {
                // Whoever is stopped has no children meanwhile.
                self.signal_all(Signal::STOP);
                self.signal_all(Signal::KILL);
            }
        }
    }

    /// Sends a signal to everybody.
    pub(super) fn signal_all(&self, signal: Signal) {
        let fds = match self {
            Self::Cgroup2 { path, .. } | Self::Freezer { path } => members(path),
            Self::Tree { roots, strays } => {
                for stray in strays.values() {
                    let _ = pidfd_send_signal(stray, signal);
                }
                let alive = strays.iter().filter(|(_, fd)| !has_ended(fd)).map(|(pid, _)| pid);
                roots.iter().chain(alive).flat_map(|root| tree::below(*root)).collect()
            }
        };
        for fd in fds {
            // Who has ended meanwhile needs no signal.
            let _ = pidfd_send_signal(fd, signal);
        }
    }

    /// Sends a signal to those of the run that are in the process group of this number, one by one: the
    /// number may mean another group by now.
    pub(super) fn signal_group(&self, group: i32, signal: Signal) {
        let path = match self {
            Self::Cgroup2 { path, .. } | Self::Freezer { path } => path,
            Self::Tree { .. } => return self.signal_all(signal),
        };
        for pid in processes(path) {
            if tree::group(pid) == Some(group)
                && let Some(fd) = member(path, pid)
            {
                let _ = pidfd_send_signal(fd, signal);
            }
        }
    }

    /// Stops everybody where they are, or lets them go on.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        match self {
            Self::Cgroup2 { directory, .. } => {
                drop(write(directory, "cgroup.freeze", if is_frozen { "1" } else { "0" }));
            }
            Self::Freezer { path } => {
                let state = if is_frozen { "FROZEN" } else { "THAWED" };
                drop(fs::write(path.join("freezer.state"), state));
            }
            Self::Tree { .. } => {
                self.signal_all(if is_frozen { Signal::STOP } else { Signal::CONT });
            }
        }
    }

    /// Whether this process is one of the run's.
    pub(super) fn has(&self, pid: i32) -> bool {
        match self {
            Self::Cgroup2 { path, .. } | Self::Freezer { path } => is_member(path, pid),
            Self::Tree { roots, .. } => roots.contains(&pid),
        }
    }
}

/// Whether a process has ended.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Everybody in a group and in those below it, each by a descriptor that means that process and no
/// later one.
fn members(group: &Path) -> Vec<OwnedFd> {
    processes(group).into_iter().filter_map(|pid| member(group, pid)).collect()
}

fn member(group: &Path, pid: i32) -> Option<OwnedFd> {
    let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // Its number may have been given to another before we had the descriptor.
    is_member(group, pid).then_some(fd)
}

fn processes(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            pids.extend(processes(&entry.path()));
        }
    }
    pids
}

/// Whether a process is in a group: one of its groups ends with the last two names of the path.
fn is_member(group: &Path, pid: i32) -> bool {
    let mut names = group.iter().rev();
    let (Some(run), Some(ours)) = (names.next(), names.next()) else { return false };
    let tail = format!("/{}/{}", ours.to_string_lossy(), run.to_string_lossy());
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    text.lines().any(|line| line.ends_with(&tail) || line.contains(&format!("{tail}/")))
}

fn write(directory: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = fs::File::from(openat(directory.as_fd(), name, flags, Mode::empty())?);
    file.write_all(text.as_bytes())
}
