//! A process that ends with the one that started it: it holds the other end of its standard input, and
//! however it ends, that is closed.

use std::{
    io,
    io::Read,
    os::fd::{AsFd, OwnedFd},
    thread,
};

use anyhow::Context;
use rustix::process::{Signal, getpid, kill_process};

/// Ends this process, as TERM does, when standard input ends. Gives a copy of it.
pub(crate) fn watch() -> anyhow::Result<OwnedFd> {
    let owner = io::stdin().as_fd().try_clone_to_owned().context("there is no standard input")?;
    let watch = || {
        let mut ignored = [0; 256];
        while !matches!(io::stdin().read(&mut ignored), Ok(0) | Err(_)) {}
        // To itself it is always allowed.
        let _: Result<(), _> = kill_process(getpid(), Signal::TERM);
    };
    thread::Builder::new()
        .name("until-eof".to_owned())
        .spawn(watch)
        .map(|_| owner)
        .context("cannot watch standard input")
}
