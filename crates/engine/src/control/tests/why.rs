//! Why: every rule, in the words that people read.

use std::sync::Arc;

use sterna_model::{
    Contract, IMAGES_TAG, ServiceKey, Span, WallTime,
    record::TaskEnd,
    spec::{ServiceSpec, TaskSpec, UpdatePolicy},
};
use sterna_protocol::{
    message::{News, RunRefusal},
    scheduler::{self, Reach, Settlement},
};

use super::play::{
    FAILURE, Mood, Play, RUNNING, SUCCESS, incarnation, life, lock, name, other_work, service_spec,
    task, task_spec, wants, web,
};
use crate::control::why::LOOKS;
use crate::control::{Alarm, Call, Called, Input, Next, Row, RowKey, Why};

fn at(seconds: u64) -> Next {
    Next::At(WallTime::EPOCH.plus(Span::from_secs(seconds)))
}

fn why(play: &mut Play, index: u32) -> (String, Next) {
    let Why { rule, next, .. } = play.why(web().instance(index)).expect("something is to be told");
    (rule.to_string(), next)
}

fn since(play: &mut Play, index: u32) -> Option<WallTime> {
    play.why(web().instance(index)).and_then(|why| why.since)
}

fn put(play: &mut Play, spec: ServiceSpec) {
    play.ask(Call::PutService(web(), spec));
}

#[test]
fn what_is_as_it_should_be_has_no_why() {
    let mut play = Play::with(1);
    put(&mut play, service_spec(1));
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    assert_eq!(play.why(web().instance(0)), None);
    assert_eq!(play.why(task("build")), None);
    assert_eq!(play.why(task("other")), None, "there is no such task");
}

#[test]
fn a_task_that_its_worker_has_not_started_yet_says_so() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    let told = play.why(task("build")).expect("it has not begun");
    assert_eq!(
        (told.rule.name(), told.rule.to_string()),
        ("starting", "w1 is starting it".to_owned())
    );
    let run = *play.running.keys().next().expect("its worker has it");
    play.report(run, News::Progress(Arc::from(&br#"{"state":"starting"}"#[..])));
    assert!(play.why(task("build")).is_some(), "its image is loaded");
    play.report(run, News::Progress(Arc::from(RUNNING)));
    assert_eq!(play.why(task("build")), None);
}

#[test]
fn work_without_room_names_the_nearest_miss() {
    let mut play = Play::with(1);
    put(&mut play, ServiceSpec { wants: wants(60), ..service_spec(2) });
    let (rule, next) = why(&mut play, 1);
    assert_eq!(
        rule,
        "no worker has enough free; w1 comes nearest: memory: 60B asked, 40B free, 20B missing"
    );
    assert_eq!(next, Next::WhenThereIsRoom);
    put(&mut play, ServiceSpec { wants: wants(160), ..service_spec(2) });
    assert_eq!(why(&mut play, 1).1, Next::WhenChanged, "no worker could ever hold it");
}

#[test]
fn work_in_an_image_says_that_no_worker_can_run_images_and_goes_where_one_can() {
    let mut wants = (*wants(10)).clone();
    wants.constraints.tags.insert(name(IMAGES_TAG));
    let spec = TaskSpec { wants: Arc::new(wants), ..task_spec() };
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(spec)));
    let told = play.why(task("build")).unwrap();
    assert_eq!(
        told.rule.to_string(),
        "no eligible worker can run images; w1 comes nearest; install runc there and restart its worker as root, or run it without an image"
    );
    assert_eq!(told.next, Next::WhenChanged);
    let facts = br#"{"memory_bytes":100,"containers":100,"runtimes":["process","runc"]}"#;
    play.news(scheduler::Effect::Facts(life(1), name("w1"), Arc::from(&facts[..])));
    assert_eq!(play.why(task("build")), None);
    assert_eq!(play.starts, [task("build")]);
}

#[test]
fn work_that_lacks_a_tag_and_images_says_what_helps_against_both() {
    let mut wants = (*wants(10)).clone();
    wants.constraints.tags.extend([name(IMAGES_TAG), name("gpu")]);
    let spec = TaskSpec { wants: Arc::new(wants), ..task_spec() };
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(spec)));
    assert_eq!(
        play.why(task("build")).unwrap().rule.to_string(),
        "no worker has the right tags and can run images; w1 comes nearest, it lacks gpu, it cannot run images; start a worker with --tag gpu, or remove it from the spec; install runc there and restart its worker as root, or run it without an image"
    );
}

/// The engine read which tags a worker requires, and no worker said it.
#[test]
fn a_worker_that_requires_a_tag_is_kept_for_work_that_asks_for_it() {
    let mut play = Play::with(1);
    let facts = br#"{"memory_bytes":100,"containers":100,"required_tags":["gpu"]}"#;
    play.news(scheduler::Effect::Facts(life(1), name("w1"), Arc::from(&facts[..])));
    play.ask(Call::CreateTask(task("plain"), incarnation(1), Arc::new(task_spec())));
    let told = play.why(task("plain")).unwrap();
    assert_eq!(
        told.rule.to_string(),
        "no worker accepts it; w1 comes nearest, it accepts only work with the tag gpu; ask for gpu, or \
         start a worker without --require-tag gpu"
    );
    assert_eq!(told.next, Next::WhenChanged);
    let mut wants = (*wants(10)).clone();
    wants.constraints.tags.insert(name("gpu"));
    let asks = TaskSpec { wants: Arc::new(wants), ..task_spec() };
    play.ask(Call::CreateTask(task("asks"), incarnation(2), Arc::new(asks)));
    assert_eq!(play.starts, [task("asks")]);
    // The worker was started without it: what waited goes there.
    let facts = br#"{"memory_bytes":100,"containers":100}"#;
    play.news(scheduler::Effect::Facts(life(1), name("w1"), Arc::from(&facts[..])));
    assert_eq!(play.starts, [task("asks"), task("plain")]);
}

/// A spec that must be apart from a service.
fn apart_from(service: &str, instances: u32) -> ServiceSpec {
    let mut wants = (*wants(10)).clone();
    wants.constraints.apart_from.insert(name(service));
    ServiceSpec { wants: Arc::new(wants), ..service_spec(instances) }
}

fn drain(play: &mut Play, worker: u8) {
    let deadline = play.now.wall.plus(Span::from_secs(600));
    play.ask(Call::Drain(lock(worker), deadline));
}

/// It was tried when there was no worker that took work; since then others got what it asks for.
#[test]
fn the_rule_is_the_one_that_holds_now_and_not_when_it_was_tried() {
    let mut play = Play::with(1);
    drain(&mut play, 1);
    put(&mut play, ServiceSpec { wants: wants(60), ..service_spec(2) });
    let (rule, _) = why(&mut play, 1);
    assert!(rule.starts_with("only w1 may run it, which is being drained until "), "{rule}");
    assert!(rule.contains("`sterna undrain w1` gives it work again"), "{rule}");
    play.ask(Call::Undrain(lock(1)));
    let (rule, _) = why(&mut play, 1);
    assert!(rule.starts_with("no worker has enough free; w1 comes nearest"), "{rule}");
}

#[test]
fn the_spec_that_keeps_two_services_apart_is_named() {
    let mut play = Play::with(1);
    let db = ServiceKey { name: name("db"), ..web() };
    play.ask(Call::PutService(db, apart_from("web", 1)));
    put(&mut play, service_spec(1));
    let (rule, next) = why(&mut play, 0);
    assert_eq!(
        rule,
        "every worker with room runs something that `apart_from` forbids beside it; w1 comes nearest: db runs there, and its `apart_from` names this one; start another worker, or change that spec"
    );
    assert_eq!(next, Next::WhenThereIsRoom);
    let mut play = Play::with(1);
    put(&mut play, apart_from("web", 2));
    let (rule, _) = why(&mut play, 1);
    assert!(rule.contains("an instance of the same service runs there"), "{rule}");
    assert!(rule.contains("its `apart_from` names that service; start another"), "{rule}");
    assert!(rule.ends_with("or ask for fewer instances"), "{rule}");
}

#[test]
fn a_drained_worker_that_would_have_room_is_the_smallest_change() {
    let mut play = Play::with(2);
    drain(&mut play, 2);
    put(&mut play, ServiceSpec { wants: wants(60), ..service_spec(2) });
    let (rule, _) = why(&mut play, 1);
    assert!(rule.contains("w1 comes nearest: memory: 60B asked, 40B free, 20B missing"), "{rule}");
    assert!(rule.contains("; w2 could run it, but is being drained until "), "{rule}");
}

#[test]
fn a_copy_that_cannot_be_moved_is_said_to_run_on() {
    let mut play = Play::with(1);
    put(&mut play, service_spec(1));
    drain(&mut play, 1);
    let (rule, _) = why(&mut play, 0);
    assert!(rule.contains("; a copy of it runs on w1 meanwhile, until "), "{rule}");
}

#[test]
fn a_task_that_waits_says_until_when() {
    let mut play = Play::empty();
    let latest_start = Some(WallTime::EPOCH.plus(Span::from_secs(60)));
    let spec = TaskSpec { latest_start, ..task_spec() };
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(spec)));
    let told = play.why(task("build")).unwrap();
    assert_eq!(told.rule.to_string(), "there is no worker: start one with `sterna worker`");
    let ends = Next::EndsAt(WallTime::EPOCH.plus(Span::from_secs(60)));
    assert_eq!((told.since, told.next), (Some(WallTime::EPOCH), ends));
    play.pass(60);
    let told = play.why(task("build")).unwrap();
    assert_eq!(told.rule.to_string(), format!("failed: {}", TaskEnd::TooLate));
}

#[test]
fn a_crash_says_when_it_begins_again() {
    let mut play = Play::with(1);
    let mut spec = service_spec(1);
    spec.crash.wait_from = 1;
    spec.crash.give_up_at = 2;
    put(&mut play, spec);
    play.end(play.run_of(0), FAILURE);
    let failure = String::from_utf8_lossy(FAILURE).into_owned();
    assert_eq!(
        why(&mut play, 0),
        (format!("it crashed: {failure}; it waits before it restarts"), at(30))
    );
    play.pass(30);
    play.end(play.run_of(0), FAILURE);
    let expected = format!(
        "it crashed 2 times in a row, last: {failure}; the leader gave up restarting it: change its spec, or restart it with `sterna stop`"
    );
    assert_eq!(why(&mut play, 0), (expected, Next::WhenChanged));
}

#[test]
fn what_is_on_its_way_says_where() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    put(&mut play, service_spec(1));
    assert_eq!(why(&mut play, 0), ("w1 is starting it".to_owned(), Next::WhenTold));
    play.settle(play.run_of(0), Settlement::Refused(RunRefusal::NotHealthy));
    assert_eq!(why(&mut play, 0), ("a worker has just refused it".to_owned(), at(1)));
}

#[test]
fn what_is_on_its_way_says_that_its_monitor_has_not_succeeded_and_that_it_crashed_before() {
    let mut play = Play::with(1);
    let monitored = other_work(&service_spec(1), r#"{"monitor":{"http":"/"}}"#);
    put(&mut play, monitored);
    play.end(play.run_of(0), br#"{"cause":"never_healthy","usage":{"cpu_ms":7}}"#);
    play.moods.insert(1, Mood::Dawdles);
    play.end(play.run_of(0), br#"{"cause":"unhealthy"}"#);
    let (rule, next) = why(&mut play, 0);
    let end = r#"{"cause":"unhealthy","exit":null}"#;
    let expected = format!(
        "w1 is starting it; its monitor has not succeeded yet; before that it crashed 2 times in a row, \
         last: {end}"
    );
    assert_eq!((rule, next), (expected, Next::WhenTold));
    assert!(since(&mut play, 0).is_some());
}

#[test]
fn what_is_being_ended_says_why() {
    let mut play = Play::with(1);
    put(&mut play, service_spec(1));
    play.moods.insert(1, Mood::Silent);
    play.ask(Call::StopInstance(web().instance(0)));
    let expected = "w1 is ending it: a client asked for it".to_owned();
    assert_eq!(why(&mut play, 0), (expected.clone(), killed_at(10)));
    assert_eq!(since(&mut play, 0), None, "it runs since then, and is not being ended since then");
    play.pass(4);
    play.ask(Call::StopInstance(web().instance(0)));
    assert_eq!(
        why(&mut play, 0),
        (expected.clone(), killed_at(10)),
        "asked again it has no more time"
    );
    play.pass(6);
    assert_eq!(why(&mut play, 0), (expected, Next::WhenTold), "it was killed, and says so next");
}

fn killed_at(seconds: u64) -> Next {
    Next::KilledAt(WallTime::EPOCH.plus(Span::from_secs(seconds)))
}

/// Workers that do not end what they are asked to.
fn ignoring(workers: u8) -> Play {
    let mut play = Play::with(workers);
    for worker in 1..=workers {
        play.moods.insert(worker, Mood::Ignores);
    }
    play
}

#[test]
fn what_is_being_ended_says_when_it_is_killed_by_its_own_grace_in_its_own_version() {
    let patient = r#"{"signals":{"grace":"1m"},"ports":["http"]}"#;
    let old = other_work(&service_spec(2), patient);
    let mut play = ignoring(2);
    put(&mut play, old.clone());
    put(&mut play, other_work(&old, r#"{"signals":{"grace":"2s"}}"#));
    assert_eq!(why(&mut play, 0).1, killed_at(61), "of the version that it is of");
    // A service that is gone says nothing any more, and what it said of those that end holds.
    play.pass(1);
    play.ask(Call::DeleteService(web()));
    assert_eq!(why(&mut play, 0).1, killed_at(61));
    assert_eq!(why(&mut play, 1).1, killed_at(62));
    let mut play = ignoring(1);
    put(&mut play, other_work(&service_spec(1), r#"{"signals":{"grace":null}}"#));
    play.ask(Call::StopInstance(web().instance(0)));
    assert_eq!(why(&mut play, 0).1, Next::WhenTold, "it is waited for");
}

#[test]
fn what_a_drain_ends_says_the_deadline_and_is_killed_at_that_moment_and_not_before() {
    let mut play = ignoring(1);
    let contract = Contract::Stop { after: Span::from_secs(120) };
    let patient = other_work(&service_spec(1), r#"{"signals":{"grace":"1h"}}"#);
    put(&mut play, ServiceSpec { contract, ..patient });
    drain(&mut play, 1);
    let (rule, next) = why(&mut play, 0);
    assert_eq!(
        (rule.as_str(), next),
        ("w1 is ending it: its worker is being drained", killed_at(600))
    );
    play.pass(599);
    assert_eq!(play.running.len(), 1);
    play.pass(1);
    assert!(play.running.is_empty());
}

#[test]
fn a_second_copy_that_is_being_moved_or_ended_says_until_when() {
    let mut play = ignoring(2);
    put(&mut play, service_spec(1));
    let (run, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    for other in 1..=2 {
        play.moods.insert(other, Mood::Dawdles);
    }
    play.moods.insert(worker, Mood::Ignores);
    drain(&mut play, worker);
    play.report(play.run_of(0), News::Progress(Arc::from(RUNNING)));
    let (rule, next) = why(&mut play, 0);
    assert_eq!(rule, format!("a second copy on w{worker} is being moved"));
    assert_eq!(next, killed_at(10), "another runs: it is ended");
    assert!(play.running.contains_key(&run));
}

#[test]
fn an_instance_that_an_update_waits_for_says_until_when_and_what_happens_then() {
    let update = UpdatePolicy { max_unavailable: 1, ..UpdatePolicy::default() };
    let spec = ServiceSpec { update, ..service_spec(3) };
    let mut play = Play::with(2);
    put(&mut play, spec.clone());
    play.pass(3);
    for worker in 1..=2 {
        play.moods.insert(worker, Mood::Dawdles);
    }
    put(&mut play, other_work(&spec, "v2"));
    let (rule, next) = why(&mut play, 0);
    assert!(rule.ends_with(" is starting it; an update waits for it"), "{rule}");
    assert_eq!(next, Next::WhenTold);
    for worker in 1..=2 {
        play.moods.insert(worker, Mood::Obeys);
    }
    play.report(play.run_of(0), News::Progress(Arc::from(RUNNING)));
    let waits = "it runs the wanted version, and the update waits until it has run for 10s; then";
    let back = "; 3 crashes before that roll the version back";
    let expected = [
        "the update replaces the next of 2 instances of another version",
        "the update replaces the last instance of another version",
        "the update is complete",
    ];
    for (index, then) in expected.into_iter().enumerate() {
        let index = u32::try_from(index).unwrap();
        let until = Next::ServesAt(play.now.wall.plus(Span::from_secs(10)));
        assert_eq!(why(&mut play, index), (format!("{waits} {then}{back}"), until));
        let runs: Vec<_> = play.running.keys().copied().collect();
        play.pass(9);
        assert_eq!(play.running.keys().copied().collect::<Vec<_>>(), runs, "not before");
        assert!(is_updating(&play));
        play.pass(1);
        assert_eq!(play.why(web().instance(index)), None, "it counts as there");
        let goes_on = play.running.keys().copied().collect::<Vec<_>>() != runs;
        assert_eq!((goes_on, is_updating(&play)), (index < 2, index < 2), "at that moment");
    }
}

#[test]
fn an_update_that_waits_for_several_says_so_of_each() {
    let update = UpdatePolicy { max_unavailable: 2, revert_after: None, ..UpdatePolicy::default() };
    let spec = ServiceSpec { update, ..service_spec(2) };
    let mut play = Play::with(2);
    put(&mut play, spec.clone());
    for worker in 1..=2 {
        play.moods.insert(worker, Mood::Dawdles);
    }
    put(&mut play, other_work(&spec, "v2"));
    play.report(play.run_of(0), News::Progress(Arc::from(RUNNING)));
    assert!(why(&mut play, 0).0.ends_with("; then it waits for 1 other instance"));
    play.pass(2);
    play.report(play.run_of(1), News::Progress(Arc::from(RUNNING)));
    assert!(why(&mut play, 0).0.ends_with("; then it waits for 1 other instance"));
    assert!(why(&mut play, 1).0.ends_with("; then the update is complete"));
}

/// The words of one cost a look at each at most, and its rule alone, which the log asks for of all, none
/// at the others.
#[test]
fn what_an_update_waits_for_costs_one_look_at_each_and_the_rule_alone_none() {
    let looks = |play: &mut Play, index: u32| {
        let key = web().instance(index);
        LOOKS.set(0);
        let rule =
            play.control.rule(play.now, &key.to_work(), |_| Reach::Near).expect("it is kept");
        let for_rule = LOOKS.replace(0);
        let why = play.why(&key).expect("it is kept");
        assert_eq!(why.rule.name(), rule.name());
        (rule.name(), for_rule, LOOKS.get())
    };
    for half in [4_u32, 8] {
        let update = UpdatePolicy { max_unavailable: half, ..UpdatePolicy::default() };
        let spec = ServiceSpec { update, ..service_spec(2 * half) };
        let mut play = Play::with(2);
        put(&mut play, spec.clone());
        put(&mut play, other_work(&spec, "v2"));
        let all = half as usize;
        assert_eq!(looks(&mut play, 1), ("settling", 1, 1 + all));
        assert_eq!(looks(&mut play, 2 * half - 1), ("outdated", 0, all));
    }
}

/// A version that was taken back is not the highest until the next update, and nothing is under way.
#[test]
fn after_a_version_was_taken_back_no_update_is_spoken_of() {
    let update = UpdatePolicy { revert_after: Some(1), ..UpdatePolicy::default() };
    let spec = ServiceSpec { update, ..service_spec(1) };
    let mut play = Play::with(2);
    put(&mut play, spec.clone());
    play.pass(60);
    put(&mut play, other_work(&spec, "v2"));
    assert!(why(&mut play, 0).0.starts_with("it runs the wanted version"));
    play.end(play.run_of(0), FAILURE);
    play.pass(600);
    assert!(!is_updating(&play));
    put(&mut play, ServiceSpec { instances: 3, ..spec });
    assert_eq!(play.runs_on(1).len() + play.runs_on(2).len(), 3);
    for index in 0..3 {
        assert_eq!(play.why(web().instance(index)), None, "{index} is there");
    }
}

#[test]
fn a_task_that_was_cancelled_and_still_runs_says_that_it_is_being_ended() {
    let mut play = ignoring(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    play.ask(Call::CancelTask(task("build")));
    let told = play.why(task("build")).unwrap();
    let over = "cancelled";
    assert_eq!(told.rule.to_string(), format!("{over}; w1 is still ending it"));
    assert_eq!((told.rule.name(), told.next), ("ending", killed_at(10)));
    play.silence(1);
    let told = play.why(task("build")).unwrap();
    assert_eq!(told.next, Next::WhenTold, "whoever is silent may not have heard of it");
    play.reaches.clear();
    play.end(play.runs_on(1)[0], FAILURE);
    let told = play.why(task("build")).unwrap();
    assert_eq!((told.rule.name(), told.next), ("over", Next::Nothing));
}

/// Its grace counts from when its worker was first asked, and who asks again does not know when that was.
#[test]
fn the_moment_of_a_kill_that_an_earlier_leader_asked_for_is_not_named() {
    let mut play = ignoring(1);
    put(&mut play, service_spec(1));
    play.ask(Call::StopInstance(web().instance(0)));
    assert_eq!(why(&mut play, 0).1, killed_at(10));
    play.pass(8);
    let mut play = play.change_leader();
    assert_eq!(why(&mut play, 0).1, Next::WhenTold);
}

fn is_updating(play: &Play) -> bool {
    play.control.service(&web()).is_some_and(|record| record.before.is_some())
}

#[test]
fn a_second_copy_is_named() {
    let mut play = Play::with(2);
    put(&mut play, service_spec(1));
    let worker = play.worker_of(play.run_of(0));
    play.fall_silent(worker);
    let expected = format!("a second copy on w{worker} is out of reach{}", gone_for_good(worker));
    assert_eq!(why(&mut play, 0), (expected, Next::WhenGone));
    assert!(since(&mut play, 0).is_some());
}

#[test]
fn a_slot_that_is_taken_is_named() {
    let mut play = Play::with(2);
    let stop = Contract::Stop { after: Span::from_secs(120) };
    put(&mut play, service_spec(1));
    let worker = play.worker_of(play.run_of(0));
    for other in 1..=2 {
        play.moods.insert(other, Mood::Dawdles);
    }
    play.fall_silent(worker);
    // The next one must not overlap.
    put(&mut play, ServiceSpec { contract: stop, ..service_spec(1) });
    let remedy = gone_for_good(worker);
    let expected = format!("a copy on w{worker} is out of reach, and may still run{remedy}");
    assert_eq!(why(&mut play, 0), (expected, Next::WhenGone));
}

#[test]
fn an_instance_that_waits_for_its_update_says_so() {
    let mut play = Play::with(2);
    put(&mut play, service_spec(3));
    for worker in 1..=2 {
        play.moods.insert(worker, Mood::Dawdles);
    }
    put(&mut play, other_work(&service_spec(3), "v2"));
    let older = "it runs another version, like 1 other instance";
    let expected = format!("{older}; 1 is not available yet, and at most 1 may be unavailable");
    assert_eq!(why(&mut play, 2), (expected, Next::WhenServing));
    assert_eq!(since(&mut play, 2), Some(WallTime::EPOCH));
    play.pass(5);
    let mut play = play.change_leader();
    assert_eq!(since(&mut play, 2), None, "the next leader does not know");
}

#[test]
fn an_update_that_waits_until_one_has_run_for_long_enough_says_which_and_when() {
    let mut play = Play::with(2);
    let update = UpdatePolicy { max_unavailable: 2, ..UpdatePolicy::default() };
    let spec = ServiceSpec { update, ..service_spec(4) };
    put(&mut play, spec.clone());
    play.pass(3);
    put(&mut play, other_work(&spec, "v2"));
    let older = "it runs another version, like 1 other instance";
    let expected = format!("{older}; the update waits until web/0 has run for 10s");
    assert_eq!(why(&mut play, 3), (expected, at(13)));
    play.pass(9);
    assert!(why(&mut play, 3).0.contains("web/0"));
    play.pass(1);
    assert!(why(&mut play, 3).0.starts_with("it runs the wanted version"), "and then it does");
}

/// What helps against a copy that is silent for good.
fn gone_for_good(worker: u8) -> String {
    format!(
        "; if that machine is gone for good, run `sterna declare-dead w{worker}`, and `sterna forget \
         w{worker}` once it has no work"
    )
}

#[test]
fn a_callback_that_is_not_taken_says_so_until_it_is_given_up_and_then() {
    let mut play = Play::with(1);
    let spec = TaskSpec { callback: Some("http://receiver/".into()), ..task_spec() };
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(spec)));
    play.end(play.runs_on(1)[0], SUCCESS);
    let told = |play: &mut Play| {
        let Why { rule, next, .. } = play.why(task("build")).unwrap();
        (rule.to_string(), next)
    };
    assert!(
        told(&mut play).0.ends_with("the leader is sending its callback"),
        "{:?}",
        told(&mut play)
    );
    for tries in 1..8_u32 {
        play.step(Input::Called(task("build"), incarnation(1), Called::NotTaken));
        let (rule, next) = told(&mut play);
        assert!(
            rule.ends_with(&format!("failed, {tries} in a row; the leader retries it")),
            "{rule}"
        );
        let wait = 1 << (tries - 1);
        assert_eq!(next, Next::At(play.now.wall.plus(Span::from_secs(wait))));
        play.pass(wait);
        assert_eq!(play.callbacks.len(), tries as usize + 1);
    }
    assert!(play.alarms.is_empty());
    play.step(Input::Called(task("build"), incarnation(1), Called::NotTaken));
    assert_eq!(play.alarms, [Alarm::CallbackGivenUp(task("build"), 8)]);
    assert!(
        told(&mut play).0.ends_with("its callback failed, and the leader gave it up"),
        "{:?}",
        told(&mut play)
    );
    let mut play = play.change_leader();
    play.pass(600);
    assert!(play.callbacks.is_empty());
    assert!(
        told(&mut play).0.ends_with("its callback failed, and the leader gave it up"),
        "it stands"
    );
}

#[test]
fn what_no_spec_wants_and_nobody_may_end_says_so() {
    let mut play = Play::with(1);
    let stale = ServiceSpec { domain: name("blue"), ..service_spec(2) };
    put(&mut play, stale.clone());
    let mut few = play.store.clone();
    if let Some(Row::Service(_, Some(record))) = few.get_mut(&RowKey::Service(web())) {
        Arc::make_mut(record).spec.instances = 1;
    }
    play.store = few;
    let mut play = play.change_leader();
    assert_eq!(play.running.len(), 2, "its domain is stale");
    let (rule, next) = why(&mut play, 1);
    assert!(rule.starts_with("no spec asks for it, but its domain blue is stale"), "{rule}");
    assert_eq!(next, Next::WhenChanged);
}
