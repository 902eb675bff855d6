//! What the fleet says, and what follows from it: both tables of reconciliation are applied here.

use sterna_model::{
    Incarnation, InstanceKey, RunId, TaskIncarnation, TaskKey, WorkKey,
    planted::{Mistake, is_planted},
    record::Placed,
};
use sterna_protocol::{
    limits::Limits,
    message::{Held, Kill, News, RunRefusal, StatusAnswer},
    scheduler::{self, GoneBy, NotSent, Report, Settlement},
};

use super::{Alarm, Control, Effect, Now, payload, services::Gone};
use crate::tables::{self, Container};

impl Control {
    pub(super) fn hear(&mut self, now: Now, news: scheduler::Effect) {
        use scheduler::Effect as News;
        match news {
            News::Enroll(entry) => self.enroll(entry),
            News::Strike(life) => self.strike(life),
            News::Revive(life) => self.revive(life),
            News::Settled(run, settlement) => self.settled(now, run, settlement),
            News::Found(from, held) => self.found(now, from, &held),
            News::Reported(report) => self.reported(now, report),
            News::Silent(run) => self.silent(now, run),
            News::Heard(life) => self.worker_is_back(now, life.lock),
            News::Health(life, health) => self.set_health(life, health),
            News::Facts(life, name, facts) => self.set_facts(life, name, facts),
            News::WantsDrain(lock, true) => {
                self.set_drain(now, lock, Some(now.wall.plus(super::DRAIN)));
            }
            News::WantsDrain(lock, false) => self.set_drain(now, lock, None),
            News::Opened(doors) => self.queue.open(doors),
            News::Retired(oldest) => {
                let is_over = |limits: &Limits| match is_planted(Mistake::LosesLimits) {
                    true => limits.version >= oldest,
                    false => limits.version < oldest,
                };
                self.limits.retain(|limits| !is_over(limits));
                self.write_limits();
            }
            News::Raise(limits) => self.set_limits(limits),
            News::Healed => self.set_stage(super::Stage::Used),
            News::Alarm(life, alarm) => {
                self.tell(Effect::Alarm(Alarm::Worker(life, alarm)));
            }
            // These are between the link and its driver.
            News::Send(..) | News::Close(_) | News::StoreLags(..) => {}
        }
    }

    /// A run is not, and will not be, running (safety rules 5 and 6).
    fn settled(&mut self, now: Now, run: RunId, settlement: Settlement) {
        let Some(key) = self.seats.key_of(run).cloned() else { return };
        self.leave_seat(run);
        match key {
            WorkKey::Instance(key) => self.copy_settled(now, &key, run, settlement),
            WorkKey::Task(key) => self.task_settled(now, &key, run, settlement),
            // Batches are driven beside this core.
            WorkKey::Node(_) => {}
        }
    }

    fn copy_settled(&mut self, now: Now, key: &InstanceKey, run: RunId, settlement: Settlement) {
        let how = match settlement {
            Settlement::NotSent(_) | Settlement::Refused(_) => Gone::TurnedDown,
            Settlement::Gone(GoneBy::NeverCame) => Gone::NotSent,
            Settlement::Gone(
                GoneBy::Deadline | GoneBy::Absence | GoneBy::Reboot | GoneBy::Declaration,
            ) => Gone::Over,
        };
        self.copy_is_gone(now, key, run, how);
    }

    fn task_settled(&mut self, now: Now, key: &TaskKey, run: RunId, settlement: Settlement) {
        match settlement {
            // The worker has not been asked: it has refused nothing.
            Settlement::NotSent(why) => {
                self.task_returned(now, key, run, (!is_hasty(why), not_sent(why)));
            }
            Settlement::Refused(why) => {
                self.task_returned(now, key, run, (counts(why), refused(why)));
            }
            // A leader claimed it and ended before it sent it: no worker has refused it.
            Settlement::Gone(GoneBy::NeverCame) => {
                self.task_returned(now, key, run, (false, "its leader ended before it was sent"));
            }
            Settlement::Gone(
                GoneBy::Deadline | GoneBy::Absence | GoneBy::Reboot | GoneBy::Declaration,
            ) => self.task_lost(now, key, run),
        }
    }

    /// A status: recorded first, acknowledged then.
    fn reported(&mut self, now: Now, report: Report) {
        let Report { from, run, number, news, .. } = report;
        let key = self.seats.key_of(run).cloned();
        let key = key.or_else(|| self.tasks.of_lost(run).map(TaskKey::to_work));
        let answer = match key {
            Some(WorkKey::Instance(key)) => {
                self.instance_reported(now, &key, run, &news);
                StatusAnswer::Recorded
            }
            Some(WorkKey::Task(key)) => {
                self.task_reported(now, &key, run, &news);
                StatusAnswer::Recorded
            }
            // Batches are driven beside this core.
            Some(WorkKey::Node(_)) => StatusAnswer::Ignored,
            None => {
                if news.is_end() {
                    self.tell(Effect::Alarm(Alarm::Stray(from, run)));
                }
                StatusAnswer::Ignored
            }
        };
        let recorded = scheduler::Input::Recorded(from, run, number, answer);
        if is_planted(Mistake::AcknowledgesTooEarly) {
            return self.outbox.say_at_once(Effect::Fleet(Box::new(recorded)));
        }
        self.tell_fleet(recorded);
    }

    /// A worker has a run that nobody claimed: the tables say what is made of it.
    fn found(&mut self, now: Now, from: Incarnation, held: &Held) {
        let container = container_of(held);
        let placed = Placed { run: held.run, on: from, contract: held.contract };
        match &held.key {
            WorkKey::Instance(key) => self.found_instance(now, key, placed, container),
            WorkKey::Task(key) => self.found_task(now, key, held.task, placed, container),
            // Batches are driven beside this core.
            WorkKey::Node(_) => {}
        }
        match container {
            // Where a drain is over nothing stays, though it came to light only now.
            Container::Reserved | Container::Starting | Container::Running => {
                self.ask_before_end(now, from.lock);
                self.end_drain(now, from.lock);
            }
            // Its end is told next.
            Container::Crashed | Container::Shutdown | Container::Absent => {}
        }
    }

    fn found_task(
        &mut self,
        now: Now,
        key: &TaskKey,
        incarnation: Option<TaskIncarnation>,
        placed: Placed,
        container: Container,
    ) {
        use tables::task::Action;
        let run = placed.run;
        let record = self.task_seen_from(key, incarnation, run);
        match tables::task::reconcile(container, record) {
            Action::End if self.runs_on_after_restore(key, incarnation, &placed, container) => {
                self.tell(Effect::Alarm(Alarm::FoundAfterRestore(key.clone(), run)));
                self.keep_found(now, key, incarnation, placed);
            }
            Action::Leave => {}
            Action::Claim => {
                self.tell(Effect::Alarm(Alarm::AdoptedPending(key.clone(), run)));
                self.adopt_task(now, key, placed);
            }
            Action::Complete => {
                self.tell(Effect::Alarm(Alarm::AdoptedPending(key.clone(), run)));
                // Its end comes as a status, and finds it running.
                self.adopt_task(now, key, placed);
            }
            Action::End => self.end_stray(run, &key.to_work(), placed.on, container),
            Action::EndLoudly => {
                self.tell(Effect::Alarm(Alarm::RunsElsewhere(key.clone(), run)));
                self.end_stray(run, &key.to_work(), placed.on, container);
            }
            Action::Fail => self.task_lost(now, key, run),
        }
    }

    /// Whether what the table ends is only not known because the store was restored: nothing is ended
    /// for lack of a record that it may have lost (safety rule 25).
    fn runs_on_after_restore(
        &self,
        key: &TaskKey,
        incarnation: Option<TaskIncarnation>,
        placed: &Placed,
        container: Container,
    ) -> bool {
        let may_run = match container {
            Container::Reserved | Container::Starting | Container::Running => true,
            Container::Crashed | Container::Shutdown | Container::Absent => false,
        };
        let is_unknown = match self.task_seen_from(key, incarnation, placed.run) {
            tables::task::Record::Missing => {
                let is_buried = self.tasks.tombstone(key).map(|stone| stone.incarnation);
                self.is_recovered && (is_buried.is_none() || is_buried != incarnation)
            }
            tables::task::Record::Completed | tables::task::Record::Resolving => {
                self.is_unknown_after_restore(key)
            }
            tables::task::Record::Pending
            | tables::task::Record::RunningHere
            | tables::task::Record::RunningElsewhere => false,
        };
        may_run && is_unknown
    }

    fn found_instance(
        &mut self,
        now: Now,
        key: &InstanceKey,
        placed: Placed,
        container: Container,
    ) {
        use tables::instance::Action;
        let run = placed.run;
        let record = self.instance_seen_from(key, run);
        match tables::instance::reconcile(container, record) {
            Action::Leave | Action::Vacate => {}
            Action::Claim | Action::Run => self.adopt_instance(now, key, placed, container),
            // Its record may be one that the restored store has lost (safety rule 25).
            Action::End
                if self.is_recovered
                    && (container, record)
                        == (Container::Starting, tables::instance::Record::Missing) =>
            {
                self.adopt_instance(now, key, placed, container);
            }
            // Its end comes as a status, finds it running, and is counted as its crash.
            Action::Crash if self.is_wanted(key) => {
                self.adopt_instance(now, key, placed, container);
            }
            // Of what nobody wants no crash is counted.
            Action::Crash | Action::End => {
                self.end_stray(run, &key.to_work(), placed.on, container);
            }
        }
    }

    /// Ends a run that has no record. While it lasts it has its seat.
    pub(super) fn end_stray(
        &mut self,
        run: RunId,
        key: &WorkKey,
        on: Incarnation,
        container: Container,
    ) {
        match container {
            Container::Crashed | Container::Shutdown | Container::Absent => {}
            Container::Reserved | Container::Starting | Container::Running => {
                self.seat(run, key.clone(), on);
                if is_planted(Mistake::LeavesStrays) {
                    return;
                }
                self.kill(run, Kill::Gracefully);
            }
        }
    }
}

/// How far a run is that was found.
fn container_of(held: &Held) -> Container {
    match held.status.as_ref().map(|status| &status.news) {
        None => Container::Running,
        Some(News::Progress(said)) => payload::progress(said),
        Some(News::Ended(said)) if payload::was_stopped(said) => Container::Shutdown,
        Some(News::Ended(_)) => Container::Crashed,
        Some(News::WasNotRunning) => Container::Absent,
    }
}

/// Whether a run was not sent because its worker changed in the meantime: nobody is to blame, and
/// the next try goes elsewhere.
const fn is_hasty(why: NotSent) -> bool {
    match why {
        NotSent::NotHere
        | NotSent::KeyIsHeld
        | NotSent::NotHealthy
        | NotSent::Draining
        | NotSent::NoMoreNumbers
        | NotSent::NotLeading => true,
        NotSent::NotOpen | NotSent::NotReplaceable | NotSent::AboveMark | NotSent::BelowLoss => {
            false
        }
    }
}

/// Why a run was not sent, for people.
const fn not_sent(why: NotSent) -> &'static str {
    match why {
        NotSent::NotHere => "its worker was gone",
        NotSent::NotHealthy => "its worker was not healthy",
        NotSent::Draining => "its worker was draining, or about to end",
        NotSent::NotOpen => "a worker that is missing may run it",
        NotSent::KeyIsHeld => "another run of it may be running",
        NotSent::NotReplaceable => "only instances of services are run under `replace`",
        NotSent::AboveMark => "the limits do not allow for its contract: put it again",
        NotSent::BelowLoss => {
            "its stop_after is shorter than its worker may be silent: give it a longer one, or set a \
             shorter lose_after"
        }
        NotSent::NoMoreNumbers => "the numbers of its worker's association were used up",
        NotSent::NotLeading => "this server did not lead",
    }
}

/// Whether a refusal counts against a task: not that its worker was about to go, or was not well, of
/// which nothing follows for the task. Such a worker is sent nothing until it says otherwise.
const fn counts(why: RunRefusal) -> bool {
    match why {
        RunRefusal::Draining | RunRefusal::NotHealthy => false,
        RunRefusal::Overtaken | RunRefusal::KeyIsHere(_) | RunRefusal::TooLate => true,
    }
}

/// Why a worker did not start a run, for people.
const fn refused(why: RunRefusal) -> &'static str {
    match why {
        RunRefusal::NotHealthy => "its worker did not take itself for healthy",
        RunRefusal::Draining => "its worker was draining, or about to end",
        RunRefusal::Overtaken => "its worker had said that it was not running",
        RunRefusal::KeyIsHere(_) => "its worker had another run of it",
        RunRefusal::TooLate => "it came to its worker too late",
    }
}
