//! Records as clients are shown them. Pure.

use serde_json::Value;
use sterna_api::rest::{
    ChangeView, CrashView, DefinitionView, EndView, EndpointView, Explained, InstanceView,
    ServiceView, TakenBackView, TaskView, TwinView,
};
use sterna_engine::control::{Change, Crashed, Next, Rule, TakenBack, Tense, Why};
use sterna_model::{
    DefinitionKey, InstanceKey, ServiceKey, TaskKey, WallTime, WorkKey,
    payload::{Cause, Endpoint, Exit, Failure, Progress, ReportWords, WorkOutline},
    record::{
        Instance, InstanceCopy, InstanceState, StopReason, Task, TaskEnd, TaskState, TwinReason,
    },
    spec::TaskSpec,
};

use crate::mirror::Mirror;

fn time(at: WallTime) -> String {
    at.to_string()
}

/// The command of work.
fn command(work: &[u8]) -> Vec<String> {
    WorkOutline::read(work).run
}

/// How a task ended, in words.
pub(crate) fn end_text(end: &TaskEnd) -> String {
    let TaskEnd::Ran { report, .. } = end else { return end.to_string() };
    let words = ReportWords::read(report.as_bytes()).unwrap_or_default();
    let Some(cause) = words.cause() else {
        // A newer worker's word says more than none.
        return words.cause_word().map_or_else(|| end.to_string(), str::to_owned);
    };
    match cause {
        Cause::Exited => exit_text(words.exit()),
        Cause::FailedToStart(why) => format!("failed to start: {why}"),
        Cause::SetupFailed(step) => format!("setup step {step} failed"),
        Cause::Timeout => "ended: its timeout passed".to_owned(),
        Cause::Monitor(Failure::NeverHealthy) => "ended: its monitor never succeeded".to_owned(),
        Cause::Monitor(Failure::Unhealthy) => "ended: its monitor failed".to_owned(),
        Cause::DiskLimit => "ended: its directory exceeded its disk limit".to_owned(),
        Cause::Request => "ended on request".to_owned(),
        Cause::Deadline => "ended: its worker was out of contact for too long".to_owned(),
        Cause::WorkerExit => "ended with its worker".to_owned(),
    }
}

fn exit_text(exit: Option<Exit>) -> String {
    match exit {
        Some(Exit::Code(code)) => format!("exited with {code}"),
        Some(Exit::Signal(signal)) => format!("ended by signal {signal}"),
        Some(Exit::OutOfMemory) => "killed: it used more memory than its limit".to_owned(),
        Some(Exit::Unknown) | None => "ended, exit status unknown".to_owned(),
    }
}

pub(crate) fn end_view(end: &TaskEnd) -> EndView {
    let (why, mut report) = match end {
        TaskEnd::Ran { report, .. } => ("ran", serde_json::from_str(report).unwrap_or_default()),
        TaskEnd::Cancelled => ("cancelled", Value::Null),
        TaskEnd::Lost => ("lost", Value::Null),
        TaskEnd::Drained => ("drained", Value::Null),
        TaskEnd::NeverTaken { .. } => ("never-taken", Value::Null),
        TaskEnd::NoRoom { .. } => ("no-room", Value::Null),
        TaskEnd::TooLate => ("too-late", Value::Null),
        TaskEnd::UnknownAfterRestore => ("unknown-after-restore", Value::Null),
    };
    let exit = if let TaskEnd::Ran { report, .. } = end {
        ReportWords::read(report.as_bytes()).and_then(|words| words.exit())
    } else {
        None
    };
    let (exit_code, signal) = match exit {
        Some(Exit::Code(code)) => (Some(code), None),
        Some(Exit::Signal(signal)) => (None, Some(signal)),
        Some(Exit::OutOfMemory | Exit::Unknown) | None => (None, None),
    };
    EndView {
        is_success: end.is_success(),
        why: why.to_owned(),
        text: end_text(end),
        exit_code: exit_code.map(i64::from),
        signal: signal.map(i64::from),
        // Said once, and not again in the report.
        result: report
            .as_object_mut()
            .and_then(|report| report.remove("result"))
            .and_then(|result| serde_json::from_value(result).ok()),
        report,
    }
}

pub(crate) fn task(mirror: &Mirror, key: &TaskKey, task: &Task, spec: &TaskSpec) -> TaskView {
    let last = task.last();
    let (ended, end) = match task.state() {
        TaskState::Pending | TaskState::Running { .. } => (None, None),
        TaskState::Completed { end, at } | TaskState::Resolving { end, at, .. } => {
            (Some(*at), Some(end_view(end)))
        }
    };
    let started = task.started();
    // A clock that was set back in between says nothing.
    let took = started.zip(ended).filter(|(started, ended)| started <= ended);
    let worker = last.and_then(|(_, on)| mirror.worker(on.lock)).map(ToString::to_string);
    TaskView {
        key: key.to_string(),
        name: key.name.to_string(),
        namespace: key.namespace.to_string(),
        incarnation: task.incarnation().to_string(),
        phase: task.phase().to_string(),
        outcome: task.end().map(|end| end.outcome().as_str().to_owned()),
        made: time(task.made()),
        run: command(&spec.work),
        worker,
        run_id: last.map(|(run, _)| run.to_string()),
        started: started.map(time),
        ended: ended.map(time),
        took_ms: took.map(|(started, ended)| ended.since(started).as_millis()),
        end,
        returns: task.returns(),
        spec: None,
    }
}

pub(crate) fn service(mirror: &Mirror, key: &ServiceKey) -> Option<ServiceView> {
    let record = mirror.services.get(key)?;
    let count = mirror.count(key);
    Some(ServiceView {
        key: key.to_string(),
        name: key.name.to_string(),
        namespace: key.namespace.to_string(),
        instances: record.spec.instances,
        running: count.running,
        run: command(&record.spec.work),
        version: record.version,
        // One that was taken back has no version before it, and comes about as any other.
        is_updating: record.before.is_some() || count.outdated > 0,
        domain: record.spec.domain.to_string(),
        taken_back: record.taken_back.as_ref().map(|taken| taken_back(key, taken)),
        spec: None,
    })
}

/// The newest version of a definition.
pub(crate) fn definition(mirror: &Mirror, key: &DefinitionKey) -> Option<DefinitionView> {
    let (version, definition) = mirror.definition(key)?;
    Some(DefinitionView {
        key: key.to_string(),
        name: key.name.to_string(),
        namespace: key.namespace.to_string(),
        version,
        run: command(&definition.spec.work),
        spec: None,
    })
}

/// A version that was taken back, and what for.
fn taken_back(key: &ServiceKey, taken: &TakenBack) -> TakenBackView {
    let TakenBack { version, at, index, why } = taken;
    let name = &key.name;
    let text = match is_report(why) {
        true => format!("{name}/{index} crashed: {}", over_text(why)),
        false => format!("{name}/{index}: {why}"),
    };
    TakenBackView { version: *version, at: time(*at), index: *index, text }
}

/// The instances of a service, in the order of their indices.
pub(crate) fn instances<'a>(
    mirror: &'a Mirror,
    key: &ServiceKey,
) -> impl Iterator<Item = (&'a InstanceKey, &'a Instance)> {
    mirror.instances.range(key.instance(0)..=key.instance(u32::MAX))
}

pub(crate) fn instance(mirror: &Mirror, key: &InstanceKey, instance: &Instance) -> InstanceView {
    let copy = instance.copy();
    let name = |lock| mirror.worker(lock).map(ToString::to_string);
    let (since, again_at) = match instance.state() {
        InstanceState::Unclaimed { since }
        | InstanceState::Claimed { since, .. }
        | InstanceState::Running { since, .. } => (Some(time(*since)), None),
        InstanceState::Crashed { until } => (instance.crashes().last.map(time), until.map(time)),
    };
    let twin = instance.twin().map(|twin| {
        let reason = match twin.reason {
            TwinReason::Silent => "silent",
            TwinReason::Evacuating => "evacuating",
            TwinReason::Surplus => "surplus",
        };
        let placed = &twin.copy.placed;
        let worker = name(placed.on.lock);
        TwinView { reason: reason.to_owned(), worker, run_id: placed.run.to_string() }
    });
    let stopping = copy.and_then(|copy| copy.stopping).map(|reason| match reason {
        StopReason::Unwanted => "unwanted",
        StopReason::Asked => "asked",
        StopReason::Update => "update",
        StopReason::Elsewhere => "elsewhere",
        StopReason::Drain => "drain",
    });
    let last_crash = instance.last_crash().map(|crash| CrashView {
        at: time(crash.at),
        run_id: crash.run.to_string(),
        worker: name(crash.on.lock),
        end: end_view(&crash.end),
    });
    InstanceView {
        key: key.to_string(),
        index: key.index,
        phase: instance.phase().to_string(),
        since,
        again_at,
        worker: copy.and_then(|copy| name(copy.placed.on.lock)),
        run_id: copy.map(|copy| copy.placed.run.to_string()),
        version: copy.map(|copy| copy.version),
        is_ready: match instance.state() {
            InstanceState::Running { copy, .. } => Some(copy.is_ready()),
            InstanceState::Unclaimed { .. }
            | InstanceState::Claimed { .. }
            | InstanceState::Crashed { .. } => None,
        },
        stopping: stopping.map(str::to_owned),
        crashes: instance.crashes().count,
        last_crash,
        previous_run_id: instance.past().map(|past| past.run.to_string()),
        twin,
    }
}

pub(crate) fn change(change: &Change, tense: Tense) -> ChangeView {
    let kind = match change {
        Change::Create { .. } => "create",
        Change::Delete { .. } => "delete",
        Change::InPlace { .. } => "in-place",
        Change::Start { .. } => "start",
        Change::Stop { .. } => "stop",
        Change::Restart { .. } => "restart",
        Change::BeginAgain { .. } => "begin-again",
    };
    ChangeView { kind: kind.to_owned(), text: change.text(tense) }
}

/// Why something is not where it should be, or that it is.
pub(crate) fn explained(key: &WorkKey, why: Option<&Why>) -> Explained {
    let next = match key {
        WorkKey::Task(_) => "it runs until it ends or you end it",
        WorkKey::Instance(_) | WorkKey::Node(_) => {
            "nothing, while it runs and its spec stays the same"
        }
    };
    let key = key.to_string();
    let Some(why) = why else {
        let (text, next) = ("it is as its spec wants it".to_owned(), next.to_owned());
        let (since, at) = (None, None);
        return Explained { key, is_well: true, rule: "well".to_owned(), text, since, next, at };
    };
    let (next, at) = next_text(&why.next);
    let mut told = why.rule.clone();
    if let Rule::Over { end }
    | Rule::Ending { end, .. }
    | Rule::Telling { end, .. }
    | Rule::Untold { end } = &mut told
    {
        end.text = over_text(&end.text);
    }
    if let Rule::Crashed(Crashed { end: Some(end), .. })
    | Rule::GivenUp(Crashed { end: Some(end), .. })
    | Rule::Starting { before: Some(Crashed { end: Some(end), .. }), .. } = &mut told
    {
        *end = over_text(end);
    }
    let text = told.to_string();
    Explained {
        key,
        is_well: false,
        rule: why.rule.name().to_owned(),
        text,
        since: why.since.map(time),
        next: next.to_owned(),
        at,
    }
}

/// What happens next in words, and when if that is known.
fn next_text(next: &Next) -> (&'static str, Option<String>) {
    match next {
        Next::At(at) => ("the leader tries it at that time", Some(time(*at))),
        Next::EndsAt(at) => ("the task fails at that time if it has not started", Some(time(*at))),
        Next::OverAt(at) => {
            ("the task fails at that time unless its worker answers again", Some(time(*at)))
        }
        Next::AskedAt(at) => (
            "its worker asks it to end at that time, and kills it when its grace period is over",
            Some(time(*at)),
        ),
        Next::KilledAt(at) => {
            ("its worker kills the ending run at that time if it is still running", Some(time(*at)))
        }
        Next::ServesAt(at) => {
            ("it counts as available at that time if it runs until then", Some(time(*at)))
        }
        Next::CountsAt(at) => {
            ("it counts as a crash at that time if it is not ready by then", Some(time(*at)))
        }
        Next::WhenAnswered => {
            ("it continues when the receiver of the callback answers or times out", None)
        }
        Next::WhenReady => ("it takes requests when its readiness probe succeeds", None),
        Next::WhenTold => ("it continues when its worker reports more", None),
        Next::WhenServing => {
            ("it continues when more instances of the wanted version are available", None)
        }
        Next::WhenCertain => {
            ("it continues once the work that the store has forgotten has certainly ended", None)
        }
        Next::WhenThereIsRoom => {
            ("the leader tries again when a worker has more room, or another one joins", None)
        }
        Next::WhenBack => ("it continues when these workers are back or declared dead", None),
        Next::WhenGone => ("it continues once that copy is certainly gone", None),
        Next::WhenChanged => ("nothing, until a worker or its spec changes", None),
        Next::Nothing => ("nothing: this is final", None),
    }
}

/// An end that may be a worker's report.
fn over_text(end: &str) -> String {
    let report = TaskEnd::Ran { is_success: false, report: end.into() };
    if is_report(end) { end_text(&report) } else { end.to_owned() }
}

fn is_report(end: &str) -> bool {
    ReportWords::read(end.as_bytes()).is_some()
}

/// Where an instance takes requests, by its own copy and by one that is being moved.
pub(crate) fn endpoints(
    mirror: &Mirror,
    key: &InstanceKey,
    instance: &Instance,
) -> Vec<EndpointView> {
    let runs = match instance.state() {
        InstanceState::Running { copy, .. } => Some(copy),
        InstanceState::Unclaimed { .. }
        | InstanceState::Claimed { .. }
        | InstanceState::Crashed { .. } => None,
    };
    // What is being moved takes requests until another copy does.
    let is_replaced = runs.is_some_and(InstanceCopy::is_ready);
    let twin = instance.twin().filter(|twin| {
        twin.reason == TwinReason::Evacuating && twin.running_since.is_some() && !is_replaced
    });
    let copies = runs.into_iter().chain(twin.map(|twin| &twin.copy));
    let endpoint = |copy: &InstanceCopy| {
        if !copy.is_ready() || copy.stopping.is_some() {
            return None;
        }
        let Endpoint { address, ports } = Progress::read(copy.told.as_deref()?).endpoint?;
        Some(EndpointView {
            index: key.index,
            worker: mirror.worker(copy.placed.on.lock)?.to_string(),
            address,
            ports,
            run_id: copy.placed.run.to_string(),
        })
    };
    copies.filter_map(endpoint).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sterna_engine::control::Row;
    use sterna_model::{
        Bytes, Constraints, Contract, Countables, Demand, DirectoryId, Incarnation, Lock,
        MachineId, Millicores, Name, Namespace, Revision, RunId, Wants, record::Placed,
    };
    use sterna_protocol::roster::{Enrolled, Zone};

    use super::{instance as view, *};

    fn life(number: u8) -> Incarnation {
        let directory = DirectoryId::from_parts(WallTime::EPOCH, [number; 10]);
        let machine = MachineId::from_bytes([number; 16]).unwrap();
        Incarnation { lock: Lock { directory, machine }, life: 1 }
    }

    fn enrolled(number: u8) -> Row {
        let entry = Enrolled {
            incarnation: life(number),
            name: Name::new(&format!("w{number}")).unwrap(),
            boot: 1,
            birth: 1,
            is_declared_dead: false,
            is_draining: false,
            is_forgotten: false,
            zone: Zone::Unsaid,
        };
        Row::Roster(life(number).lock, Some(entry))
    }

    fn run(number: u8) -> RunId {
        RunId::from_parts(WallTime::EPOCH, [number; 10])
    }

    /// It runs on this worker, which says whether it is ready.
    fn start(instance: &mut Instance, on: u8, is_ready: bool) {
        let amounts = (Millicores::new(0), Bytes::new(0));
        let demand = Demand::new(amounts.0, amounts.1, amounts.1, Countables::default());
        let wants = Arc::new(Wants { demand, constraints: Constraints::default() });
        let placed = Placed { run: run(on), on: life(on), contract: Contract::Keep };
        instance.claim(placed, 1, wants, WallTime::EPOCH).unwrap();
        say(instance, on, is_ready);
        instance.start(WallTime::EPOCH).unwrap();
    }

    fn say(instance: &mut Instance, on: u8, is_ready: bool) {
        let said = serde_json::json!({
            "state": "running", "is_ready": is_ready, "address": "::1", "ports": { "http": 80 },
        });
        instance.tell(run(on), said.to_string().as_bytes());
    }

    /// There was nobody from when the next copy ran until it was ready.
    #[test]
    fn what_is_moved_takes_requests_until_the_next_copy_is_ready() {
        let mut mirror = Mirror::new(Revision::new(1));
        mirror.apply(Revision::new(1), vec![enrolled(1), enrolled(2)]);
        let key: InstanceKey = "default/service/web/0".parse().unwrap();
        let listed = |it: &Instance| {
            let all = endpoints(&mirror, &key, it).into_iter().map(|one| one.worker);
            (all.collect::<Vec<_>>(), view(&mirror, &key, it).is_ready)
        };
        let on = |worker: &str| vec![worker.to_owned()];
        let mut instance = Instance::new(WallTime::EPOCH);
        start(&mut instance, 1, true);
        instance.displace(TwinReason::Evacuating, WallTime::EPOCH).unwrap();
        assert_eq!(listed(&instance), (on("w1"), None));
        start(&mut instance, 2, false);
        assert_eq!(listed(&instance), (on("w1"), Some(false)));
        say(&mut instance, 2, true);
        assert_eq!(listed(&instance), (on("w2"), Some(true)));
    }

    #[test]
    fn a_version_that_was_taken_back_says_what_for() {
        let key = ServiceKey { namespace: Namespace::default(), name: Name::new("web").unwrap() };
        let text = |why: &str| {
            let at = WallTime::EPOCH;
            taken_back(&key, &TakenBack { version: 2, at, index: 3, why: why.into() }).text
        };
        let report = r#"{"cause":"exited","exit":{"code":3}}"#;
        assert_eq!(text(report), "web/3 crashed: exited with 3");
        assert_eq!(text("it was not ready for 1m"), "web/3: it was not ready for 1m");
    }
}
