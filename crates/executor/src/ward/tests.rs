//! What a ward makes of what its guardian tells.

use super::*;

const WAIT: Span = Span::from_secs(1);

fn at(seconds: u64) -> BootTime {
    BootTime::from_millis(seconds * 1_000)
}

fn step(ward: &mut Ward, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    ward.step(at(1), input, &mut effects);
    effects
}

fn told(ward: &mut Ward, fate: Fate) -> Vec<Effect> {
    step(ward, Input::Told(fate, WAIT))
}

/// One whose guardian was asked for its first step.
fn asked(setup_steps: u32) -> Ward {
    let spec = Spec { setup_steps, ..Spec::default() };
    let mut effects = Vec::new();
    let mut ward = Ward::begin(at(1), spec, &mut effects);
    effects.extend(step(&mut ward, Input::Created));
    let first = if setup_steps == 0 { Step::Run } else { Step::Setup(0) };
    assert_eq!(effects.last(), Some(&Effect::Spawn(Part::new(0), first)));
    ward
}

fn end(effects: &[Effect]) -> Option<&End> {
    effects.iter().find_map(|effect| match effect {
        Effect::Completed(end) => Some(end),
        Effect::Create
        | Effect::Spawn(..)
        | Effect::Stop(_)
        | Effect::Kill
        | Effect::Drain
        | Effect::Probe(..)
        | Effect::Became(_)
        | Effect::Readiness(_)
        | Effect::Remove => None,
    })
}

#[test]
fn steps_follow_each_other_and_the_end_waits_for_the_last_process_and_the_pipes() {
    let (setup, main) = (Part::new(0), Part::new(1));
    let mut ward = asked(1);
    told(&mut ward, Fate::Started(setup));
    let next = told(&mut ward, Fate::Exited(setup, Exit::Code(0)));
    assert_eq!(next, [Effect::Spawn(main, Step::Run)]);
    assert!(told(&mut ward, Fate::Started(main)).contains(&Effect::Became(State::Running)));
    told(&mut ward, Fate::Exited(main, Exit::Code(3)));
    assert!(ward.is_to_be_gone(), "whatever the main command has left");
    assert_eq!(told(&mut ward, Fate::Empty), [Effect::Drain]);
    assert!(!ward.is_to_be_gone());
    let over = step(&mut ward, Input::Drained);
    let expected = End { cause: Cause::Exited, exit: Some(Exit::Code(3)) };
    assert_eq!(end(&over), Some(&expected));
    assert_eq!(step(&mut ward, Input::Acknowledged), [Effect::Remove]);
}

#[test]
fn what_is_told_twice_counts_once() {
    let (setup, main) = (Part::new(0), Part::new(1));
    let mut ward = asked(1);
    let fates = [
        Fate::Started(setup),
        Fate::Exited(setup, Exit::Code(0)),
        Fate::Started(main),
        Fate::Exited(main, Exit::Code(0)),
        Fate::Empty,
    ];
    for (heard, fate) in fates.iter().enumerate() {
        told(&mut ward, fate.clone());
        for again in &fates[..=heard] {
            assert_eq!(told(&mut ward, again.clone()), [], "{again:?} after {fate:?}");
        }
    }
}

#[test]
fn what_is_told_again_of_a_setup_step_does_not_end_the_run_that_followed_it() {
    let (setup, main) = (Part::new(0), Part::new(1));
    let spec = Spec { setup_steps: 1, ..Spec::default() };
    let mut ward = Ward::adopt(at(1), spec, at(0), Some(main));
    for fate in [Fate::Started(setup), Fate::Exited(setup, Exit::Code(0)), Fate::Started(main)] {
        let effects = told(&mut ward, fate.clone());
        assert!(!effects.contains(&Effect::Kill), "{fate:?}");
    }
    assert_eq!(ward.state(), State::Running);
}

/// It was taken for running for ever: nobody would tell the end of a command that was never asked for.
#[test]
fn a_run_that_ended_in_its_setup_while_its_worker_was_away_is_over() {
    let spec = Spec { setup_steps: 1, ..Spec::default() };
    // A guardian that found all of it over names no step.
    let mut ward = Ward::adopt(at(1), spec, at(0), None);
    told(&mut ward, Fate::Exited(Part::new(0), Exit::Code(0)));
    assert!(told(&mut ward, Fate::Empty).contains(&Effect::Drain));
    let over = step(&mut ward, Input::Drained);
    assert_eq!(end(&over), Some(&End { cause: Cause::Exited, exit: Some(Exit::Unknown) }));
}

#[test]
fn what_the_guardian_was_never_asked_for_is_over_without_it() {
    let mut effects = Vec::new();
    let mut ward = Ward::begin(at(1), Spec::default(), &mut effects);
    step(&mut ward, Input::Created);
    let effects = step(&mut ward, Input::NotAsked("no such command".to_owned()));
    assert_eq!(effects, [Effect::Drain]);
    let over = step(&mut ward, Input::Drained);
    let cause = Cause::FailedToStart("no such command".to_owned());
    assert_eq!(end(&over), Some(&End { cause, exit: None }));
}

#[test]
fn a_later_step_that_is_not_asked_for_ends_what_the_steps_before_have_left() {
    let setup = Part::new(0);
    let mut ward = asked(1);
    told(&mut ward, Fate::Started(setup));
    told(&mut ward, Fate::Exited(setup, Exit::Code(0)));
    let effects = step(&mut ward, Input::NotAsked("no such command".to_owned()));
    assert_eq!(effects, [Effect::Kill]);
}

#[test]
fn an_end_that_nobody_saw_is_told_as_unknown() {
    let mut ward = asked(0);
    told(&mut ward, Fate::Started(Part::new(0)));
    assert_eq!(told(&mut ward, Fate::Empty).last(), Some(&Effect::Drain));
    let over = step(&mut ward, Input::Drained);
    assert_eq!(end(&over).and_then(|end| end.exit), Some(Exit::Unknown));
}

#[test]
fn a_run_that_a_new_guardian_never_found_has_not_started_if_nobody_saw_it() {
    let mut ward = asked(0);
    let effects = step(&mut ward, Input::Lost);
    assert_eq!(effects.last(), Some(&Effect::Drain));
    let over = step(&mut ward, Input::Drained);
    assert!(matches!(end(&over), Some(End { cause: Cause::FailedToStart(_), .. })));
    assert_eq!(step(&mut ward, Input::Lost), [], "it is over");
}

#[test]
fn a_step_that_a_killed_guardian_never_began_ends_the_run() {
    let (setup, main) = (Part::new(0), Part::new(1));
    let mut ward = asked(1);
    told(&mut ward, Fate::Started(setup));
    told(&mut ward, Fate::Exited(setup, Exit::Code(0)));
    let mut other = ward.clone();
    // The next guardian tells again what it knows.
    let effects = step(&mut ward, Input::Held(Phase::Live, Some(setup)));
    assert_eq!(effects, [Effect::Kill], "whatever the step before has left");
    assert_eq!(told(&mut ward, Fate::Started(setup)), []);
    assert_eq!(told(&mut ward, Fate::Empty), [Effect::Drain]);
    let over = step(&mut ward, Input::Drained);
    assert!(matches!(end(&over), Some(End { cause: Cause::FailedToStart(_), .. })));
    // What it may have begun, or what is over, is told.
    for (phase, part) in
        [(Phase::Live, Some(main)), (Phase::Live, None), (Phase::Empty, Some(setup))]
    {
        assert_eq!(step(&mut other, Input::Held(phase, part)), [], "{phase:?} {part:?}");
    }
    assert!(told(&mut other, Fate::Started(main)).contains(&Effect::Became(State::Running)));
}

#[test]
fn probes_of_a_later_worker_are_numbered_after_those_of_the_earlier_ones() {
    let mut ward = Ward::adopt(at(1), Spec::default(), at(0), Some(Part::new(0)));
    ward.number_probes_after(Part::new(0));
    ward.number_probes_after(Part::new(7));
    ward.number_probes_after(Part::new(3));
    let probe = crate::monitor::Monitor::new(at(1), crate::monitor::Limits::default())
        .tick(at(1))
        .expect("the first probe is due at once");
    assert_eq!(ward.probe_by_command(Question::IsWell, probe), Part::new(8));
}

#[test]
fn a_probe_by_command_answers_its_question_and_ends_nothing() {
    let limits = crate::monitor::Limits::default();
    let spec = Spec { monitor: Some(limits), ..Spec::default() };
    let mut effects = Vec::new();
    let mut ward = Ward::begin(at(1), spec, &mut effects);
    step(&mut ward, Input::Created);
    let effects = told(&mut ward, Fate::Started(Part::new(0)));
    let Some(Effect::Probe(question, probe)) = effects.last() else {
        panic!("it does not ask: {effects:?}");
    };
    let part = ward.probe_by_command(*question, *probe);
    assert_eq!(part, Part::new(1));
    assert_eq!(told(&mut ward, Fate::Started(part)), []);
    let effects = told(&mut ward, Fate::Exited(part, Exit::Code(0)));
    assert!(effects.contains(&Effect::Became(State::Running)), "{effects:?}");
}

/// One whose command runs.
fn running(spec: Spec) -> Ward {
    let mut ward = Ward::begin(at(1), spec, &mut Vec::new());
    step(&mut ward, Input::Created);
    told(&mut ward, Fate::Started(Part::new(0)));
    ward
}

/// What it asks of a guardian that has found it so then, after what was due by then.
fn held_at(ward: &mut Ward, seconds: u64, phase: Phase) -> Vec<Effect> {
    ward.step(at(seconds), Input::Tick, &mut Vec::new());
    let mut effects = Vec::new();
    ward.step(at(seconds), Input::Held(phase, Some(Part::new(0))), &mut effects);
    effects
}

#[test]
fn a_stop_that_a_killed_guardian_never_heard_is_asked_again_with_what_is_left_of_its_grace() {
    let mut ward = running(Spec { grace: Span::from_secs(10), ..Spec::default() });
    assert_eq!(held_at(&mut ward, 1, Phase::Live), [], "nobody has asked for its end");
    let stop = step(&mut ward, Input::Stop(Cause::Request, How::Gracefully));
    assert!(stop.contains(&Effect::Stop(Span::from_secs(10))), "{stop:?}");
    for phase in [Phase::Stopping, Phase::Empty] {
        assert_eq!(held_at(&mut ward, 4, phase), [], "{phase:?}: it has heard");
    }
    for phase in [Phase::Live, Phase::Cloning] {
        let left = Effect::Stop(Span::from_secs(7));
        assert_eq!(held_at(&mut ward, 4, phase), [left], "{phase:?}");
    }
    // When its time is over it is killed, not asked.
    assert_eq!(held_at(&mut ward, 11, Phase::Live), [Effect::Kill]);
    assert_eq!(held_at(&mut ward, 12, Phase::Live), [Effect::Kill], "until nothing is left");
    told(&mut ward, Fate::Empty);
    assert_eq!(held_at(&mut ward, 13, Phase::Live), [], "nothing is left");
}

#[test]
fn a_stop_without_an_end_of_its_grace_is_asked_again_too() {
    let grace = Span::from_millis(u64::MAX / 4);
    let mut ward = running(Spec { grace, ..Spec::default() });
    step(&mut ward, Input::Stop(Cause::Request, How::Gracefully));
    let effects = held_at(&mut ward, 1, Phase::Live);
    assert_eq!(effects, [Effect::Stop(grace)]);
}

#[test]
fn a_stop_that_is_not_due_yet_is_not_asked_for_by_another_guardian() {
    let linger = Span::from_secs(5);
    let mut ward = running(Spec { linger, ..Spec::default() });
    let stop = step(&mut ward, Input::Stop(Cause::Request, How::Gracefully));
    assert!(!stop.iter().any(|effect| matches!(effect, Effect::Stop(_))), "{stop:?}");
    assert_eq!(held_at(&mut ward, 2, Phase::Live), []);
    assert_eq!(held_at(&mut ward, 7, Phase::Live), [Effect::Stop(Span::from_secs(9))]);
}

#[test]
fn what_a_guardian_was_asked_when_it_was_killed_is_no_bad_answer() {
    let limits = crate::monitor::Limits { failures_max: 1, ..crate::monitor::Limits::default() };
    let spec = Spec { monitor: Some(limits), readiness: Some(limits), ..Spec::default() };
    let mut ward = Ward::begin(at(1), spec, &mut Vec::new());
    step(&mut ward, Input::Created);
    let asked = told(&mut ward, Fate::Started(Part::new(0)));
    let probes: Vec<_> = asked.iter().filter_map(probe).collect();
    assert_eq!(probes.len(), 2, "{asked:?}");
    for (question, probe) in &probes {
        step(&mut ward, Input::Probed(*question, *probe, true));
    }
    assert_eq!(ward.state(), State::Running);
    for seconds in (31..400).step_by(30) {
        // Each is asked of a guardian that is killed, or of none.
        let (now, mut effects) = (at(seconds), Vec::new());
        ward.step(now, Input::Tick, &mut effects);
        let probes: Vec<_> = effects.iter().filter_map(probe).collect();
        let [(first, one), (second, other)] = probes[..] else { panic!("{effects:?}") };
        let part = ward.probe_by_command(first, one);
        ward.step(now, Input::Unguarded, &mut effects);
        ward.step(now, Input::NotProbed(second, other), &mut effects);
        let late = Fate::Exited(part, Exit::Code(1));
        ward.step(now, Input::Told(late, WAIT), &mut effects);
        assert_eq!(ward.cause(), None, "{effects:?}");
        assert!(!effects.contains(&Effect::Readiness(false)), "{effects:?}");
    }
}

const fn probe(effect: &Effect) -> Option<(Question, ProbeId)> {
    match effect {
        Effect::Probe(question, probe) => Some((*question, *probe)),
        Effect::Create
        | Effect::Spawn(..)
        | Effect::Stop(_)
        | Effect::Kill
        | Effect::Drain
        | Effect::Became(_)
        | Effect::Readiness(_)
        | Effect::Completed(_)
        | Effect::Remove => None,
    }
}
