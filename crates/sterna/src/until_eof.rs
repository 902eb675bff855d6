//! A process that ends with the one that started it: it holds the other end of its standard input, and
//! however it ends, that is closed.

use std::{
    io,
    io::Read,
    os::fd::{AsFd, OwnedFd},
    thread,
};

use anyhow::Context;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, getpid, kill_process},
};

use crate::rotate;

/// How often it is looked how long the log is, in seconds.
const LOOK_EVERY: i64 = 2;

/// Ends this process, as TERM does, when standard input ends. Gives a copy of it.
/// Its standard error is the log that whoever started it keeps, which is kept short.
pub(crate) fn watch() -> anyhow::Result<OwnedFd> {
    let owner = io::stdin().as_fd().try_clone_to_owned().context("there is no standard input")?;
    let watch = || {
        let mut ignored = [0; 256];
        let every = Timespec { tv_sec: LOOK_EVERY, tv_nsec: 0 };
        loop {
            let stdin = io::stdin();
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&every)) {
                // What cannot be put aside grows; there is nobody to tell.
                Ok(0) => drop(rotate::rotate(rotate::LONGEST)),
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) if matches!(stdin.lock().read(&mut ignored), Ok(0) | Err(_)) => {
                    break;
                }
                Ok(_) | Err(_) => {}
            }
        }
        // To itself it is always allowed.
        let _: Result<(), _> = kill_process(getpid(), Signal::TERM);
    };
    thread::Builder::new()
        .name("until-eof".to_owned())
        .spawn(watch)
        .map(|_| owner)
        .context("cannot watch standard input")
}
