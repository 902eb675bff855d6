//! Removes what is over, on a thread of its own: large directories and busy cgroups take their time.

use std::{
    fs, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use sterna_model::RunId;

use super::{Command, Orders, measure::held, remove::remove_directory, spare::Spares};
use crate::{cgroup::Group, sink::Origin};

/// What the thread is told. There is at most one for each run at a time, so the channel needs no
/// bound.
#[derive(Debug)]
pub(super) enum Chore {
    /// Remove the groups of a run.
    Groups(Option<Group>),
    /// End whoever is in the groups of a run that nobody knows, and remove them.
    End(Group),
    /// Remove a directory.
    Directory(Removal),
    /// Keep the directory of a run for another, or remove it.
    Keep(Removal),
    /// Say how much a run's work directory holds, and that this is done.
    Measure(RunId, PathBuf, Arc<AtomicBool>),
}

/// A directory that is to go, and in whose log it stands if it does not.
#[derive(Clone, Debug)]
pub(super) struct Removal {
    pub(super) directory: PathBuf,
    pub(super) of: Option<(RunId, Origin)>,
}

impl Removal {
    /// What is left cannot go on for ever unnoticed: it is told, and the next worker tries again.
    fn make(self, orders: &Orders) {
        if let Err(error) = remove_directory(&self.directory) {
            orders.offer(Command::NotRemoved(Box::new(self), error.to_string()));
        }
    }
}

#[derive(Debug)]
pub(super) struct Sweeper {
    chores: Option<Sender<Chore>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// `ours` are the groups that all others lie in; they go at the end, if they are empty.
    pub(super) fn start(orders: Orders, ours: Vec<PathBuf>, spares: Spares) -> io::Result<Self> {
        let (chores, receiver) = channel();
        let builder = std::thread::Builder::new().name("sweeper".to_owned());
        let thread = builder.spawn(move || {
            sweep(&receiver, &orders, &spares);
            for group in ours {
                // Those that outlive this worker keep it.
                drop(fs::remove_dir(group));
            }
        })?;
        Ok(Self { chores: Some(chores), thread: Some(thread) })
    }

    pub(super) fn tell(&self, chore: Chore) {
        if let Some(chores) = &self.chores {
            // The thread ends only when this does.
            drop(chores.send(chore));
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.chores = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was shown when it happened.
            drop(thread.join());
        }
    }
}

fn sweep(chores: &Receiver<Chore>, orders: &Orders, spares: &Spares) {
    let mut busy: Vec<Group> = Vec::new();
    let mut ending: Vec<Group> = Vec::new();
    let mut tries = 200;
    loop {
        ending.retain(|group| {
            group.kill();
            group.remove().is_err()
        });
        let chore = if busy.is_empty() && ending.is_empty() {
            chores.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            chores.recv_timeout(Duration::from_millis(20))
        };
        match chore {
            Ok(Chore::Groups(group)) => {
                busy.extend(group.filter(|group| group.remove().is_err()));
            }
            Ok(Chore::End(group)) => ending.push(group),
            Ok(Chore::Directory(removal)) => removal.make(orders),
            Ok(Chore::Keep(removal)) => {
                if !spares.keep(&removal.directory).unwrap_or(false) {
                    removal.make(orders);
                }
            }
            Ok(Chore::Measure(run, directory, pending)) => {
                orders.offer(Command::Measured(run, held(&directory)));
                pending.store(false, Ordering::Relaxed);
            }
            // The kernel takes a moment to let go of what has ended.
            Err(RecvTimeoutError::Timeout) => busy.retain(|group| group.remove().is_err()),
            Err(RecvTimeoutError::Disconnected)
                if (busy.is_empty() && ending.is_empty()) || tries == 0 =>
            {
                return;
            }
            Err(RecvTimeoutError::Disconnected) => {
                // The worker ends: what is busy for long is left to the next one.
                tries -= 1;
                busy.retain(|group| group.remove().is_err());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
