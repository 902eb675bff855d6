//! What is forecast of a drain is what the drain does.

use std::sync::Arc;

use sterna_model::{
    Contract, Span,
    record::InstancePhase as P,
    spec::{ServiceSpec, TaskSpec},
};

use super::play::{Mood, Play, incarnation, lock, service_spec, task, task_spec, wants, web};
use crate::control::{Call, Fate};

/// What is asked for where nothing is said.
const GRACE: Span = Span::from_secs(10);

fn drain(play: &mut Play, worker: u8) {
    let deadline = play.now.wall.plus(Span::from_secs(600));
    play.ask(Call::Drain(lock(worker), deadline));
}

fn fates(play: &mut Play, worker: u8) -> Vec<Fate> {
    play.forecast(lock(worker)).into_iter().map(|it| it.fate).collect()
}

#[test]
fn instances_move_where_it_is_said_that_they_do() {
    let mut play = Play::with(4);
    play.ask(Call::PutService(web(), ServiceSpec { wants: wants(20), ..service_spec(8) }));
    let worker = play.worker_of(play.run_of(0));
    let forecast = play.forecast(lock(worker));
    assert_eq!(forecast.len(), 2);
    let before = play.store.clone();
    assert_eq!(play.forecast(lock(worker)), forecast, "it changes nothing");
    assert_eq!(play.store, before);
    drain(&mut play, worker);
    for said in forecast {
        let Fate::Moves { to, ends_first: false } = said.fate else { panic!("{said:?}") };
        let (_, now) = play.running.iter().find(|(_, (_, key))| *key == said.key).unwrap();
        assert_eq!(to.as_str(), format!("w{}", now.0));
    }
}

#[test]
fn only_as_many_move_as_there_is_room_for() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), ServiceSpec { wants: wants(40), ..service_spec(2) }));
    play.join(2);
    play.ask(Call::CreateTask(task("large"), incarnation(1), {
        let mut spec = task_spec();
        spec.wants = wants(50);
        Arc::new(spec)
    }));
    let said = fates(&mut play, 1);
    let [Fate::Moves { to, .. }, Fate::Nowhere { why, ends_first: false, .. }] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(to.as_str(), "w2");
    let said = said[1].to_string();
    let words =
        format!("has nowhere to go; its worker asks it to end 10s before the deadline: {why}");
    assert!(said == words && said.contains("no worker has enough free"), "{said}");
    drain(&mut play, 1);
    assert_eq!((play.runs_on(1).len(), play.runs_on(2).len()), (1, 2));
    assert_eq!(fates(&mut play, 1).len(), 1, "it is said again while it waits");
    assert!(matches!(fates(&mut play, 1)[..], [Fate::Nowhere { .. }]));
}

#[test]
fn tasks_run_on_and_copies_that_must_not_overlap_end_first() {
    let mut play = Play::with(1);
    let contract = Contract::Stop { after: Span::from_secs(120) };
    play.ask(Call::PutService(web(), ServiceSpec { contract, ..service_spec(1) }));
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    play.join(2);
    play.moods.insert(1, Mood::Ignores);
    let said = play.forecast(lock(1));
    let [moves, runs_on] = &said[..] else { panic!("{said:?}") };
    let to = super::play::name("w2");
    assert_eq!(
        (&moves.key, &moves.fate),
        (&web().instance(0).into(), &Fate::Moves { to, ends_first: true })
    );
    assert_eq!(
        (&runs_on.key, &runs_on.fate),
        (&task("build").into(), &Fate::RunsOn { asked: GRACE })
    );
    drain(&mut play, 1);
    assert!(fates(&mut play, 1).contains(&Fate::Ending), "it is told to end");
    play.end(play.run_of(0), super::play::STOPPED);
    assert_eq!(play.worker_of(play.run_of(0)), 2);
}

#[test]
fn a_copy_with_a_second_one_is_blocked_and_an_unknown_machine_has_nothing() {
    let mut play = Play::with(3);
    play.ask(Call::PutService(web(), service_spec(1)));
    play.fall_silent(play.worker_of(play.run_of(0)));
    assert_eq!(play.phases(), [(0, P::Running)]);
    let worker = play.worker_of(play.run_of(0));
    assert_eq!(fates(&mut play, worker), [Fate::Blocked { asked: GRACE }]);
    drain(&mut play, worker);
    assert_eq!(fates(&mut play, worker), [Fate::Blocked { asked: GRACE }]);
    assert_eq!(play.starts.len(), 2);
    assert_eq!(fates(&mut play, 9), []);
}

/// It was said to be asked a minute before the deadline of half a minute.
#[test]
fn the_forecast_of_a_short_drain_says_when_that_drain_asks() {
    let mut play = Play::with(1);
    let work: Arc<[u8]> = Arc::from(*br#"{"signals":{"grace":"60s"}}"#);
    let service = ServiceSpec { work: Arc::clone(&work), ..service_spec(1) };
    play.ask(Call::PutService(web(), service));
    let spec = TaskSpec { work, ..task_spec() };
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(spec)));
    let deadline = play.now.wall.plus(Span::from_secs(30));
    let said = play.control.forecast(play.now, lock(1), deadline);
    let asked = said.iter().map(|it| match it.fate {
        Fate::Nowhere { asked, .. } | Fate::RunsOn { asked } => asked,
        Fate::Moves { .. } | Fate::Blocked { .. } | Fate::Ends | Fate::Ending => panic!("{said:?}"),
    });
    assert_eq!(asked.collect::<Vec<_>>(), [15, 30].map(Span::from_secs));
    play.ask(Call::Drain(lock(1), deadline));
    assert_eq!(play.runs_on(1).len(), 1, "the task is asked at once");
    play.pass(14);
    assert_eq!(play.runs_on(1).len(), 1);
    play.pass(1);
    assert!(play.runs_on(1).is_empty());
}
