//! What the leader tells containers, and what they tell the leader.

use std::collections::BTreeSet;

use sterna_executor::container::{Cause, How, State};
use sterna_model::{BootTime, RunId, payload::RunReport};
use sterna_protocol::{
    message::{Held, Kill, Run},
    worker::{Input, Stop},
};

use super::{Effect, Keeper, Life};
use crate::link::{
    mailbox::{RunNews, Tidings},
    payload::{never_began, progress, told, work},
    remark::Remark,
};

impl Keeper {
    /// What was taken stands in the table, but for these: now it is done and said, of them otherwise.
    pub(super) fn kept(
        &mut self,
        now: BootTime,
        failed: Vec<(RunId, String)>,
        effects: &mut Vec<Effect>,
    ) {
        let mut rest = std::mem::take(&mut self.taken);
        let runs: BTreeSet<RunId> = failed.iter().map(|(run, _)| *run).collect();
        for (run, why) in failed {
            self.say(now, Remark::TurnedDown(run, why), effects);
        }
        if runs.is_empty() {
            self.muffle.calm_disk();
        } else {
            self.core.not_kept(now, &runs, &mut rest);
        }
        for effect in rest {
            self.perform(now, effect, effects);
        }
    }

    /// A run was accepted, and stands in the table: to the containers.
    pub(super) fn start(&mut self, now: BootTime, run: &Run, effects: &mut Vec<Effect>) {
        let id = run.run;
        self.say(now, Remark::Accepted(id, run.key.clone()), effects);
        match work(run, self.core.mandate().as_ref(), &self.name, &self.limits()) {
            Ok(work) => {
                self.lives.insert(id, Life::new(State::Reserved));
                effects.push(Effect::Start(held(run), Box::new(work)));
            }
            Err(why) => self.over(now, id, &never_began(why), effects),
        }
    }

    pub(super) fn stop(
        &mut self,
        now: BootTime,
        run: RunId,
        stop: Stop,
        effects: &mut Vec<Effect>,
    ) {
        let (cause, how, why) = match stop {
            Stop::Asked(Kill::Gracefully) => (Cause::Request, How::Gracefully, "asked for"),
            Stop::Asked(Kill::Now) => (Cause::Request, How::Now, "asked for, at once"),
            Stop::Deadline(wait) => (Cause::Deadline, How::Within(wait), "out of contact too long"),
        };
        self.say(now, Remark::Stopping(run, why), effects);
        effects.push(Effect::Stop(run, cause, how));
    }

    /// The leader has the end of a run.
    pub(super) fn forget(&mut self, now: BootTime, run: RunId, effects: &mut Vec<Effect>) {
        self.ends.remove(&run);
        self.say(now, Remark::Recorded(run), effects);
        effects.push(Effect::Forget(run));
    }

    pub(super) fn hear_containers(
        &mut self,
        now: BootTime,
        tidings: Tidings,
        effects: &mut Vec<Effect>,
    ) {
        let Tidings { runs, answered, replaced, unremoved, is_shut_down } = tidings;
        for (directory, why) in unremoved {
            self.say(now, Remark::NotRemoved(directory, why), effects);
        }
        if let Some(why) = replaced {
            self.say(now, Remark::Replaced(why), effects);
        }
        for (run, news) in runs {
            self.hear_run(now, run, news, effects);
        }
        if let Some(number) = answered {
            self.inputs.push_back(Input::GuardianAnswered(number));
        }
        if is_shut_down {
            self.shut_down(now);
        }
    }

    fn hear_run(&mut self, now: BootTime, run: RunId, news: RunNews, effects: &mut Vec<Effect>) {
        let RunNews { state, is_ready, ports, report } = news;
        if let Some(report) = report {
            if self.strays.remove(&run) {
                return effects.push(Effect::Forget(run));
            }
            return self.over(now, run, &report, effects);
        }
        let Some(life) = self.lives.get_mut(&run) else { return };
        let before = life.clone();
        life.state = state.unwrap_or(life.state);
        life.is_ready = is_ready.unwrap_or(life.is_ready);
        if let Some(ports) = ports {
            life.ports = ports;
        }
        // On its way up there is nothing that anybody waits for.
        let is_news = *life != before && is_told(life.state);
        if is_news {
            let said = progress(life.state, life.is_ready, &life.ports);
            self.inputs.push_back(Input::Progress(run, said));
        }
    }

    /// Nothing is left of a run.
    fn over(&mut self, now: BootTime, run: RunId, report: &RunReport, effects: &mut Vec<Effect>) {
        self.lives.remove(&run);
        if self.ends.insert(run) {
            self.say(now, Remark::Ended(run, told(report)), effects);
            self.inputs.push_back(Input::Ended(run, report.to_bytes().into()));
        }
    }
}

/// A run as it stands in the table, from its acceptance on.
pub(super) fn held(run: &Run) -> Held {
    let Run { run, key, task, contract, .. } = run.clone();
    Held { run, key, task, contract, status: None }
}

/// Whether whoever placed a run wants to know that it has come so far.
const fn is_told(state: State) -> bool {
    match state {
        State::Running => true,
        State::Reserved | State::Initializing | State::Created | State::Completed | State::Gone => {
            false
        }
    }
}
