//! The loop that waits, asks the keeper, and does what it says.

use std::{
    collections::VecDeque,
    error::Error,
    future::pending,
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use sterna_model::{BootTime, Span};
use sterna_protocol::message::{FromLeader, FromWorker, StreamId};
use sterna_wire::{
    Address, Arrived, DialError, FrameError, Receiver, SendError, Sender, StreamError, dial,
};
use tokio::{io::unix::AsyncFd, task::JoinSet, time::sleep};

use super::{
    Broken, Effect, Input, Keeper, Say, asides::Asides, check::check, mailbox::Mailbox,
    table::Table,
};
use crate::{
    clock::{boot_time, wall_time},
    containers::Containers,
    directory::{Directory, random},
    interrupts::{Interrupt, Interrupts},
    sys,
};

/// How long an attempt to open a stream may take.
const DIAL_WITHIN: Duration = Duration::from_secs(5);

/// Everything that the loop has.
pub(super) struct Driver<'a> {
    keeper: Keeper,
    directory: Directory,
    containers: Containers,
    table: Table,
    mailbox: Mailbox,
    asides: Asides,
    interrupts: Interrupts,
    interrupted: AsyncFd<OwnedFd>,
    /// At most one: an attempt to open a stream.
    dialling: JoinSet<(StreamId, Dialled)>,
    open: Option<Open>,
    /// At most one: a check that does not end is none.
    checks: JoinSet<(BootTime, Result<(), String>)>,
    say: Say<'a>,
    inputs: VecDeque<Input>,
    is_over: bool,
}

type Dialled = Result<(Sender<FromWorker>, Receiver<FromLeader>), DialError>;

struct Open {
    stream: StreamId,
    sender: Sender<FromWorker>,
    receiver: Receiver<FromLeader>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        keeper: Keeper,
        directory: Directory,
        containers: Containers,
        table: Table,
        (mailbox, asides): (Mailbox, Asides),
        interrupts: Interrupts,
        say: Say<'a>,
    ) -> io::Result<Self> {
        Ok(Self {
            keeper,
            directory,
            containers,
            table,
            mailbox,
            asides,
            interrupted: sys::readable(interrupts.as_fd().try_clone_to_owned()?)?,
            interrupts,
            dialling: JoinSet::new(),
            open: None,
            checks: JoinSet::new(),
            say,
            inputs: VecDeque::from([Input::Tick]),
            is_over: false,
        })
    }

    /// Works until the keeper leaves. `effects` are what it begins with.
    pub(super) async fn work(mut self, mut effects: Vec<Effect>) {
        loop {
            for effect in effects.drain(..) {
                self.perform(effect);
            }
            if self.is_over {
                return;
            }
            let input = match self.inputs.pop_front() {
                Some(input) => input,
                None => self.next().await,
            };
            let random = u64::from_ne_bytes(random().unwrap_or_default());
            self.keeper.step(boot_time(), random, input, &mut effects);
        }
    }

    /// Waits for whatever comes next.
    async fn next(&mut self) -> Input {
        // A millisecond more, so that it is over and not just before.
        let wait = self.keeper.deadline().since(boot_time()).plus(Span::from_millis(1));
        tokio::select! {
            biased;
            interrupt = interrupt(&self.interrupts, &self.interrupted) => self.heed(interrupt),
            () = self.mailbox.changed() => Input::Tidings(self.mailbox.take()),
            Some(dialled) = self.dialling.join_next() => self.dialled(dialled.ok()),
            Some(checked) = self.checks.join_next() => checked.map_or(Input::Tick, |(began, how)| Input::Checked(began, how)),
            input = heard(&mut self.open) => self.heard(input),
            (stream, answer) = self.asides.next() => {
                let open = self.open.as_ref().filter(|open| open.stream == stream);
                // Who was reborn since has nothing to say as who it was.
                if let Some(open) = open.filter(|_| self.keeper.hears(&answer)) {
                    // A stream that takes nothing is found out by who speaks on it.
                    drop(open.sender.aside(&answer));
                }
                Input::Tick
            }
            () = sleep(wait.as_duration()) => Input::Tick,
        }
    }

    fn heed(&mut self, interrupt: Interrupt) -> Input {
        match interrupt {
            Interrupt::End => Input::End,
            Interrupt::Stop => {
                self.containers.freeze(true);
                // If this process cannot be stopped, its containers are to go on with it.
                if Interrupts::stop().is_err() {
                    self.containers.freeze(false);
                }
                Input::Tick
            }
            Interrupt::Continue => {
                self.containers.freeze(false);
                Input::Tick
            }
        }
    }

    fn dialled(&mut self, dialled: Option<(StreamId, Dialled)>) -> Input {
        match dialled {
            Some((stream, Ok((sender, receiver)))) => {
                self.open = Some(Open { stream, sender, receiver });
                Input::Opened(stream)
            }
            Some((stream, Err(error))) => {
                Input::NotOpened(stream, because(&error), error.leader().cloned())
            }
            None => Input::Tick,
        }
    }

    fn heard(&mut self, (stream, heard): (StreamId, Heard)) -> Input {
        let broken = match heard {
            Ok(Some(Arrived::Message(frame))) => return Input::Frame(stream, frame),
            Ok(Some(Arrived::Aside(question))) => {
                if self.keeper.hears(&question) {
                    self.asides.ask(stream, question);
                }
                return Input::Tick;
            }
            Ok(None) => Broken::Ended,
            Err(StreamError::Frame(FrameError::Version { theirs })) => Broken::Version(theirs),
            Err(error) => Broken::By(because(&error)),
        };
        self.open = None;
        Input::Over(stream, broken)
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Dial(stream, address) => self.dial(stream, address),
            Effect::Send(stream, frame) => self.send(stream, frame),
            Effect::Close(stream) => {
                self.open.take_if(|open| open.stream == stream);
            }
            Effect::AskGuardian(number) => self.containers.ping(number),
            Effect::Check(within) => {
                if self.checks.is_empty() {
                    let began = boot_time();
                    let within = within.as_duration();
                    // Who cannot keep a run must not be given any.
                    let kept = self.table.probe().map_err(|error| unkept(&error));
                    self.checks.spawn(async move { (began, kept.and(check(within).await)) });
                }
            }
            Effect::Keep(runs) => {
                let failed = self.table.hold_all(&runs).into_iter();
                let failed = failed.map(|(run, error)| (run, unkept(&error))).collect();
                // Before anything else that has happened: an answer waits for it.
                self.inputs.push_front(Input::Kept(failed));
            }
            Effect::Start(held, work) => self.containers.start(held.run, *work),
            Effect::Stop(run, cause, how) => self.containers.stop(run, cause, how),
            Effect::Forget(run) => {
                if let Err(error) = self.table.forget(run) {
                    self.tell(&format!("cannot forget {run}: {error}"));
                }
                self.containers.acknowledge(run);
            }
            Effect::Confirmed(stamp) => self.containers.confirmed(stamp),
            Effect::KillWait(span) => self.containers.kill_wait(span),
            Effect::Remember(memory) => {
                if let Err(error) = self.table.remember(memory) {
                    self.inputs.push_back(Input::NotRemembered(error.to_string()));
                }
            }
            Effect::Rebirth => {
                let reborn = self.directory.be_reborn().map_err(|error| because(&error));
                if let Ok(incarnation) = reborn {
                    self.containers.reborn(incarnation);
                }
                self.inputs.push_back(Input::Reborn(reborn));
            }
            Effect::Say(remark) => self.tell(&remark.to_string()),
            Effect::ShutDown => self.containers.shut_down(),
            Effect::Leave => self.is_over = true,
        }
    }

    fn dial(&mut self, stream: StreamId, address: Address) {
        self.open = None;
        self.dialling.abort_all();
        self.dialling.spawn(async move { (stream, dial(&address, DIAL_WITHIN).await) });
    }

    fn send(&mut self, stream: StreamId, frame: FromWorker) {
        let Some(open) = self.open.as_ref().filter(|open| open.stream == stream) else { return };
        match open.sender.send(frame) {
            Ok(()) => {}
            Err(SendError::Frame(error)) => self.inputs.push_back(Input::Unsaid(because(&error))),
            Err(error) => {
                self.open = None;
                self.inputs.push_back(Input::Over(stream, Broken::By(because(&error))));
            }
        }
    }

    fn tell(&mut self, text: &str) {
        (self.say)(wall_time(), text);
    }
}

type Heard = Result<Option<Arrived<FromLeader>>, StreamError>;

/// What comes on the open stream; nothing if there is none.
async fn heard(open: &mut Option<Open>) -> (StreamId, Heard) {
    match open {
        Some(open) => (open.stream, open.receiver.arrive().await),
        None => pending().await,
    }
}

async fn interrupt(interrupts: &Interrupts, readable: &AsyncFd<OwnedFd>) -> Interrupt {
    loop {
        if let Some(interrupt) = interrupts.take() {
            return interrupt;
        }
        // Cleared only when nothing is there: what came in between is ready again.
        match readable.readable().await {
            Ok(mut ready) => match interrupts.take() {
                Some(interrupt) => return interrupt,
                None => ready.clear_ready(),
            },
            Err(_) => return pending().await,
        }
    }
}

/// For people.
fn unkept(error: &io::Error) -> String {
    let kind = error.kind();
    let remedy = if [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&kind) {
        "make room there"
    } else if kind == io::ErrorKind::ReadOnlyFilesystem {
        "make its file system writable"
    } else {
        "look at its disk"
    };
    format!("no run can be kept in the data directory: {error}; {remedy}")
}

/// Everything that an error says, cause after cause.
fn because(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text += &format!(": {next}");
        cause = next.source();
    }
    text
}
