//! All containers of this worker: what is asked of them, what became of them, and the thread that
//! drives their cores.
//!
//! ```text
//!   whoever asks ──Command──▶ driver ── words ──▶ guardian ── containers
//!                ◀──Event───   │  ▲                               │
//!                              ▼  └── pipes are closed ── output ◀┘ pipes
//!                           sweeper: removes what is over
//! ```
//!
//! Invariant: a run is complete when every process of it is gone and its pipes are closed; its end
//! then stands on the disk, and is told again by every worker until it is acknowledged.
//!
//! Invariant: whatever a run has is given back when it ends, however it ends.
//!
//! It does not know leaders and links: it is told when a heartbeat was confirmed.

mod adopt;
mod check;
mod driver;
mod ending;
mod fates;
mod image;
mod live;
mod measure;
mod output;
mod pipes;
mod ports;
mod prepare;
mod probe;
mod remove;
mod replace;
mod result;
mod spare;
mod stored;
mod sweeper;
mod users;
mod walk;

use std::{
    io,
    ops::RangeInclusive,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use rustix::event::{EventfdFlags, eventfd};
use sterna_executor::{
    container::{Cause, How, State},
    monitor::ProbeId,
    ward::Question,
};
use sterna_model::{
    BootTime, Incarnation, RunId, Span,
    payload::{RunReport, Signal, To, Work},
};

pub(crate) use self::spare::spare_journal;
use self::{
    driver::{Driver, Ends, Place},
    sweeper::Removal,
};
use crate::{
    cgroup::{Cgroups, Isolation},
    directory::Directory,
    guardian,
    machine::Files,
    oci::Runtime,
    sink::Sinks,
};

/// How a worker holds its containers.
#[derive(Clone, Debug)]
pub struct Options {
    /// The best way of telling runs apart that may be used.
    pub isolation: Isolation,
    /// Ports for containers.
    pub ports: RangeInclusive<u16>,
    /// Between TERM and KILL at deadlines, and when the worker is gone.
    pub kill_wait: Span,
    /// Between two looks at what containers use.
    pub sample_every: Span,
    /// What runs images.
    pub runtime: Option<Runtime>,
    /// How many files each process of a run may have open, if its work does not say.
    pub files: Files,
    /// The pipe of whoever owns this worker: when its other end is closed, nothing is kept for a next
    /// worker.
    pub owner: Option<Arc<OwnedFd>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            isolation: Isolation::Cgroup2,
            ports: 20_000..=29_999,
            kill_wait: Span::from_secs(5),
            sample_every: Span::from_secs(5),
            runtime: None,
            files: Files::own(),
            owner: None,
        }
    }
}

/// Something worth knowing of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is in this state now; told again of every run that was adopted.
    Became(RunId, State),
    /// Whether it takes requests has changed.
    Readiness(RunId, bool),
    /// It was given these ports, by their names.
    Ports(RunId, Vec<(String, u16)>),
    /// It is over; to be acknowledged.
    Completed(RunId, Box<RunReport>),
    /// The guardian has answered.
    GuardianAnswered(u64),
    /// The guardian is gone, for this reason, and another one has taken over.
    GuardianReplaced(String),
    /// The directory of a run that is over is left, for this reason; the next worker tries again.
    NotRemoved(PathBuf, String),
    /// What must end with this worker has ended.
    ShutDown,
}

/// What is asked of the driver.
#[derive(Debug)]
enum Command {
    Start(RunId, Box<Work>),
    Stop(RunId, Cause, How),
    Signal(RunId, Signal, To),
    Acknowledge(RunId),
    Confirmed(BootTime),
    KillWait(Span),
    Ping(u64),
    Adopt(Incarnation),
    Freeze(bool, SyncSender<()>),
    ShutDown,
    Drained(RunId, Option<String>),
    /// How much a work directory holds, if that could be found out.
    Measured(RunId, Option<u64>),
    /// A directory could not be removed, for this reason.
    NotRemoved(Box<Removal>, String),
    Probed(RunId, Question, ProbeId, bool),
    /// Another guardian was looked for.
    Replaced(Box<guardian::Replaced>),
    End,
}

/// Takes events, on the driver's own thread: it must not wait for the driver.
pub type Listener = Box<dyn FnMut(Event) + Send>;

/// All containers of this worker. Dropped, it lets go of them as a killed worker would.
#[derive(Debug)]
pub struct Containers {
    orders: Orders,
    isolation: Isolation,
    missing: Vec<String>,
    thread: Option<JoinHandle<()>>,
}

/// The way to the driver. The channel is bounded: who asks faster than the driver works, waits.
#[derive(Clone, Debug)]
struct Orders {
    commands: SyncSender<Command>,
    wake: Arc<OwnedFd>,
    /// Whether the driver waits, so that it must be woken.
    is_asleep: Arc<AtomicBool>,
}

impl Orders {
    fn send(&self, command: Command) {
        // The driver ends only when it is told to, or when nothing can be asked of it any more.
        drop(self.commands.send(command));
        self.wake();
    }

    /// For what may as well be told later, by a thread that the driver waits for when it ends.
    fn offer(&self, command: Command) {
        if self.commands.try_send(command).is_ok() {
            self.wake();
        }
    }

    fn wake(&self) {
        // What was asked must be there before it is looked whether the driver sleeps.
        fence(Ordering::SeqCst);
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    /// For the driver, before it waits: whoever asks from now on wakes it. Gives what was asked just
    /// before that, for which nobody does.
    fn fall_asleep(&self, commands: &Receiver<Command>) -> Option<Command> {
        self.is_asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        commands.try_recv().ok()
    }

    /// For the driver, after it has waited.
    fn wake_up(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }
}

impl Containers {
    /// Finds the guardian, or starts one; adopts what is there, and ends every other leftover of
    /// earlier lives. What was adopted, and every end that is not acknowledged yet, is told to
    /// `listener` before this returns.
    ///
    /// # Errors
    /// There is no guardian, and none can be started.
    pub fn open(
        directory: &Directory,
        options: Options,
        sinks: Box<dyn Sinks>,
        listener: Listener,
    ) -> io::Result<Self> {
        let layout = directory.layout();
        let cgroups = Cgroups::discover(&layout.group, options.isolation);
        let (isolation, missing) = (cgroups.isolation(), cgroups.missing().to_vec());
        let launched = guardian::connect(&layout.path)?;
        let (commands, receiver) = sync_channel(1024);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let orders = Orders { commands, wake, is_asleep: Arc::default() };
        let at = Place::new(layout, directory.incarnation())?;
        let ends = Ends { orders: orders.clone(), sinks, listener };
        let mut driver = Driver::new(at, options, cgroups, launched, ends)?;
        driver.adopt_all()?;
        let builder = std::thread::Builder::new().name("containers".to_owned());
        let thread = builder.spawn(move || driver.work(receiver))?;
        Ok(Self { orders, isolation, missing, thread: Some(thread) })
    }

    /// How runs are told apart here.
    pub const fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// What this machine cannot do for its runs, each in a sentence.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Starts a run. Whether it could be started is told as its end, if not.
    pub fn start(&self, run: RunId, work: Work) {
        self.orders.send(Command::Start(run, Box::new(work)));
    }

    /// Ends a run; may be asked again, and is never undone.
    pub fn stop(&self, run: RunId, cause: Cause, how: How) {
        self.orders.send(Command::Stop(run, cause, how));
    }

    /// Sends a signal to a run.
    pub fn signal(&self, run: RunId, signal: Signal, to: To) {
        self.orders.send(Command::Signal(run, signal, to));
    }

    /// The end of this run is recorded where it matters: everything of it but its log is removed.
    pub fn acknowledge(&self, run: RunId) {
        self.orders.send(Command::Acknowledge(run));
    }

    /// The heartbeat with this stamp was confirmed: deadlines count from it.
    pub fn confirmed(&self, stamp: BootTime) {
        self.orders.send(Command::Confirmed(stamp));
    }

    /// Between TERM and KILL at deadlines, and when the worker is gone.
    pub fn kill_wait(&self, span: Span) {
        self.orders.send(Command::KillWait(span));
    }

    /// Asks the guardian whether it is well; the answer is an event with this number.
    pub fn ping(&self, number: u64) {
        self.orders.send(Command::Ping(number));
    }

    /// This worker is reborn; its containers stay.
    pub fn reborn(&self, incarnation: Incarnation) {
        self.orders.send(Command::Adopt(incarnation));
    }

    /// Stops every container where it is, or lets it go on. Deadlines run on. When this returns, the
    /// guardian has the order, even if this process is stopped next; or it is done, if there is none.
    pub fn freeze(&self, is_frozen: bool) {
        let (done, is_done) = sync_channel(1);
        self.orders.send(Command::Freeze(is_frozen, done));
        // A driver that has ended has no containers.
        let _ = is_done.recv();
    }

    /// Ends what must end with this worker; the last event tells that it is done.
    pub fn shut_down(&self) {
        self.orders.send(Command::ShutDown);
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        self.orders.send(Command::End);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was shown when it happened.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_driver_that_waits_is_woken_and_it_is_whenever_something_is_asked() {
        let (commands, receiver) = sync_channel(8);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let orders = Orders { commands, wake: Arc::new(wake), is_asleep: Arc::default() };
        let is_woken = || rustix::io::read(&orders.wake, &mut [0; 8]).is_ok();
        orders.send(Command::Ping(1));
        assert!(!is_woken(), "it is at work");
        assert!(matches!(orders.fall_asleep(&receiver), Some(Command::Ping(1))), "it is heard");
        orders.send(Command::Ping(2));
        assert!(is_woken());
        orders.send(Command::Ping(3));
        assert!(!is_woken(), "it was woken already");
        orders.wake_up();
        assert_eq!(receiver.try_iter().count(), 2);
        assert!(orders.fall_asleep(&receiver).is_none());
        orders.offer(Command::Ping(4));
        assert!(is_woken());
    }
}
