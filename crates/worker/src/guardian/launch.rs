//! How a worker finds its guardian, or starts one.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    os::unix::{net::UnixStream, process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{Channel, LOCK, NAME, SMALL_PAGES, address};

/// A connection to a guardian.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) channel: Channel,
    /// The guardian, if it was started by this process, which must then take its end.
    pub(crate) child: Option<Child>,
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
                        child.wait()?;
                    }
                },
                Err(error) => last = error,
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
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
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut said)?;
    }
    if said.trim() == "ready" {
        return Ok(child);
    }
    child.wait()?;
    Err(io::Error::other(format!("the guardian did not start: {}", said.trim())))
}
