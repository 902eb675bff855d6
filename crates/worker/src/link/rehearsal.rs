//! A worker on a real link whose containers are only said to be there: everything between a leader and
//! a worker, without the cost of processes. For benches.

use std::{collections::VecDeque, future::pending, time::Duration};

use sterna_executor::container::{Cause, End, Exit, State};
use sterna_model::{BootTime, Incarnation, Name, RunId, WorkKey, payload::RunReport};
use sterna_protocol::message::{FromLeader, FromWorker, StreamId};
use sterna_wire::{Address, Receiver, Sender, dial};
use tokio::time::sleep;

use super::{Begin, Broken, Description, Effect, Input, Keeper, Memory, RunNews, Tidings, payload};
use crate::{
    Isolation, Usage,
    clock::{boot_id, boot_time},
    directory::random,
};

/// How long an attempt to open a stream may take.
const DIAL_WITHIN: Duration = Duration::from_secs(5);

/// Who hears what becomes of the runs.
pub trait Audience: Send {
    /// A run of this key would begin now.
    fn begins(&mut self, key: &WorkKey);
    /// The leader has recorded the end of a run.
    fn is_recorded(&mut self);
    /// This worker says something.
    fn says(&mut self, text: &str);
}

/// Is a worker for as long as it is polled: every run that it is given begins at once, and ends at once
/// and well.
pub async fn rehearse(
    server: Address,
    name: Name,
    incarnation: Incarnation,
    description: Description,
    audience: &mut dyn Audience,
) {
    let boot = boot_id();
    let begin = Begin {
        servers: vec![server],
        name,
        incarnation,
        boot_number: payload::boot_number(&boot),
        boot,
        birth: random().map_or(1, u64::from_ne_bytes),
        facts: payload::facts(&description, Isolation::Tree, &[]),
        memory: Memory { seen: None, limits: None },
        confirmed: None,
        kept: Vec::new(),
        tidings: Tidings::default(),
        wants_drain: None,
    };
    let mut effects = Vec::new();
    let mut keeper = Keeper::new(boot_time(), begin, &mut effects);
    let mut stage = Stage { inputs: VecDeque::from([Input::Tick]), open: None, audience };
    loop {
        if !stage.perform(&mut effects).await {
            return;
        }
        let input = match stage.inputs.pop_front() {
            Some(input) => input,
            None => stage.next(keeper.deadline()).await,
        };
        let random = random().map_or(0, u64::from_ne_bytes);
        keeper.step(boot_time(), random, input, &mut effects);
    }
}

type Open = (StreamId, Sender<FromWorker>, Receiver<FromLeader>);

/// Where a worker would act.
struct Stage<'a> {
    inputs: VecDeque<Input>,
    open: Option<Open>,
    audience: &'a mut dyn Audience,
}

impl Stage<'_> {
    /// Does what the keeper says; gives whether the worker goes on.
    async fn perform(&mut self, effects: &mut Vec<Effect>) -> bool {
        let mut runs = Runs::default();
        for effect in effects.drain(..) {
            match effect {
                Effect::Dial(stream, address) => self.dial(stream, address).await,
                Effect::Send(stream, frame) => self.send(stream, frame),
                Effect::Close(stream) => drop(self.open.take_if(|(at, ..)| *at == stream)),
                Effect::AskGuardian(number) => runs.begun.answered = Some(number),
                Effect::Check(_) => self.inputs.push_back(Input::Checked(boot_time(), Ok(()))),
                // What it was told to keep comes before anything else that it hears.
                Effect::Keep(_) => self.inputs.push_front(Input::Kept(Vec::new())),
                Effect::Start(held, _) => {
                    self.audience.begins(&held.key);
                    runs.play(held.run);
                }
                Effect::Forget(_) => self.audience.is_recorded(),
                Effect::Say(remark) => self.audience.says(&remark.to_string()),
                Effect::Rebirth => {
                    let why = "it has one life".to_owned();
                    self.inputs.push_back(Input::Reborn(Err(why)));
                }
                Effect::Leave => return false,
                // What begins has ended before anybody could end it, and nothing outlives it.
                Effect::Stop(..)
                | Effect::Confirmed(_)
                | Effect::KillWait(_)
                | Effect::Remember(_)
                | Effect::ShutDown => {}
            }
        }
        self.inputs.extend(runs.inputs());
        true
    }

    async fn dial(&mut self, stream: StreamId, address: Address) {
        match dial(&address, DIAL_WITHIN).await {
            Ok((sender, receiver)) => {
                self.open = Some((stream, sender, receiver));
                self.inputs.push_back(Input::Opened(stream));
            }
            Err(error) => {
                let why = error.to_string();
                self.inputs.push_back(Input::NotOpened(stream, why, error.leader().cloned()));
            }
        }
    }

    fn send(&mut self, stream: StreamId, frame: FromWorker) {
        if let Some((at, sender, _)) = &self.open
            && *at == stream
            && let Err(error) = sender.send(frame)
        {
            self.open = None;
            self.inputs.push_back(Input::Over(stream, Broken::By(error.to_string())));
        }
    }

    /// Waits for whatever comes next.
    async fn next(&mut self, due: BootTime) -> Input {
        // A millisecond more, so that it is over and not just before.
        let wait = due.since(boot_time()).as_duration() + Duration::from_millis(1);
        let heard = async {
            match &mut self.open {
                Some((stream, _, receiver)) => (*stream, receiver.next().await),
                None => pending().await,
            }
        };
        tokio::select! {
            (stream, heard) = heard => match heard {
                Ok(Some(frame)) => Input::Frame(stream, frame),
                Ok(None) => Input::Over(stream, Broken::Ended),
                Err(error) => Input::Over(stream, Broken::By(error.to_string())),
            },
            () = sleep(wait) => Input::Tick,
        }
    }
}

/// What the containers would tell: that they run, then how they ended.
#[derive(Default)]
struct Runs {
    begun: Tidings,
    ended: Tidings,
}

impl Runs {
    fn play(&mut self, run: RunId) {
        let nothing = RunNews { state: None, is_ready: None, ports: None, report: None };
        let runs = RunNews { state: Some(State::Running), ..nothing.clone() };
        self.begun.runs.insert(run, runs);
        let end = End { cause: Cause::Exited, exit: Some(Exit::Code(0)) };
        let report = RunReport { end, usage: Usage::default(), status: None, result: None };
        self.ended.runs.insert(run, RunNews { report: Some(Box::new(report)), ..nothing });
    }

    fn inputs(self) -> impl Iterator<Item = Input> {
        let is_something = |tidings: &Tidings| *tidings != Tidings::default();
        [self.begun, self.ended].into_iter().filter(is_something).map(Input::Tidings)
    }
}
