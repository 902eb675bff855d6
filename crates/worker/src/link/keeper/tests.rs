//! The keeper with a leader, containers and a clock of the test's own.

use sterna_executor::container::{Cause, End, Exit, How, State};
use sterna_model::{
    BootTime, ClusterId, Contract, Epoch, Incarnation, Nonce, NotifySequence, Revision, RunId,
    RunSequence, Span, Term, WallTime,
    payload::{Facts, RunReport},
};
use sterna_protocol::{
    health::Health,
    limits::Limits,
    message::{
        Confirmation, FromLeader, HeartbeatAnswer, Held, Kill, Mandate, News, Order, Ordinal,
        Refusal, Run, RunAnswer, RunRefusal, Saying, Status, StatusAnswer, StreamId, VERSION,
    },
};

use super::*;
use crate::{cgroup::Usage, containers::Event, link::table::Kept};

const START: BootTime = BootTime::from_millis(100_000);

fn incarnation(life: u64) -> Incarnation {
    let lock = "dir-0192f5e4a6c07bcd89abcdef01234567.machine-00112233445566778899aabbccddeeff";
    Incarnation { lock: lock.parse().unwrap(), life }
}

fn mandate() -> Mandate {
    Mandate {
        cluster: ClusterId::from_parts(WallTime::EPOCH, [1; 10]),
        epoch: Epoch::new(1),
        term: Term::new(1),
        nonce: Nonce::new(1),
    }
}

fn run_id(number: u8) -> RunId {
    RunId::from_parts(WallTime::EPOCH, [number; 10])
}

fn held(number: u8, contract: Contract) -> Held {
    let key = format!("default/task/t{number}").parse().unwrap();
    Held { run: run_id(number), key, task: None, contract, status: None }
}

fn report() -> Box<RunReport> {
    let end = End { cause: Cause::Exited, exit: Some(Exit::Code(3)) };
    Box::new(RunReport { end, usage: Usage::default(), status: None, result: None })
}

/// A keeper, and what it wants.
struct Play {
    keeper: Keeper,
    now: BootTime,
    life: u64,
    effects: Vec<Effect>,
}

impl Play {
    fn new(kept: Vec<Kept>, events: Vec<Event>) -> Self {
        let mut tidings = Tidings::default();
        events.into_iter().for_each(|event| tidings.note(event));
        let begin = Begin {
            servers: vec!["127.0.0.1:7411".parse().unwrap()],
            name: Name::new("w1").unwrap(),
            incarnation: incarnation(7),
            boot: "b1".to_owned(),
            boot_number: 1,
            birth: 1,
            facts: Facts::default(),
            memory: Memory::default(),
            confirmed: Some(START),
            kept,
            tidings,
            wants_drain: None,
        };
        let mut effects = Vec::new();
        let keeper = Keeper::new(START, begin, &mut effects);
        Self { keeper, now: START, life: 7, effects }
    }

    fn give(&mut self, input: Input) {
        self.keeper.step(self.now, 0, input, &mut self.effects);
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now.plus(Span::from_millis(millis));
        self.give(Input::Tick);
    }

    fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn events(&mut self, events: Vec<Event>) {
        let mut tidings = Tidings::default();
        events.into_iter().for_each(|event| tidings.note(event));
        self.give(Input::Tidings(tidings));
    }

    /// The stream that is to be dialled.
    fn dialled(&self) -> Option<StreamId> {
        self.effects.iter().rev().find_map(|effect| {
            if let Effect::Dial(stream, _) = effect { Some(*stream) } else { None }
        })
    }

    /// What was said on the link.
    fn said(&self) -> Vec<Saying> {
        let said = self.effects.iter().filter_map(|effect| {
            if let Effect::Send(_, frame) = effect { Some(frame.saying.clone()) } else { None }
        });
        said.collect()
    }

    fn remarks(&self) -> Vec<String> {
        let said = self.effects.iter().filter_map(|effect| {
            if let Effect::Say(remark) = effect { Some(remark.to_string()) } else { None }
        });
        said.collect()
    }

    fn order(&mut self, stream: StreamId, order: Order) {
        let incarnation = incarnation(self.life);
        let frame = FromLeader { version: VERSION, mandate: mandate(), incarnation, order };
        self.give(Input::Frame(stream, frame));
    }

    fn confirm(&mut self, stream: StreamId) {
        let confirmation = Confirmation {
            stamp: self.now,
            limits: Limits::default(),
            verdict: Health::Healthy,
            set: None,
            revision: Revision::new(1),
            is_draining: false,
        };
        let answer = HeartbeatAnswer::Confirmed(Box::new(confirmation));
        self.order(stream, Order::Heartbeat(answer));
    }

    /// Opens a stream and becomes healthy on it.
    fn join(&mut self) -> StreamId {
        self.give(Input::Tick);
        let stream = self.dialled().unwrap();
        self.give(Input::Opened(stream));
        self.give(Input::Checked(self.now, Ok(())));
        self.guardian_answers();
        assert!(matches!(self.said().last(), Some(Saying::Heartbeat(_))));
        self.order(stream, Order::GetRunning);
        self.confirm(stream);
        self.take();
        stream
    }

    /// The guardian answers what it was asked last.
    fn guardian_answers(&mut self) {
        let asked = self.effects.iter().rev().find_map(|effect| {
            if let Effect::AskGuardian(number) = effect { Some(*number) } else { None }
        });
        self.events(vec![Event::GuardianAnswered(asked.unwrap())]);
    }

    fn run(&mut self, stream: StreamId, number: u8, work: &str) {
        self.runs(stream, &[number], work);
    }

    fn runs(&mut self, stream: StreamId, numbers: &[u8], work: &str) {
        let run = |number: u8| Run {
            sequence: RunSequence::new(number.into()),
            notify: NotifySequence::ZERO,
            run: run_id(number),
            key: format!("default/task/t{number}").parse().unwrap(),
            task: None,
            contract: Contract::Stop { after: Span::from_secs(120) },
            ordinal: Ordinal { number: number.into(), attempt: 1 },
            work: work.as_bytes().into(),
        };
        self.order(stream, Order::Run(numbers.iter().copied().map(run).collect()));
    }

    /// Sends a run, and the table takes it.
    fn run_kept(&mut self, stream: StreamId, number: u8, work: &str) {
        self.run(stream, number, work);
        self.give(Input::Kept(Vec::new()));
    }

    fn has_begun(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Start(..)))
    }

    /// The answers to runs.
    fn answers(&self) -> Vec<(RunId, RunAnswer)> {
        let answers = self.said().into_iter().filter_map(|saying| {
            if let Saying::Answers(answers) = saying { Some(answers) } else { None }
        });
        answers.flatten().collect()
    }
}

fn kept(boot: &str, number: u8) -> Kept {
    Kept { boot: boot.to_owned(), held: held(number, Contract::Keep) }
}

fn running(said: &[Saying]) -> Vec<Held> {
    let mut lists = said.iter().filter_map(|saying| match saying {
        Saying::Running(held) => Some(held.clone()),
        Saying::Heartbeat(_) | Saying::Statuses(_) | Saying::Answers(_) | Saying::Noted(_) => None,
    });
    lists.next_back().unwrap()
}

fn end_of(held: &Held) -> Option<String> {
    match &held.status {
        Some(Status { news: News::Ended(how), .. }) => {
            Some(String::from_utf8_lossy(how).into_owned())
        }
        Some(_) | None => None,
    }
}

#[test]
fn what_earlier_lives_have_left_is_told() {
    let all = vec![kept("b1", 1), kept("b1", 2), kept("b1", 3), kept("b0", 4), kept("b0", 5)];
    let events = vec![
        Event::Became(run_id(1), State::Running),
        Event::Completed(run_id(2), report()),
        Event::Completed(run_id(5), report()),
    ];
    let mut play = Play::new(all, events);
    // Of another boot, and nothing is left of it: the leader knows by the boot.
    assert!(play.effects.contains(&Effect::Forget(run_id(4))));
    play.give(Input::Tick);
    let stream = play.dialled().unwrap();
    play.give(Input::Opened(stream));
    play.order(stream, Order::GetRunning);
    let held = running(&play.said());
    let runs: Vec<RunId> = held.iter().map(|held| held.run).collect();
    assert_eq!(runs, [run_id(1), run_id(2), run_id(3), run_id(5)]);
    assert_eq!(end_of(&held[0]), None, "it goes on");
    assert!(end_of(&held[1]).unwrap().contains(r#""code":3"#));
    assert!(end_of(&held[2]).unwrap().contains("its worker ended before it began"));
    assert!(end_of(&held[3]).is_some(), "an end is an end, whatever happened since");
}

#[test]
fn nobody_is_dialled_before_a_stray_is_over() {
    let events = vec![
        Event::Became(run_id(1), State::Running),
        // It was acknowledged, and its directory was not removed any more.
        Event::Completed(run_id(2), report()),
    ];
    let mut play = Play::new(Vec::new(), events);
    assert!(play.effects.contains(&Effect::Stop(run_id(1), Cause::WorkerExit, How::Now)));
    assert!(play.effects.contains(&Effect::Forget(run_id(2))));
    play.wait(60_000);
    assert_eq!(play.dialled(), None);
    play.events(vec![Event::Completed(run_id(1), report())]);
    assert!(play.effects.contains(&Effect::Forget(run_id(1))));
    assert!(play.dialled().is_some());
    let stream = play.dialled().unwrap();
    play.give(Input::Opened(stream));
    play.order(stream, Order::GetRunning);
    assert_eq!(running(&play.said()), []);
}

#[test]
fn a_run_is_in_the_table_before_it_is_answered_and_leaves_it_when_its_end_is_recorded() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    play.run(stream, 1, r#"{"run":["true"]}"#);
    let contract = Contract::Stop { after: Span::from_secs(120) };
    assert!(play.effects.contains(&Effect::Keep(vec![held(1, contract)])));
    assert!(!play.has_begun() && play.answers().is_empty(), "it may not be kept");
    play.give(Input::Kept(Vec::new()));
    assert!(play.has_begun());
    assert_eq!(play.answers(), [(run_id(1), RunAnswer::Started)]);
    play.take();
    play.events(vec![Event::Became(run_id(1), State::Running)]);
    play.events(vec![Event::Became(run_id(1), State::Running)]);
    assert_eq!(play.said().len(), 1, "told once");
    play.take();
    play.events(vec![Event::Completed(run_id(1), report())]);
    let Saying::Statuses(statuses) = &play.said()[0] else { panic!("no status") };
    assert!(statuses[0].news.is_end());
    let number = statuses[0].number;
    play.take();
    // Not acknowledged: told again.
    play.wait(1_000);
    assert!(play.said().iter().any(|saying| matches!(saying, Saying::Statuses(_))));
    assert!(!play.effects.contains(&Effect::Forget(run_id(1))));
    play.order(
        stream,
        Order::Statuses(Revision::ZERO, vec![(run_id(1), number, StatusAnswer::Recorded)]),
    );
    assert!(play.effects.contains(&Effect::Forget(run_id(1))));
}

#[test]
fn work_that_cannot_be_read_ends_with_the_reason_and_never_begins() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    play.run_kept(stream, 1, "{");
    assert!(!play.has_begun());
    assert_eq!(play.answers(), [(run_id(1), RunAnswer::Started)]);
    assert!(play.remarks().iter().any(|said| said.contains("its work cannot be read")));
    assert!(play.said().iter().any(|saying| matches!(saying, Saying::Statuses(_))));
}

#[test]
fn what_cannot_be_kept_is_refused_and_nothing_is_taken_until_a_later_check() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    let checked = play.now;
    play.wait(1);
    let refused = |number| (run_id(number), RunAnswer::Refused(RunRefusal::NotHealthy));
    play.run(stream, 1, "{}");
    play.take();
    // Whatever comes meanwhile waits for the answer.
    play.order(stream, Order::GetRunning);
    assert!(play.said().is_empty());
    play.give(Input::Kept(vec![(run_id(1), "no space left".to_owned())]));
    assert!(!play.has_begun());
    assert_eq!(play.answers(), [refused(1)]);
    assert_eq!(running(&play.said()), []);
    assert!(play.remarks().contains(&format!("{} is refused: no space left", run_id(1))));
    // What was looked at before says nothing of now.
    play.take();
    play.give(Input::Checked(checked, Ok(())));
    play.confirm(stream);
    play.run(stream, 2, "{}");
    assert_eq!(play.answers(), [refused(2)]);
    play.wait(1);
    play.give(Input::Checked(play.now, Ok(())));
    play.confirm(stream);
    play.take();
    play.run_kept(stream, 3, "{}");
    assert!(play.has_begun());
    assert_eq!(play.answers(), [(run_id(3), RunAnswer::Started)]);
}

#[test]
fn of_runs_that_come_together_only_what_cannot_be_kept_is_refused() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    play.runs(stream, &[1, 2], "{}");
    play.give(Input::Kept(vec![(run_id(2), "no space left".to_owned())]));
    let refused = RunAnswer::Refused(RunRefusal::NotHealthy);
    assert_eq!(play.answers(), [(run_id(1), RunAnswer::Started), (run_id(2), refused)]);
    let begun = |number| {
        let is_it = |effect: &Effect| matches!(effect, Effect::Start(held, _) if held.run == run_id(number));
        play.effects.iter().any(is_it)
    };
    assert!(begun(1) && !begun(2));
}

#[test]
fn a_kill_and_a_deadline_reach_the_containers() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    for number in 1..=3 {
        play.run_kept(stream, number, "{}");
    }
    play.take();
    play.order(stream, Order::Kill(run_id(1), Kill::Gracefully));
    play.order(stream, Order::Kill(run_id(2), Kill::Now));
    assert!(play.effects.contains(&Effect::Stop(run_id(1), Cause::Request, How::Gracefully)));
    assert!(play.effects.contains(&Effect::Stop(run_id(2), Cause::Request, How::Now)));
    play.give(Input::Over(stream, Broken::Ended));
    play.take();
    // 120 s, less the kill wait and the margin.
    play.wait(112_759);
    let stops = |effect: &&Effect| matches!(effect, Effect::Stop(..));
    assert_eq!(play.effects.iter().filter(stops).count(), 0);
    play.wait(1);
    let kill_wait = Limits::default().kill_wait;
    let stop = Effect::Stop(run_id(3), Cause::Deadline, How::Within(kill_wait));
    assert!(play.effects.contains(&stop));
}

#[test]
fn a_silent_stream_is_given_up_and_another_one_is_dialled() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    for _ in 0..10 {
        play.wait(500);
        let asked = play.effects.iter().rev().find_map(|effect| {
            if let Effect::AskGuardian(number) = effect { Some(*number) } else { None }
        });
        if let Some(number) = asked {
            play.events(vec![Event::GuardianAnswered(number)]);
        }
        play.effects.retain(|effect| !matches!(effect, Effect::AskGuardian(_)));
        assert!(!play.effects.contains(&Effect::Close(stream)));
    }
    play.wait(1_500);
    assert!(play.effects.contains(&Effect::Close(stream)));
    play.wait(200);
    assert!(play.dialled().unwrap() > stream);
}

#[test]
fn a_life_that_was_given_up_is_followed_by_the_next_as_soon_as_it_can_be_kept() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    play.order(stream, Order::Heartbeat(HeartbeatAnswer::Refused(Refusal::Die)));
    let rebirths =
        |play: &Play| play.effects.iter().filter(|effect| **effect == Effect::Rebirth).count();
    assert_eq!(rebirths(&play), 1);
    play.give(Input::Reborn(Err("no space left".to_owned())));
    assert_eq!(rebirths(&play), 1);
    play.wait(1_000);
    assert_eq!(rebirths(&play), 2, "it is tried again");
    play.take();
    play.give(Input::Reborn(Ok(incarnation(8))));
    play.life = 8;
    assert!(play.effects.iter().any(|effect| matches!(effect, Effect::AskGuardian(_))));
    assert!(play.remarks().contains(&"begins life 8; its runs continue".to_owned()));
}

#[test]
fn what_was_seen_and_could_not_be_kept_is_written_again_until_it_is() {
    let mut play = Play::new(Vec::new(), Vec::new());
    play.join();
    play.take();
    let seen = play.keeper.memory;
    assert!(seen.seen.is_some());
    let remembered = |effects: Vec<Effect>| {
        effects.into_iter().find_map(|effect| {
            if let Effect::Remember(memory) = effect { Some(memory) } else { None }
        })
    };
    for _ in 0..2 {
        play.give(Input::NotRemembered("no space left".to_owned()));
        assert_eq!(remembered(play.take()), None);
        assert!(play.keeper.deadline() <= play.now.plus(Span::from_secs(1)));
        play.wait(1_000);
        assert_eq!(remembered(play.take()), Some(seen));
    }
    play.wait(1_000);
    assert_eq!(remembered(play.take()), None, "it is kept");
}

#[test]
fn that_there_is_another_guardian_is_told_and_not_too_often() {
    let mut play = Play::new(Vec::new(), Vec::new());
    for _ in 0..3 {
        let why = "the guardian was ended by signal 9".to_owned();
        play.events(vec![Event::GuardianReplaced(why)]);
    }
    let told: Vec<_> =
        play.remarks().into_iter().filter(|said| said.contains("ended by signal 9")).collect();
    let line =
        "the guardian was ended by signal 9: a new guardian has taken over, and all runs continue";
    assert_eq!(told, [line]);
}

#[test]
fn while_it_ends_nothing_begins_and_it_goes_when_all_ends_are_recorded() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    play.run_kept(stream, 1, "{}");
    play.take();
    play.give(Input::End);
    assert!(play.effects.contains(&Effect::ShutDown));
    play.run(stream, 2, "{}");
    assert!(!play.effects.iter().any(|effect| matches!(effect, Effect::Start(..))));
    play.events(vec![Event::Completed(run_id(1), report()), Event::ShutDown]);
    assert!(!play.effects.contains(&Effect::Leave), "an end is not recorded");
    let said = play.said();
    let refused = (run_id(2), RunAnswer::Refused(RunRefusal::Draining));
    assert!(said.contains(&Saying::Answers(vec![refused])), "{said:?}");
    let told: Vec<(RunId, u64, StatusAnswer)> = said
        .into_iter()
        .flat_map(|saying| match saying {
            Saying::Statuses(statuses) => statuses,
            Saying::Heartbeat(_) | Saying::Running(_) | Saying::Answers(_) | Saying::Noted(_) => {
                Vec::new()
            }
        })
        .filter(|status| status.news.is_end())
        .map(|status| (status.run, status.number, StatusAnswer::Recorded))
        .collect();
    assert_eq!(told.len(), 1);
    play.guardian_answers();
    play.confirm(stream);
    assert!(!play.effects.contains(&Effect::Leave), "an end is not recorded");
    play.order(stream, Order::Statuses(Revision::ZERO, told));
    assert!(play.effects.contains(&Effect::Leave));
}

#[test]
fn who_has_nothing_to_end_goes_when_the_leader_knows_that_it_leaves() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    play.give(Input::End);
    play.events(vec![Event::ShutDown]);
    assert!(!play.effects.contains(&Effect::Leave), "whoever comes in its place would wait for it");
    play.wait(1);
    play.guardian_answers();
    let leaves = |saying: &Saying| matches!(saying, Saying::Heartbeat(beat) if beat.is_leaving);
    assert!(play.said().iter().any(leaves));
    assert!(!play.effects.contains(&Effect::Leave), "it may be on its way still");
    play.confirm(stream);
    assert!(play.effects.contains(&Effect::Leave));
}

#[test]
fn it_does_not_wait_for_ever_to_be_heard() {
    // Somebody listens, and records nothing.
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    play.run_kept(stream, 1, "{}");
    play.give(Input::End);
    play.events(vec![Event::Completed(run_id(1), report()), Event::ShutDown]);
    play.wait(1_999);
    assert!(!play.effects.contains(&Effect::Leave));
    play.wait(1);
    assert!(play.effects.contains(&Effect::Leave));
    assert!(play.remarks().iter().any(|said| said.starts_with("1 ends are not recorded yet")));
    // Nobody listens.
    let mut play = Play::new(vec![kept("b1", 1)], vec![Event::Completed(run_id(1), report())]);
    play.give(Input::End);
    play.events(vec![Event::ShutDown]);
    assert!(play.effects.contains(&Effect::Leave));
    // It was told twice.
    let mut play = Play::new(Vec::new(), Vec::new());
    play.give(Input::End);
    assert!(!play.effects.contains(&Effect::Leave));
    play.give(Input::End);
    assert!(play.effects.contains(&Effect::Leave));
}

#[test]
fn troubles_are_told_with_what_to_do() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    play.order(stream, Order::Heartbeat(HeartbeatAnswer::Refused(Refusal::NameTaken)));
    play.order(stream, Order::Heartbeat(HeartbeatAnswer::Refused(Refusal::WrongVersion(9))));
    play.order(stream, Order::Heartbeat(HeartbeatAnswer::Refused(Refusal::WrongVersion(9))));
    play.give(Input::Checked(START, Err("true ended with 1".to_owned())));
    let remarks = play.remarks();
    let count = |says: &str| remarks.iter().filter(|said| said.contains(says)).count();
    assert_eq!(count("the name w1 belongs to another machine"), 1);
    assert_eq!(count("the server speaks version 9 of the protocol, and this worker 2"), 1);
    assert_eq!(count("health check failed: true ended with 1"), 1);
    play.take();
    play.give(Input::Over(stream, Broken::Version(3)));
    assert!(play.remarks().iter().any(|said| said.contains("it speaks version 3")));
}

#[test]
fn what_is_said_beside_the_protocol_is_heard_from_its_own_leader_and_to_its_own_life_alone() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let asked = Aside::question(mandate(), incarnation(7), 1, bytes::Bytes::new());
    // Nobody leads it yet.
    assert!(!play.keeper.hears(&asked));
    play.join();
    assert!(play.keeper.hears(&asked));
    assert!(!play.keeper.hears(&Aside { incarnation: incarnation(6), ..asked.clone() }));
    let earlier = Mandate { term: Term::new(0), ..mandate() };
    assert!(!play.keeper.hears(&Aside { mandate: earlier, ..asked.clone() }));
    assert!(!play.keeper.hears(&Aside { version: 9, ..asked }));
}

/// Only its own log said so.
#[test]
fn a_heartbeat_says_which_check_has_failed_last_until_one_ends_well() {
    let mut play = Play::new(Vec::new(), Vec::new());
    let stream = play.join();
    let beat = |play: &mut Play, checked: Result<(), String>| {
        play.give(Input::Checked(play.now, checked));
        play.take();
        play.now = play.now.plus(Span::from_secs(1));
        play.give(Input::Tick);
        play.guardian_answers();
        let said = play.said().into_iter().rev().find_map(|saying| match saying {
            Saying::Heartbeat(heartbeat) => Some(heartbeat.facts),
            Saying::Statuses(_) | Saying::Running(_) | Saying::Answers(_) | Saying::Noted(_) => {
                None
            }
        });
        play.confirm(stream);
        Facts::read(&said.expect("a heartbeat")).failed_check
    };
    assert_eq!(beat(&mut play, Ok(())), None);
    let failed = beat(&mut play, Err("true ended with 7".to_owned()));
    assert_eq!(failed.as_deref(), Some("true ended with 7"));
    let long = beat(&mut play, Err("ä".repeat(200)));
    assert_eq!(long.as_deref(), Some(&*"ä".repeat(128)), "so much at most");
    assert_eq!(beat(&mut play, Ok(())), None);
}
