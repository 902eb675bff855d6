//! A new process, in its cgroup from its first moment on.

use std::{
    io,
    mem::size_of,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair},
    pipe::{PipeFlags, pipe_with},
};

use super::{
    check,
    child::{Image, Step, Streams, go, keep_house, let_go_of_all_but},
    letter::Letter,
};

/// How a run is told from everything else on the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'a> {
    /// By the cgroup of this directory.
    Cgroup(BorrowedFd<'a>),
    /// By somebody else, before the go byte.
    Plain,
    /// By a process of ours between the guardian and the command, to which everything falls that the
    /// command leaves behind.
    Tree,
}

/// A process that waits for its go byte.
#[derive(Debug)]
pub(crate) struct Spawned {
    /// The process; with [`Shape::Tree`] the one in between.
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    /// Takes the go byte; ends when the command has begun, or says why it has not.
    pub(crate) sync: OwnedFd,
    /// With [`Shape::Tree`]: says how the command ended.
    pub(crate) report: Option<OwnedFd>,
}

/// Makes a process that will become `image`.
///
/// # Errors
/// There is no process, and there will not be.
pub(crate) fn spawn(image: &Image, shape: Shape<'_>, streams: Streams<'_>) -> io::Result<Spawned> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let (cgroup, pipe) = match shape {
        Shape::Cgroup(directory) => (Some(directory), None),
        Shape::Plain => (None, None),
        Shape::Tree => (None, Some(pipe_with(PipeFlags::CLOEXEC)?)),
    };
    let letter = Letter::write(image)?;
    match fork(cgroup)? {
        Forked::Parent { pid, pidfd } => {
            let report = pipe.map(|(read, _)| read);
            if let Some(report) = &report {
                rustix::io::ioctl_fionbio(report, true)?;
            }
            Ok(Spawned { pid, pidfd, sync: ours, report })
        }
        Forked::Child => {
            let report = pipe.as_ref().map(|(_, write)| write.as_fd());
            let_go_of_all_but(streams, [Some(theirs.as_fd()), report]);
            if let Some(report) = report {
                let inner = fork(None);
                if !matches!(inner, Ok(Forked::Child)) {
                    keep_house(inner, report);
                }
            }
            go(&letter, theirs.as_fd(), streams)
        }
    }
}

/// What became of a process on its way to its command.
#[derive(Debug)]
pub(crate) enum Heard {
    /// It is its command now, or has ended without a word.
    Begun,
    /// It failed at this step, for this reason.
    Failed(Step, io::Error),
}

/// What was said over [`Spawned::sync`]; `None` while nothing was.
pub(crate) fn heard(sync: BorrowedFd<'_>) -> Option<Heard> {
    let mut said = [0; 8];
    let mut hear = || recv(sync, &mut said, RecvFlags::DONTWAIT);
    let heard = match hear() {
        // It has ended before it took its go byte, which is told once, and before what it has said.
        Err(Errno::CONNRESET) => hear(),
        heard => heard,
    };
    let length = match heard {
        Ok((length, _)) => length,
        Err(Errno::AGAIN) => return None,
        Err(_) => 0,
    };
    let failed = Step::read(said.get(..length).unwrap_or_default());
    Some(failed.map_or(Heard::Begun, |(step, error)| Heard::Failed(step, error)))
}

/// Wider than the constant that libc has for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

pub(super) enum Forked {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// A copy of this process, without a thread library's knowledge: it must be single-threaded.
fn fork(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    let mut pidfd: libc::c_int = -1;
    let mut flags = libc::CLONE_PIDFD as u64;
    let mut directory = 0;
    if let Some(cgroup) = cgroup {
        flags |= CLONE_INTO_CGROUP;
        directory = u64::from(cgroup.as_raw_fd().unsigned_abs());
    }
    let args = libc::clone_args {
        flags,
        pidfd: (&raw mut pidfd) as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: directory,
    };
    // SAFETY: the arguments are of the size that is given and name live memory; without CLONE_VM the
    // child has a copy of everything, and the caller is single-threaded, so no lock is held in it.
    let pid = check(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>())
    })?;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let pid = i32::try_from(pid).map_err(|_| io::Error::other("a process id out of bounds"))?;
    Ok(Forked::Parent { pid, pidfd })
}

#[cfg(test)]
mod tests {
    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::{Pid, WaitOptions, waitpid},
    };

    use super::*;

    fn wait_for(pidfd: &OwnedFd) {
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&patience)).unwrap(), 1, "it does not end");
    }

    /// It was told as an end with 127, when the go byte came after it had ended.
    #[test]
    fn who_fails_before_its_go_byte_says_so_whenever_that_comes() {
        for is_let_go in [false, true] {
            let mut image = Image::new("/bin/true", &["true".to_owned()], &[], "/").unwrap();
            // No kernel has a resource of this number.
            image.rlimits = vec![(4711, 1, 1)];
            let spawned = spawn(&image, Shape::Plain, Streams::default()).unwrap();
            if is_let_go {
                let _ = rustix::io::write(&spawned.sync, &[1]);
            }
            wait_for(&spawned.pidfd);
            if !is_let_go {
                let _ = rustix::io::write(&spawned.sync, &[1]);
            }
            let heard = heard(spawned.sync.as_fd());
            assert!(matches!(heard, Some(Heard::Failed(Step::Rlimits, _))), "{heard:?}");
            let pid = Pid::from_raw(spawned.pid).unwrap();
            waitpid(Some(pid), WaitOptions::empty()).unwrap();
        }
    }

    /// Whatever it needs until it is its command is not in the heap.
    #[test]
    fn who_has_no_copy_of_the_heap_becomes_its_command() {
        let words =
            ["sh", "-c", "test $# = 1 -a $A = b -a $(pwd) = / -a $(ulimit -n) = 77", "sh", "x"];
        let words = words.map(str::to_owned);
        let environment = [("A".to_owned(), "b".to_owned())];
        let mut image = Image::new("/bin/sh", &words, &environment, "/").unwrap();
        image.rlimits = vec![(libc::RLIMIT_NOFILE, 77, 77)];
        crate::sys::keep_heap_to_itself();
        for shape in [Shape::Plain, Shape::Tree] {
            let spawned = spawn(&image, shape, Streams::default()).unwrap();
            rustix::io::write(&spawned.sync, &[1]).unwrap();
            let pid = Pid::from_raw(spawned.pid).unwrap();
            let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
            assert_eq!(status.exit_status(), Some(0), "{shape:?}: {status:?}");
        }
    }

    /// Both ends of it, and of its neighbour's, must be gone with the guardian: a process that holds
    /// one waits for ever, and holds the guardian's lock.
    #[test]
    fn who_waits_for_a_go_byte_ends_when_the_guardian_is_gone() {
        let image = Image::new("/bin/true", &["true".to_owned()], &[], "/").unwrap();
        for shape in [Shape::Plain, Shape::Tree] {
            let spawned: Vec<Spawned> =
                (0..3).map(|_| spawn(&image, shape, Streams::default()).unwrap()).collect();
            // As when it is killed: all that it had is closed at once.
            let waiting = spawned.into_iter().map(|spawned| (spawned.pid, spawned.pidfd));
            for (pid, pidfd) in waiting.collect::<Vec<_>>() {
                let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
                let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
                let ended = poll(&mut fds, Some(&patience)).unwrap();
                assert_eq!(ended, 1, "{shape:?}: process {pid} waits on");
                let pid = Pid::from_raw(pid).unwrap();
                let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
                assert_eq!(status.exit_status(), Some(127), "{shape:?}: it has not begun");
            }
        }
    }
}
