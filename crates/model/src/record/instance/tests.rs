//! The doors against the table, and what the slots hold.

use super::*;
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
            instance.crash(&policy, NOW).unwrap();
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
        InstanceEvent::Crash => instance.crash(&CrashPolicy::default(), NOW).map(drop),
        InstanceEvent::Vacate => instance.vacate(NOW),
        InstanceEvent::Displace => instance.displace(TwinReason::Evacuating, NOW),
        InstanceEvent::Restart => instance.restart(NOW),
        InstanceEvent::Promote => instance.promote(NOW),
        InstanceEvent::Adopt => instance.adopt(placed(3), 1, wants(), NOW),
        InstanceEvent::Retire => instance.check_retire(),
    }
}

#[test]
fn every_door_goes_where_the_table_says_and_refuses_what_it_refuses() {
    for phase in InstancePhase::ALL {
        for event in InstanceEvent::ALL {
            let needs_twin = event == InstanceEvent::Promote;
            let mut instance = if needs_twin { with_twin(phase) } else { in_phase(phase) };
            let before = instance.clone();
            let done = apply(&mut instance, event);
            let now = instance.phase();
            match instance_after(phase, event) {
                InstanceAfter::In(next) => assert_eq!((done, now), (Ok(()), next)),
                InstanceAfter::UnclaimedOrCrashed => {
                    assert_eq!((done, now), (Ok(()), InstancePhase::Unclaimed));
                }
                InstanceAfter::AsTheTwin => {
                    assert_eq!((done, now), (Ok(()), InstancePhase::Running));
                }
                InstanceAfter::Gone => assert_eq!(done, Ok(()), "{phase} {event:?}"),
                InstanceAfter::Refused => {
                    assert!(done.is_err(), "{phase} {event:?}");
                    assert_eq!(instance, before, "a refusal changes nothing");
                }
            }
        }
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
fn only_running_moves_the_clock_of_crashes() {
    let mut instance = in_phase(InstancePhase::Claimed);
    let later = NOW.plus(Span::from_secs(400));
    instance.crash(&CrashPolicy::default(), later).unwrap();
    assert_eq!(instance.crashes().count, 1);
    instance.claim(placed(2), 1, wants(), later).unwrap();
    instance.start(later).unwrap();
    let end = later.plus(Span::from_secs(300));
    instance.stop(run(2), StopReason::Asked);
    instance.crash(&CrashPolicy::default(), end).unwrap();
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
