//! What follows from what a worker says of a run that it was given is what the tables say of it.

use std::sync::Arc;

use sterna_model::{
    record::{CrashPolicy, InstancePhase, TaskEnd, TaskPhase},
    spec::ServiceSpec,
};
use sterna_protocol::{
    message::{News, Payload},
    scheduler::{GoneBy, Settlement},
};

use super::play::{
    FAILURE, Mood, Play, RUNNING, STOPPED, incarnation, service_spec, task, task_spec, web,
};
use crate::{
    control::Call,
    tables::{
        Container,
        instance::{self, Action},
        task as tasks,
    },
};

const STARTING: &[u8] = br#"{"state":"starting"}"#;

/// What a worker says of a container that is so far; `None` where it is absent, which is found out
/// otherwise (safety rule 5).
fn said(container: Container) -> Option<News> {
    let payload = |text: &[u8]| Payload::from(text);
    match container {
        Container::Reserved => Some(News::Progress(payload(br#"{"state":"reserved"}"#))),
        Container::Starting => Some(News::Progress(payload(STARTING))),
        Container::Running => Some(News::Progress(payload(RUNNING))),
        Container::Crashed => Some(News::Ended(payload(FAILURE))),
        Container::Shutdown => Some(News::Ended(payload(STOPPED))),
        Container::Absent => None,
    }
}

fn tell(play: &mut Play, run: sterna_model::RunId, container: Container) {
    match said(container) {
        Some(news) => play.report(run, news),
        None => play.settle(run, Settlement::Gone(GoneBy::Absence)),
    }
}

const CONTAINERS: [Container; 6] = [
    Container::Reserved,
    Container::Starting,
    Container::Running,
    Container::Crashed,
    Container::Shutdown,
    Container::Absent,
];

#[test]
fn of_an_instance() {
    for (mood, record) in [
        (Mood::Dawdles, instance::Record::ClaimedHere),
        (Mood::Obeys, instance::Record::RunningHere),
    ] {
        for container in CONTAINERS {
            let mut play = Play::with(1);
            play.moods.insert(1, mood);
            let crash = CrashPolicy { wait_from: 1, ..CrashPolicy::default() };
            play.ask(Call::PutService(web(), ServiceSpec { crash, ..service_spec(1) }));
            let (run, before) = (play.run_of(0), play.instance(0).phase());
            tell(&mut play, run, container);
            let instance = play.instance(0);
            let has_it = instance.copy().is_some_and(|copy| copy.placed.run == run);
            let is_so = match instance::reconcile(container, record) {
                Action::Leave => has_it && instance.phase() == before,
                Action::Run => has_it && instance.phase() == InstancePhase::Running,
                // That cannot be: what runs does not begin to start. It is not believed.
                Action::Claim => has_it && instance.phase() == InstancePhase::Running,
                Action::Crash => !has_it && instance.crashes().count == 1,
                Action::Vacate => !has_it && instance.crashes().count == 0,
                Action::End => false,
            };
            assert!(is_so, "{container:?} while {record:?}: {instance:?}");
        }
    }
}

#[test]
fn of_a_task() {
    for container in CONTAINERS {
        let mut play = Play::with(1);
        play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
        let run = play.runs_on(1)[0];
        tell(&mut play, run, container);
        let record = play.record(&task("build"));
        let is_so = match tasks::reconcile(container, tasks::Record::RunningHere) {
            tasks::Action::Leave => record.phase() == TaskPhase::Running,
            tasks::Action::Complete => matches!(record.end(), Some(TaskEnd::Ran { .. })),
            // The claim stands before the run is sent: a place that is kept for it is no contradiction.
            tasks::Action::Fail if container == Container::Reserved => {
                record.phase() == TaskPhase::Running
            }
            tasks::Action::Fail => record.end() == Some(&TaskEnd::Lost),
            tasks::Action::End | tasks::Action::EndLoudly | tasks::Action::Claim => false,
        };
        assert!(is_so, "{container:?}: {record:?}");
    }
}
