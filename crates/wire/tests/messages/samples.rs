//! One sample of everything that can be said.

use sterna_model::{
    BootTime, ClusterId, Contract, Epoch, Incarnation, Name, Nonce, NotifySequence, Revision,
    RunId, RunSequence, Span, TaskIncarnation, Term, WallTime, WorkKey,
};
use sterna_protocol::{
    consensus::{SetHash, SetId, Version},
    health::Health,
    limits::Limits,
    message::{
        Confirmation, FromLeader, FromWorker, Heartbeat, HeartbeatAnswer, Held, Kill, Mandate,
        News, Order, Ordinal, Refusal, Run, RunAnswer, RunRefusal, Saying, Status, StatusAnswer,
        VERSION,
    },
};
use sterna_wire::Aside;

/// Either side's frame, or what is said beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    Worker(FromWorker),
    Leader(FromLeader),
    Aside(Aside),
}

pub(crate) fn incarnation() -> Incarnation {
    "dir-0192f5e4a6c07bcd89abcdef01234567.machine-00112233445566778899aabbccddeeff.7"
        .parse()
        .unwrap()
}

pub(crate) fn mandate() -> Mandate {
    Mandate {
        cluster: ClusterId::from_parts(WallTime::EPOCH, [0xc1; 10]),
        epoch: Epoch::new(2),
        term: Term::new(9),
        nonce: Nonce::new(0xfeed_beef),
    }
}

pub(crate) fn run(number: u8) -> RunId {
    RunId::from_parts(WallTime::EPOCH, [number; 10])
}

fn key(text: &str) -> WorkKey {
    text.parse().unwrap()
}

fn set() -> SetId {
    SetId {
        term: Term::new(9),
        nonce: Nonce::new(0xfeed_beef),
        version: Version::new(300),
        hash: SetHash::from_parts([0x0102_0304_0506_0708, u64::MAX], 12),
    }
}

const fn payload_bytes(text: &'static str) -> bytes::Bytes {
    bytes::Bytes::from_static(text.as_bytes())
}

fn payload(text: &str) -> sterna_protocol::message::Payload {
    text.as_bytes().into()
}

pub(crate) fn says(saying: Saying) -> FromWorker {
    FromWorker { version: VERSION, incarnation: incarnation(), mandate: Some(mandate()), saying }
}

pub(crate) fn orders(order: Order) -> FromLeader {
    FromLeader { version: VERSION, mandate: mandate(), incarnation: incarnation(), order }
}

pub(crate) fn heartbeat() -> Heartbeat {
    Heartbeat {
        name: Name::new("worker-1").unwrap(),
        stamp: BootTime::from_millis(123_456),
        checked: Some(Span::from_millis(2_500)),
        boot: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        birth: 0,
        seen: Some((mandate(), Revision::new(4_711))),
        limits: 3,
        set: Some(set()),
        wants_drain: Some(true),
        is_leaving: false,
        facts: payload(r#"{"zone":"z1"}"#),
    }
}

fn worker_samples() -> Vec<(&'static str, FromWorker)> {
    let status = |number, run, news| Status { number, run, news };
    let held = |number: u8, text: &str, task, contract, status| Held {
        run: run(number),
        key: key(text),
        task,
        contract,
        status,
    };
    let task = TaskIncarnation::from_parts(WallTime::EPOCH, [9; 10]);
    let bare = Heartbeat {
        checked: None,
        seen: None,
        set: None,
        wants_drain: None,
        facts: payload(""),
        ..heartbeat()
    };
    let born = Heartbeat { birth: 0x0123_4567_89ab_cdef, ..heartbeat() };
    let leaves = Heartbeat { is_leaving: true, ..born.clone() };
    let first = FromWorker { mandate: None, ..says(Saying::Heartbeat(bare)) };
    vec![
        ("worker-heartbeat", says(Saying::Heartbeat(heartbeat()))),
        ("worker-heartbeat-leaving", says(Saying::Heartbeat(leaves))),
        ("worker-heartbeat-first", first),
        ("worker-heartbeat-birth", says(Saying::Heartbeat(born))),
        (
            "worker-statuses",
            says(Saying::Statuses(vec![
                status(1, run(1), News::Progress(payload(r#"{"state":"running"}"#))),
                status(2, run(2), News::Ended(payload(r#"{"cause":"exited"}"#))),
                status(300, run(3), News::WasNotRunning),
            ])),
        ),
        (
            "worker-running",
            says(Saying::Running(vec![
                held(
                    1,
                    "default/task/build-42",
                    Some(task),
                    Contract::Stop { after: Span::from_secs(600) },
                    Some(status(4, run(1), News::Ended(payload("{}")))),
                ),
                held(
                    2,
                    "default/service/web/3",
                    None,
                    Contract::Replace { after: Span::from_secs(15) },
                    None,
                ),
                held(3, "other/batch/reindex/db%2F7", None, Contract::Keep, None),
            ])),
        ),
        ("worker-running-nothing", says(Saying::Running(Vec::new()))),
        (
            "worker-answers",
            says(Saying::Answers(vec![
                (run(1), RunAnswer::Started),
                (run(2), RunAnswer::Refused(RunRefusal::NotHealthy)),
                (run(3), RunAnswer::Refused(RunRefusal::Draining)),
                (run(4), RunAnswer::Refused(RunRefusal::Overtaken)),
                (run(5), RunAnswer::Refused(RunRefusal::KeyIsHere(run(1)))),
                (run(6), RunAnswer::Refused(RunRefusal::TooLate)),
            ])),
        ),
        ("worker-noted", says(Saying::Noted(NotifySequence::new(5)))),
    ]
}

fn confirmed(limits: Limits, verdict: Health, set: Option<SetId>, is_draining: bool) -> FromLeader {
    let (stamp, revision) = (BootTime::from_millis(123_456), Revision::new(4_712));
    let confirmation = Confirmation { stamp, limits, verdict, set, revision, is_draining };
    orders(Order::Heartbeat(HeartbeatAnswer::Confirmed(Box::new(confirmation))))
}

fn kept_claims() -> FromLeader {
    let limits = Limits { version: 4, has_kept_claims: true, ..Limits::default() };
    confirmed(limits, Health::Healthy, None, false)
}

fn leader_samples() -> Vec<(&'static str, FromLeader)> {
    let answer = |answer| orders(Order::Heartbeat(answer));
    let limits = Limits { version: 3, has_kept_batches: true, ..Limits::default() };
    let confirmed = |verdict, set, is_draining| confirmed(limits, verdict, set, is_draining);
    let refused = |why| answer(HeartbeatAnswer::Refused(why));
    let runs = vec![
        Run {
            sequence: RunSequence::new(1),
            notify: NotifySequence::new(0),
            run: run(1),
            key: key("default/task/build-42"),
            task: Some(TaskIncarnation::from_parts(WallTime::EPOCH, [9; 10])),
            contract: Contract::Stop { after: Span::from_secs(600) },
            ordinal: Ordinal::default(),
            work: payload(r#"{"run":["make"]}"#),
        },
        Run {
            sequence: RunSequence::new(2),
            notify: NotifySequence::new(1),
            run: run(2),
            key: key("default/service/web/3"),
            task: None,
            contract: Contract::Keep,
            ordinal: Ordinal::default(),
            work: payload(""),
        },
    ];
    let counted = Run { ordinal: Ordinal { number: 300, attempt: 2 }, ..runs[1].clone() };
    vec![
        ("leader-welcome", answer(HeartbeatAnswer::Welcome)),
        ("leader-confirmed", confirmed(Health::Healthy, Some(set()), true)),
        ("leader-confirmed-kept-claims", kept_claims()),
        ("leader-confirmed-new", confirmed(Health::New, None, false)),
        ("leader-confirmed-unhealthy", confirmed(Health::Unhealthy, None, false)),
        ("leader-confirmed-must-die", confirmed(Health::MustDie, None, false)),
        ("leader-refused-die", refused(Refusal::Die)),
        ("leader-refused-name-taken", refused(Refusal::NameTaken)),
        ("leader-refused-version", refused(Refusal::WrongVersion(2))),
        ("leader-refused-cluster", refused(Refusal::WrongCluster)),
        ("leader-refused-went-back", refused(Refusal::WentBack(300))),
        ("leader-refused-roster-full", refused(Refusal::RosterFull)),
        (
            "leader-statuses",
            orders(Order::Statuses(
                Revision::new(70_000),
                vec![
                    (run(1), 1, StatusAnswer::Recorded),
                    (run(2), 2, StatusAnswer::Ignored),
                    (run(3), 300, StatusAnswer::Retry),
                ],
            )),
        ),
        ("leader-get-running", orders(Order::GetRunning)),
        ("leader-run", orders(Order::Run(runs))),
        ("leader-run-counted", orders(Order::Run(vec![counted]))),
        (
            "leader-notify",
            orders(Order::NotifyIfNotRunning(NotifySequence::new(5), vec![run(1), run(2)])),
        ),
        ("leader-kill", orders(Order::Kill(run(1), Kill::Gracefully))),
        ("leader-kill-now", orders(Order::Kill(run(1), Kill::Now))),
        ("leader-die", orders(Order::Die)),
    ]
}

fn aside_samples() -> Vec<(&'static str, Aside)> {
    let asked = Aside::question(mandate(), incarnation(), 300, payload_bytes(r#"{"of":"run"}"#));
    let answer = asked.answer(payload_bytes(r#"{"lines":[]}"#));
    vec![("aside-question", asked), ("aside-answer", answer)]
}

/// All of them, by name.
pub(crate) fn all() -> Vec<(&'static str, Sample)> {
    let workers = worker_samples().into_iter().map(|(name, frame)| (name, Sample::Worker(frame)));
    let leaders = leader_samples().into_iter().map(|(name, frame)| (name, Sample::Leader(frame)));
    let asides = aside_samples().into_iter().map(|(name, aside)| (name, Sample::Aside(aside)));
    workers.chain(leaders).chain(asides).collect()
}
