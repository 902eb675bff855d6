//! The doors against the table, and what the slots hold.

use super::{
    InstanceAfter::{AsTheTwin, Gone, In, Refused, UnclaimedOrCrashed},
    *,
};
use crate::{
    Bytes, Constraints, Contract, Countables, Demand, DirectoryId, Incarnation, Lock, MachineId,
    Millicores, Span,
};

const NOW: WallTime = WallTime::EPOCH;

fn run(number: u8) -> RunId {
    RunId::from_parts(NOW, [number; 10])
}

fn placed(number: u8) -> Placed {
    let directory = DirectoryId::from_parts(NOW, [number; 10]);
    let machine = MachineId::from_bytes(*directory.as_bytes()).unwrap();
    let on = Incarnation { lock: Lock { directory, machine }, life: 1 };
    Placed { run: run(number), on, contract: Contract::Replace { after: Span::from_secs(15) } }
}

fn wants() -> Arc<Wants> {
    let demand =
        Demand::new(Millicores::new(0), Bytes::new(1), Bytes::new(0), Countables::default());
    Arc::new(Wants { demand, constraints: Constraints::default() })
}

fn ended() -> TaskEnd {
    TaskEnd::Ran { is_success: false, report: "exit 3".into() }
}

fn in_phase(phase: InstancePhase) -> Instance {
    let mut instance = Instance::new(NOW);
    match phase {
        InstancePhase::Unclaimed => {}
        InstancePhase::Claimed => instance.claim(placed(1), 1, wants(), NOW).unwrap(),
        InstancePhase::Running => {
            instance.claim(placed(1), 1, wants(), NOW).unwrap();
            instance.start(NOW).unwrap();
        }
        InstancePhase::Crashed => {
            let policy = CrashPolicy { wait_from: 1, ..CrashPolicy::default() };
            instance.claim(placed(1), 1, wants(), NOW).unwrap();
            instance.crash(&policy, ended(), NOW).unwrap();
        }
    }
    assert_eq!(instance.phase(), phase);
    instance
}

/// One whose twin, on another worker, was running.
fn with_twin(phase: InstancePhase) -> Instance {
    let mut instance = in_phase(phase);
    let (reason, running_since) = (TwinReason::Silent, Some(NOW));
    let copy =
        InstanceCopy { placed: placed(7), version: 1, wants: wants(), stopping: None, told: None };
    instance.twin = Some(Box::new(Twin { copy, reason, running_since }));
    instance
}

fn apply(instance: &mut Instance, event: InstanceEvent) -> Result<(), Illegal> {
    match event {
        InstanceEvent::Claim => instance.claim(placed(2), 1, wants(), NOW),
        InstanceEvent::Start => instance.start(NOW),
        InstanceEvent::Crash => instance.crash(&CrashPolicy::default(), ended(), NOW).map(drop),
        InstanceEvent::Vacate => instance.vacate(NOW),
        InstanceEvent::Displace => instance.displace(TwinReason::Evacuating, NOW),
        InstanceEvent::Restart => instance.restart(NOW),
        InstanceEvent::Promote => instance.promote(NOW),
        InstanceEvent::Yield => instance.yield_place(NOW),
        InstanceEvent::Adopt => instance.adopt(placed(3), 1, wants(), NOW),
        InstanceEvent::Retire => instance.check_retire(),
    }
}

/// Goes through the door of `event` in `phase`, and holds it against the table.
#[track_caller]
fn check(name: &str, phase: InstancePhase, event: InstanceEvent, after: InstanceAfter) {
    let word = match after {
        In(next) => next.as_str(),
        UnclaimedOrCrashed => "unclaimed_or_crashed",
        AsTheTwin => "as_the_twin",
        Gone => "gone",
        Refused => "refused",
    };
    assert_eq!(name, format!("{phase}_on_{}_gives_{word}", event.as_str()));
    assert_eq!(instance_after(phase, event), after);
    let needs_twin = matches!(event, InstanceEvent::Promote | InstanceEvent::Yield);
    let mut instance = if needs_twin { with_twin(phase) } else { in_phase(phase) };
    let before = instance.clone();
    let done = apply(&mut instance, event);
    let now = instance.phase();
    match after {
        In(next) => assert_eq!((done, now), (Ok(()), next)),
        UnclaimedOrCrashed => assert_eq!((done, now), (Ok(()), InstancePhase::Unclaimed)),
        AsTheTwin => assert_eq!((done, now), (Ok(()), InstancePhase::Running)),
        Gone => assert_eq!(done, Ok(())),
        Refused => {
            let (event, phase) = (event.as_str(), phase.as_str());
            assert_eq!(done, Err(Illegal { event, phase }));
            assert_eq!(instance, before, "a refusal changes nothing");
        }
    }
}

macro_rules! rows {
    ($($name:ident: $phase:ident, $event:ident => $after:expr;)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name), InstancePhase::$phase, InstanceEvent::$event, $after);
            }
        )*

        #[test]
        fn every_pair_has_its_row() {
            let written = [$((InstancePhase::$phase, InstanceEvent::$event)),*];
            for phase in InstancePhase::ALL {
                for event in InstanceEvent::ALL {
                    let count = written.iter().filter(|row| **row == (phase, event)).count();
                    assert_eq!(count, 1, "{phase:?} {event:?}");
                }
            }
        }
    };
}

rows! {
    unclaimed_on_claim_gives_claimed: Unclaimed, Claim => In(InstancePhase::Claimed);
    unclaimed_on_start_gives_refused: Unclaimed, Start => Refused;
    unclaimed_on_crash_gives_refused: Unclaimed, Crash => Refused;
    unclaimed_on_vacate_gives_refused: Unclaimed, Vacate => Refused;
    unclaimed_on_displace_gives_refused: Unclaimed, Displace => Refused;
    unclaimed_on_restart_gives_refused: Unclaimed, Restart => Refused;
    unclaimed_on_promote_gives_as_the_twin: Unclaimed, Promote => AsTheTwin;
    unclaimed_on_yield_gives_refused: Unclaimed, Yield => Refused;
    unclaimed_on_adopt_gives_running: Unclaimed, Adopt => In(InstancePhase::Running);
    unclaimed_on_retire_gives_gone: Unclaimed, Retire => Gone;
    claimed_on_claim_gives_refused: Claimed, Claim => Refused;
    claimed_on_start_gives_running: Claimed, Start => In(InstancePhase::Running);
    claimed_on_crash_gives_unclaimed_or_crashed: Claimed, Crash => UnclaimedOrCrashed;
    claimed_on_vacate_gives_unclaimed: Claimed, Vacate => In(InstancePhase::Unclaimed);
    claimed_on_displace_gives_unclaimed: Claimed, Displace => In(InstancePhase::Unclaimed);
    claimed_on_restart_gives_refused: Claimed, Restart => Refused;
    claimed_on_promote_gives_as_the_twin: Claimed, Promote => AsTheTwin;
    claimed_on_yield_gives_as_the_twin: Claimed, Yield => AsTheTwin;
    claimed_on_adopt_gives_refused: Claimed, Adopt => Refused;
    claimed_on_retire_gives_refused: Claimed, Retire => Refused;
    running_on_claim_gives_refused: Running, Claim => Refused;
    running_on_start_gives_refused: Running, Start => Refused;
    running_on_crash_gives_unclaimed_or_crashed: Running, Crash => UnclaimedOrCrashed;
    running_on_vacate_gives_unclaimed: Running, Vacate => In(InstancePhase::Unclaimed);
    running_on_displace_gives_unclaimed: Running, Displace => In(InstancePhase::Unclaimed);
    running_on_restart_gives_refused: Running, Restart => Refused;
    running_on_promote_gives_refused: Running, Promote => Refused;
    running_on_yield_gives_as_the_twin: Running, Yield => AsTheTwin;
    running_on_adopt_gives_refused: Running, Adopt => Refused;
    running_on_retire_gives_refused: Running, Retire => Refused;
    crashed_on_claim_gives_refused: Crashed, Claim => Refused;
    crashed_on_start_gives_refused: Crashed, Start => Refused;
    crashed_on_crash_gives_refused: Crashed, Crash => Refused;
    crashed_on_vacate_gives_refused: Crashed, Vacate => Refused;
    crashed_on_displace_gives_refused: Crashed, Displace => Refused;
    crashed_on_restart_gives_unclaimed: Crashed, Restart => In(InstancePhase::Unclaimed);
    crashed_on_promote_gives_as_the_twin: Crashed, Promote => AsTheTwin;
    crashed_on_yield_gives_refused: Crashed, Yield => Refused;
    crashed_on_adopt_gives_running: Crashed, Adopt => In(InstancePhase::Running);
    crashed_on_retire_gives_gone: Crashed, Retire => Gone;
}

#[test]
fn a_crash_that_is_to_wait_waits() {
    for phase in [InstancePhase::Claimed, InstancePhase::Running] {
        let mut instance = in_phase(phase);
        let policy = CrashPolicy { wait_from: 1, ..CrashPolicy::default() };
        instance.crash(&policy, ended(), NOW).unwrap();
        assert_eq!(instance.phase(), InstancePhase::Crashed);
    }
}

#[test]
fn there_is_never_a_third_copy() {
    for phase in [InstancePhase::Claimed, InstancePhase::Running] {
        let mut instance = with_twin(phase);
        assert!(instance.displace(TwinReason::Silent, NOW).is_err());
        assert_eq!(instance.copies().count(), 2);
    }
}

#[test]
fn a_record_with_a_twin_does_not_go() {
    for phase in [InstancePhase::Unclaimed, InstancePhase::Crashed] {
        let mut instance = with_twin(phase);
        assert!(instance.check_retire().is_err());
        assert!(instance.lose_twin().is_some());
        instance.check_retire().unwrap();
    }
}

#[test]
fn a_twin_that_runs_takes_the_place_of_a_copy_that_is_starting() {
    let mut instance = with_twin(InstancePhase::Claimed);
    instance.promote(NOW).unwrap();
    assert!(instance.is_its(run(7)));
    let twin = instance.twin().unwrap();
    assert_eq!((twin.reason, twin.copy.placed.run), (TwinReason::Surplus, run(1)));
    assert_eq!(twin.copy.stopping, Some(StopReason::Elsewhere));
}

#[test]
fn a_copy_whose_worker_is_silent_yields_its_place_and_stays_as_the_twin() {
    for phase in [InstancePhase::Claimed, InstancePhase::Running] {
        let mut instance = with_twin(phase);
        instance.stop(run(1), StopReason::Update);
        instance.yield_place(NOW).unwrap();
        assert!(instance.is_its(run(7)) && instance.phase() == InstancePhase::Running);
        let twin = instance.twin().unwrap();
        assert_eq!((twin.reason, twin.copy.placed.run), (TwinReason::Silent, run(1)));
        assert_eq!(twin.copy.stopping, Some(StopReason::Update), "it is ended if it comes back");
        assert_eq!(twin.running_since.is_some(), phase == InstancePhase::Running);
    }
    assert!(in_phase(InstancePhase::Running).yield_place(NOW).is_err(), "it has no twin");
}

#[test]
fn only_running_moves_the_clock_of_crashes() {
    let mut instance = in_phase(InstancePhase::Claimed);
    let later = NOW.plus(Span::from_secs(400));
    instance.crash(&CrashPolicy::default(), ended(), later).unwrap();
    assert_eq!(instance.crashes().count, 1);
    instance.claim(placed(2), 1, wants(), later).unwrap();
    instance.start(later).unwrap();
    let end = later.plus(Span::from_secs(300));
    instance.stop(run(2), StopReason::Asked);
    instance.crash(&CrashPolicy::default(), ended(), end).unwrap();
    assert_eq!(instance.crashes().count, 1, "it ran for five minutes");
}

#[test]
fn the_first_reason_to_stop_stays() {
    let mut instance = in_phase(InstancePhase::Running);
    assert!(!instance.stop(run(9), StopReason::Asked), "not one of its runs");
    assert!(instance.stop(run(1), StopReason::Update));
    assert!(!instance.stop(run(1), StopReason::Unwanted));
    assert_eq!(instance.copy().unwrap().stopping, Some(StopReason::Update));
}

#[test]
fn what_a_worker_says_of_a_copy_stays_with_that_copy() {
    let mut instance = Instance::new(NOW);
    instance.claim(placed(1), 0, wants(), NOW).unwrap();
    assert!(instance.tell(run(1), b"ports"));
    assert!(!instance.tell(run(1), b"ports"), "said again it is no news");
    assert!(!instance.tell(run(2), b"ports"), "of another run it is none");
    assert_eq!(instance.copy().unwrap().told.as_deref(), Some(&b"ports"[..]));
}

#[test]
fn a_crash_is_remembered_with_its_run_its_worker_and_its_end() {
    let mut instance = in_phase(InstancePhase::Running);
    let later = NOW.plus(Span::from_secs(1));
    instance.crash(&CrashPolicy::default(), ended(), later).unwrap();
    let on = placed(1).on;
    let crash = PastCrash { run: run(1), on, at: later, end: ended() };
    assert_eq!(instance.last_crash(), Some(&crash));
    assert_eq!(instance.past().map(|past| (past.run, past.on)), Some((run(1), on)));
    // Another one begins and is stopped: its output is of interest, and so is the crash.
    instance.claim(placed(2), 1, wants(), NOW).unwrap();
    assert_eq!(instance.last_crash(), Some(&crash));
    instance.remember(run(2));
    instance.vacate(NOW).unwrap();
    assert_eq!(instance.past().map(|past| past.run), Some(run(2)));
    assert_eq!(instance.last_crash(), Some(&crash));
    instance.forgive();
    assert_eq!(instance.last_crash(), Some(&crash), "it was, though it counts no more");
}

#[test]
fn what_it_never_had_is_not_remembered() {
    let mut instance = in_phase(InstancePhase::Running);
    instance.remember(run(9));
    assert_eq!(instance.past(), None);
    // Nor what was claimed and never began.
    instance.vacate(NOW).unwrap();
    assert_eq!(instance.past(), None);
}

#[test]
fn what_few_have_takes_the_room_of_a_pointer() {
    assert!(size_of::<Option<Box<Past>>>() == 8 && size_of::<Past>() <= 64);
}
