//! What no spec wants any more, or another one of the same name.

use std::sync::Arc;

use sterna_model::{
    Contract, RunId, Span, WallTime,
    record::InstancePhase as P,
    spec::{ServiceSpec, UpdatePolicy},
};
use sterna_protocol::{
    limits::Limits,
    message::{Held, News, Status},
};

use super::play::{FAILURE, Mood, Play, RUNNING, STOPPED, name, other_work, service_spec, web};
use crate::control::{Answer, Call, Change, Next};

fn put(play: &mut Play, spec: ServiceSpec) -> Answer {
    play.ask(Call::PutService(web(), spec))
}

#[test]
fn why_of_what_nobody_wants_names_who_still_has_it() {
    for is_deleted in [false, true] {
        let mut play = Play::with(2);
        put(&mut play, service_spec(1));
        let worker = play.worker_of(play.run_of(0));
        play.fall_silent(worker);
        play.silence(worker);
        match is_deleted {
            true => drop(play.ask(Call::DeleteService(web()))),
            false => drop(put(&mut play, service_spec(0))),
        }
        let why = play.why(web().instance(0)).expect("it is still there");
        let words = why.rule.to_string();
        assert_eq!((why.rule.name(), why.next), ("stopping", Next::WhenGone));
        assert!(words.contains(&format!("w{worker}")), "{words}");
    }
}

#[test]
fn why_of_two_copies_on_silent_workers_says_that_they_are_silent() {
    let mut play = Play::with(2);
    put(&mut play, service_spec(1));
    let first = play.worker_of(play.run_of(0));
    play.moods.insert(3 - first, Mood::Dawdles);
    for worker in [first, 3 - first] {
        play.fall_silent(worker);
        play.silence(worker);
    }
    let why = play.why(web().instance(0)).expect("nobody knows how it is");
    assert_eq!((why.rule.name(), why.next), ("out-of-reach", Next::WhenGone));
}

/// An instance that a worker has, and nobody claimed.
fn held(index: u32) -> Held {
    let run = RunId::from_parts(WallTime::EPOCH, [99; 10]);
    let status = Status { number: 1, run, news: News::Progress(Arc::from(RUNNING)) };
    Held {
        run,
        key: web().instance(index).to_work(),
        task: None,
        contract: service_spec(1).contract,
        status: Some(status),
    }
}

#[test]
fn a_plan_tells_of_what_was_found_beyond_what_is_wanted() {
    let mut play = Play::with(1);
    let spec = ServiceSpec { domain: name("apps"), ..service_spec(1) };
    put(&mut play, spec.clone());
    play.found(1, held(5));
    assert_eq!(play.running.len(), 2, "its domain is not fresh");
    let plan = |spec: &ServiceSpec| play.control.plan(&web(), Some(spec)).changes;
    assert_eq!(plan(&spec), [Change::Stop { ends: vec![5] }]);
    let more = [Change::Start { from: 1, to: 5 }, Change::Start { from: 6, to: 7 }];
    assert_eq!(plan(&ServiceSpec { instances: 7, ..spec.clone() }), more);
    assert_eq!(put(&mut play, spec.clone()), Answer::Done);
    assert_eq!(play.running.len(), 1);
    assert_eq!(play.control.plan(&web(), Some(&spec)).changes, []);
}

#[test]
fn a_service_that_is_made_anew_has_never_crashed() {
    let mut play = Play::with(2);
    put(&mut play, service_spec(1));
    play.end(play.run_of(0), FAILURE);
    play.end(play.run_of(0), FAILURE);
    let (first, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    play.moods.insert(worker, Mood::Silent);
    play.ask(Call::DeleteService(web()));
    put(&mut play, other_work(&service_spec(1), "another program"));
    play.moods.insert(worker, Mood::Obeys);
    play.end(first, STOPPED);
    play.end(play.run_of(0), FAILURE);
    assert_eq!(play.instance(0).crashes().count, 1);
    assert_eq!(play.phases(), [(0, P::Running)]);
}

/// What was left of it had a copy that was silent, and the wait of the program before.
#[test]
fn a_service_that_is_made_anew_beside_a_silent_copy_has_never_crashed() {
    let mut play = Play::with(1);
    put(&mut play, service_spec(1));
    play.join(2);
    play.fall_silent(1);
    (0..3).for_each(|_| play.end(play.run_of(0), FAILURE));
    assert_eq!(play.phases(), [(0, P::Crashed)]);
    play.ask(Call::DeleteService(web()));
    assert_eq!(play.phases(), [(0, P::Crashed)], "its copy may be there");
    put(&mut play, other_work(&service_spec(1), "another program"));
    assert_eq!(play.phases(), [(0, P::Running)]);
    assert_eq!(play.instance(0).crashes().count, 0);
}

#[test]
fn limits_that_do_not_allow_for_a_version_that_may_come_back_are_refused() {
    let usual = Limits::default();
    let mut play = Play::with(2);
    let update = UpdatePolicy::default();
    let contract = Contract::Stop { after: usual.stop_after_min() };
    let old = ServiceSpec { contract, update, ..service_spec(1) };
    put(&mut play, old.clone());
    play.pass(10);
    put(&mut play, ServiceSpec { contract: service_spec(1).contract, ..other_work(&old, "new") });
    let lose_after = usual.lose_after.plus(Span::from_secs(20));
    let answer = play.ask(Call::SetLimits(Limits { lose_after, ..usual }));
    assert!(matches!(answer, Answer::BadLimits(_) | Answer::BadSpec(_)), "{answer:?}");
}
