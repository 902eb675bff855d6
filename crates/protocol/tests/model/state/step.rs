//! What happens in the small world: one choice, and everything that follows from it.

use sterna_model::{BootTime, Incarnation, RunId, TaskIncarnation, WallTime};
use sterna_protocol::{
    message::{Held, News, Order, Ordinal, StatusAnswer, StreamId},
    scheduler::{self, Claim, Dispatch, GoneBy, Settlement},
    worker,
};

use super::{
    Container, Frame, Key, LEASE, Machine, Stalled, State, Stored, Task, What, key, limits, lock,
    reign, work,
};
use crate::shared::Shared;

impl State {
    /// Sends a run of a key to a worker, claimed before if it must be.
    pub(crate) fn send(&mut self, key: Key, index: usize) {
        self.runs += 1;
        self.left.runs -= 1;
        let run = RunId::from_parts(WallTime::EPOCH, [self.runs; 10]);
        let to = self.workers[index].worker.incarnation();
        let is_task = key == Key::Task && !self.left.is_kept;
        let task = is_task.then(|| TaskIncarnation::from_parts(WallTime::EPOCH, [1; 10]));
        let contract = self.contract();
        if self.alive.values().any(|container| container.key == key) {
            self.broken.get_or_insert("P10");
        }
        let of = work(key, self.left.is_kept);
        let claim = Claim { holder: to, run, key: of.clone(), task, contract };
        match key {
            Key::Task => *self.stored.task.change() = Task::Claimed(claim),
            Key::Node => self.leader.node = Some(run),
        }
        let ordinal = Ordinal::default();
        let dispatch = Dispatch { to, run, key: of, task, contract, ordinal, work: [].into() };
        self.step_leader(scheduler::Input::Dispatch(vec![dispatch]));
    }

    /// A frame arrives, if its stream is still there.
    pub(crate) fn deliver(&mut self, frame: &Frame) {
        let stream = frame.stream;
        match &frame.what {
            What::Up(frame) => {
                let input = scheduler::Input::Frame(stream, frame.clone());
                let index = usize::from(frame.incarnation.lock == lock(1));
                match self.workers[index].stream {
                    Some((_, term)) if term != self.leader.term => self.step_old(input),
                    Some(_) | None => self.step_leader(input),
                }
            }
            What::Down(frame) => {
                let index = usize::from(frame.incarnation.lock == lock(1));
                self.step_worker(index, worker::Input::Frame(stream, frame.clone()));
            }
        }
    }

    /// The worker loses its stream, with all that is on it; its leader is not told.
    pub(crate) fn cut(&mut self, index: usize) {
        if let Some(stream) = self.hang_up(index) {
            self.step_worker(index, worker::Input::Closed(stream));
        }
    }

    fn hang_up(&mut self, index: usize) -> Option<StreamId> {
        let machine = &mut self.workers[index];
        let (stream, _) = machine.stream.take()?;
        self.stalled[index] = Stalled::NONE;
        machine.up.clear();
        machine.down.clear();
        self.late.retain(|frame| frame.stream != stream);
        Some(stream)
    }

    /// The worker opens a stream to the leader, in place of any that it has.
    pub(crate) fn dial(&mut self, index: usize) {
        self.hang_up(index);
        let machine = &mut self.workers[index];
        machine.opened += 1;
        // Of each machine by itself, so that it makes no difference who dials first.
        let stream = StreamId::new(u64::try_from(index).unwrap() * 100 + machine.opened);
        machine.stream = Some((stream, self.leader.term));
        self.step_worker(index, worker::Input::Opened(stream));
    }

    /// The machine is destroyed; its leader is not told.
    pub(crate) fn destroy(&mut self, index: usize) {
        self.hang_up(index);
        self.workers[index].is_destroyed = true;
        self.alive.retain(|_, container| container.machine != index);
    }

    /// Somebody who must know says that nothing on a machine runs any more.
    pub(crate) fn declare(&mut self, index: usize) {
        if let Some(entry) = self.stored.roster.change().get_mut(&lock(index)) {
            entry.is_declared_dead = true;
        }
        self.step_leader(scheduler::Input::DeclaredDead(lock(index)));
    }

    /// Somebody who must know says that nobody is missing from the roster.
    pub(crate) fn complete(&mut self) {
        self.step_leader(scheduler::Input::RosterIsComplete);
    }

    /// The store is set back to when so many machines were on its roster, and another leader opens the next
    /// epoch.
    pub(crate) fn restore(&mut self, enrolled: usize) {
        let epoch = self.stored.epoch + 1;
        self.stored = Stored { epoch, is_recovered: true, ..self.backup.clone() };
        self.stored
            .roster
            .change()
            .retain(|machine, _| (0..enrolled).any(|at| lock(at) == *machine));
        self.elect();
    }

    /// Another leader is elected, with what is stored. The one before is mute, and what it has said is
    /// still on its way to those who have not left it.
    pub(crate) fn elect(&mut self) {
        let next = reign(self.now, self.leader.term + 1, &self.stored, self.left.is_kept);
        let old = std::mem::replace(&mut self.leader, next);
        // It resigned, and is gone; or it was found mute, and lives on.
        self.old = old.is_cut_off.then_some(old);
        self.tell_nobody();
    }

    /// What was said to a leader that does not listen any more has arrived.
    fn tell_nobody(&mut self) {
        for index in 0..2 {
            if self.is_unheard(index) {
                for frame in std::mem::take(&mut self.workers[index].up) {
                    self.deliver(&frame);
                }
            }
        }
    }

    /// Whether a run is on its way, or may be sent: otherwise nothing can be started any more, and no
    /// promise can be broken.
    pub(crate) fn may_start_something(&self) -> bool {
        let is_run = |frame: &Shared<Frame>| match &frame.what {
            What::Up(_) => false,
            What::Down(frame) => matches!(frame.order, Order::Run(_)),
        };
        let queues = self.workers.iter().flat_map(|machine| &machine.down);
        self.left.runs > 0 || queues.chain(&self.late).any(is_run)
    }

    /// Lets time pass until then, or until something is said that may be lost.
    pub(crate) fn pass(&mut self, until: u64, stalled: [Stalled; 2]) {
        self.stalled = stalled;
        self.is_interrupted = false;
        while self.now < until && !self.is_interrupted {
            self.now = self.next_event().clamp(self.now + 1, until);
            self.ring();
        }
        self.is_interrupted = false;
        self.tell_nobody();
    }

    fn next_event(&self) -> u64 {
        let workers = self.workers.iter().filter(|machine| !machine.is_destroyed);
        let workers = workers.map(|machine| machine.worker.deadline());
        let ends = self.alive.values().filter_map(|container| container.end_at);
        let deadlines = workers.chain([self.leader.fleet.deadline()]);
        deadlines.map(BootTime::as_millis).chain(ends).min().unwrap_or(u64::MAX)
    }

    fn ring(&mut self) {
        let now = self.now;
        let is_due = |container: &Container| container.end_at.is_some_and(|end| now >= end);
        let due = self.alive.iter().filter(|(_, container)| is_due(container));
        for (run, machine) in due.map(|(run, one)| (*run, one.machine)).collect::<Vec<_>>() {
            self.alive.remove(&run);
            self.step_worker(machine, worker::Input::Ended(run, [].into()));
        }
        if self.leader.fleet.deadline() <= self.at() {
            if !self.leader.is_cut_off {
                let until = self.at().plus(LEASE);
                self.leader.lease_until = until.as_millis();
                self.step_leader(scheduler::Input::Lease(until));
            }
            self.step_leader(scheduler::Input::Tick);
        }
        for index in 0..2 {
            let machine = &self.workers[index];
            if !machine.is_destroyed && machine.worker.deadline() <= self.at() {
                self.step_worker(index, worker::Input::Tick);
            }
        }
    }

    fn push(&mut self, stream: StreamId, what: What) {
        let is_on = |machine: &Machine| machine.stream.is_some_and(|(on, _)| on == stream);
        let Some(index) = self.workers.iter().position(is_on) else { return };
        let frame = Frame { stream, what };
        let is_stalled = match &frame.what {
            What::Up(_) => self.stalled[index].up,
            What::Down(_) => self.stalled[index].down,
        };
        let is_heartbeat = frame.what.is_heartbeat();
        // Said again until it is answered: that it is lost matters only while frames can be lost.
        let is_repeated = is_heartbeat || frame.what.is_status() && !self.left.has_frame_faults();
        let is_to_nobody = matches!(frame.what, What::Up(_)) && self.is_unheard(index);
        if is_to_nobody || is_repeated && !is_stalled {
            return self.deliver(&frame);
        }
        let frame = Shared::new(frame);
        let machine = &mut self.workers[index];
        let queue = match &frame.what {
            What::Up(_) => &mut machine.up,
            What::Down(_) => &mut machine.down,
        };
        // Of heartbeats that are held up only the last arrives.
        queue.retain(|other| !(is_heartbeat && other.what.is_heartbeat()));
        // What is said again while it is on its way is one.
        if !queue.contains(&frame) {
            queue.push(frame);
            self.is_interrupted |= !is_stalled;
        }
    }

    fn step_leader(&mut self, input: scheduler::Input) {
        let now = self.at();
        let mut effects = Vec::new();
        self.leader.fleet.change().step(now, input, &mut effects);
        for effect in effects {
            self.perform_above(effect);
        }
    }

    /// The leader before hears something, and must keep it to itself.
    fn step_old(&mut self, input: scheduler::Input) {
        let now = self.at();
        let Some(old) = &mut self.old else { return };
        let mut effects = Vec::new();
        old.fleet.change().step(now, input, &mut effects);
        for effect in effects {
            if let scheduler::Effect::Send(stream, frame) = effect {
                self.push(stream, What::Down(frame));
            } else {
                self.broken.get_or_insert("a mute leader concludes nothing");
            }
        }
    }

    fn perform_above(&mut self, effect: scheduler::Effect) {
        use scheduler::{Effect, Input};
        match effect {
            Effect::Send(stream, frame) => self.push(stream, What::Down(frame)),
            Effect::Enroll(entry) => {
                let incarnation = entry.incarnation;
                self.stored.roster.change().insert(incarnation.lock, entry);
                self.step_leader(Input::Enrolled(incarnation));
            }
            Effect::Strike(life) => {
                self.stored.roster.change().remove(&life.lock);
                self.step_leader(Input::Struck(life));
            }
            Effect::Settled(run, settlement) => {
                let is_over = match settlement {
                    Settlement::NotSent(_)
                    | Settlement::Refused(_)
                    | Settlement::Gone(GoneBy::NeverCame) => false,
                    Settlement::Gone(
                        GoneBy::Deadline | GoneBy::Absence | GoneBy::Reboot | GoneBy::Declaration,
                    ) => true,
                };
                self.release(run, is_over);
            }
            Effect::Found(holder, held) => match key(&held.key) {
                Key::Node if self.leader.node.is_none() => self.leader.node = Some(held.run),
                Key::Task if self.left.is_kept && *self.stored.task == Task::Pending => {
                    let Held { run, key, task, contract, .. } = held;
                    let claim = Claim { holder, run, key, task, contract };
                    *self.stored.task.change() = Task::Claimed(claim);
                }
                Key::Node | Key::Task => {}
            },
            Effect::Reported(report) => {
                match report.news {
                    News::Progress(_) => {}
                    News::Ended(_) => self.release(report.run, true),
                    News::WasNotRunning => self.release(report.run, false),
                }
                let (from, run, number) = (report.from, report.run, report.number);
                self.step_leader(Input::Recorded(from, run, number, StatusAnswer::Recorded));
            }
            Effect::Healed if self.stored.is_recovered => self.stored.is_recovered = false,
            Effect::Raise(_) | Effect::Healed => {
                self.broken.get_or_insert("no mark was set back");
            }
            Effect::StoreLags(..) => drop(self.broken.get_or_insert("the store is as it was")),
            Effect::Close(_)
            | Effect::Revive(_)
            | Effect::Silent(_)
            | Effect::Heard(_)
            | Effect::Health(..)
            | Effect::Facts(..)
            | Effect::WantsDrain(..)
            | Effect::Opened(_)
            | Effect::Alarm(..)
            | Effect::Retired(_) => {}
        }
    }

    fn release(&mut self, run: RunId, is_over: bool) {
        if matches!(&*self.stored.task, Task::Claimed(claim) if claim.run == run) {
            let is_over = is_over && !self.left.is_kept;
            *self.stored.task.change() = if is_over { Task::Ended } else { Task::Pending };
        }
        if self.leader.node == Some(run) {
            self.leader.node = None;
        }
    }

    fn step_worker(&mut self, index: usize, input: worker::Input) {
        let now = self.at();
        let mut effects = Vec::new();
        self.workers[index].worker.change().step(now, input, &mut effects);
        for effect in effects {
            self.perform_below(index, effect);
        }
    }

    fn perform_below(&mut self, index: usize, effect: worker::Effect) {
        use worker::{Effect, Input};
        match effect {
            Effect::AskGuardian(number) => {
                self.step_worker(index, Input::GuardianAnswered(number));
            }
            Effect::Check => self.step_worker(index, Input::Checked(self.at())),
            Effect::Send(stream, frame) => self.push(stream, What::Up(frame)),
            Effect::Start(run) => self.start(index, key(&run.key), run.run),
            Effect::Stop(run, _) => {
                let end = self.now + limits(self.left.is_kept).kill_wait.as_millis();
                if let Some(container) = self.alive.get_mut(&run) {
                    container.end_at = Some(container.end_at.map_or(end, |at| at.min(end)));
                }
            }
            Effect::Rebirth => {
                let machine = &mut self.workers[index];
                machine.life += 1;
                let next = Incarnation { lock: lock(index), life: machine.life };
                self.step_worker(index, Input::Reborn(next));
            }
            Effect::Close(_)
            | Effect::Forget(_)
            | Effect::Confirmed(_)
            | Effect::Remember(..)
            | Effect::Limits(_)
            | Effect::Alarm(_) => {}
        }
    }

    fn start(&mut self, machine: usize, key: Key, run: RunId) {
        let is_task = key == Key::Task && !self.left.is_kept;
        if is_task && std::mem::replace(&mut self.has_started_task, true) {
            self.broken.get_or_insert("P1");
        }
        if self.alive.values().any(|container| container.key == key) {
            self.broken.get_or_insert("P2");
        }
        self.alive.insert(run, Container { key, machine, end_at: None });
    }
}
