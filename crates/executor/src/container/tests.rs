use super::*;
use crate::monitor::Failure;

fn at(seconds: u64) -> BootTime {
    BootTime::from_millis(seconds * 1_000)
}

fn step(container: &mut Container, now: u64, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    container.step(at(now), input, &mut effects);
    effects
}

/// Started and created at 0.
fn up(spec: Spec) -> Container {
    let mut container = Container::reserve(at(10));
    step(&mut container, 0, Input::Start(spec));
    step(&mut container, 0, Input::Created);
    step(&mut container, 0, Input::Started);
    container
}

fn ended(cause: Cause, exit: Option<Exit>) -> Effect {
    Effect::Completed(End { cause, exit })
}

#[test]
fn a_plain_container_runs_at_once_and_completes_when_it_is_empty() {
    let mut container = Container::reserve(at(10));
    let effects = step(&mut container, 0, Input::Start(Spec::default()));
    assert_eq!(effects, [Effect::Became(State::Initializing), Effect::Create]);
    assert_eq!(
        step(&mut container, 0, Input::Created),
        [Effect::Became(State::Created), Effect::Run(Step::Run)]
    );
    let effects = step(&mut container, 0, Input::Started);
    assert_eq!(effects, [Effect::Became(State::Running), Effect::Readiness(true)]);
    // A grandchild may still hold the pipes: not over yet.
    assert_eq!(step(&mut container, 5, Input::Exited(Exit::Code(3))), [Effect::Kill]);
    assert_eq!(container.state(), State::Running);
    let end = ended(Cause::Exited, Some(Exit::Code(3)));
    let effects = step(&mut container, 6, Input::Empty);
    assert_eq!(effects, [Effect::Became(State::Completed), Effect::Readiness(false), end]);
    assert_eq!(step(&mut container, 7, Input::Acknowledged), [Effect::Remove]);
    assert_eq!(step(&mut container, 7, Input::Acknowledged), []);
}

#[test]
fn setup_steps_come_first_and_one_that_fails_ends_it() {
    let spec = Spec { setup_steps: 2, ..Spec::default() };
    let mut container = up(spec.clone());
    let good = Input::Exited(Exit::Code(0));
    assert_eq!(step(&mut container, 1, good.clone()), [Effect::Run(Step::Setup(1))]);
    assert_eq!(container.state(), State::Created);
    assert_eq!(step(&mut container, 2, good), [Effect::Run(Step::Run)]);
    assert_eq!(container.state(), State::Created, "it has not begun yet");
    step(&mut container, 2, Input::Started);
    assert_eq!(container.state(), State::Running);

    let mut container = up(spec);
    assert_eq!(step(&mut container, 1, Input::Exited(Exit::Code(1))), [Effect::Kill]);
    let effects = step(&mut container, 1, Input::Empty);
    assert!(effects.contains(&ended(Cause::SetupFailed(0), Some(Exit::Code(1)))), "{effects:?}");
}

#[test]
fn a_stop_is_a_signal_then_grace_then_kill() {
    let mut container = up(Spec::default());
    let stop = Input::Stop(Cause::Request, How::Gracefully);
    let effects = step(&mut container, 5, stop);
    assert_eq!(effects, [Effect::Terminate, Effect::Readiness(false)]);
    assert_eq!(container.deadline(), Some(at(15)));
    assert_eq!(step(&mut container, 14, Input::Tick), []);
    assert_eq!(step(&mut container, 15, Input::Tick), [Effect::Kill]);
    step(&mut container, 15, Input::Exited(Exit::Signal(9)));
    let effects = step(&mut container, 15, Input::Empty);
    assert!(effects.contains(&ended(Cause::Request, Some(Exit::Signal(9)))), "{effects:?}");
}

#[test]
fn who_lingers_is_not_ready_first_then_gets_its_signal_and_its_whole_grace() {
    let lingers = || up(Spec { linger: Span::from_secs(2), ..Spec::default() });
    let stop = || Input::Stop(Cause::Request, How::Gracefully);
    let mut container = lingers();
    assert_eq!(step(&mut container, 5, stop()), [Effect::Readiness(false)]);
    assert_eq!(container.deadline(), Some(at(7)));
    assert_eq!(step(&mut container, 6, stop()), [], "asked again, it is not hurried");
    assert_eq!(step(&mut container, 7, Input::Tick), [Effect::Terminate]);
    assert_eq!(step(&mut container, 16, Input::Tick), []);
    assert_eq!(step(&mut container, 17, Input::Tick), [Effect::Kill]);
    let mut hurried = lingers();
    step(&mut hurried, 5, stop());
    let now = Input::Stop(Cause::Request, How::Now);
    assert_eq!(step(&mut hurried, 6, now), [Effect::Kill], "nobody is asked any more");
    let mut late = lingers();
    step(&mut late, 5, stop());
    assert_eq!(step(&mut late, 100, Input::Tick), [Effect::Kill], "one is enough");
    assert_eq!(late.deadline(), None);
    // Whatever must not wait does not.
    let mut container = lingers();
    step(&mut container, 5, stop());
    let deadline = Input::Stop(Cause::Deadline, How::Within(Span::from_secs(1)));
    assert_eq!(step(&mut container, 6, deadline), [Effect::Terminate]);
    assert_eq!(step(&mut container, 7, Input::Tick), [Effect::Kill]);
    for cause in [Cause::Timeout, Cause::WorkerExit, Cause::DiskLimit] {
        let effects = step(&mut lingers(), 5, Input::Stop(cause, How::Gracefully));
        assert_eq!(effects, [Effect::Terminate, Effect::Readiness(false)]);
    }
}

#[test]
fn a_stop_is_hurried_and_never_undone_and_its_first_cause_stays() {
    let mut container = up(Spec { grace: Span::from_secs(100), ..Spec::default() });
    step(&mut container, 0, Input::Stop(Cause::Request, How::Gracefully));
    assert_eq!(container.deadline(), Some(at(100)));
    // The deadline's own kill wait counts, not the workload's grace (safety rule 8).
    step(&mut container, 1, Input::Stop(Cause::Deadline, How::Within(Span::from_secs(5))));
    assert_eq!(container.deadline(), Some(at(6)));
    step(&mut container, 2, Input::Stop(Cause::Request, How::Gracefully));
    assert_eq!(container.deadline(), Some(at(6)));
    assert_eq!(step(&mut container, 3, Input::Stop(Cause::Request, How::Now)), [Effect::Kill]);
    let effects = step(&mut container, 3, Input::Empty);
    assert!(effects.contains(&ended(Cause::Request, None)), "{effects:?}");
}

#[test]
fn every_cause_is_told_apart() {
    let cases: [(&str, Vec<Input>, Cause, Option<Exit>); 6] = [
        ("code", vec![Input::Exited(Exit::Code(0))], Cause::Exited, Some(Exit::Code(0))),
        ("signal", vec![Input::Exited(Exit::Signal(11))], Cause::Exited, Some(Exit::Signal(11))),
        ("memory", vec![Input::Exited(Exit::OutOfMemory)], Cause::Exited, Some(Exit::OutOfMemory)),
        ("asked", vec![Input::Stop(Cause::Request, How::Now)], Cause::Request, None),
        (
            "deadline",
            vec![Input::Stop(Cause::Deadline, How::Within(Span::from_secs(5)))],
            Cause::Deadline,
            None,
        ),
        (
            "not started",
            vec![Input::NotStarted("no such file".to_owned())],
            Cause::FailedToStart("no such file".to_owned()),
            None,
        ),
    ];
    for (name, inputs, cause, exit) in cases {
        let mut container = up(Spec::default());
        for input in inputs {
            step(&mut container, 1, input);
        }
        let effects = step(&mut container, 2, Input::Empty);
        assert!(effects.contains(&ended(cause, exit)), "{name}: {effects:?}");
    }
}

#[test]
fn a_timeout_counts_from_the_start() {
    let mut container = up(Spec { timeout: Some(Span::from_secs(30)), ..Spec::default() });
    assert_eq!(container.deadline(), Some(at(30)));
    let effects = step(&mut container, 30, Input::Tick);
    assert_eq!(effects, [Effect::Terminate, Effect::Readiness(false)]);
    step(&mut container, 31, Input::Exited(Exit::Code(0)));
    let effects = step(&mut container, 31, Input::Empty);
    assert!(effects.contains(&ended(Cause::Timeout, Some(Exit::Code(0)))), "{effects:?}");
}

#[test]
fn a_monitor_decides_when_it_runs_and_when_it_has_failed() {
    let monitor = monitor::Limits { failures_max: 1, ..monitor::Limits::default() };
    let mut container = up(Spec { monitor: Some(monitor), ..Spec::default() });
    assert_eq!(container.state(), State::Created);
    let mut probe = Monitor::new(at(0), monitor);
    let first = probe.tick(at(0)).unwrap();
    let effects = step(&mut container, 1, Input::Probed(first, true));
    assert_eq!(effects, [Effect::Became(State::Running), Effect::Readiness(true)]);
    // Asked again after its interval, and not answered.
    step(&mut container, 31, Input::Tick);
    let effects = step(&mut container, 36, Input::Tick);
    assert_eq!(effects, [Effect::Terminate, Effect::Readiness(false)]);
    let effects = step(&mut container, 37, Input::Empty);
    assert!(effects.contains(&ended(Cause::Monitor(Failure::Unhealthy), None)), "{effects:?}");
}

#[test]
fn readiness_changes_who_is_listed_and_nothing_else() {
    let limits = monitor::Limits { failures_max: 1, ..monitor::Limits::default() };
    let mut container = up(Spec { readiness: Some(limits), ..Spec::default() });
    let mut probe = Monitor::new(at(0), limits);
    let first = probe.tick(at(0)).unwrap();
    assert_eq!(container.state(), State::Running);
    let effects = step(&mut container, 1, Input::Ready(first, true));
    assert_eq!(effects, [Effect::Readiness(true)]);
    probe.answered(at(1), first, true);
    let second = probe.tick(at(31)).unwrap();
    step(&mut container, 31, Input::Tick);
    let effects = step(&mut container, 31, Input::Ready(second, false));
    assert_eq!(effects, [Effect::Readiness(false)]);
    assert_eq!(container.state(), State::Running);
}

/// The probes of readiness that it wants now.
fn asked(effects: &[Effect]) -> Vec<ProbeId> {
    let probes = effects.iter().filter_map(|effect| {
        let Effect::ProbeReadiness(probe) = effect else { return None };
        Some(*probe)
    });
    probes.collect()
}

/// Passes time until it asks whether it is ready, for so many seconds at most.
fn next_asked(container: &mut Container, from: u64, until: u64) -> Option<(u64, ProbeId)> {
    (from..until).find_map(|now| {
        let probe = asked(&step(container, now, Input::Tick)).first().copied()?;
        Some((now, probe))
    })
}

#[test]
fn who_is_not_ready_in_time_is_asked_again() {
    let limits = monitor::Limits::default();
    let mut container = up(Spec { readiness: Some(limits), ..Spec::default() });
    let mut probe = Monitor::new(at(0), limits).tick(at(0)).unwrap();
    let mut now = 0;
    while now < 59 {
        assert_eq!(step(&mut container, now, Input::Ready(probe, false)), []);
        (now, probe) = next_asked(&mut container, now + 1, 60).unwrap();
    }
    // No question is open when the time is over.
    assert_eq!(step(&mut container, now, Input::Ready(probe, false)), []);
    let (now, probe) = next_asked(&mut container, 60, 65).unwrap();
    assert_eq!(step(&mut container, now, Input::Ready(probe, true)), [Effect::Readiness(true)]);
}

#[test]
fn who_was_ready_and_answers_no_more_is_asked_again_and_old_answers_do_not_count() {
    let limits = monitor::Limits { failures_max: 1, ..monitor::Limits::default() };
    let mut container = up(Spec { readiness: Some(limits), ..Spec::default() });
    let first = Monitor::new(at(0), limits).tick(at(0)).unwrap();
    assert_eq!(step(&mut container, 1, Input::Ready(first, true)), [Effect::Readiness(true)]);
    let (now, second) = next_asked(&mut container, 31, 40).unwrap();
    let late = now + 5;
    assert_eq!(step(&mut container, late, Input::Tick), [Effect::Readiness(false)]);
    let (now, third) = next_asked(&mut container, late + 1, late + 3).unwrap();
    assert_eq!(step(&mut container, now, Input::Ready(first, true)), []);
    assert_eq!(step(&mut container, now, Input::Ready(second, true)), []);
    assert_eq!(step(&mut container, now, Input::Ready(third, true)), [Effect::Readiness(true)]);
}

#[test]
fn a_reservation_expires_and_work_that_comes_later_is_told_so() {
    let mut container = Container::reserve(at(10));
    step(&mut container, 10, Input::Tick);
    assert_eq!(container.state(), State::Gone);
    let effects = step(&mut container, 11, Input::Start(Spec::default()));
    let why = Cause::FailedToStart("its reservation had expired".to_owned());
    assert!(effects.contains(&ended(why, None)), "{effects:?}");
}

#[test]
fn a_stop_before_anything_ran_needs_no_signal() {
    let mut container = Container::reserve(at(10));
    step(&mut container, 0, Input::Start(Spec::default()));
    assert_eq!(step(&mut container, 1, Input::Stop(Cause::Request, How::Now)), []);
    let effects = step(&mut container, 2, Input::Created);
    assert_eq!(effects, [Effect::Became(State::Completed), ended(Cause::Request, None)]);
}

#[test]
fn every_order_of_inputs_keeps_to_the_arrows() {
    // Whatever comes, in whatever order: the assertion in `enter` holds, it is completed at most
    // once, and nothing is run after its end has begun.
    let inputs = [
        Input::Tick,
        Input::Start(Spec { setup_steps: 1, ..Spec::default() }),
        Input::Created,
        Input::NotCreated("full".to_owned()),
        Input::NotStarted("no such file".to_owned()),
        Input::Exited(Exit::Code(0)),
        Input::Exited(Exit::Signal(9)),
        Input::Empty,
        Input::Stop(Cause::Request, How::Gracefully),
        Input::Stop(Cause::Deadline, How::Now),
        Input::Acknowledged,
    ];
    let orders = inputs.len().pow(5);
    for mut order in 0..orders {
        let mut container = Container::reserve(at(1_000));
        let mut effects = Vec::new();
        for now in 0..5 {
            container.step(at(now), inputs[order % inputs.len()].clone(), &mut effects);
            order /= inputs.len();
        }
        let completed =
            effects.iter().filter(|effect| matches!(effect, Effect::Completed(_))).count();
        assert!(completed <= 1, "{effects:?}");
        let end = effects.iter().position(|effect| matches!(effect, Effect::Terminate));
        let run = effects.iter().rposition(|effect| matches!(effect, Effect::Run(_)));
        assert!(end.is_none() || run < end, "{effects:?}");
    }
}

#[test]
fn one_that_is_adopted_goes_on_where_it_was() {
    let spec = Spec { timeout: Some(Span::from_secs(60)), setup_steps: 1, ..Spec::default() };
    let mut container = Container::adopt(at(50), spec.clone(), at(0), Step::Run);
    assert_eq!((container.state(), container.deadline()), (State::Running, Some(at(60))));
    let effects = step(&mut container, 60, Input::Tick);
    assert!(effects.contains(&Effect::Terminate), "{effects:?}");
    // In its setup, the run step is still to come.
    let mut container = Container::adopt(at(50), spec, at(0), Step::Setup(0));
    assert_eq!(container.state(), State::Created);
    let effects = step(&mut container, 51, Input::Exited(Exit::Code(0)));
    assert_eq!(effects, [Effect::Run(Step::Run)]);
    let effects = step(&mut container, 51, Input::Started);
    assert_eq!(effects[0], Effect::Became(State::Running));
    // The monitor asks again before it is up.
    let monitored = Spec { monitor: Some(monitor::Limits::default()), ..Spec::default() };
    let mut container = Container::adopt(at(50), monitored, at(0), Step::Run);
    assert_eq!(container.state(), State::Created);
    assert!(matches!(step(&mut container, 50, Input::Tick)[..], [Effect::Probe(_)]));
}
