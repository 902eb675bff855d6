//! Records come back as they were written, and what cannot be read is refused with its place.

use sterna_engine::control::{Drain, ServiceRecord, TakenBack, Tombstone};
use sterna_model::{
    Bytes, Constraints, Contract, Countables, Demand, DirectoryId, Epoch, Incarnation, Lock,
    MachineId, Millicores, RunId, Span, TaskIncarnation, WallTime, Wants, Zones,
    record::{
        CrashPolicy, Crashes, Instance, InstanceCopy, InstanceState, Past, PastCrash, Placed,
        StopReason, Task, TaskEnd, TaskParts, TaskState, Twin, TwinReason,
    },
    spec::{Definition, ServiceSpec, TaskSpec, UpdatePolicy, WhenFull},
};
use sterna_protocol::{
    limits::Limits,
    roster::{Enrolled, Zone},
};

use super::*;

const NOW: WallTime = WallTime::EPOCH;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// The bytes of a row that stands.
fn bytes_of(row: &Row) -> Vec<u8> {
    encode(row).unwrap()
}

fn lock() -> Lock {
    let directory = DirectoryId::from_parts(NOW, [1; 10]);
    Lock { directory, machine: MachineId::from_bytes(*directory.as_bytes()).unwrap() }
}

fn run(number: u8) -> RunId {
    RunId::from_parts(NOW, [number; 10])
}

fn placed(number: u8, contract: Contract) -> Placed {
    Placed { run: run(number), on: Incarnation { lock: lock(), life: 7 }, contract }
}

fn wants() -> Arc<Wants> {
    let mut countables = Countables::default();
    countables.set(name("gpu"), 2);
    let demand = Demand::new(Millicores::new(500), Bytes::new(64), Bytes::new(8), countables);
    let constraints = Constraints {
        stack: Some(name("debian")),
        tags: [name("ssd")].into(),
        apart_from: [name("web")].into(),
        zones: Zones::Pinned,
    };
    Arc::new(Wants { demand, constraints })
}

fn task_spec() -> Arc<TaskSpec> {
    Arc::new(TaskSpec {
        wants: wants(),
        contract: Contract::Stop { after: Span::from_secs(600) },
        work: Arc::from(*b"work"),
        when_full: WhenFull::Fail,
        latest_start: Some(NOW.plus(Span::from_secs(5))),
        callback: Some("http://127.0.0.1:1/".into()),
        keeps_name: true,
    })
}

fn definition(version: u64, latest_start_after: Option<Span>) -> Row {
    let key = DefinitionKey { namespace: Namespace::default(), name: name("build") };
    let definition = Definition { spec: task_spec(), latest_start_after };
    Row::Definition(key, version, Some(Arc::new(definition)))
}

fn service_spec(instances: u32) -> ServiceSpec {
    ServiceSpec {
        instances,
        wants: wants(),
        contract: Contract::Replace { after: Span::from_secs(15) },
        work: Arc::from(*b"work"),
        crash: CrashPolicy::default(),
        update: UpdatePolicy { healthy_for: Span::ZERO, ..UpdatePolicy::default() },
        domain: name("default"),
        notes: "notes".into(),
    }
}

fn ends() -> Vec<TaskEnd> {
    let ran = |is_success| TaskEnd::Ran { is_success, report: "report".into() };
    vec![
        ran(true),
        ran(false),
        TaskEnd::Cancelled,
        TaskEnd::Lost,
        TaskEnd::Drained,
        TaskEnd::NeverTaken { why: "".into() },
        TaskEnd::NoRoom { why: "no gpu".into() },
        TaskEnd::TooLate,
        TaskEnd::UnknownAfterRestore,
    ]
}

fn tasks() -> Vec<Row> {
    let mut states = vec![
        TaskState::Pending,
        TaskState::Running { placed: placed(1, Contract::Keep), since: NOW },
    ];
    states.extend(ends().into_iter().map(|end| TaskState::Completed { end, at: NOW }));
    let end = TaskEnd::Lost;
    states.push(TaskState::Resolving { end, at: NOW, since: NOW.plus(Span::from_secs(1)) });
    let parts = |state| TaskParts {
        incarnation: TaskIncarnation::from_parts(NOW, [3; 10]),
        epoch: Epoch::new(2),
        made: NOW,
        state,
        returns: 2,
        left: Some(placed(4, Contract::Keep)),
        lost: Some(run(5)),
        last: Some((run(6), Incarnation { lock: lock(), life: 7 })),
        started: Some(NOW.plus(Span::from_secs(1))),
        is_told: true,
        is_given_up: false,
    };
    let key: TaskKey = "default/task/build".parse().unwrap();
    let row = |state| Row::Task(key.clone(), Some((Task::from(parts(state)), task_spec())));
    states.into_iter().map(row).collect()
}

fn instances() -> Vec<Row> {
    let contract = Contract::Replace { after: Span::from_secs(15) };
    let copy = |number, stopping| InstanceCopy {
        placed: placed(number, contract),
        version: 3,
        wants: wants(),
        stopping,
        told: Some(Arc::from(*b"told")),
    };
    let mut states = vec![
        InstanceState::Unclaimed { since: NOW },
        InstanceState::Crashed { until: Some(NOW) },
        InstanceState::Crashed { until: None },
    ];
    let reasons = [
        None,
        Some(StopReason::Unwanted),
        Some(StopReason::Asked),
        Some(StopReason::Update),
        Some(StopReason::Elsewhere),
        Some(StopReason::Drain),
    ];
    for reason in reasons {
        states.push(InstanceState::Claimed { copy: copy(1, reason), since: NOW });
        states.push(InstanceState::Running { copy: copy(2, reason), since: NOW });
    }
    let mut records = Vec::new();
    for state in states {
        for reason in [TwinReason::Silent, TwinReason::Evacuating, TwinReason::Surplus] {
            for running_since in [None, Some(NOW)] {
                let twin = Twin { copy: copy(3, None), reason, running_since };
                let crashes = Crashes { count: 4, last: Some(NOW) };
                let past = Past { run: run(8), on: placed(8, contract).on, crash: None };
                records.push(Instance::from_parts(state.clone(), Some(twin), crashes, Some(past)));
            }
        }
        records.push(Instance::from_parts(state, None, Crashes::default(), None));
    }
    for end in ends() {
        let (state, on) = (InstanceState::Crashed { until: None }, placed(8, contract).on);
        let crash = Some(Box::new(PastCrash { run: run(8), on, at: NOW, end }));
        let past = Past { run: run(9), on, crash };
        records.push(Instance::from_parts(state, None, Crashes::default(), Some(past)));
    }
    let key: InstanceKey = "default/service/web/3".parse().unwrap();
    records.into_iter().map(|one| Row::Instance(key.clone(), Some(one))).collect()
}

fn entry(zone: Zone) -> Enrolled {
    Enrolled {
        incarnation: Incarnation { lock: lock(), life: 9 },
        name: name("w1"),
        boot: 77,
        birth: 78,
        is_declared_dead: true,
        is_draining: true,
        is_forgotten: true,
        zone,
    }
}

fn all() -> Vec<Row> {
    let task: TaskKey = "default/task/build".parse().unwrap();
    let web = ServiceKey { namespace: Namespace::default(), name: name("web") };
    let before = Some((4, Arc::new(service_spec(1))));
    let spec = service_spec(3);
    let why = r#"{"cause":"exited","exit":{"code":3}}"#.into();
    let taken_back = TakenBack { version: 6, at: NOW, index: 3, why };
    let service = |before, taken_back| ServiceRecord {
        spec: spec.clone(),
        version: 5,
        highest: 6,
        before,
        crashes: 2,
        taken_back,
    };
    let incarnation = TaskIncarnation::from_parts(NOW, [3; 10]);
    let tombstone =
        |is_kept| Row::Tombstone(task.clone(), Some(Tombstone { incarnation, at: NOW, is_kept }));
    let web = |record| Row::Service(web.clone(), Some(Arc::new(record)));
    let entry = entry(Zone::Named(name("east")));
    let mut all = vec![
        web(service(before, None)),
        web(service(None, None)),
        web(service(None, Some(taken_back))),
        tombstone(false),
        tombstone(true),
        Row::Roster(lock(), Some(entry)),
        Row::Roster(lock(), Some(self::entry(Zone::Nameless))),
        Row::Roster(lock(), Some(self::entry(Zone::Unsaid))),
        Row::Drain(lock(), Some(Drain { deadline: NOW, since: NOW })),
        Row::Domain(name("cf"), Some(Some(NOW))),
        Row::Domain(name("cf"), Some(None)),
        Row::Limits(vec![Limits::default()]),
        definition(1, None),
        definition(u64::MAX, Some(Span::from_secs(5))),
    ];
    all.extend(tasks());
    all.extend(instances());
    all
}

#[test]
fn every_row_comes_back_as_it_was_written() {
    for row in all() {
        let read = decode(&path(&row.key()), &bytes_of(&row)).unwrap();
        assert_eq!(read, Some(row));
    }
}

#[test]
fn the_stage_has_no_row_of_its_own_and_the_keys_of_others_are_passed_over() {
    assert_eq!(path(&RowKey::Stage), CLUSTER_KEY);
    assert_eq!(encode(&Row::Stage(sterna_engine::control::Stage::Used)), None);
    let others = [
        CLUSTER_KEY,
        COPYING_KEY,
        "/v1/-/check",
        "/v1/-/moved",
        "/v1/-/leader/lease",
        "/v1/-/leader/reign",
        "/v1/-/leader/term/0000000000000001",
    ];
    for other in others {
        assert_eq!(decode(other, b"?").unwrap(), None, "{other}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_its_key_and_its_field() {
    let task: TaskKey = "default/task/build".parse().unwrap();
    let path = path(&RowKey::Task(task));
    for bytes in [&b"garbled"[..], &[]] {
        let error = decode(&path, bytes).unwrap_err();
        assert!(error.to_string().contains("/v1/default/task/build"), "{error}");
    }
    let RecordError::Damaged { source, .. } = decode(&path, &[]).unwrap_err() else { panic!() };
    assert!(source.to_string().contains("state"), "{source}");
}

/// A program that led without them would forget them.
#[test]
fn a_key_that_no_program_of_this_version_writes_is_refused_by_name() {
    let keys = [
        "/v1/default/forest/x",
        "/v1/default/schedule/nightly",
        "/v1/default/definition/build",
        "/v1/default/definition/build/0",
        "/v1/default/definition/build/01",
        "/v1/default/definition/build/+1",
        "/v1/default/definition/build/1/2",
        "/v1/a/task/b/c",
        "/v1/-/zones",
        "/v1/-/worker/?",
        "/v1/",
    ];
    for key in keys {
        let error = decode(key, b"?").unwrap_err();
        assert!(matches!(error, RecordError::Unknown { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!(" {key}: a newer sterna wrote it")), "{error}");
    }
}

/// The bytes of one record, as other builds wrote them.
#[test]
fn a_record_stands_in_exactly_these_bytes() {
    let incarnation = TaskIncarnation::from_parts(NOW, [3; 10]);
    let entry = Tombstone { incarnation, at: NOW, is_kept: false };
    let task: TaskKey = "default/task/build".parse().unwrap();
    let bytes = bytes_of(&Row::Tombstone(task, Some(entry)));
    let id = TaskIncarnation::from_parts(NOW, [3; 10]);
    let mut expected = vec![0x0a, 16];
    expected.extend_from_slice(id.as_bytes());
    assert_eq!(bytes, expected);
}

/// Never to be changed: other builds read them.
#[test]
fn a_definition_stands_in_exactly_these_bytes_under_its_version() {
    let demand =
        Demand::new(Millicores::new(500), Bytes::new(64), Bytes::new(0), Countables::default());
    let spec = TaskSpec {
        wants: Arc::new(Wants { demand, constraints: Constraints::default() }),
        contract: Contract::Keep,
        work: Arc::from(*b"work"),
        when_full: WhenFull::Wait,
        latest_start: None,
        callback: None,
        keeps_name: false,
    };
    let key = DefinitionKey { namespace: Namespace::default(), name: name("build") };
    let latest_start_after = Some(Span::from_millis(5));
    let definition = Definition { spec: Arc::new(spec), latest_start_after };
    let row = Row::Definition(key, 12, Some(Arc::new(definition)));
    assert_eq!(path(&row.key()), "/v1/default/definition/build/12");
    let golden: [&[u8]; 2] = [
        &[10, 17, 10, 5, 8, 244, 3, 16, 64, 18, 2, 26, 0, 26, 4],
        &[b'w', b'o', b'r', b'k', 16, 5],
    ];
    let golden = golden.concat();
    assert_eq!(bytes_of(&row), golden);
    assert_eq!(decode("/v1/default/definition/build/12", &golden).unwrap(), Some(row));
}

/// Other builds wrote none, and this one writes none where there is none.
#[test]
fn a_version_that_was_taken_back_stands_in_exactly_these_bytes_after_all_others() {
    let bytes = |taken_back| {
        let spec = service_spec(1);
        let (version, highest, before, crashes) = (1, 2, None, 0);
        let record = ServiceRecord { spec, version, highest, before, crashes, taken_back };
        encode_service(&record)
    };
    let taken_back = TakenBack { version: 2, at: NOW, index: 3, why: "x".into() };
    let (without, with) = (bytes(None), bytes(Some(taken_back)));
    let added = [0x3a, 7, 0x08, 2, 0x18, 3, 0x22, 1, b'x'];
    assert_eq!(with, [&without[..], &added[..]].concat());
}

/// Other builds wrote none; the field is the last one.
#[test]
fn a_task_that_is_over_and_says_nothing_of_its_start_is_read() {
    let record = |started| {
        let parts = TaskParts {
            incarnation: TaskIncarnation::from_parts(NOW, [3; 10]),
            epoch: Epoch::new(2),
            made: NOW,
            state: TaskState::Completed { end: TaskEnd::Cancelled, at: NOW },
            returns: 0,
            left: None,
            lost: None,
            last: None,
            started,
            is_told: false,
            is_given_up: false,
        };
        let key: TaskKey = "default/task/build".parse().unwrap();
        Row::Task(key, Some((Task::from(parts), task_spec())))
    };
    let bytes = |started| bytes_of(&record(started));
    let path = path(&record(None).key());
    let before = bytes(None);
    assert_eq!(decode(&path, &before).unwrap(), Some(record(None)));
    let started = Some(NOW.plus(Span::from_millis(1)));
    assert_eq!(bytes(started), [&before[..], &[0x78, 2]].concat());
}

/// Where a machine is was not written by other builds; the field of it is the last one.
#[test]
fn an_entry_of_the_roster_that_says_nothing_of_its_zone_is_read() {
    let row = |zone| Row::Roster(lock(), Some(entry(zone)));
    let encode = |zone| bytes_of(&row(zone));
    let before = encode(Zone::Unsaid);
    let read = decode(&path(&RowKey::Roster(lock())), &before).unwrap();
    assert_eq!(read, Some(row(Zone::Unsaid)));
    assert_eq!(encode(Zone::Nameless), [&before[..], &[0x42, 0]].concat());
    assert_eq!(encode(Zone::Named(name("east"))), [&before[..], b"\x42\x04east"].concat());
}

/// Nothing was kept of a crash but its count and its time.
#[test]
fn a_record_of_an_instance_that_says_nothing_of_its_past_is_read() {
    let key: InstanceKey = "default/service/web/3".parse().unwrap();
    let bytes = [0x08, 4, 0x10, 0, 0x38, 0];
    let crashes = Crashes { count: 4, last: Some(NOW) };
    let state = InstanceState::Crashed { until: Some(NOW) };
    let row = Row::Instance(key, Some(Instance::from_parts(state, None, crashes, None)));
    assert_eq!(bytes_of(&row), bytes, "and is written so");
    assert_eq!(decode(&path(&row.key()), &bytes).unwrap(), Some(row));
}
