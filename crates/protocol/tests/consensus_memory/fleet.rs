//! A leader with so many workers, each with a run.

use sterna_model::{
    BootTime, ClusterId, Contract, Epoch, Name, Namespace, Nonce, Revision, RunId, Span, Term,
    WallTime, Work,
};
use sterna_protocol::{
    limits::Book,
    message::{FromWorker, Heartbeat, Held, Mandate, Payload, Saying, StreamId, VERSION},
    roster::Origin,
    scheduler::{Begin, Bump, Fleet, Input},
};

use super::{HELD, is_linear, worker};

const MANDATE: Mandate = Mandate {
    cluster: ClusterId::from_parts(WallTime::EPOCH, [1; 10]),
    epoch: Epoch::new(1),
    term: Term::new(1),
    nonce: Nonce::new(1),
};
const NOW: BootTime = BootTime::from_millis(1_000);

fn leader() -> Fleet {
    let begin = Begin {
        mandate: MANDATE,
        elected: NOW,
        lease_until: BootTime::from_millis(u64::MAX),
        revision: Revision::ZERO,
        reigns: std::collections::BTreeMap::new(),
        marks: sterna_model::Marks::NONE,
        book: Book::default(),
        roster: Vec::new(),
        claims: Vec::new(),
        origin: Origin::Virgin,
        bump: Bump::Forbidden,
        roster_max: usize::MAX,
    };
    Fleet::new(NOW, begin)
}

fn heartbeat(number: u64) -> Heartbeat {
    Heartbeat {
        name: Name::new(&format!("worker-{number}")).unwrap(),
        stamp: NOW,
        checked: Some(Span::ZERO),
        boot: 1,
        seen: None,
        limits: 1,
        set: None,
        birth: 1,
        wants_drain: None,
        is_leaving: false,
        facts: facts(number),
    }
}

/// As a worker says them, each its own.
fn facts(number: u64) -> Payload {
    let memory = 67_430_000_000 + number;
    let facts = format!(
        r#"{{"containers":100,"countables":{{"licence":3}},"cpu_millicores":16000,"disk_bytes":512110190592,"gpus":[],"isolation":"tree","memory_bytes":{memory},"missing":[],"runtimes":["process","runc"],"stack":"bare","tags":["ssd"],"version":"0.1.0","zone":"z1"}}"#
    );
    facts.into_bytes().into()
}

fn run(number: u64) -> Held {
    let mut unique = [0; 10];
    unique[2..].copy_from_slice(&number.to_be_bytes());
    let namespace = Namespace::new("default").unwrap();
    Held {
        run: RunId::from_parts(WallTime::EPOCH, unique),
        key: Work::Task(Name::new(&format!("t{number}")).unwrap()).within(&namespace),
        task: None,
        contract: Contract::Stop { after: Span::from_secs(600) },
        status: None,
    }
}

/// Everybody is heard, enrolled, and has said that it has a run.
fn join(fleet: &mut Fleet, number: u64) {
    let incarnation = worker(number);
    let (version, mandate) = (VERSION, Some(MANDATE));
    let mut effects = Vec::new();
    let says = |saying| {
        let frame = FromWorker { version, incarnation, mandate, saying };
        Input::Frame(StreamId::new(number), frame)
    };
    fleet.step(NOW, says(Saying::Heartbeat(heartbeat(number))), &mut effects);
    fleet.step(NOW, Input::Enrolled(incarnation), &mut effects);
    fleet.step(NOW, says(Saying::Running(vec![run(number)])), &mut effects);
    assert_eq!(fleet.held(incarnation.lock).count(), 1);
}

#[test]
fn a_leader_holds_less_than_one_kibibyte_for_a_worker_with_a_run() {
    let per_worker = |count: u64| {
        let before = HELD.get();
        let mut fleet = leader();
        for number in 0..count {
            join(&mut fleet, number);
        }
        let held = HELD.get().wrapping_sub(before);
        let said = fleet.heap_bytes();
        // Of trees it knows only how large they are at most.
        assert!((held..held + held / 6).contains(&said), "{said} said, {held} held for {count}");
        said / usize::try_from(count).unwrap()
    };
    is_linear([1_000, 10_000, 30_000].map(|count| (count, per_worker(count))));
}
