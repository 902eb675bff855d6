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
const AT_ONCE: Option<Stopping> = Some(Stopping { kill_at: None });
const KEEPS: Spawn = Spawn { on_worker_exit: OnWorkerExit::Keep, ..STOPS };

fn step(guardian: &mut Guardian, now: u64, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    guardian.step(at(now), input, &mut effects);
    effects
}

fn ask(guardian: &mut Guardian, now: u64, from: u64, request: Request) -> Vec<Effect> {
    step(guardian, now, Input::Request(socket(from), request))
}

const SETUP: Part = Part::new(0);
const MAIN: Part = Part::new(1);

fn adopt(guardian: &mut Guardian, now: u64, from: u64, number: u64) -> Vec<Effect> {
    ask(guardian, now, from, Request::Adopt(life(number), Process::new(number)))
}

fn main(number: u8, spawn: Spawn) -> Request {
    Request::Spawn(run(number), spawn, MAIN, Role::Main)
}

fn new(now: u64) -> Guardian {
    Guardian::new(at(now), KILL_WAIT, Kept::default(), [])
}

fn told(number: u8, fate: Fate) -> Effect {
    Effect::Tell(socket(1), run(number), fate)
}

/// Adopted by the first worker on socket 1, confirmed at 0, with one live run.
fn guarding(spawn: Spawn) -> Guardian {
    let mut guardian = new(0);
    adopt(&mut guardian, 0, 1, 1);
    ask(&mut guardian, 0, 1, Request::Confirmed(at(0)));
    assert_eq!(ask(&mut guardian, 0, 1, main(1, spawn)), [Effect::Clone(run(1), MAIN)]);
    assert_eq!(step(&mut guardian, 0, Input::Cloned(run(1), MAIN)), [Effect::Go(run(1), MAIN)]);
    let started = step(&mut guardian, 0, Input::Execed(run(1), MAIN));
    assert_eq!(started, [told(1, Fate::Started(MAIN))]);
    guardian
}

#[test]
fn rule_12_a_deadline_is_kept_whoever_is_stopped() {
    let mut guardian = guarding(STOPS);
    assert_eq!(guardian.deadline(), Some(at(60)));
    assert_eq!(step(&mut guardian, 59, Input::Tick), []);
    let stopping = told(1, Fate::Stopping(Why::Deadline));
    assert_eq!(step(&mut guardian, 60, Input::Tick), [Effect::Terminate(run(1)), stopping]);
    // A confirmation that comes now does not undo it (safety rule 8).
    ask(&mut guardian, 61, 1, Request::Confirmed(at(61)));
    assert_eq!(guardian.deadline(), Some(at(65)));
    assert_eq!(step(&mut guardian, 65, Input::Tick), [Effect::Kill(run(1))]);
}

#[test]
fn rule_08_a_kill_wait_that_was_raised_since_does_not_move_the_kill() {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, Request::KillWait(Span::from_secs(20)));
    step(&mut guardian, 60, Input::Tick);
    assert_eq!(guardian.deadline(), Some(at(65)));
    // One that was lowered holds at once, and one that begins with the new one has it.
    ask(&mut guardian, 61, 1, Request::Confirmed(at(61)));
    ask(&mut guardian, 61, 1, main(2, STOPS));
    step(&mut guardian, 61, Input::Cloned(run(2), MAIN));
    ask(&mut guardian, 62, 1, Request::KillWait(Span::from_secs(10)));
    step(&mut guardian, 65, Input::Tick);
    step(&mut guardian, 65, Input::Empty(run(1)));
    step(&mut guardian, 121, Input::Tick);
    assert_eq!(guardian.deadline(), Some(at(131)));
}

#[test]
fn rule_08_a_long_grace_ends_with_the_kill_wait_after_the_deadline() {
    let mut guardian = guarding(STOPS);
    let asked = ask(&mut guardian, 30, 1, Request::Stop(run(1), Span::from_secs(3600)));
    assert_eq!(asked, [Effect::Terminate(run(1))]);
    assert_eq!(guardian.deadline(), Some(at(60)));
    assert_eq!(step(&mut guardian, 60, Input::Tick), [Effect::Hurry(run(1))]);
    assert_eq!(guardian.deadline(), Some(at(65)));
    assert_eq!(step(&mut guardian, 65, Input::Tick), [Effect::Kill(run(1))]);
    assert_eq!(guardian.deadline(), None);
}

#[test]
fn rule_12_a_confirmation_moves_every_deadline() {
    let mut guardian = guarding(STOPS);
    let kept = Kept { confirmed: Some(at(49)), process: Some(Process::new(1)), ..Kept::default() };
    assert_eq!(ask(&mut guardian, 50, 1, Request::Confirmed(at(49))), [Effect::Keep(kept)]);
    assert_eq!(guardian.deadline(), Some(at(109)));
    assert_eq!(ask(&mut guardian, 51, 1, Request::Confirmed(at(40))), [], "never back");
    assert_eq!(ask(&mut guardian, 51, 1, Request::Confirmed(at(99))), [], "never from the future");
}

#[test]
fn rule_03_a_command_does_not_begin_after_its_deadline() {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, main(2, STOPS));
    // The machine was asleep between clone and exec.
    let effects = step(&mut guardian, 61, Input::Cloned(run(2), MAIN));
    assert!(effects.contains(&Effect::Abort(run(2), MAIN)), "{effects:?}");
    assert!(!effects.contains(&Effect::Go(run(2), MAIN)), "{effects:?}");
    // Nothing with a deadline begins before anything was confirmed.
    let mut early = new(0);
    adopt(&mut early, 0, 1, 1);
    ask(&mut early, 0, 1, main(1, STOPS));
    let effects = step(&mut early, 0, Input::Cloned(run(1), MAIN));
    assert!(effects.contains(&Effect::Abort(run(1), MAIN)), "{effects:?}");
}

#[test]
fn rule_13_what_an_old_worker_still_says_is_dropped() {
    let mut guardian = guarding(KEEPS);
    let effects = adopt(&mut guardian, 1, 2, 2);
    let kept = Kept { confirmed: Some(at(0)), process: Some(Process::new(2)), ..Kept::default() };
    assert_eq!(
        effects,
        [
            Effect::Close(socket(1)),
            Effect::Keep(kept),
            Effect::Adopted(socket(2), vec![(run(1), Phase::Live, Some(MAIN))]),
            Effect::Tell(socket(2), run(1), Fate::Started(MAIN)),
        ]
    );
    // The old worker's spawn is read after the new worker was told what runs.
    assert_eq!(ask(&mut guardian, 2, 1, main(9, STOPS)), []);
    assert_eq!(adopt(&mut guardian, 2, 3, 1), [Effect::Close(socket(3))]);
    let closed = step(&mut guardian, 2, Input::Closed(socket(1)));
    assert_eq!(closed, [], "the old one's end is no news");
}

#[test]
fn rule_13_a_process_that_waits_for_its_go_byte_is_listed() {
    let mut guardian = guarding(KEEPS);
    ask(&mut guardian, 1, 1, main(2, KEEPS));
    let effects = adopt(&mut guardian, 1, 2, 2);
    let held = vec![(run(1), Phase::Live, Some(MAIN)), (run(2), Phase::Cloning, Some(MAIN))];
    assert!(effects.contains(&Effect::Adopted(socket(2), held)), "{effects:?}");
}

#[test]
fn rule_13_a_run_is_never_begun_twice() {
    let mut guardian = guarding(STOPS);
    assert_eq!(ask(&mut guardian, 1, 1, main(1, STOPS)), []);
    step(&mut guardian, 2, Input::Exited(run(1), MAIN, Exit::Code(0)));
    step(&mut guardian, 2, Input::Empty(run(1)));
    assert_eq!(ask(&mut guardian, 3, 1, main(1, STOPS)), []);
}

#[test]
fn rule_14_what_cannot_be_read_is_ended_at_once() {
    let live = |stopping| Found::Live {
        spawn: STOPS,
        stopping,
        part: Some((MAIN, Role::Main)),
        fates: Vec::new(),
    };
    let found = [(run(1), Some(live(None))), (run(2), None), (run(3), Some(live(AT_ONCE)))];
    let kept = Kept { confirmed: Some(at(8)), process: Some(Process::new(1)), ..Kept::default() };
    let mut guardian = Guardian::new(at(10), KILL_WAIT, kept, found);
    let effects = step(&mut guardian, 10, Input::Tick);
    assert!(effects.contains(&Effect::Terminate(run(2))), "{effects:?}");
    assert!(effects.contains(&Effect::Kill(run(3))), "a stop is not undone: {effects:?}");
    assert!(!effects.contains(&Effect::Terminate(run(1))), "{effects:?}");
    // The same worker comes back: the other one is held to the deadline that was kept.
    let effects = adopt(&mut guardian, 11, 1, 1);
    assert!(!effects.contains(&Effect::Terminate(run(1))), "{effects:?}");
    let effects = step(&mut guardian, 68, Input::Tick);
    assert!(effects.contains(&Effect::Terminate(run(1))), "{effects:?}");
}

/// Whoever was asked to end keeps its grace when its guardian is killed meanwhile, and no more.
#[test]
fn a_stop_goes_on_under_the_next_guardian_with_what_is_left_of_its_grace() {
    let next = |kill_at, spawn| {
        let stopping = Some(Stopping { kill_at });
        let part = Some((MAIN, Role::Main));
        let found = Found::Live { spawn, stopping, part, fates: Vec::new() };
        let process = Some(Process::new(1));
        let kept = Kept { confirmed: Some(at(8)), process, ..Kept::default() };
        let mut guardian = Guardian::new(at(10), KILL_WAIT, kept, [(run(1), Some(found))]);
        let effects = adopt(&mut guardian, 10, 1, 1);
        let held = vec![(run(1), Phase::Stopping, Some(MAIN))];
        assert!(effects.contains(&Effect::Adopted(socket(1), held)), "{effects:?}");
        (guardian, effects)
    };
    let (mut guardian, effects) = next(Some(at(20)), KEEPS);
    let is_told =
        |effect: &Effect| [Effect::Terminate(run(1)), Effect::Kill(run(1))].contains(effect);
    assert!(!effects.iter().any(is_told), "it was told already: {effects:?}");
    assert_eq!(step(&mut guardian, 19, Input::Tick), []);
    assert_eq!(step(&mut guardian, 20, Input::Tick), [Effect::Kill(run(1))]);
    // It is bounded as before: by whoever hurries it, its deadline, and its worker's end.
    let (mut hurried, _) = next(Some(at(40)), KEEPS);
    let stop = Request::Stop(run(1), Span::from_secs(3));
    assert_eq!(ask(&mut hurried, 11, 1, stop), [Effect::Hurry(run(1))]);
    assert_eq!(hurried.kill_at(run(1)), Some(at(14)));
    assert_eq!(step(&mut hurried, 14, Input::Tick), [Effect::Kill(run(1))]);
    let (mut late, _) = next(Some(at(1_000)), KEEPS);
    assert_eq!(step(&mut late, 68, Input::Tick), [Effect::Hurry(run(1))], "its deadline");
    assert_eq!(step(&mut late, 73, Input::Tick), [Effect::Kill(run(1))]);
    let (mut left, _) = next(Some(at(1_000)), STOPS);
    assert_eq!(step(&mut left, 11, Input::Closed(socket(1))), [Effect::Hurry(run(1))]);
    assert_eq!(step(&mut left, 16, Input::Tick), [Effect::Kill(run(1))]);
}

#[test]
fn rule_15_what_a_worker_left_that_died_with_its_guardian_ends_unless_it_is_kept() {
    let live = |spawn| Found::Live {
        spawn,
        stopping: None,
        part: Some((MAIN, Role::Main)),
        fates: Vec::new(),
    };
    let found = [(run(1), Some(live(STOPS))), (run(2), Some(live(KEEPS)))];
    let kept = Kept { confirmed: Some(at(8)), process: Some(Process::new(1)), ..Kept::default() };
    let guardian = Guardian::new(at(10), KILL_WAIT, kept, found);
    // Another process of the worker comes, or none.
    let effects = adopt(&mut guardian.clone(), 11, 1, 2);
    assert!(effects.contains(&Effect::Terminate(run(1))), "{effects:?}");
    assert!(!effects.contains(&Effect::Terminate(run(2))), "{effects:?}");
    let mut lonely = guardian;
    assert_eq!(step(&mut lonely, 20, Input::Tick), [Effect::Terminate(run(1))]);
    assert_eq!(lonely.deadline(), Some(at(25)), "it does not wait for what is past");
}

/// Found by the next guardian, which the same worker adopts: what that tells.
fn tells(
    stopping: Option<Stopping>,
    part: Option<(Part, Role)>,
    fates: &[Fate],
) -> (Guardian, Vec<Fate>) {
    let live = Found::Live { spawn: KEEPS, stopping, part, fates: fates.to_vec() };
    let kept = Kept { confirmed: Some(at(8)), process: Some(Process::new(1)), ..Kept::default() };
    let mut guardian = Guardian::new(at(10), KILL_WAIT, kept, [(run(1), Some(live))]);
    let tells = |effect: Effect| match effect {
        Effect::Tell(_, _, fate) => Some(fate),
        Effect::Close(_)
        | Effect::Adopted(..)
        | Effect::Pong(..)
        | Effect::Keep(_)
        | Effect::Clone(..)
        | Effect::Go(..)
        | Effect::Abort(..)
        | Effect::Terminate(_)
        | Effect::Hurry(_)
        | Effect::Kill(_)
        | Effect::Release(_)
        | Effect::Exit => None,
    };
    let told = adopt(&mut guardian, 10, 1, 1).into_iter().filter_map(tells).collect();
    (guardian, told)
}

#[test]
fn what_was_never_let_go_has_not_started_whoever_finds_it() {
    let (mut guardian, told) = tells(None, None, &[]);
    assert!(matches!(told.as_slice(), [Fate::NotStarted(SETUP, _)]), "{told:?}");
    assert_eq!(guardian.last(run(1)), Some(SETUP));
    // Its process, which waited for its go byte, has gone with the guardian that made it.
    let effects = step(&mut guardian, 10, Input::Empty(run(1)));
    assert_eq!(effects, [Effect::Tell(socket(1), run(1), Fate::Empty)]);
}

#[test]
fn what_became_of_a_run_is_told_by_the_next_guardian() {
    let (setup, main) = (Some((SETUP, Role::Setup)), Some((MAIN, Role::Main)));
    let done = Fate::Exited(SETUP, Exit::Code(0));
    let (guardian, told) = tells(None, setup, std::slice::from_ref(&done));
    assert_eq!(told, [Fate::Started(SETUP), done.clone()], "its worker waits for that");
    assert_eq!(guardian.deadline(), Some(at(68)), "and asks for what follows");
    let over = Fate::Exited(MAIN, Exit::Code(3));
    let (_, told) = tells(AT_ONCE, main, &[done.clone(), over.clone()]);
    assert_eq!(told, [Fate::Started(SETUP), done, Fate::Started(MAIN), over]);
    let why = Fate::Stopping(Why::Deadline);
    let (_, told) = tells(AT_ONCE, main, std::slice::from_ref(&why));
    assert_eq!(told, [why, Fate::Started(MAIN)]);
}

#[test]
fn when_its_worker_is_gone_a_run_ends_unless_it_is_kept() {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, main(2, KEEPS));
    step(&mut guardian, 1, Input::Cloned(run(2), MAIN));
    assert_eq!(step(&mut guardian, 2, Input::Closed(socket(1))), [Effect::Terminate(run(1))]);
    assert_eq!(step(&mut guardian, 7, Input::Tick), [Effect::Kill(run(1))]);
    // The next worker takes over the one, and is told how the other ended.
    step(&mut guardian, 7, Input::Empty(run(1)));
    let effects = adopt(&mut guardian, 8, 2, 2);
    let held = vec![(run(1), Phase::Empty, Some(MAIN)), (run(2), Phase::Live, Some(MAIN))];
    assert!(effects.contains(&Effect::Adopted(socket(2), held)), "{effects:?}");
    assert!(effects.contains(&Effect::Tell(socket(2), run(1), Fate::Empty)), "{effects:?}");
}

/// With one kept run beside one that is not.
fn keeping() -> Guardian {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, main(2, KEEPS));
    step(&mut guardian, 1, Input::Cloned(run(2), MAIN));
    guardian
}

#[test]
fn when_the_owner_of_its_worker_is_gone_nothing_is_kept() {
    let both = [Effect::Terminate(run(1)), Effect::Terminate(run(2))];
    // Its worker ends them as it should, for as long as it is there.
    let mut guardian = keeping();
    assert_eq!(step(&mut guardian, 2, Input::OwnerGone), []);
    ask(&mut guardian, 2, 1, main(3, KEEPS));
    step(&mut guardian, 2, Input::Cloned(run(3), MAIN));
    let all: Vec<Effect> = both.iter().cloned().chain([Effect::Terminate(run(3))]).collect();
    assert_eq!(step(&mut guardian, 3, Input::Closed(socket(1))), all);
    // What a worker left that was killed before.
    let mut guardian = keeping();
    assert_eq!(step(&mut guardian, 2, Input::Closed(socket(1))), both[..1]);
    assert_eq!(step(&mut guardian, 3, Input::OwnerGone), both[1..]);
}

#[test]
fn a_worker_that_has_come_since_has_an_owner_of_its_own() {
    let mut guardian = keeping();
    step(&mut guardian, 2, Input::OwnerGone);
    adopt(&mut guardian, 3, 2, 2);
    ask(&mut guardian, 3, 2, main(3, KEEPS));
    step(&mut guardian, 3, Input::Cloned(run(3), MAIN));
    let left = step(&mut guardian, 4, Input::Closed(socket(2)));
    assert!(!left.contains(&Effect::Terminate(run(3))), "{left:?}");
}

#[test]
fn the_guardian_goes_last_and_leaves_the_ends() {
    let mut guardian = guarding(STOPS);
    step(&mut guardian, 1, Input::Closed(socket(1)));
    let effects = step(&mut guardian, 2, Input::Exited(run(1), MAIN, Exit::Signal(15)));
    assert_eq!(effects, [Effect::Kill(run(1))]);
    assert_eq!(step(&mut guardian, 3, Input::Empty(run(1))), [Effect::Exit]);
    let fates = [
        Fate::Started(MAIN),
        Fate::Stopping(Why::WorkerGone),
        Fate::Exited(MAIN, Exit::Signal(15)),
        Fate::Empty,
    ];
    assert_eq!(guardian.fates(run(1)), fates);
    // The next one tells them, and forgets them when it is told to.
    let found = [(run(1), Some(Found::Over(fates.to_vec())))];
    let mut next = Guardian::new(at(4), KILL_WAIT, Kept::default(), found);
    let effects = adopt(&mut next, 4, 1, 2);
    assert!(effects.ends_with(&fates.map(|fate| told(1, fate))), "{effects:?}");
    assert_eq!(ask(&mut next, 4, 1, Request::Forget(run(1))), [Effect::Release(run(1))]);
    // One that nobody comes to goes, too.
    let mut lonely = new(0);
    assert_eq!(lonely.deadline(), Some(at(10)));
    assert_eq!(step(&mut lonely, 10, Input::Tick), [Effect::Exit]);
}

#[test]
fn a_stop_before_the_go_byte_means_no_go() {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, main(2, STOPS));
    assert_eq!(ask(&mut guardian, 1, 1, Request::Stop(run(2), KILL_WAIT)), []);
    let effects = step(&mut guardian, 2, Input::Cloned(run(2), MAIN));
    assert_eq!(effects[..2], [Effect::Abort(run(2), MAIN), Effect::Kill(run(2))]);
    // That its process has ended is no news beside that.
    assert_eq!(step(&mut guardian, 2, Input::Exited(run(2), MAIN, Exit::Code(0))), []);
    assert_eq!(step(&mut guardian, 2, Input::Empty(run(2))), [told(2, Fate::Empty)]);
}

#[test]
fn what_the_main_command_left_is_killed_without_being_asked() {
    let mut guardian = guarding(KEEPS);
    let effects = step(&mut guardian, 1, Input::Exited(run(1), MAIN, Exit::Code(0)));
    assert_eq!(effects, [Effect::Kill(run(1)), told(1, Fate::Exited(MAIN, Exit::Code(0)))]);
    assert_eq!(step(&mut guardian, 2, Input::Empty(run(1))), [told(1, Fate::Empty)]);
}

#[test]
fn setup_steps_follow_each_other_and_an_empty_moment_between_them_ends_nothing() {
    let mut guardian = guarding(STOPS);
    let setup = Request::Spawn(run(2), STOPS, SETUP, Role::Setup);
    assert_eq!(ask(&mut guardian, 1, 1, setup.clone()), [Effect::Clone(run(2), SETUP)]);
    step(&mut guardian, 1, Input::Cloned(run(2), SETUP));
    step(&mut guardian, 1, Input::Execed(run(2), SETUP));
    let effects = step(&mut guardian, 2, Input::Exited(run(2), SETUP, Exit::Code(0)));
    assert_eq!(effects, [told(2, Fate::Exited(SETUP, Exit::Code(0)))]);
    assert_eq!(step(&mut guardian, 2, Input::Empty(run(2))), []);
    assert_eq!(ask(&mut guardian, 3, 1, setup), [], "never twice");
    assert_eq!(ask(&mut guardian, 3, 1, main(2, STOPS)), [Effect::Clone(run(2), MAIN)]);
    step(&mut guardian, 3, Input::Cloned(run(2), MAIN));
    // A command that cannot begin is the end of it, and of what setup left.
    let effects = step(&mut guardian, 3, Input::NotExeced(run(2), MAIN, "no".to_owned()));
    assert_eq!(effects[0], Effect::Kill(run(2)));
    assert_eq!(step(&mut guardian, 3, Input::Empty(run(2))), [told(2, Fate::Empty)]);
}

#[test]
fn a_run_that_could_not_be_cloned_leaves_nothing() {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, main(2, STOPS));
    let not_started = Fate::NotStarted(MAIN, "no memory".to_owned());
    let effects = step(&mut guardian, 1, Input::NotCloned(run(2), MAIN, "no memory".to_owned()));
    assert_eq!(effects, [told(2, not_started), told(2, Fate::Empty)]);
}

#[test]
fn no_part_begins_once_the_stop_has() {
    let mut guardian = guarding(STOPS);
    ask(&mut guardian, 1, 1, Request::Stop(run(1), KILL_WAIT));
    let probe = Request::Spawn(run(1), STOPS, Part::new(2), Role::Probe(None));
    let effects = ask(&mut guardian, 1, 1, probe);
    assert!(
        matches!(&effects[..], [Effect::Tell(_, _, Fate::NotStarted(part, _))] if part.get() == 2),
        "{effects:?}"
    );
}

#[test]
fn what_became_of_probes_is_told_and_not_kept() {
    let mut guardian = guarding(KEEPS);
    for number in 2..100 {
        let probe = Part::new(number);
        ask(&mut guardian, 1, 1, Request::Spawn(run(1), KEEPS, probe, Role::Probe(None)));
        step(&mut guardian, 1, Input::Cloned(run(1), probe));
        step(&mut guardian, 1, Input::Execed(run(1), probe));
        let exited = Fate::Exited(probe, Exit::Code(0));
        let effects = step(&mut guardian, 1, Input::Exited(run(1), probe, Exit::Code(0)));
        assert_eq!(effects, [told(1, exited)]);
    }
    let effects = adopt(&mut guardian, 2, 2, 2);
    let tells = effects.iter().filter(|effect| matches!(effect, Effect::Tell(..))).count();
    assert_eq!(tells, 1, "{effects:?}");
}

#[test]
fn the_newest_part_is_known_to_whoever_numbers_the_next() {
    let mut guardian = guarding(KEEPS);
    assert_eq!(guardian.last(run(1)), Some(MAIN));
    let probe = Part::new(5);
    ask(&mut guardian, 1, 1, Request::Spawn(run(1), KEEPS, probe, Role::Probe(None)));
    step(&mut guardian, 1, Input::Cloned(run(1), probe));
    step(&mut guardian, 1, Input::Exited(run(1), probe, Exit::Code(0)));
    assert_eq!(guardian.last(run(1)), Some(probe), "one that is over counts, too");
    assert_eq!(guardian.last(run(9)), None);
}

#[test]
fn a_probe_that_takes_too_long_is_ended_and_nothing_else_of_its_run() {
    let mut guardian = guarding(KEEPS);
    let probe = |number| {
        let role = Role::Probe(Some(Span::from_secs(3)));
        Request::Spawn(run(1), KEEPS, Part::new(number), role)
    };
    ask(&mut guardian, 1, 1, probe(2));
    step(&mut guardian, 1, Input::Cloned(run(1), Part::new(2)));
    assert_eq!(guardian.deadline(), Some(at(4)));
    assert_eq!(step(&mut guardian, 3, Input::Tick), []);
    assert_eq!(step(&mut guardian, 4, Input::Tick), [Effect::Abort(run(1), Part::new(2))]);
    assert_eq!(step(&mut guardian, 5, Input::Tick), [], "said once");
    let effects = step(&mut guardian, 5, Input::Exited(run(1), Part::new(2), Exit::Signal(9)));
    assert_eq!(effects, [told(1, Fate::Exited(Part::new(2), Exit::Signal(9)))]);
    // One that is over in time is not looked at again.
    ask(&mut guardian, 6, 1, probe(3));
    step(&mut guardian, 6, Input::Cloned(run(1), Part::new(3)));
    step(&mut guardian, 7, Input::Exited(run(1), Part::new(3), Exit::Code(0)));
    assert_eq!(step(&mut guardian, 20, Input::Tick), []);
}

/// A guardian that takes the place of one that was killed, and sees whoever has started it.
fn replacing(spawn: Spawn, kept: Kept) -> Guardian {
    let part = Some((MAIN, Role::Main));
    let found = Found::Live { spawn, stopping: None, part, fates: Vec::new() };
    Guardian::new(at(1), KILL_WAIT, kept, [(run(1), Some(found))]).that_sees_its_starter()
}

const KEPT: Kept = Kept {
    confirmed: Some(BootTime::from_millis(0)),
    process: Some(Process::new(1)),
    kill_wait: Some(Span::from_secs(2)),
};

#[test]
fn who_is_started_by_a_worker_that_ends_next_ends_what_that_has_left_at_once() {
    let mut guardian = replacing(STOPS, KEPT);
    assert_eq!(step(&mut guardian, 2, Input::StarterGone), [Effect::Terminate(run(1))]);
    assert_eq!(guardian.deadline(), Some(at(4)), "with the kill wait that was said last");
    assert_eq!(step(&mut guardian, 3, Input::StarterGone), []);
    let over = [step(&mut guardian, 4, Input::Tick), step(&mut guardian, 4, Input::Empty(run(1)))];
    assert_eq!(over.concat(), [Effect::Kill(run(1)), Effect::Exit]);
    // What outlives its worker is held to its own deadline.
    let mut guardian = replacing(KEEPS, KEPT);
    assert_eq!(step(&mut guardian, 2, Input::StarterGone), []);
    assert_eq!(guardian.deadline(), Some(at(60)));
}

#[test]
fn a_worker_that_stands_still_is_waited_for_by_the_guardian_that_it_has_started() {
    let mut guardian = replacing(STOPS, KEPT);
    assert_eq!(step(&mut guardian, 50, Input::Tick), []);
    let adopted = adopt(&mut guardian, 50, 1, 1);
    assert!(matches!(adopted.first(), Some(Effect::Adopted(..))), "{adopted:?}");
    // Its end is seen by its connection from now on.
    assert_eq!(step(&mut guardian, 51, Input::StarterGone), []);
    assert_eq!(step(&mut guardian, 60, Input::Tick).first(), Some(&Effect::Terminate(run(1))));
}

#[test]
fn the_kill_wait_is_kept_for_the_next_guardian() {
    let mut guardian = new(0);
    adopt(&mut guardian, 0, 1, 1);
    let said = ask(&mut guardian, 0, 1, Request::KillWait(Span::from_secs(2)));
    let kept = Kept { confirmed: None, ..KEPT };
    assert_eq!(said, [Effect::Keep(kept)]);
    assert_eq!(ask(&mut guardian, 0, 1, Request::KillWait(Span::from_secs(2))), []);
}
