//! How processes ended.

use std::{
    io,
    mem::{MaybeUninit, size_of},
    os::fd::{AsRawFd, BorrowedFd},
};

use sterna_executor::container::Exit;

/// A child that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) pid: i32,
    pub(crate) exit: Exit,
    /// Processor time of it and of those that it waited for.
    pub(crate) cpu_us: u64,
    /// The most memory that it, or one of those, ever had.
    pub(crate) peak_bytes: u64,
}

/// Takes one child that has ended, if there is one.
pub(crate) fn ended() -> Option<Ended> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both are of this frame, and large enough.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    if pid <= 0 {
        return None;
    }
    // SAFETY: a child was taken, so the kernel has filled it in; zeros would be valid, too.
    let usage = unsafe { usage.assume_init() };
    let micros =
        |time: libc::timeval| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs();
    Some(Ended {
        pid,
        exit: exit_of_status(status),
        cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
    })
}

/// What a wait status says.
pub(crate) fn exit_of_status(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Code(libc::WEXITSTATUS(status))
    }
}

/// The first form of the kernel's `pidfd_info`.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const GET_INFO: libc::c_ulong = 0xC040_FF0B;
const INFO_EXIT: u64 = 1 << 3;

/// How a process ended that somebody else has taken, and nothing while nobody has; `None` if the
/// kernel is too old to tell (before 6.15).
pub(crate) fn exit_of(pidfd: BorrowedFd<'_>) -> Option<Option<Exit>> {
    const { assert!(size_of::<PidfdInfo>() == 64) };
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request's number carries the size of what is given, and the kernel writes no more.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO, &raw mut info) };
    if result != 0 {
        // Nobody has taken it yet: there is nothing to tell of it.
        let is_early = io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        return is_early.then_some(None);
    }
    Some((info.mask & INFO_EXIT != 0).then(|| exit_of_status(info.exit_code)))
}

/// What the process in between has said of the command.
pub(crate) fn reported(bytes: [u8; 4]) -> Exit {
    exit_of_status(i32::from_ne_bytes(bytes))
}
