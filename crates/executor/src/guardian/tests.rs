use sterna_model::{DirectoryId, Lock, MachineId, WallTime};

use super::*;

const KILL_WAIT: Span = Span::from_secs(5);

fn at(seconds: u64) -> BootTime {
    BootTime::from_millis(seconds * 1_000)
}

fn run(number: u8) -> RunId {
    RunId::from_parts(WallTime::EPOCH, [number; 10])
}

fn life(life: u64) -> Incarnation {
    let machine = MachineId::from_bytes([1; 16]).unwrap();
    let directory = DirectoryId::from_parts(WallTime::EPOCH, [1; 10]);
    Incarnation { lock: Lock { directory, machine }, life }
}

fn socket(number: u64) -> SocketId {
    SocketId::new(number)
}

const STOPS: Spawn =
    Spawn { stop_after: Some(Span::from_secs(60)), on_worker_exit: OnWorkerExit::Stop };
const KEEPS: Spawn = Spawn { on_worker_exit: OnWorkerExit::Keep, ..STOPS };

fn step(guardian: &mut Guardian, now: u64, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    guardian.step(at(now), input, &mut effects);
    effects
}

fn ask(guardian: &mut Guardian, now: u64, from: u64, request: Request) -> Vec<Effect> {
    step(guardian, now, Input::Request(socket(from), request))
}

/// Adopted by the first worker on socket 1, confirmed at 0, with one live run.
fn guarding(spawn: Spawn) -> Guardian {
    let mut guardian = Guardian::new(at(0), KILL_WAIT, None, []);
    ask(&mut guardian, 0, 1, Request::Adopt(life(1)));
    ask(&mut guardian, 0, 1, Request::Confirmed(at(0)));
    assert_eq!(ask(&mut guardian, 0, 1, Request::Spawn(run(1), spawn)), [Effect::Clone(run(1))]);
    assert_eq!(step(&mut guardian, 0, Input::Cloned(run(1))), [Effect::Go(run(1))]);
    guardian
}

#[test]
fn rule_12_a_deadline_is_kept_whoever_is_stopped() {
    let mut guardian = guarding(STOPS);
    assert_eq!(guardian.deadline(), Some(at(60)));
    assert_eq!(step(&mut guardian, 59, Input::Tick), []);
    assert_eq!(step(&mut guardian, 60, Input::Tick), [Effect::Terminate(run(1))]);
    // A confirmation that comes now does not undo it (safety rule 8).
    ask(&mut guardian, 61, 1, Request::Confirmed(at(61)));
    assert_eq!(guardian.deadline(), Some(at(65)));
    assert_eq!(step(&mut guardian, 65, Input::Tick), [Effect::Kill(run(1))]);
}

#[test]
fn rule_12_a_confirmation_moves_every_deadline() {
    let mut guardian = guarding(STOPS);
    assert_eq!(ask(&mut guardian, 50, 1, Request::Confirmed(at(49))), [Effect::Keep(at(49))]);
    assert_eq!(guardian.deadline(), Some(at(109)));
    assert_eq!(ask(&mut guardian, 51, 1, Request::Confirmed(at(40))), [], "never back");
    assert_eq!(ask(&mut guardian, 51, 1, Request::Confirmed(at(99))), [], "never from the future");
}

#[test]
fn rule_03_a_command_does_not_begin_after_its_deadline() {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, Request::Spawn(run(2), STOPS));
    // The machine was asleep between clone and exec.
    let effects = step(&mut guardian, 61, Input::Cloned(run(2)));
    assert!(effects.contains(&Effect::Abort(run(2))), "{effects:?}");
    assert!(!effects.contains(&Effect::Go(run(2))), "{effects:?}");
}

#[test]
fn rule_13_what_an_old_worker_still_says_is_dropped() {
    let mut guardian = guarding(KEEPS);
    let effects = ask(&mut guardian, 1, 2, Request::Adopt(life(2)));
    let held = vec![(run(1), Phase::Live)];
    assert_eq!(
        effects,
        [
            Effect::Close(socket(1)),
            Effect::Adopted(socket(2), held),
            Effect::Tell(socket(2), run(1), Fate::Started),
        ]
    );
    // The old worker's spawn is read after the new worker was told what runs.
    assert_eq!(ask(&mut guardian, 2, 1, Request::Spawn(run(9), STOPS)), []);
    assert_eq!(ask(&mut guardian, 2, 3, Request::Adopt(life(1))), [Effect::Close(socket(3))]);
    assert_eq!(
        step(&mut guardian, 2, Input::Closed(socket(1))),
        [],
        "the old one's end is no news"
    );
}

#[test]
fn rule_13_a_process_that_waits_for_its_go_byte_is_listed() {
    let mut guardian = guarding(KEEPS);
    ask(&mut guardian, 1, 1, Request::Spawn(run(2), KEEPS));
    let effects = ask(&mut guardian, 1, 2, Request::Adopt(life(2)));
    let held = vec![(run(1), Phase::Live), (run(2), Phase::Cloning)];
    assert!(effects.contains(&Effect::Adopted(socket(2), held)), "{effects:?}");
}

#[test]
fn rule_13_a_run_is_never_begun_twice() {
    let mut guardian = guarding(STOPS);
    assert_eq!(ask(&mut guardian, 1, 1, Request::Spawn(run(1), STOPS)), []);
    step(&mut guardian, 2, Input::Exited(run(1), Exit::Code(0)));
    step(&mut guardian, 2, Input::Empty(run(1)));
    assert_eq!(ask(&mut guardian, 3, 1, Request::Spawn(run(1), STOPS)), []);
}

#[test]
fn rule_14_what_cannot_be_read_is_ended_at_once() {
    let found = [(run(1), Some(STOPS)), (run(2), None)];
    let mut guardian = Guardian::new(at(10), KILL_WAIT, Some(at(8)), found);
    let effects = step(&mut guardian, 10, Input::Tick);
    assert!(
        effects.contains(&Effect::Terminate(run(2))) || effects.contains(&Effect::Kill(run(2)))
    );
    assert!(!effects.contains(&Effect::Terminate(run(1))), "{effects:?}");
    // The other one is held to the deadline that was kept.
    let effects = step(&mut guardian, 68, Input::Tick);
    assert!(effects.contains(&Effect::Terminate(run(1))), "{effects:?}");
}

#[test]
fn when_its_worker_is_gone_a_run_ends_unless_it_is_kept() {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, Request::Spawn(run(2), KEEPS));
    step(&mut guardian, 1, Input::Cloned(run(2)));
    assert_eq!(step(&mut guardian, 2, Input::Closed(socket(1))), [Effect::Terminate(run(1))]);
    assert_eq!(step(&mut guardian, 7, Input::Tick), [Effect::Kill(run(1))]);
    // The next worker takes over the one, and is told how the other ended.
    step(&mut guardian, 7, Input::Empty(run(1)));
    let effects = ask(&mut guardian, 8, 2, Request::Adopt(life(2)));
    let held = vec![(run(1), Phase::Empty), (run(2), Phase::Live)];
    assert!(effects.contains(&Effect::Adopted(socket(2), held)), "{effects:?}");
    assert!(effects.contains(&Effect::Tell(socket(2), run(1), Fate::Empty)), "{effects:?}");
}

#[test]
fn the_guardian_goes_last() {
    let mut guardian = guarding(STOPS);
    step(&mut guardian, 1, Input::Closed(socket(1)));
    assert_eq!(step(&mut guardian, 2, Input::Exited(run(1), Exit::Signal(15))), []);
    assert_eq!(step(&mut guardian, 3, Input::Empty(run(1))), [Effect::Exit]);
    // One that nobody comes to goes, too.
    let mut lonely = Guardian::new(at(0), KILL_WAIT, None, []);
    assert_eq!(lonely.deadline(), Some(at(10)));
    assert_eq!(step(&mut lonely, 10, Input::Tick), [Effect::Exit]);
}

#[test]
fn a_stop_before_the_go_byte_means_no_go() {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, Request::Spawn(run(2), STOPS));
    assert_eq!(ask(&mut guardian, 1, 1, Request::Stop(run(2), KILL_WAIT)), []);
    assert_eq!(step(&mut guardian, 2, Input::Cloned(run(2))), [Effect::Abort(run(2))]);
    let told = step(&mut guardian, 2, Input::Empty(run(2)));
    assert_eq!(told, [Effect::Tell(socket(1), run(2), Fate::Empty)]);
}
