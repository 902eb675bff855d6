//! What the consensus and the whole leader's side hold, counted by the allocator: linear, and of the
//! consensus nothing for a heartbeat.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without it")]

mod fleet;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use sterna_model::{DirectoryId, Incarnation, Lock, MachineId, Nonce, Term, WallTime};
use sterna_protocol::consensus::{Consensus, NEWCOMERS_MAX, Seat, Version};

/// The system's allocator, which also counts what the current thread holds and asks for.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on as it came; counting touches no memory of the allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get().wrapping_add(layout.size()));
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps the promises that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: the block came from the system's allocator, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn worker(number: u64) -> Incarnation {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    let directory = DirectoryId::from_parts(WallTime::EPOCH, random);
    let machine = MachineId::from_bytes([1; 16]).unwrap();
    Incarnation { lock: Lock { directory, machine }, life: 1 }
}

/// Everybody has echoed something else, every third has left, others came for them.
fn churned(count: u64) -> (Consensus, Vec<Seat>) {
    let (term, nonce) = (Term::new(1), Nonce::new(1));
    let mut leader = Consensus::starting_at(term, nonce, Version::ZERO, u32::MAX);
    let mut seats: Vec<Seat> = Vec::new();
    for number in 0..count {
        seats.push(leader.join(&worker(number), None));
        let newest = *leader.newest();
        for back in [1, 3, 10, 100] {
            if let Some(at) = seats.len().checked_sub(back) {
                leader.hear(seats[at], Some(&newest));
            }
        }
    }
    for number in (0..count).step_by(3) {
        let at = usize::try_from(number).unwrap();
        leader.leave(seats[at]);
        seats[at] = leader.join(&worker(count + number), None);
    }
    leader.judge();
    (leader, seats)
}

#[test]
fn memory_is_linear_and_below_one_kibibyte_a_worker() {
    let per_worker = |count: u64| {
        let before = HELD.get();
        let (leader, seats) = churned(count);
        drop(seats);
        let held = HELD.get().wrapping_sub(before);
        assert_eq!(held, leader.heap_bytes(), "what it says it holds is what it holds");
        held / usize::try_from(count).unwrap()
    };
    is_linear([1_000, 10_000, 50_000].map(|count| (count, per_worker(count))));
}

/// Less than a kibibyte for each, and as much for each of many as for each of few: tables grow to twice
/// their size at a time, so that the same may be up to twice as much.
fn is_linear(bytes: [(u64, usize); 3]) {
    for (count, bytes) in bytes {
        assert!(bytes < 1024, "{bytes} bytes for each of {count}");
    }
    let each = bytes.map(|(_, bytes)| bytes);
    let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
    assert!(most <= &(2 * least), "{bytes:?}");
}

#[test]
fn who_waits_outside_is_counted_as_well() {
    let before = HELD.get();
    let mut leader = Consensus::new(Term::new(1), Nonce::new(1));
    for number in 0..1000 {
        leader.join(&worker(number), None);
    }
    assert_eq!(leader.waiting(), 1000 - NEWCOMERS_MAX as usize);
    assert_eq!(HELD.get().wrapping_sub(before), leader.heap_bytes());
}

#[test]
fn a_heartbeat_and_a_judgement_allocate_nothing() {
    let (mut leader, seats) = churned(1000);
    let before = CALLS.get();
    for seat in &seats {
        let newest = leader.answer(*seat);
        leader.hear(*seat, newest.as_ref());
    }
    leader.judge();
    assert!(seats.iter().all(|seat| leader.permits_becoming_healthy(*seat).is_granted()));
    leader.agreement();
    assert_eq!(CALLS.get() - before, 0);
}
