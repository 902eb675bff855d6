//! Why, of work whose worker does not answer, or fails its health checks: what becomes of it, and by what commands.

use std::sync::Arc;

use sterna_model::{Contract, Span, WallTime, record::TaskEnd, spec::ServiceSpec};
use sterna_protocol::{
    roster::Enrolled,
    scheduler::{self, Reach},
};

use super::play::{
    Mood, Play, enrolled, incarnation, life, lock, name, service_spec, task, task_spec, web,
};
use crate::control::{Call, Next, Why};

fn put(play: &mut Play, spec: ServiceSpec) {
    play.ask(Call::PutService(web(), spec));
}

fn why(play: &mut Play) -> Why {
    play.why(web().instance(0)).expect("it is not well")
}

fn after(seconds: u64) -> WallTime {
    WallTime::EPOCH.plus(Span::from_secs(seconds))
}

#[test]
fn work_on_a_silent_worker_names_it_its_contract_the_deadline_and_the_remedy() {
    let contracts = [
        (
            Contract::Replace { after: Span::from_secs(15) },
            "starts another copy beside it",
            Next::At(after(20)),
        ),
        (
            Contract::Stop { after: Span::from_secs(120) },
            "starts it elsewhere once",
            Next::At(after(125)),
        ),
        (Contract::Keep, "keeps it for that worker", Next::WhenBack),
    ];
    for (contract, does, then) in contracts {
        let mut play = Play::with(1);
        put(&mut play, ServiceSpec { contract, ..service_spec(1) });
        play.pass(5);
        play.silence(1);
        play.pass(5);
        let Why { rule, since, next } = why(&mut play);
        let rule = rule.to_string();
        assert!(rule.starts_with("w1 has it and does not answer; "), "{rule}");
        assert!(rule.contains(does) && rule.contains("`sterna declare-dead w1`"), "{rule}");
        assert!(rule.contains("`sterna forget w1`"), "{rule}");
        assert_eq!((since, next), (Some(after(5)), then));
        play.reaches.clear();
        assert_eq!(play.why(web().instance(0)), None);
    }
}

#[test]
fn a_task_on_a_silent_worker_says_what_becomes_of_it() {
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    play.silence(1);
    let told = play.why(task("build")).unwrap();
    let rule = told.rule.to_string();
    assert!(rule.contains("the task fails once it has certainly ended there"), "{rule}");
    assert_eq!((told.since, told.next), (Some(WallTime::EPOCH), Next::OverAt(after(600))));
}

/// It was said to be over when its worker counts as lost, and the drain ends it earlier.
#[test]
fn a_task_on_a_silent_or_sick_worker_that_is_drained_says_when_the_drain_ends_it() {
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    play.ask(Call::Drain(lock(1), after(120)));
    play.reaches.insert(lock(1), Reach::Sick { since: None });
    assert_eq!(play.why(task("build")).unwrap().next, Next::AskedAt(after(110)));
    play.silence(1);
    play.moods.insert(1, Mood::Silent);
    assert_eq!(play.why(task("build")).unwrap().next, Next::OverAt(after(110)));
    play.pass(110);
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::Drained));
}

/// Nothing happens to it, whatever its contract: so that no moment is named.
#[test]
fn work_on_a_worker_that_is_heard_and_sick_runs_on_and_no_moment_is_named() {
    let after = Span::from_secs(120);
    for contract in [Contract::Replace { after }, Contract::Stop { after }, Contract::Keep] {
        let mut play = Play::with(1);
        put(&mut play, ServiceSpec { contract, ..service_spec(1) });
        play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
        play.reaches.insert(lock(1), Reach::Sick { since: None });
        let Why { rule, next, .. } = why(&mut play);
        assert_eq!(
            rule.to_string(),
            "w1 has it and answers, but its health checks fail: that worker gets no new work, and this keeps running there; `sterna drain w1` moves it"
        );
        assert_eq!(next, Next::WhenChanged);
        let told = play.why(task("build")).unwrap();
        assert!(told.rule.to_string().ends_with("the log of w1 names the failing check"));
        assert_eq!(told.next, Next::WhenChanged);
        // Newer workers say which.
        let facts = br#"{"failed_check":"true ended with 1"}"#;
        play.news(scheduler::Effect::Facts(life(1), name("w1"), Arc::from(*facts)));
        let said = play.why(task("build")).unwrap().rule.to_string();
        assert!(
            said.contains("its health checks fail (true ended with 1): that worker gets"),
            "{said}"
        );
        assert!(said.ends_with("fix that on w1"), "{said}");
    }
}

/// By the name alone no command would find the one that is meant.
#[test]
fn of_machines_that_are_called_the_same_the_advice_names_the_lock() {
    let mut play = Play::with(1);
    put(&mut play, service_spec(1));
    play.news(scheduler::Effect::Enroll(enrolled(1)));
    play.silence(1);
    assert!(why(&mut play).rule.to_string().contains("`sterna declare-dead w1`"));
    let namesake = Enrolled { name: name("w1"), ..enrolled(2) };
    play.news(scheduler::Effect::Enroll(namesake.clone()));
    let rule = why(&mut play).rule.to_string();
    assert!(rule.starts_with("w1 has it and does not answer"), "{rule}");
    assert!(rule.contains(&format!("`sterna declare-dead {}`", lock(1))), "{rule}");
    // It is called otherwise in its next life.
    play.news(scheduler::Effect::Enroll(Enrolled { name: name("w2"), ..namesake }));
    assert!(why(&mut play).rule.to_string().contains("`sterna declare-dead w1`"));
}
