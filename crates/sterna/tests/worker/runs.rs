//! Runs: begun once, ended as asked, told until somebody has it.

use serde_json::json;
use sterna_model::{Contract, NotifySequence, RunSequence, Span};
use sterna_protocol::{
    message::{Kill, News, Order, Ordinal, Run, RunAnswer, RunRefusal, Saying},
    scheduler::{NotSent, Report, Settlement},
};

use sterna_worker::sink::Stream;

use crate::{
    leader::{LONG_STOP, Leader, Seen, run_id, shell, sleeper},
    place::{LONG, Place, Worker, wait_until},
};

#[test]
fn a_task_is_run_and_its_end_is_told_with_its_exit_code() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start_with(
        &place,
        &[
            "--join",
            &format!("localhost:{}", leader.port),
            "--name=w1",
            "--zone=z1",
            "--tag=ssd,gpu",
            "--stack=debian",
            "--has=license=3",
        ],
    );
    let who = leader.wait_for_healthy();
    let facts = leader.wait("facts", |seen| {
        if let Seen::Facts(facts) = seen { Some(facts.clone()) } else { None }
    });
    assert_eq!(facts["zone"], "z1");
    assert_eq!(facts["tags"], json!(["gpu", "ssd"]));
    assert_eq!(facts["stack"], "debian");
    assert!(facts["cpu_millicores"].as_u64().unwrap() >= 1_000, "{facts}");
    assert!(facts["memory_bytes"].as_u64().unwrap() > 1 << 20, "{facts}");
    assert_eq!(facts["countables"]["license"], 3, "{facts}");
    let script = "echo out; echo err >&2; echo $STERNA_KEY $STERNA_WORKER; exit 3";
    let run = leader.dispatch(who, 1, LONG_STOP, &shell(&place, script));
    let end = leader.end(run);
    assert_eq!(end["cause"], "exited");
    assert_eq!(end["exit"], json!({ "code": 3 }));
    // Recorded, so it is forgotten, and only its output stays.
    worker.wait_to_say("the leader has recorded its end");
    wait_until("it is forgotten", LONG, || {
        place.files("held").is_empty() && place.runs().is_empty()
    });
    place.wait_for_output(run, &["out", "default/task/t1 w1"]);
    assert_eq!(place.output(run, Stream::Stderr), ["err"]);
    assert!(worker.end_by("TERM").success());
}

#[test]
fn many_runs_share_frames_and_each_has_its_own_end() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    for number in 1..=100 {
        let script = format!("exit {}", number % 7);
        leader.dispatch(who, number, LONG_STOP, &shell(&place, &script));
    }
    for number in 1..=100 {
        let end = leader.end(run_id(number));
        assert_eq!(end["exit"]["code"], number % 7, "{number}: {end}");
    }
    wait_until("all are forgotten", LONG, || place.files("held").is_empty());
    assert!(worker.end_by("TERM").success());
}

#[test]
fn a_kill_reaches_the_run() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let script = "trap 'echo heard; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let polite = leader.dispatch(who, 1, LONG_STOP, &shell(&place, script));
    let stubborn = leader.dispatch(
        who,
        2,
        LONG_STOP,
        &shell(&place, "trap '' TERM; echo up; while :; do sleep 0.05; done"),
    );
    for run in [polite, stubborn] {
        place.wait_for_output(run, &["up"]);
    }
    leader.kill(polite, Kill::Gracefully);
    leader.kill(stubborn, Kill::Now);
    let end = leader.end(polite);
    assert_eq!((&end["cause"], &end["exit"]["code"]), (&json!("request"), &json!(0)));
    place.wait_for_output(polite, &["up", "heard"]);
    let end = leader.end(stubborn);
    assert_eq!((&end["cause"], &end["exit"]["signal"]), (&json!("request"), &json!(9)));
    assert!(worker.end_by("TERM").success());
}

#[test]
fn what_cannot_start_ends_with_its_reason() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let absent = leader.dispatch(who, 1, LONG_STOP, &json!({ "run": ["no-such-command"] }));
    let why = leader.end(absent)["cause"]["failed_to_start"].to_string();
    assert!(why.contains("no-such-command"), "{why}");
    let garbled = leader.dispatch(who, 2, LONG_STOP, &json!({ "run": "not a list" }));
    let why = leader.end(garbled)["cause"]["failed_to_start"].to_string();
    assert!(why.contains("its work cannot be read"), "{why}");
    wait_until("both are forgotten", LONG, || place.files("held").is_empty());
    assert!(worker.end_by("TERM").success());
}

#[test]
fn an_end_is_told_until_it_is_recorded() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    leader.record(false);
    let run = leader.dispatch(who, 1, LONG_STOP, &shell(&place, "exit 5"));
    let sent = |leader: &Leader| {
        let is_it = |saying: &Saying| match saying {
            Saying::Statuses(statuses) => statuses.iter().any(|status| status.news.is_end()),
            Saying::Heartbeat(_) | Saying::Running(_) | Saying::Answers(_) | Saying::Noted(_) => {
                false
            }
        };
        let frames = leader.seen().into_iter();
        frames.filter(|seen| matches!(seen, Seen::Frame(frame) if is_it(&frame.saying))).count()
    };
    wait_until("it is told again and again", LONG, || sent(&leader) >= 3);
    assert_eq!(place.files("held"), [format!("{run}.json")]);
    // The next leader hears it too, and records it.
    let leader = leader.restart();
    assert_eq!(leader.end(run)["exit"]["code"], 5);
    wait_until("it is forgotten", LONG, || place.files("held").is_empty());
    assert!(worker.end_by("TERM").success());
}

/// The answers to a run, in order.
fn answers(leader: &Leader, number: u8) -> Vec<RunAnswer> {
    let all = leader.seen().into_iter().flat_map(|seen| {
        if let Seen::Frame(frame) = seen
            && let Saying::Answers(answers) = frame.saying
        {
            answers
        } else {
            Vec::new()
        }
    });
    all.filter(|(run, _)| *run == run_id(number)).map(|(_, answer)| answer).collect()
}

#[test]
fn a_run_that_comes_twice_or_too_late_is_not_begun() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let work = sleeper(&place, "starts");
    let run = leader.dispatch(who, 1, LONG_STOP, &work);
    leader.wait_for_running(run);
    let copy = |sequence: u64, number: u8, key: u8, contract: Contract| Run {
        sequence: RunSequence::new(sequence),
        notify: NotifySequence::ZERO,
        run: run_id(number),
        key: format!("default/task/t{key}").parse().unwrap(),
        task: None,
        contract,
        ordinal: Ordinal::default(),
        work: work.to_string().into_bytes().into(),
    };
    // The same again, as a network may deliver it; another run of the key; one whose time is over
    // before it begins; and one that shows that all of them were heard.
    leader.order(Order::Run(vec![copy(1, 1, 1, LONG_STOP)]));
    leader.order(Order::Run(vec![copy(2, 2, 1, LONG_STOP)]));
    let short = Contract::Stop { after: Span::from_millis(1_000) };
    leader.order(Order::Run(vec![copy(3, 3, 3, short)]));
    leader.order(Order::Run(vec![copy(4, 4, 4, LONG_STOP)]));
    wait_until("the last one is answered", LONG, || !answers(&leader, 4).is_empty());
    assert_eq!(answers(&leader, 1), [RunAnswer::Started], "each is decided once");
    let here = RunAnswer::Refused(RunRefusal::KeyIsHere(run_id(1)));
    assert_eq!(answers(&leader, 2), [here]);
    assert_eq!(answers(&leader, 3), [RunAnswer::Refused(RunRefusal::TooLate)]);
    assert_eq!(answers(&leader, 4), [RunAnswer::Started]);
    // What was asked about does not begin any more, though it was sent before.
    let ask = Order::NotifyIfNotRunning(NotifySequence::new(1), vec![run_id(5)]);
    leader.order(ask);
    leader.order(Order::Run(vec![copy(5, 5, 5, LONG_STOP)]));
    leader.wait("that it was not running", |seen| {
        if let Seen::Reported(Report { run, news: News::WasNotRunning, .. }) = seen {
            (*run == run_id(5)).then_some(())
        } else {
            None
        }
    });
    wait_until("it is answered", LONG, || !answers(&leader, 5).is_empty());
    assert_eq!(answers(&leader, 5), [RunAnswer::Refused(RunRefusal::Overtaken)]);
    wait_until("two have begun", LONG, || place.lines("starts").len() == 2);
    assert!(worker.end_by("TERM").success());
    assert_eq!(place.lines("starts").len(), 2, "one and four, once each");
}

#[test]
fn a_draining_worker_takes_no_work_and_keeps_what_it_has() {
    let (place, leader) = (Place::new(), Leader::start());
    let port = leader.port.to_string();
    let join = format!("127.0.0.1:{port}");
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let run = leader.dispatch(who, 1, LONG_STOP, &sleeper(&place, "starts"));
    leader.wait_for_running(run);
    leader.drain(who.lock, true);
    worker.wait_to_say("draining: the leader sends no new work");
    let refused = leader.dispatch(who, 2, LONG_STOP, &sleeper(&place, "starts"));
    assert_eq!(leader.settled(refused), Settlement::NotSent(NotSent::Draining));
    assert_eq!(place.marked().len(), 1);
    leader.drain(who.lock, false);
    worker.wait_to_say("not draining: the leader may send new work");
    assert!(worker.end_by("TERM").success());
    // The operator of the machine asks for it.
    let worker = Worker::start_with(&place, &["--join", &join, "--name", "w1", "--drain", "yes"]);
    worker.wait_to_say("draining: the leader sends no new work");
    let who = leader.wait_for_later(who.life);
    let refused = leader.dispatch(who, 3, LONG_STOP, &sleeper(&place, "starts"));
    assert_eq!(leader.settled(refused), Settlement::NotSent(NotSent::Draining));
    assert!(worker.end_by("TERM").success());
    let worker = Worker::start_with(&place, &["--join", &join, "--name", "w1", "--drain", "no"]);
    let who = leader.wait_for_later(who.life);
    let run = leader.dispatch(who, 4, LONG_STOP, &shell(&place, "exit 0"));
    assert_eq!(leader.end(run)["exit"]["code"], 0, "it works again");
    assert!(worker.end_by("TERM").success());
}
