//! What a new process does until it is its command.

use std::{
    ffi::{CStr, CString, c_int},
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use super::{clone::Forked, letter::Letter};

/// Everything that a process must know to become its command, in the form that the kernel takes.
#[derive(Debug)]
pub(crate) struct Image {
    pub(super) program: CString,
    pub(super) arguments: Vec<CString>,
    pub(super) environment: Vec<CString>,
    pub(super) directory: CString,
    /// Number of the resource, soft and hard limit.
    pub(crate) rlimits: Vec<(u32, u64, u64)>,
    /// User, group and other groups; `None` for those of the worker.
    pub(crate) ids: Option<(u32, u32, Vec<u32>)>,
    pub(crate) own_group: bool,
    /// Sent to it when its parent dies.
    pub(crate) death_signal: Option<c_int>,
    pub(crate) no_new_privileges: bool,
}

impl Image {
    /// # Errors
    /// One of the words has a zero byte in it, which no command can be given.
    pub(crate) fn new(
        program: &str,
        arguments: &[String],
        environment: &[(String, String)],
        directory: &str,
    ) -> io::Result<Self> {
        let arguments = arguments.iter().map(|word| zero_ended(word)).collect::<Result<_, _>>()?;
        let environment =
            environment.iter().map(|(name, value)| entry(name, value)).collect::<Result<_, _>>()?;
        Ok(Self {
            program: zero_ended(program)?,
            arguments,
            environment,
            directory: zero_ended(directory)?,
            rlimits: Vec::new(),
            ids: None,
            own_group: true,
            death_signal: None,
            no_new_privileges: true,
        })
    }
}

/// Its value may be a secret: only the name is told.
fn entry(name: &str, value: &str) -> io::Result<CString> {
    let whole = format!("{name}={value}");
    CString::new(whole).map_err(|_| {
        let name = name.replace('\0', "\\0");
        io::Error::other(format!("the environment's {name} has a zero byte in it: leave it out"))
    })
}

fn zero_ended(word: &str) -> io::Result<CString> {
    CString::new(word).map_err(|_| {
        let begins: String = word.chars().take(40).collect();
        io::Error::other(format!("{begins:?} has a zero byte in it: leave it out"))
    })
}

/// What a command finds at its first descriptors; it has no others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streams<'a> {
    pub(crate) stdout: Option<BorrowedFd<'a>>,
    pub(crate) stderr: Option<BorrowedFd<'a>>,
    /// Becomes descriptor 3.
    pub(crate) status: Option<BorrowedFd<'a>>,
}

/// Where a process can fail on its way to its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Group,
    Streams,
    Rlimits,
    User,
    Directory,
    Privileges,
    Exec,
    Between,
}

impl Step {
    const ALL: [Self; 8] = [
        Self::Group,
        Self::Streams,
        Self::Rlimits,
        Self::User,
        Self::Directory,
        Self::Privileges,
        Self::Exec,
        Self::Between,
    ];

    /// What a process has said before it ended.
    pub(crate) fn read(said: &[u8]) -> Option<(Self, io::Error)> {
        let [step, errno @ ..] = said else { return None };
        let step = Self::ALL.into_iter().find(|known| *known as u8 == *step)?;
        let errno = i32::from_ne_bytes(errno.try_into().ok()?);
        Some((step, io::Error::from_raw_os_error(errno)))
    }
}

/// Closes every descriptor of this copy but its streams, `kept` and those below 3. While it waits for
/// its go byte it must hold nothing of the guardian's: not the other end of its own socket, or that
/// would never end; not the lock, or no other guardian could take over (safety rule 13).
pub(super) fn let_go_of_all_but(streams: Streams<'_>, kept: [Option<BorrowedFd<'_>>; 2]) {
    let [one, other] = kept;
    let mut open = [streams.stdout, streams.stderr, streams.status, one, other]
        .map(|fd| fd.map_or(0, |fd| fd.as_raw_fd()));
    open.sort_unstable();
    let mut first = 3;
    for fd in open {
        if fd > first {
            // SAFETY: nobody in this copy uses what is closed here.
            unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
        }
        first = first.max(fd + 1);
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, first, c_int::MAX, 0) };
}

/// Goes the whole way. Never comes back.
pub(super) fn go(letter: &Letter, sync: BorrowedFd<'_>, streams: Streams<'_>) -> ! {
    let sync = sync.as_raw_fd();
    let step = before_go(letter, streams);
    if let Err(step) = step {
        fail(sync, step);
    }
    let mut byte = 0_u8;
    // SAFETY: one byte of this frame's own memory; the descriptor is ours.
    let read = unsafe { libc::read(sync, (&raw mut byte).cast(), 1) };
    if read != 1 {
        // Whoever would have let it go is gone, or does not want it any more. It has not succeeded.
        quit(127);
    }
    if let Err(step) = after_go(letter, streams.status.is_some()) {
        fail(sync, step);
    }
    // SAFETY: the pointers are to zero-ended words that live in `letter`, each list ended by a null.
    unsafe { libc::execve(letter.program, letter.arguments, letter.environment) };
    fail(sync, Step::Exec)
}

fn before_go(letter: &Letter, streams: Streams<'_>) -> Result<(), Step> {
    if letter.own_group {
        // SAFETY: plain numbers.
        held(unsafe { libc::setpgid(0, 0) }, Step::Group)?;
    }
    let places = [(streams.stdout, 1), (streams.stderr, 2), (streams.status, 3)];
    if streams.stderr.is_none() {
        // What was there is the guardian's log; what is read is nothing.
        // SAFETY: plain numbers; what was at the place is not used by this copy any more.
        held(unsafe { libc::dup2(0, 2) }, Step::Streams)?;
    }
    for (stream, place) in places {
        if let Some(stream) = stream {
            // SAFETY: the descriptor is open; what was at the place is not used by this copy any more.
            held(unsafe { libc::dup2(stream.as_raw_fd(), place) }, Step::Streams)?;
        }
    }
    for (resource, soft, hard) in letter.rlimits() {
        let limit = libc::rlimit { rlim_cur: *soft, rlim_max: *hard };
        // SAFETY: the limit is read from this frame's own memory.
        held(unsafe { libc::setrlimit(*resource, &raw const limit) }, Step::Rlimits)?;
    }
    Ok(())
}

fn after_go(letter: &Letter, has_status: bool) -> Result<(), Step> {
    if let Some((user, group, (groups, count))) = letter.ids {
        // SAFETY: the system calls themselves, for this thread, which is the only one; the list is
        // as long as is said.
        unsafe {
            held(libc::syscall(libc::SYS_setgroups, count, groups), Step::User)?;
            held(libc::syscall(libc::SYS_setresgid, group, group, group), Step::User)?;
            held(libc::syscall(libc::SYS_setresuid, user, user, user), Step::User)?;
        }
    }
    // SAFETY: a zero-ended word that lives in `letter`.
    held(unsafe { libc::chdir(letter.directory) }, Step::Directory)?;
    if letter.no_new_privileges {
        // SAFETY: plain numbers.
        held(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, Step::Privileges)?;
    }
    if let Some(signal) = letter.death_signal {
        // A change of user has undone it, so it comes after that.
        // SAFETY: plain numbers.
        held(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) }, Step::Privileges)?;
    }
    let first = if has_status { 4 } else { 3 };
    // SAFETY: marks descriptors to be closed by exec; whoever still uses them in this copy may.
    let marked = unsafe {
        libc::syscall(libc::SYS_close_range, first, c_int::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    held(marked, Step::Streams)?;
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made before it is read, and is of this frame.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        held(libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()), Step::Exec)
    }
}

fn held(result: impl Into<i64>, step: Step) -> Result<(), Step> {
    if result.into() < 0 { Err(step) } else { Ok(()) }
}

/// Says where it failed, and why, and ends.
fn fail(sync: c_int, step: Step) -> ! {
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or_default();
    let mut said = [step as u8, 0, 0, 0, 0];
    said[1..].copy_from_slice(&errno.to_ne_bytes());
    // SAFETY: five bytes of this frame; if nobody hears it, nobody is there to be told.
    unsafe { libc::write(sync, said.as_ptr().cast(), said.len()) };
    quit(127)
}

fn quit(code: c_int) -> ! {
    // SAFETY: ends this process without running anything of the one that it is a copy of.
    unsafe { libc::_exit(code) }
}

/// The process in between: everything that its child leaves behind falls to it, and it ends last.
pub(super) fn keep_house(child: io::Result<Forked>, report: BorrowedFd<'_>) -> ! {
    const NAME: &CStr = c"run";
    let Ok(Forked::Parent { pid: main, .. }) = child else { quit(127) };
    let report = report.as_raw_fd();
    // SAFETY: plain numbers, and a zero-ended name.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr(), 0, 0, 0);
        libc::setpgid(0, 0);
        // It holds no pipe of its child's and no socket of the guardian's.
        libc::dup2(report, 0);
        libc::syscall(libc::SYS_close_range, 1, c_int::MAX, 0);
    }
    // SAFETY: four bytes of this frame.
    unsafe { libc::write(0, (&raw const main).cast(), size_of::<c_int>()) };
    let mut code = 127;
    loop {
        let mut status = 0;
        // SAFETY: the status is of this frame.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if pid == main {
            code = if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                128 + libc::WTERMSIG(status)
            };
            // SAFETY: four bytes of this frame.
            unsafe { libc::write(0, (&raw const status).cast(), size_of::<c_int>()) };
        } else if pid < 0 {
            // Nobody is left; nothing interrupts it, because every signal is blocked.
            quit(code);
        }
    }
}
