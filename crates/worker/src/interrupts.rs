//! What a terminal or a supervisor asks of a worker by signals.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Signal, getpid, kill_process},
};

use crate::sys;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// TERM, INT, QUIT or HUP: end, and end what must end with the worker.
    End,
    /// TSTP (Ctrl-Z): stop every container, then call [`Interrupts::stop`].
    Stop,
    /// CONT: let them go on.
    Continue,
}

/// The signals of this process. To be made before any thread is, or those would be hit by them.
#[derive(Debug)]
pub struct Interrupts(sys::Signals);

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Interrupts {
    /// Takes the signals from now on.
    ///
    /// # Errors
    /// They cannot be taken.
    pub fn watch() -> io::Result<Self> {
        let signals = [
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGHUP,
            libc::SIGTSTP,
            libc::SIGCONT,
        ];
        Ok(Self(sys::watch(&signals)?))
    }

    /// The next one, if there is one.
    pub fn take(&self) -> Option<Interrupt> {
        match self.0.take()? {
            libc::SIGTSTP => Some(Interrupt::Stop),
            libc::SIGCONT => Some(Interrupt::Continue),
            _ => Some(Interrupt::End),
        }
    }

    /// Waits for the next one.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn wait(&self) -> io::Result<Interrupt> {
        loop {
            if let Some(interrupt) = self.take() {
                return Ok(interrupt);
            }
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Stops this process until it is told to go on.
    ///
    /// # Errors
    /// It cannot be stopped.
    pub fn stop() -> io::Result<()> {
        Ok(kill_process(getpid(), Signal::STOP)?)
    }
}
