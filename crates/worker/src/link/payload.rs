//! What this worker says of itself and its runs, and how it takes the work of a run.

use std::collections::BTreeSet;

use sterna_executor::container::{Cause, End, State};
use sterna_model::{
    Amounts, FEATURE_TAGS, Name,
    payload::{Endpoint, Facts, Isolation, Progress, RunReport, RunState, Usage, Work},
    quoted,
};
use sterna_protocol::{
    limits::Limits,
    message::{Mandate, Payload, Run},
};

use crate::machine::Gpu;

/// What this worker can do for work beyond running it. Images are not among them: whether a worker runs
/// those depends on its machine, and its runtimes say so.
const FEATURES: &[&str] = &[];

/// What this worker is and has, as people and the discovery of its machine say.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Its failure domain.
    pub zone: Option<Name>,
    /// What work may ask for by name.
    pub tags: BTreeSet<Name>,
    /// What work must ask for by name to come here.
    pub required_tags: BTreeSet<Name>,
    /// What kind of root file system work finds here.
    pub stack: Option<Name>,
    /// What there is to be given to work.
    pub amounts: Amounts,
    /// Its graphics cards.
    pub gpus: Vec<Gpu>,
    /// What runs images here, by its name, such as runc.
    pub runtime: Option<String>,
    /// What could not be found out, each in a sentence.
    pub missing: Vec<String>,
}

/// The facts that go with every heartbeat.
pub(super) fn facts(description: &Description, isolation: Isolation, missing: &[String]) -> Facts {
    let Description { zone, tags, required_tags, stack, amounts, gpus, runtime, missing: unknown } =
        description;
    let gpu = |gpu: &Gpu| {
        let Gpu { name, bus, memory } = gpu.clone();
        sterna_model::payload::Gpu { name, bus, memory_bytes: memory.get() }
    };
    let countables = amounts.countables.iter().map(|(name, count)| (name.clone(), count));
    Facts {
        zone: zone.clone(),
        stack: stack.clone(),
        tags: tags.clone(),
        required_tags: required_tags.clone(),
        cpu_millicores: amounts.cpu.get(),
        memory_bytes: amounts.memory.get(),
        disk_bytes: amounts.disk.get(),
        containers: amounts.containers,
        countables: countables.collect(),
        gpus: gpus.iter().map(gpu).collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        isolation: Some(isolation),
        runtimes: Facts::runtimes_with(runtime.as_deref()),
        features: FEATURES.iter().map(|feature| (*feature).to_owned()).collect(),
        missing: lacks(missing, unknown).into_iter().cloned().collect(),
        unheld: missing.to_vec(),
        failed_check: None,
    }
}

/// What the machine cannot do, or could not be found out of it: each once.
pub(super) fn lacks<'a>(missing: &'a [String], unknown: &'a [String]) -> Vec<&'a String> {
    let others = unknown.iter().filter(|one| !missing.contains(one));
    missing.iter().chain(others).collect()
}

/// The work of a run, with what the worker knows of it. Its deadline is counted from the last
/// confirmed stamp, by the limits that hold when it begins.
///
/// The fence is of the leader that has sent it, whoever leads when it begins.
pub(super) fn work(
    run: &Run,
    mandate: Option<&Mandate>,
    worker: &Name,
    limits: &Limits,
) -> Result<Work, String> {
    let read = serde_json::from_slice::<Work>(&run.work);
    let mut work = read.map_err(|error| format!("its work cannot be read: {error}"))?;
    if let Some(need) = work.needs.iter().find(|need| !FEATURES.contains(&need.as_str())) {
        let version = env!("CARGO_PKG_VERSION");
        return Err(format!(
            "its work needs {}, which this worker ({version}) cannot do: update the worker, or let the \
             work ask for the tag {FEATURE_TAGS}{need}",
            quoted(need)
        ));
    }
    work.about.key = run.key.to_string();
    work.about.worker = worker.to_string();
    let fence = mandate.and_then(|mandate| run.ordinal.fence(mandate));
    work.about.fence = fence.map(|fence| fence.to_string()).unwrap_or_default();
    work.about.attempt = run.ordinal.attempt;
    work.about.index = run.key.instance().map(|key| key.index);
    work.stop_after = run.contract.stop_after().map(|after| limits.stop_begins_after(after));
    Ok(work)
}

/// How far a run has come.
pub(super) fn progress(state: State, is_ready: bool, ports: &[(String, u16)]) -> Payload {
    let state = match state {
        State::Reserved => RunState::Reserved,
        State::Initializing => RunState::Initializing,
        State::Created => RunState::Created,
        State::Running => RunState::Running,
        State::Completed => RunState::Completed,
        State::Gone => RunState::Gone,
    };
    // As long as links stay on loopback, so does what is reached over it.
    let address = "127.0.0.1".to_owned();
    let endpoint = Some(Endpoint { address, ports: ports.iter().cloned().collect() });
    Progress { state, is_ready, endpoint }.to_bytes().into()
}

/// The end of a run that never began.
pub(super) fn never_began(why: String) -> RunReport {
    let end = End { cause: Cause::FailedToStart(why), exit: None };
    RunReport { end, usage: Usage::default(), status: None, result: None }
}

/// For people.
pub(super) fn told(report: &RunReport) -> String {
    let cause = match &report.end.cause {
        Cause::Exited => "exited".to_owned(),
        Cause::SetupFailed(step) => format!("setup step {step} failed"),
        Cause::FailedToStart(why) => format!("failed to start: {why}"),
        Cause::Timeout => "its timeout passed".to_owned(),
        Cause::Monitor(_) => "its monitor gave it up".to_owned(),
        Cause::DiskLimit => "its directory held too much".to_owned(),
        Cause::Request => "stopped on request".to_owned(),
        Cause::Deadline => "stopped at its deadline".to_owned(),
        Cause::WorkerExit => "its worker ended".to_owned(),
    };
    report.end.exit.map_or(cause.clone(), |exit| format!("{cause}, {exit:?}"))
}

/// The number of a boot, from the system's name for it; 0 where it has none.
pub(super) fn boot_number(name: &str) -> u128 {
    let digits: String = name.chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use sterna_executor::container::Exit;
    use sterna_model::{
        ClusterId, Contract, Epoch, Nonce, NotifySequence, RunId, RunSequence, Span, Term,
        WallTime,
        payload::{About, RunResult},
    };
    use sterna_protocol::message::Ordinal;

    use super::*;

    fn run(work: &str, contract: Contract) -> Run {
        Run {
            sequence: RunSequence::new(1),
            notify: NotifySequence::ZERO,
            run: RunId::from_parts(WallTime::EPOCH, [1; 10]),
            key: "default/task/build".parse().unwrap(),
            task: None,
            contract,
            ordinal: Ordinal { number: 42, attempt: 2 },
            work: work.as_bytes().into(),
        }
    }

    fn mandate() -> Mandate {
        let cluster = ClusterId::from_parts(WallTime::EPOCH, [1; 10]);
        Mandate { cluster, epoch: Epoch::new(2), term: Term::new(9), nonce: Nonce::new(5) }
    }

    fn read(run: &Run) -> Work {
        work(run, Some(&mandate()), &Name::new("w1").unwrap(), &Limits::default()).unwrap()
    }

    /// It would be run otherwise than it is meant.
    #[test]
    fn work_that_needs_what_this_worker_does_not_know_is_refused_by_name() {
        let said = r#"{"run":["true"],"needs":["lanes"]}"#;
        let name = Name::new("w1").unwrap();
        let error = work(&run(said, Contract::Keep), None, &name, &Limits::default()).unwrap_err();
        assert!(error.starts_with("its work needs 'lanes', which this worker ("), "{error}");
        assert!(error.contains("the tag sterna.lanes"), "{error}");
    }

    #[test]
    fn work_learns_its_key_its_worker_and_its_deadline() {
        let said = r#"{"run":["true"],"stop_after":"1s"}"#;
        let work = read(&run(said, Contract::Stop { after: Span::from_secs(120) }));
        assert_eq!(work.run, ["true"]);
        assert_eq!(work.about.key, "default/task/build");
        assert_eq!(work.about.worker, "w1");
        // Not what the work says: the contract decides.
        let begins = Limits::default().stop_begins_after(Span::from_secs(120));
        assert_eq!(work.stop_after, Some(begins));
        assert_eq!(read(&run(said, Contract::Keep)).stop_after, None);
    }

    #[test]
    fn work_learns_its_fence_its_attempt_and_its_index_from_the_order_alone() {
        let said = r#"{"run":["true"],"about":{"fence":"9.9.9","attempt":9,"index":9}}"#;
        let of_a_task = run(said, Contract::Keep);
        let work = read(&of_a_task);
        let About { fence, attempt, index, .. } = work.about;
        assert_eq!((&*fence, attempt, index), ("2.9.42", 2, None));
        let key = "default/service/web/3".parse().unwrap();
        assert_eq!(read(&Run { key, ..of_a_task.clone() }).about.index, Some(3));
        // A leader that does not count: better no fence than one that does not grow.
        let uncounted = read(&Run { ordinal: Ordinal::default(), ..of_a_task });
        assert_eq!((uncounted.about.fence, uncounted.about.attempt), (String::new(), 0));
    }

    #[test]
    fn work_that_cannot_be_read_says_where() {
        let name = Name::new("w1").unwrap();
        let error = work(&run(r#"{"run": 7}"#, Contract::Keep), None, &name, &Limits::default());
        let error = error.unwrap_err();
        assert!(error.starts_with("its work cannot be read: "), "{error}");
        assert!(error.contains("line 1 column 9"), "{error}");
    }

    #[test]
    fn people_are_told_the_cause_and_the_exit_of_an_end() {
        let end = End { cause: Cause::Exited, exit: Some(Exit::Code(3)) };
        let (usage, status) = (Usage::default(), Some("done".to_owned()));
        let report = RunReport { end, usage, status, result: None };
        assert_eq!(told(&report), "exited, Code(3)");
    }

    /// What an end was once said in, it is said in for good: it stands in the store as it came.
    #[test]
    fn an_end_with_a_result_is_said_in_these_bytes() {
        let end = End { cause: Cause::Exited, exit: Some(Exit::Code(0)) };
        let usage = Usage { cpu_us: 1, memory_bytes: 2, memory_peak_bytes: 3 };
        let result = Some(RunResult { text: "42\n\u{1}".to_owned(), is_cut: true });
        let report = RunReport { end, usage, status: None, result };
        let golden = concat!(
            r#"{"cause":"exited","exit":{"code":0},"result":{"is_cut":true,"text":"42\n\u0001"},"#,
            r#""status":null,"usage":{"cpu_us":1,"memory_bytes":2,"memory_peak_bytes":3}}"#,
        );
        assert_eq!(String::from_utf8_lossy(&report.to_bytes()), golden);
        let without = RunReport { result: None, ..report };
        assert!(!String::from_utf8_lossy(&without.to_bytes()).contains("result"));
    }

    #[test]
    fn facts_say_what_runs_are_made_by() {
        let said = |runtime: Option<&str>| {
            let runtime = runtime.map(str::to_owned);
            let description = Description { runtime, ..Description::default() };
            facts(&description, Isolation::Tree, &[]).runtimes
        };
        assert_eq!(said(None), ["process"]);
        assert_eq!(said(Some("runc")), ["process", "runc"]);
    }

    #[test]
    fn facts_say_which_tags_work_must_ask_for() {
        let required_tags = BTreeSet::from([Name::new("gpu").unwrap()]);
        let description = Description { required_tags, ..Description::default() };
        let said = facts(&description, Isolation::Tree, &[]);
        assert_eq!(Facts::read(&said.to_bytes()).required_tags, description.required_tags);
    }

    #[test]
    fn facts_name_what_the_machine_lacks_once_each() {
        let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let missing = text(&["no runtime", "no memory controller"]);
        let description = Description { missing, ..Description::default() };
        let lacks = text(&["no memory controller", "no pids controller"]);
        let said = facts(&description, Isolation::Tree, &lacks);
        assert_eq!(said.missing, ["no memory controller", "no pids controller", "no runtime"]);
        assert_eq!(said.unheld, lacks);
    }

    #[test]
    fn a_boot_has_the_number_of_its_name() {
        assert_eq!(boot_number("0000-00-ff\n".trim()), 255);
        assert_eq!(boot_number(""), 0);
    }
}
