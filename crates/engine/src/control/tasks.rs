//! The life of a task, from its record to its callback.

use std::sync::Arc;

use sterna_model::{
    RunId, Span, TaskIncarnation, TaskKey, WallTime,
    planted::{Mistake, is_planted},
    record::{Placed, Task, TaskEnd, TaskPhase, TaskState},
    spec::{TaskSpec, WhenFull},
};
use sterna_protocol::message::{Kill, News};

use super::{
    Alarm, Answer, CallId, Callback, Called, Control, Effect, Now, Row, Timer, payload,
    services::TURNED_DOWN,
};
use crate::tables::task as table;

/// How often a callback is tried.
const CALLBACKS_MAX: u32 = 8;
/// How long to wait before the second try; twice as long before each further one.
const CALLBACK_WAIT: Span = Span::from_secs(1);

/// A callback that is being tried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Telling {
    /// How often it was not taken.
    pub(super) tries: u32,
    /// When it is tried next; `None` while one is on its way.
    pub(super) next: Option<WallTime>,
}

impl Control {
    pub(super) fn write_task(&mut self, key: &TaskKey) {
        self.touch(&key.to_work());
        self.tasks.mind(key);
        self.outbox.write(Row::Task(key.clone(), self.tasks.get(key).cloned()));
    }

    pub(super) fn create_task(
        &mut self,
        now: Now,
        id: CallId,
        key: &TaskKey,
        incarnation: TaskIncarnation,
        spec: Arc<TaskSpec>,
    ) {
        let is_free = |task: &Task| is_planted(Mistake::FreesNames) && task.end().is_some();
        let known = self.tasks.get(key).filter(|(task, _)| !is_free(task));
        let known = known.map(|(task, _)| task.incarnation());
        let known = known.or_else(|| self.tasks.tombstone(key).map(|stone| stone.incarnation));
        if let Some(known) = known {
            // The same call again is answered as the first was.
            let answer = if known == incarnation { Answer::Already } else { Answer::Taken(known) };
            return self.answer(id, answer);
        }
        if let Some(wrong) = self.limits_forbid(&key.to_string(), spec.contract) {
            return self.answer(id, Answer::BadSpec(wrong));
        }
        if let Some(at) = spec.latest_start.filter(|at| *at <= now.wall) {
            let wrong = format!(
                "its latest start, {at}, has passed: it is {now}; give it a later one, or none",
                now = now.wall
            );
            return self.answer(id, Answer::BadSpec(wrong));
        }
        if let Some(at) = spec.latest_start
            && !is_planted(Mistake::ForgetsLatestStarts)
        {
            self.timers.set(at, Timer::Task(key.clone()));
        }
        self.allow_for(&key.to_work(), spec.contract);
        let task = Task::new(incarnation, self.epoch, now.wall);
        self.tasks.insert(key.clone(), (task, spec));
        self.write_task(key);
        self.answer(id, Answer::Done);
        if !is_planted(Mistake::ForgetsPending) {
            self.ask(&key.to_work());
        }
    }

    /// Goes on with a task of an earlier leader.
    pub(super) fn take_over_task(&mut self, now: Now, key: &TaskKey) {
        if let Some(run) = self.tasks.get(key).and_then(|(task, _)| task.lost()) {
            self.tasks.note_lost(run, key);
        }
        let Some((task, spec)) = self.tasks.get(key) else { return };
        if let Some(at) = spec.latest_start
            && task.phase() == TaskPhase::Pending
        {
            self.timers.set(at, Timer::Task(key.clone()));
        }
        match task.phase() {
            // It may have run before the store was restored (safety rule 25).
            TaskPhase::Pending
                if task.epoch() < self.epoch && !is_planted(Mistake::RestartsAfterRestore) =>
            {
                self.finish_task(now, key, TaskEnd::UnknownAfterRestore);
            }
            TaskPhase::Pending => {
                let contract = spec.contract;
                let work = key.to_work();
                self.allow_for(&work, contract);
                self.ask(&work);
            }
            TaskPhase::Running => {}
            TaskPhase::Completed => self.task_is_over(now, key),
            // Whoever told its end is gone.
            TaskPhase::Resolving => {
                self.hand_over(key);
                self.task_is_over(now, key);
            }
        }
        self.tasks.mind(key);
    }

    /// What the record says of a task, from the worker that has this run.
    pub(super) fn task_seen_from(
        &self,
        key: &TaskKey,
        incarnation: Option<TaskIncarnation>,
        run: RunId,
    ) -> table::Record {
        let known = self.tasks.get(key).map(|(task, _)| task);
        // Another life of it is another task.
        let Some(task) = known.filter(|task| Some(task.incarnation()) == incarnation) else {
            return table::Record::Missing;
        };
        match task.state() {
            TaskState::Pending => table::Record::Pending,
            TaskState::Running { placed, .. } if placed.run == run => table::Record::RunningHere,
            TaskState::Running { .. } => table::Record::RunningElsewhere,
            TaskState::Completed { .. } => table::Record::Completed,
            TaskState::Resolving { .. } => table::Record::Resolving,
        }
    }

    /// A task that waits was found to run: its record is made to say so.
    pub(super) fn adopt_task(&mut self, now: Now, key: &TaskKey, placed: Placed) {
        let (run, on) = (placed.run, placed.on);
        let Some((task, _)) = self.tasks.get_mut(key) else { return };
        if task.claim(placed, now.wall).is_ok() {
            let work = key.to_work();
            self.withdraw(&work);
            self.seat(run, work, on);
            self.write_task(key);
        }
    }

    /// A run of a task was found that the restored store does not know, or takes for unknown: it runs
    /// on. Where nothing else has its name, it gets a record; of what it does nobody knows more.
    pub(super) fn keep_found(
        &mut self,
        now: Now,
        key: &TaskKey,
        incarnation: Option<TaskIncarnation>,
        placed: Placed,
    ) {
        let (run, on) = (placed.run, placed.on);
        if let Some((task, _)) = self.tasks.get_mut(key) {
            let is_its = Some(task.incarnation()) == incarnation;
            if is_its && task.find(run, on).is_ok() {
                self.tasks.note_lost(run, key);
                self.write_task(key);
            }
        } else if let Some(incarnation) = incarnation
            && self.tasks.tombstone(key).is_none()
        {
            let spec = TaskSpec {
                wants: self.wants_of(&key.to_work()),
                contract: placed.contract,
                work: Arc::from([]),
                when_full: WhenFull::default(),
                latest_start: None,
                callback: None,
                keeps_name: false,
            };
            let mut task = Task::new(incarnation, self.epoch, now.wall);
            if task.claim(placed, now.wall).is_err() {
                return;
            }
            self.tasks.insert(key.clone(), (task, Arc::new(spec)));
            self.write_task(key);
        }
        self.seat(run, key.to_work(), on);
    }

    /// Whether a task was called unknown because the store was restored.
    pub(super) fn is_unknown_after_restore(&self, key: &TaskKey) -> bool {
        let task = self.tasks.get(key).map(|(task, _)| task);
        task.is_some_and(|task| matches!(task.end(), Some(TaskEnd::UnknownAfterRestore)))
    }

    /// Its worker has certainly not started it, for this reason; whether that counts against it.
    pub(super) fn task_returned(
        &mut self,
        now: Now,
        key: &TaskKey,
        run: RunId,
        (counts, why): (bool, &str),
    ) {
        let Some((task, spec)) = self.tasks.get_mut(key) else { return };
        let is_its = matches!(task.state(), TaskState::Running { placed, .. } if placed.run == run);
        if is_its && spec.work.is_empty() {
            // It was found, and what it is to do was lost with its record.
            return self.finish_task(now, key, TaskEnd::Lost);
        }
        if is_its {
            // A task that is there to be given back can be given back.
            if task.give_back(counts, why, now.wall).is_err() {
                return;
            }
        } else if task.amend(run, None).is_err() {
            return;
        }
        let (phase, latest_start) = (task.phase(), spec.latest_start);
        self.write_task(key);
        match phase {
            TaskPhase::Pending if self.is_too_late(now, key) => {
                self.finish_task(now, key, TaskEnd::TooLate);
            }
            TaskPhase::Pending => {
                // Whoever took it over while it ran has no timer for it.
                if let Some(at) = latest_start {
                    self.timers.set(at, Timer::Task(key.clone()));
                }
                self.rest_task(now, key);
            }
            TaskPhase::Completed => self.task_is_over(now, key),
            TaskPhase::Running | TaskPhase::Resolving => {}
        }
    }

    /// Whether a run is the one of a task, and not a stray of its name.
    pub(super) fn is_run_of_task(&self, key: &TaskKey, run: RunId) -> bool {
        let placed = self.tasks.get(key).and_then(|(task, _)| task.placed());
        placed.is_some_and(|placed| placed.run == run)
    }

    /// Whether a task must not start any more.
    pub(super) fn is_too_late(&self, now: Now, key: &TaskKey) -> bool {
        self.tasks.get(key).is_some_and(|(task, spec)| {
            let is_past = spec.latest_start.is_some_and(|at| at <= now.wall);
            is_past && task.phase() == TaskPhase::Pending
        })
    }

    /// Lets a task that a worker refused wait a little, or both would do nothing else.
    fn rest_task(&mut self, now: Now, key: &TaskKey) {
        let until = now.wall.plus(TURNED_DOWN);
        self.queue.rest(key.to_work(), until);
        self.timers.set(until, Timer::Rested(key.clone()));
    }

    /// It has rested after a worker refused it.
    pub(super) fn task_has_rested(&mut self, key: &TaskKey) {
        let work = key.to_work();
        self.queue.has_rested(&work);
        if self.tasks.get(key).is_some_and(|(task, _)| task.phase() == TaskPhase::Pending) {
            self.ask(&work);
        }
    }

    /// Its run is certainly gone, and nobody says how it ended: it is not started again.
    pub(super) fn task_lost(&mut self, now: Now, key: &TaskKey, run: RunId) {
        let Some((task, _)) = self.tasks.get_mut(key) else { return };
        let is_its = matches!(task.state(), TaskState::Running { placed, .. } if placed.run == run);
        if is_its && is_planted(Mistake::RestartsLostTasks) {
            self.task_returned(now, key, run, (true, ""));
        } else if is_its && is_planted(Mistake::CallsLostCancelled) {
            self.finish_task(now, key, TaskEnd::Cancelled);
        } else if is_its {
            self.finish_task(now, key, TaskEnd::Lost);
        } else if task.amend(run, None).is_ok() {
            self.write_task(key);
        }
    }

    /// A status of one of its runs.
    pub(super) fn task_reported(&mut self, now: Now, key: &TaskKey, run: RunId, news: &News) {
        match news {
            News::Progress(said) => {
                if payload::progress(said) == crate::tables::Container::Running {
                    self.seat_started(run);
                }
            }
            News::WasNotRunning => {
                self.leave_seat(run);
                let why = "its worker did not have it when it was asked";
                self.task_returned(now, key, run, (true, why));
            }
            News::Ended(said) => {
                self.leave_seat(run);
                let payload::Ended { was_stopped, is_success, report } = payload::ended(said);
                let end = TaskEnd::Ran { is_success, report };
                let Some((task, _)) = self.tasks.get_mut(key) else { return };
                // What a drain has stopped says nothing new by that.
                let is_known = was_stopped && matches!(task.end(), Some(TaskEnd::Drained));
                match task.state() {
                    TaskState::Running { placed, .. } if placed.run == run => {
                        self.finish_task(now, key, end);
                    }
                    TaskState::Pending
                    | TaskState::Running { .. }
                    | TaskState::Completed { .. }
                    | TaskState::Resolving { .. } => {
                        let told = Some(end).filter(|_| !is_known);
                        if task.knows(run) && task.amend(run, told).is_ok() {
                            self.tasks.forget_lost(run);
                            self.write_task(key);
                        }
                    }
                }
            }
        }
    }

    /// It is over.
    pub(super) fn finish_task(&mut self, now: Now, key: &TaskKey, end: TaskEnd) {
        let Some((task, _)) = self.tasks.get_mut(key) else { return };
        if task.finish(end, now.wall).is_err() {
            return;
        }
        if let Some(run) = task.lost() {
            self.tasks.note_lost(run, key);
        }
        self.withdraw(&key.to_work());
        self.write_task(key);
        self.task_is_over(now, key);
    }

    /// It is over, and whatever runs of it is ended.
    pub(super) fn end_task_early(&mut self, now: Now, key: &TaskKey, end: TaskEnd) -> bool {
        let Some((task, _)) = self.tasks.get_mut(key) else { return false };
        if task.cancel(end, now.wall).is_err() {
            return false;
        }
        let run = task.placed().map(|placed| placed.run);
        if let Some(lost) = task.lost() {
            self.tasks.note_lost(lost, key);
        }
        self.withdraw(&key.to_work());
        self.write_task(key);
        if let Some(run) = run {
            self.kill(run, Kill::Gracefully);
        }
        self.task_is_over(now, key);
        true
    }

    /// Whoever asked for it is told.
    fn task_is_over(&mut self, now: Now, key: &TaskKey) {
        let Some((task, spec)) = self.tasks.get(key) else { return };
        if task.phase() != TaskPhase::Completed {
            return;
        }
        let is_to_be_told = spec.callback.is_some() && !task.is_told();
        if is_to_be_told {
            self.call_back(now, key);
        }
    }

    /// Tells the end of a task: first its record says so, so that one server at a time does.
    pub(super) fn call_back(&mut self, now: Now, key: &TaskKey) {
        let Some((task, spec)) = self.tasks.get_mut(key) else { return };
        let Some(url) = spec.callback.clone() else { return };
        if task.phase() == TaskPhase::Completed && task.resolve(now.wall).is_err() {
            return;
        }
        let (Some(end), incarnation) = (task.end().cloned(), task.incarnation()) else { return };
        self.tasks.callback_mut(key).next = None;
        self.write_task(key);
        self.tell(Effect::Callback(Callback { key: key.clone(), incarnation, url, end }));
    }

    /// Its time has come; one that was moved by a clock may come twice.
    pub(super) fn call_back_again(&mut self, now: Now, key: &TaskKey) {
        let next = self.tasks.callback(key).and_then(|telling| telling.next);
        if next.is_some_and(|next| next <= now.wall) {
            self.call_back(now, key);
        }
    }

    pub(super) fn callback_answered(
        &mut self,
        now: Now,
        key: &TaskKey,
        incarnation: TaskIncarnation,
        called: Called,
    ) {
        self.touch(&key.to_work());
        let known = self.tasks.get(key).map(|(task, _)| task);
        let is_asked = |task: &&Task| {
            task.incarnation() == incarnation && task.phase() == TaskPhase::Resolving
        };
        if known.filter(is_asked).is_none() {
            return;
        }
        let telling = self.tasks.callback_mut(key);
        telling.tries += 1;
        let tries = telling.tries;
        let is_given_up = called == Called::NotTaken && tries >= CALLBACKS_MAX;
        let is_over = called == Called::Taken || is_given_up || is_planted(Mistake::LosesCallbacks);
        if !is_over {
            let next = now.wall.plus(CALLBACK_WAIT.times(1 << (tries - 1).min(16)));
            telling.next = Some(next);
            self.timers.set(next, Timer::Callback(key.clone()));
            return;
        }
        self.tasks.end_callback(key);
        if let Some((task, _)) = self.tasks.get_mut(key) {
            if is_given_up { task.give_up() } else { task.tell() }
        }
        self.hand_over(key);
        if is_planted(Mistake::BuriesTheTold) {
            self.forget_task(now, key);
        }
        if is_given_up {
            self.tell(Effect::Alarm(Alarm::CallbackGivenUp(key.clone(), tries)));
        }
    }

    fn hand_over(&mut self, key: &TaskKey) {
        if let Some((task, _)) = self.tasks.get_mut(key)
            && task.hand_over().is_ok()
        {
            self.write_task(key);
        }
    }

    /// Its latest start has come.
    pub(super) fn task_is_due(&mut self, now: Now, key: &TaskKey) {
        let Some((task, spec)) = self.tasks.get(key) else { return };
        match task.state() {
            TaskState::Running { .. } if is_planted(Mistake::ExpiresRunning) => {
                self.finish_task(now, key, TaskEnd::TooLate);
            }
            // What runs is not ended for having begun late.
            TaskState::Running { .. }
            | TaskState::Completed { .. }
            | TaskState::Resolving { .. } => {}
            TaskState::Pending => {
                if spec.latest_start.is_some_and(|at| at <= now.wall) {
                    self.finish_task(now, key, TaskEnd::TooLate);
                }
            }
        }
    }

    pub(super) fn cancel_task(&mut self, now: Now, id: CallId, key: &TaskKey) {
        let is_denied = |task: &Task| is_planted(Mistake::DeniesTasks) && task.end().is_some();
        let known = self.tasks.get(key).filter(|(task, _)| !is_denied(task));
        let Some((task, _)) = known else { return self.answer(id, Answer::NotFound) };
        let mut probe = task.clone();
        let answer = match probe.cancel(TaskEnd::Cancelled, now.wall) {
            Ok(()) => Answer::Done,
            Err(illegal) => Answer::Conflict(illegal),
        };
        if answer == Answer::Done {
            self.end_task_early(now, key, TaskEnd::Cancelled);
        }
        self.answer(id, answer);
    }
}
