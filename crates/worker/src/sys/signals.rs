//! Signals as something to read.

use std::{
    io,
    mem::{MaybeUninit, size_of},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

/// Signals that came, one at a time.
#[derive(Debug)]
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// The next one, if there is one.
    pub(crate) fn take(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: as many bytes as there are in it.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        // SAFETY: it is whole, or it is the zeros that it was made with.
        let info = unsafe { info.assume_init() };
        (usize::try_from(read) == Ok(size)).then(|| i32::try_from(info.ssi_signo).ok()).flatten()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Blocks `signals` in this thread, and in those that it makes, and gives them to be read instead.
///
/// # Errors
/// The descriptor cannot be made.
pub(crate) fn watch(signals: &[i32]) -> io::Result<Signals> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made empty before it is added to and read; the descriptor is new.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        let fd = libc::signalfd(-1, set.as_ptr(), flags);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Signals(OwnedFd::from_raw_fd(fd)))
    }
}

/// Lets no signal but KILL and STOP end or disturb this process, and leaves none ignored: that would
/// be passed on to every command.
///
/// # Errors
/// Signals cannot be blocked.
pub(crate) fn be_deaf() -> io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made full before it is read; setting a default needs no code of ours, and
    // is refused for numbers that cannot be set.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        if libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    Ok(())
}

/// Closes every descriptor but the first three: whatever this program was started with is not ours.
pub(crate) fn close_inherited() {
    // SAFETY: called before anything else is opened, so nobody uses them.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_int::MAX, 0) };
}
