//! Whatever is said is heard as it was said.

use proptest::{collection::vec, option, prelude::*};
use sterna_model::{
    BootTime, ClusterId, Contract, DirectoryId, Epoch, Incarnation, Lock, MachineId, Name,
    Namespace, NodeName, Nonce, NotifySequence, Revision, RunId, RunSequence, Span,
    TaskIncarnation, Term, WallTime, Work, WorkKey,
};
use sterna_protocol::{
    consensus::{SetHash, SetId, Version},
    health::Health,
    limits::Limits,
    message::{
        Confirmation, FromLeader, FromWorker, Heartbeat, HeartbeatAnswer, Held, Kill, Mandate,
        News, Order, Ordinal, Payload, Refusal, Run, RunAnswer, RunRefusal, Saying, Status,
        StatusAnswer,
    },
};
use sterna_wire::Frame;

fn wall() -> impl Strategy<Value = WallTime> {
    (0_i64..4_000_000_000_000).prop_map(|millis| WallTime::from_millis(millis).unwrap())
}

fn run_id() -> impl Strategy<Value = RunId> {
    (wall(), any::<[u8; 10]>()).prop_map(|(at, random)| RunId::from_parts(at, random))
}

fn task() -> impl Strategy<Value = TaskIncarnation> {
    (wall(), any::<[u8; 10]>()).prop_map(|(at, random)| TaskIncarnation::from_parts(at, random))
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    (wall(), any::<[u8; 10]>(), any::<[u8; 16]>(), any::<u64>()).prop_map(
        |(at, random, mut machine, life)| {
            machine[0] |= 1;
            let directory = DirectoryId::from_parts(at, random);
            let machine = MachineId::from_bytes(machine).unwrap();
            Incarnation { lock: Lock { directory, machine }, life }
        },
    )
}

fn mandate() -> impl Strategy<Value = Mandate> {
    any::<([u64; 3], [u8; 10])>().prop_map(|([epoch, term, nonce], random)| Mandate {
        cluster: ClusterId::from_parts(WallTime::EPOCH, random),
        epoch: Epoch::new(epoch),
        term: Term::new(term),
        nonce: Nonce::new(nonce),
    })
}

fn set() -> impl Strategy<Value = SetId> {
    (any::<[u64; 5]>(), any::<u32>()).prop_map(|([term, nonce, version, one, two], count)| SetId {
        term: Term::new(term),
        nonce: Nonce::new(nonce),
        version: Version::new(version),
        hash: SetHash::from_parts([one, two], count),
    })
}

fn name() -> impl Strategy<Value = Name> {
    "[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?".prop_map(|text| Name::new(&text).unwrap())
}

fn key() -> impl Strategy<Value = WorkKey> {
    let work = prop_oneof![
        (name(), any::<u32>()).prop_map(|(service, index)| Work::Instance { service, index }),
        name().prop_map(Work::Task),
        (name(), "[a-zäß/% .]{1,30}").prop_filter_map("no node", |(batch, node)| {
            Some(Work::Node { batch, node: NodeName::new(&node).ok()? })
        }),
    ];
    let namespace = name().prop_map(|name| Namespace::new(name.as_str()).unwrap());
    (namespace, work).prop_map(|(namespace, work)| work.within(&namespace))
}

fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(Span::from_millis)
}

fn contract() -> impl Strategy<Value = Contract> {
    prop_oneof![
        span().prop_map(|after| Contract::Replace { after }),
        span().prop_map(|after| Contract::Stop { after }),
        Just(Contract::Keep),
    ]
}

fn payload() -> impl Strategy<Value = Payload> {
    vec(any::<u8>(), 0..200).prop_map(Into::into)
}

fn status() -> impl Strategy<Value = Status> {
    let news = prop_oneof![
        payload().prop_map(News::Progress),
        payload().prop_map(News::Ended),
        Just(News::WasNotRunning),
    ];
    (any::<u64>(), run_id(), news).prop_map(|(number, run, news)| Status { number, run, news })
}

fn heartbeat() -> impl Strategy<Value = Heartbeat> {
    let seen = option::of((mandate(), any::<u64>().prop_map(Revision::new)));
    let first = (name(), any::<u64>(), option::of(span()), any::<u128>(), seen);
    let numbers = (any::<u64>(), any::<u64>());
    let drain = (option::of(any::<bool>()), any::<bool>());
    let second = (numbers, option::of(set()), drain, payload());
    (first, second).prop_map(
        |(
            (name, stamp, checked, boot, seen),
            ((birth, limits), set, (wants_drain, is_leaving), facts),
        )| {
            Heartbeat {
                name,
                stamp: BootTime::from_millis(stamp),
                checked,
                boot,
                birth,
                seen,
                limits,
                set,
                wants_drain,
                is_leaving,
                facts,
            }
        },
    )
}

fn held() -> impl Strategy<Value = Held> {
    (run_id(), key(), option::of(task()), contract(), option::of(status()))
        .prop_map(|(run, key, task, contract, status)| Held { run, key, task, contract, status })
}

fn run_answer() -> impl Strategy<Value = RunAnswer> {
    prop_oneof![
        Just(RunAnswer::Started),
        prop_oneof![
            Just(RunRefusal::NotHealthy),
            Just(RunRefusal::Draining),
            Just(RunRefusal::Overtaken),
            run_id().prop_map(RunRefusal::KeyIsHere),
            Just(RunRefusal::TooLate),
        ]
        .prop_map(RunAnswer::Refused),
    ]
}

fn from_worker() -> impl Strategy<Value = FromWorker> {
    let saying = prop_oneof![
        heartbeat().prop_map(Saying::Heartbeat),
        vec(status(), 0..5).prop_map(Saying::Statuses),
        vec(held(), 0..5).prop_map(Saying::Running),
        vec((run_id(), run_answer()), 0..5).prop_map(Saying::Answers),
        any::<u64>().prop_map(|number| Saying::Noted(NotifySequence::new(number))),
    ];
    (any::<u16>(), incarnation(), option::of(mandate()), saying).prop_map(
        |(version, incarnation, mandate, saying)| FromWorker {
            version,
            incarnation,
            mandate,
            saying,
        },
    )
}

/// Limits that can be gone by: others are not read.
fn limits() -> impl Strategy<Value = Limits> {
    let millis = any::<u32>().prop_map(u64::from);
    let numbers = vec(millis, 9);
    let kept = any::<(bool, bool)>();
    (any::<u64>(), numbers, kept).prop_map(|(version, numbers, kept)| {
        let (has_kept_batches, has_kept_claims) = kept;
        let span = |at: usize| Span::from_millis(numbers[at].max(1));
        let (heartbeat_every, heartbeat_grace, judge_every) = (span(0), span(1), span(2));
        let judge_every = judge_every.min(heartbeat_every);
        let lose_after = heartbeat_every.plus(judge_every.times(2)).plus(span(3));
        let paces = Limits {
            version,
            heartbeat_every,
            heartbeat_grace,
            check_every: span(4),
            check_grace: span(5),
            judge_every,
            lose_after,
            kill_wait: span(6),
            batch_stop_after_max: Span::ZERO,
            stop_after_max: Span::ZERO,
            has_kept_batches,
            has_kept_claims,
        };
        let least = paces.stop_after_min();
        Limits {
            batch_stop_after_max: least.plus(span(7)),
            stop_after_max: least.plus(span(8)),
            ..paces
        }
    })
}

fn heartbeat_answer() -> impl Strategy<Value = HeartbeatAnswer> {
    let verdict = prop_oneof![
        Just(Health::New),
        Just(Health::Unhealthy),
        Just(Health::Healthy),
        Just(Health::MustDie),
    ];
    let refusal = prop_oneof![
        Just(Refusal::Die),
        Just(Refusal::NameTaken),
        any::<u16>().prop_map(Refusal::WrongVersion),
        Just(Refusal::WrongCluster),
        any::<u64>().prop_map(Refusal::WentBack),
        Just(Refusal::RosterFull),
    ];
    let confirmed = (any::<[u64; 2]>(), limits(), verdict, option::of(set()), any::<bool>())
        .prop_map(|([stamp, revision], limits, verdict, set, is_draining)| Confirmation {
            stamp: BootTime::from_millis(stamp),
            limits,
            verdict,
            set,
            revision: Revision::new(revision),
            is_draining,
        });
    prop_oneof![
        Just(HeartbeatAnswer::Welcome),
        confirmed.prop_map(|confirmed| HeartbeatAnswer::Confirmed(Box::new(confirmed))),
        refusal.prop_map(HeartbeatAnswer::Refused),
    ]
}

fn run() -> impl Strategy<Value = Run> {
    let ordinal = any::<(u64, u32)>().prop_map(|(number, attempt)| Ordinal { number, attempt });
    let what = (run_id(), key(), option::of(task()));
    (any::<[u64; 2]>(), what, contract(), ordinal, payload()).prop_map(
        |([sequence, notify], (run, key, task), contract, ordinal, work)| Run {
            sequence: RunSequence::new(sequence),
            notify: NotifySequence::new(notify),
            run,
            key,
            task,
            contract,
            ordinal,
            work,
        },
    )
}

fn from_leader() -> impl Strategy<Value = FromLeader> {
    let status_answer = prop_oneof![
        Just(StatusAnswer::Recorded),
        Just(StatusAnswer::Ignored),
        Just(StatusAnswer::Retry),
    ];
    let order = prop_oneof![
        heartbeat_answer().prop_map(Order::Heartbeat),
        (any::<u64>(), vec((run_id(), any::<u64>(), status_answer), 0..5))
            .prop_map(|(revision, said)| Order::Statuses(Revision::new(revision), said)),
        Just(Order::GetRunning),
        vec(run(), 0..5).prop_map(Order::Run),
        (any::<u64>(), vec(run_id(), 0..5)).prop_map(|(number, runs)| {
            Order::NotifyIfNotRunning(NotifySequence::new(number), runs)
        }),
        (run_id(), prop_oneof![Just(Kill::Gracefully), Just(Kill::Now)])
            .prop_map(|(run, kill)| Order::Kill(run, kill)),
        Just(Order::Die),
    ];
    (any::<u16>(), mandate(), incarnation(), order).prop_map(
        |(version, mandate, incarnation, order)| FromLeader {
            version,
            mandate,
            incarnation,
            order,
        },
    )
}

proptest! {
    #[test]
    fn a_worker_is_heard_as_it_spoke(frame in from_worker()) {
        let bytes = frame.encode().unwrap();
        prop_assert_eq!(FromWorker::decode(&bytes).unwrap(), frame);
    }

    #[test]
    fn a_leader_is_heard_as_it_spoke(frame in from_leader()) {
        let bytes = frame.encode().unwrap();
        prop_assert_eq!(FromLeader::decode(&bytes).unwrap(), frame);
    }

    /// Whatever arrives, it is a message or an error.
    #[test]
    fn no_bytes_are_too_bad(bytes in vec(any::<u8>(), 0..300)) {
        drop(FromWorker::decode(&bytes));
        drop(FromLeader::decode(&bytes));
    }

    /// Also bytes that are almost right.
    #[test]
    fn no_damage_is_too_bad(frame in from_worker(), at: prop::sample::Index, byte: u8, cut: bool) {
        let mut bytes = frame.encode().unwrap().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        drop(FromWorker::decode(&bytes));
    }
}
