//! How a worker finds its guardian, or starts one.

use std::{
    fs,
    io::{self, Read},
    os::unix::{
        net::UnixStream,
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sterna_model::Span;

use super::{Channel, LOCK, NAME, SMALL_PAGES, address};
use crate::clock::boot_time;

/// Within this a guardian that was started listens, or is given up.
const LISTENS_WITHIN: Span = Span::from_secs(5);

/// Within this one that has hung up, or was killed, has ended.
const ENDS_WITHIN: Span = Span::from_secs(2);

/// A connection to a guardian.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) channel: Channel,
    /// The guardian, if it was started by this process, which must then take its end.
    pub(crate) child: Option<Child>,
}

/// A guardian in place of another.
#[derive(Debug)]
pub(crate) struct Replaced {
    /// Why the one before it is gone, for people.
    pub(crate) why: String,
    /// The connection to it, and whether it was started just now.
    pub(crate) channel: io::Result<(Channel, IsNew)>,
    /// Whichever of them must still be waited for.
    pub(crate) child: Option<Child>,
}

/// Whether a guardian was just started, so that nothing is its child yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsNew {
    Yes,
    No,
}

/// Takes the end of the guardian `before`, and connects to the next; starts one if there is none. It
/// may take seconds.
pub(crate) fn replace(directory: &Path, before: Option<Child>) -> Replaced {
    let mut before = before;
    let status = before.as_mut().and_then(ended);
    let signal = status.and_then(|status| status.signal());
    let gone = "the guardian is gone".to_owned();
    let why = signal.map_or(gone, |signal| format!("the guardian was ended by signal {signal}"));
    // One that has hung up and goes on is found again.
    before = before.filter(|_| status.is_none());
    match connect(directory) {
        Ok(Launched { channel, child }) => {
            let is_new = if child.is_some() { IsNew::Yes } else { IsNew::No };
            Replaced { why, channel: Ok((channel, is_new)), child: child.or(before) }
        }
        Err(error) => Replaced { why, channel: Err(error), child: before },
    }
}

/// Ends a guardian of which nothing is a child yet: it would live for as long as it is connected.
pub(crate) fn kill(child: &mut Child) {
    // One that has ended needs no signal.
    drop(child.kill());
}

/// Takes the end of a guardian, if that comes soon.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let until = boot_time().plus(ENDS_WITHIN);
    loop {
        let status = child.try_wait().ok()?;
        if status.is_some() || boot_time() >= until {
            return status;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Connects to the guardian of `directory`; starts one if there is none.
///
/// # Errors
/// It cannot be started, or does not answer.
pub(crate) fn connect(directory: &Path) -> io::Result<Launched> {
    let mut last = io::Error::other("it went as soon as it came");
    // One that is just leaving makes room for the next.
    for _ in 0..100 {
        match try_connect(directory) {
            Ok(channel) => return Ok(Launched { channel, child: None }),
            Err(error) => last = error,
        }
        if is_free(directory)? {
            match start(directory) {
                Ok(mut child) => match try_connect(directory) {
                    Ok(channel) => return Ok(Launched { channel, child: Some(child) }),
                    Err(error) => {
                        last = error;
                        kill(&mut child);
                        let _ = ended(&mut child);
                    }
                },
                // Whoever asked may try again, and do something else first.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                Err(error) => last = error,
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(io::Error::other(format!("cannot reach the guardian of {}: {last}", directory.display())))
}

fn try_connect(directory: &Path) -> io::Result<Channel> {
    let (_directory, address) = address(directory)?;
    Channel::new(UnixStream::connect(address)?)
}

/// Whether no guardian lives.
fn is_free(directory: &Path) -> io::Result<bool> {
    let file = fs::File::create(directory.join(LOCK))?;
    Ok(file.try_lock().is_ok())
}

/// Starts a guardian from this very program, and waits until it listens.
fn start(directory: &Path) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME).current_dir(directory).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    if rustix::thread::transparent_huge_pages_are_disabled() == Ok(false) {
        command.env(SMALL_PAGES.0, SMALL_PAGES.1);
    }
    let mut child = command.spawn()?;
    let said = child.stdout.take().map_or(Ok(String::new()), first_line);
    let error = match said {
        Ok(said) if said.trim() == "ready" => return Ok(child),
        Ok(said) => io::Error::other(format!("the guardian did not start: {}", said.trim())),
        Err(error) => error,
    };
    kill(&mut child);
    let _ = ended(&mut child);
    Err(error)
}

/// What a guardian says when it has started.
fn first_line(mut stdout: ChildStdout) -> io::Result<String> {
    let until = boot_time().plus(LISTENS_WITHIN);
    let mut said = Vec::new();
    loop {
        let left = until.since(boot_time());
        let timeout = Timespec::try_from(left.as_duration()).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&stdout, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => {
                let why =
                    format!("a guardian that was started did not listen within {LISTENS_WITHIN}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 1024];
        let length = stdout.read(&mut bytes)?;
        said.extend_from_slice(&bytes[..length]);
        if length == 0 || said.contains(&b'\n') {
            return Ok(String::from_utf8_lossy(&said).into_owned());
        }
    }
}
