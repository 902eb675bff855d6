//! Newcomers that never settle: the door, and what it is for.

use std::collections::BTreeMap;

use sterna_model::{Nonce, Term};
use sterna_protocol::consensus::{
    Agreement, Consensus, Held, NEWCOMERS_MAX, Permission, Seat, SetId, Version,
};

use super::{hash_of, leader, life, unbounded, worker};

/// Twice a second everybody is judged; heartbeats come every second.
const TICKS_PER_S: u64 = 2;
/// A worker that was not heard for that long is given up: a grace of 5 s, then 60 s.
const LOST_AFTER: u64 = 65 * TICKS_PER_S;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Sends its heartbeats for ever.
    Good,
    /// Joins, sends a few, falls silent, is lost, and joins again as its next life.
    Looping,
}

struct Process {
    kind: Kind,
    number: u64,
    life: u64,
    joins_at: u64,
    seat: Option<Seat>,
    held: Held,
    heard_at: u64,
    beats_left: u64,
}

/// A leader and its workers, on a clock of its own.
struct Fleet {
    leader: Consensus,
    now: u64,
    processes: Vec<Process>,
    /// How long each good worker waited, in ticks.
    waited: BTreeMap<u64, u64>,
}

impl Fleet {
    fn new(newcomers_max: u32) -> Self {
        let (term, nonce) = (Term::new(1), Nonce::new(1));
        let leader = Consensus::starting_at(term, nonce, Version::ZERO, newcomers_max);
        Self { leader, now: 0, processes: Vec::new(), waited: BTreeMap::new() }
    }

    fn add(&mut self, kind: Kind, number: u64, joins_at: u64) {
        let (held, heard_at) = (Held::default(), joins_at);
        let process =
            Process { kind, number, life: 1, joins_at, seat: None, held, heard_at, beats_left: 0 };
        self.processes.push(process);
    }

    /// Fifty that come in one after the other, over the time in which one is lost.
    fn add_crowd(&mut self) {
        for number in 0..50 {
            self.add(Kind::Looping, number, number * LOST_AFTER / 50);
        }
    }

    fn run_until(&mut self, end: u64) {
        while self.now < end {
            for process in &mut self.processes {
                Self::step(&mut self.leader, self.now, process);
            }
            self.leader.judge();
            for process in &self.processes {
                let Some(seat) = process.seat.filter(|_| process.kind == Kind::Good) else {
                    continue;
                };
                if self.leader.permits_becoming_healthy(seat).is_granted() {
                    self.waited.entry(process.number).or_insert(self.now - process.joins_at);
                }
            }
            self.now += 1;
        }
    }

    fn step(leader: &mut Consensus, now: u64, process: &mut Process) {
        if now < process.joins_at {
            return;
        }
        if let Some(seat) = process.seat
            && now - process.heard_at > LOST_AFTER
        {
            leader.leave(seat);
            process.seat = None;
            process.life += 1;
            process.held = Held::default();
        }
        let seat = *process.seat.get_or_insert_with(|| {
            process.heard_at = now;
            process.beats_left = (process.number + process.life) % 4;
            leader.join(&life(process.number, process.life), process.held.echo())
        });
        let is_heard = (now + process.number).is_multiple_of(TICKS_PER_S)
            && (process.kind == Kind::Good || process.beats_left > 0);
        if is_heard {
            process.heard_at = now;
            process.beats_left = process.beats_left.saturating_sub(1);
            leader.hear(seat, process.held.echo().as_ref());
            if let Some(answer) = leader.answer(seat) {
                process.held.take(answer);
            }
        }
    }
}

#[test]
fn fifty_workers_that_join_sicken_and_die_for_ever_do_not_keep_twenty_good_ones_from_working() {
    let minute = 60 * TICKS_PER_S;
    let mut fleet = Fleet::new(NEWCOMERS_MAX);
    fleet.add_crowd();
    for number in 100..120 {
        fleet.add(Kind::Good, number, 5 * minute);
    }
    // And one more every ten minutes: it is not only the first ones that get in.
    for number in 120..125 {
        fleet.add(Kind::Good, number, (number - 119) * 10 * minute + 17);
    }
    fleet.run_until(60 * minute);
    let granted: Vec<u64> = fleet.waited.keys().copied().collect();
    assert_eq!(granted, (100..125).collect::<Vec<_>>());
    // At worst a newcomer waits until those inside have agreed, with whom it is then agreed upon;
    // each takes as long as to lose a worker, and a few heartbeats.
    let longest = fleet.waited.values().max().unwrap();
    let bound = 2 * (LOST_AFTER + 5 * TICKS_PER_S);
    assert!(*longest <= bound, "{longest} of {bound} ticks: {:?}", fleet.waited);
}

/// The same crowd, with the door open for ever: this is what the door is for.
#[test]
fn without_the_door_the_same_crowd_keeps_everybody_from_working() {
    let minute = 60 * TICKS_PER_S;
    let mut fleet = Fleet::new(u32::MAX);
    fleet.add_crowd();
    for number in 100..120 {
        fleet.add(Kind::Good, number, 5 * minute);
    }
    fleet.run_until(60 * minute);
    assert!(fleet.waited.is_empty(), "{:?}", fleet.waited);
}

/// What one looping worker costs, it costs once: memory does not grow with the hours.
#[test]
fn a_looping_crowd_leaves_nothing_behind() {
    let hour = 3600 * TICKS_PER_S;
    let mut fleet = Fleet::new(NEWCOMERS_MAX);
    fleet.add_crowd();
    for number in 100..120 {
        fleet.add(Kind::Good, number, 0);
    }
    for end in 1..=6 {
        fleet.run_until(end * hour);
        let bytes = fleet.leader.heap_bytes();
        assert!(bytes < 70 * 512, "{bytes} bytes after {end} hours");
    }
}

/// A silent worker keeps all history since its last echo from being forgotten; there is a bound to
/// that, too, and beyond it somebody waits for longer at worst.
#[test]
fn churn_behind_a_silent_worker_is_bounded_in_memory() {
    let mut leader = unbounded(Version::ZERO);
    let silent = leader.join(&worker(0), None);
    echo_newest(&mut leader, silent);
    for number in 0..5000 {
        // One hears of the other, and both are lost: a piece of history that touches no other.
        let one = leader.join(&worker(2 * number + 1), None);
        let other = leader.join(&worker(2 * number + 2), None);
        echo_newest(&mut leader, one);
        leader.leave(one);
        leader.leave(other);
        leader.judge();
    }
    let bytes = leader.heap_bytes();
    assert!(bytes < 4096, "{bytes} bytes for one worker");
    assert_eq!(leader.indirect(silent), Some(Version::new(1)));
}

fn echo_newest(leader: &mut Consensus, seat: Seat) {
    let newest = leader.answer(seat).unwrap();
    leader.hear(seat, Some(&newest));
}

#[test]
fn who_waits_outside_counts_for_nothing() {
    let mut leader = Consensus::starting_at(Term::new(1), Nonce::new(1), Version::ZERO, 2);
    let inside = [1, 2].map(|number| leader.join(&worker(number), None));
    let outside = [3, 4, 5].map(|number| leader.join(&worker(number), None));
    assert_eq!((leader.newest().version, leader.waiting()), (Version::new(2), 3));
    for seat in outside {
        assert_eq!(leader.permits_becoming_healthy(seat), Permission::Queued);
        assert_eq!((leader.answer(seat), leader.first(seat)), (None, None));
    }
    // Lost while it waits: the set is as it was.
    leader.leave(outside[1]);
    assert_eq!(leader.newest().hash, hash_of(&[1, 2]));
    assert_eq!(leader.permits_becoming_healthy(outside[1]), Permission::Gone);
    echo_newest(&mut leader, inside[0]);
    leader.judge();
    assert_eq!(leader.waiting(), 2, "w2 is not heard yet");
    echo_newest(&mut leader, inside[1]);
    leader.judge();
    // Agreed upon: all who wait come in together, in the order of their arrival.
    assert!(inside.iter().all(|seat| leader.permits_becoming_healthy(*seat).is_granted()));
    assert_eq!(leader.newest().hash, hash_of(&[1, 2, 3, 5]));
    assert_eq!(leader.first(outside[0]), Some(Version::new(3)));
    assert_eq!(leader.first(outside[2]), Some(Version::new(4)));
    // They were two, so the door is shut behind them.
    let next = leader.join(&worker(6), None);
    assert_eq!(leader.permits_becoming_healthy(next), Permission::Queued);
}

#[test]
fn when_all_inside_are_lost_those_outside_come_in() {
    let mut leader = Consensus::starting_at(Term::new(1), Nonce::new(1), Version::ZERO, 1);
    let inside = leader.join(&worker(1), None);
    let outside = leader.join(&worker(2), None);
    leader.judge();
    assert_eq!(leader.permits_becoming_healthy(outside), Permission::Queued);
    leader.leave(inside);
    leader.judge();
    assert_eq!(leader.permits_becoming_healthy(outside), Permission::Unheard);
    echo_newest(&mut leader, outside);
    leader.judge();
    assert!(leader.permits_becoming_healthy(outside).is_granted());
}

/// Workers of an earlier reign are awaited: were they kept outside, nobody could agree.
#[test]
fn who_comes_back_to_a_new_leader_is_never_kept_outside() {
    let mut leader = leader(2);
    let numbers: Vec<u64> = (0..u64::from(NEWCOMERS_MAX) * 3).collect();
    let (term, nonce) = (Term::new(1), Nonce::new(1));
    let id = SetId { term, nonce, version: Version::new(99), hash: hash_of(&numbers) };
    for number in &numbers {
        assert!(leader.agreement() != Agreement::Reached);
        leader.join(&worker(*number), Some(id));
    }
    assert_eq!((leader.waiting(), leader.agreement()), (0, Agreement::Reached));
}
