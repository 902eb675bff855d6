//! Scripted cases; the numbers are those of the list of scenarios that the design keeps.

use sterna_model::{Incarnation, Nonce, Term};
use sterna_protocol::consensus::{
    Agreement, Consensus, Echo, Held, Permission, Seat, SetHash, SetId, Taking, Version,
};

use super::{hash_of, leader, life, worker};

/// A leader, and workers by name.
struct Script {
    leader: Consensus,
    workers: Vec<(&'static str, Seat)>,
}

impl Script {
    fn new() -> Self {
        Self { leader: leader(1), workers: Vec::new() }
    }

    fn seat(&self, name: &str) -> Seat {
        self.workers.iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn add(&mut self, name: &'static str, who: &Incarnation) {
        let seat = self.leader.join(who, None);
        self.workers.push((name, seat));
        self.echo(name);
    }

    /// The worker echoes the newest set.
    fn echo(&mut self, name: &str) {
        let newest = *self.leader.newest();
        assert_eq!(self.leader.hear(self.seat(name), Some(&newest)), Echo::Newer);
    }

    fn lose(&mut self, name: &str) {
        self.leader.leave(self.seat(name));
        self.workers.retain(|(known, _)| *known != name);
    }
}

#[test]
fn scenario_16_a_set_is_kept_across_the_wrap() {
    let before_the_end = Version::new(u64::MAX - 1);
    let mut leader = Consensus::starting_at(Term::new(1), Nonce::new(1), before_the_end, 16);
    let seats = [1, 2, 3, 4].map(|number| leader.join(&worker(number), None));
    assert_eq!(leader.newest().version, Version::new(2));
    for seat in seats {
        let newest = leader.answer(seat).unwrap();
        leader.hear(seat, Some(&newest));
    }
    leader.judge();
    assert!(seats.iter().all(|seat| leader.permits_becoming_healthy(*seat).is_granted()));
    let far = SetId { version: Version::new(2 + (1 << 63)), ..*leader.newest() };
    assert_eq!(leader.hear(seats[0], Some(&far)), Echo::Foreign);
}

#[test]
fn scenario_17_the_first_worker_makes_version_1_with_itself() {
    let mut leader = leader(1);
    assert_eq!((leader.newest().version, leader.newest().hash), (Version::ZERO, SetHash::EMPTY));
    let seat = leader.join(&worker(1), None);
    let answer = leader.answer(seat).unwrap();
    assert_eq!((answer.version, answer.hash), (Version::new(1), hash_of(&[1])));
}

#[test]
fn scenario_18_a_replacement_counts_twice_and_a_refused_one_not_at_all() {
    let mut leader = leader(1);
    let seats = [1, 2, 3].map(|number| leader.join(&worker(number), None));
    assert_eq!(leader.newest().version, Version::new(3));
    // A newcomer that is refused never joins.
    assert_eq!(leader.newest().hash, hash_of(&[1, 2, 3]));
    leader.leave(seats[0]);
    leader.join(&life(1, 2), None);
    assert_eq!(leader.newest().version, Version::new(5));
    assert_eq!(leader.newest().hash.count(), 3);
    assert_ne!(leader.newest().hash, hash_of(&[1, 2, 3]));
}

#[test]
fn scenario_19_no_workers_is_no_agreement() {
    let mut leader = leader(1);
    assert_eq!(leader.agreement(), Agreement::NoWorkers);
    leader.judge();
    assert_eq!(leader.agreement(), Agreement::NoWorkers);
    let seat = leader.join(&worker(1), None);
    leader.leave(seat);
    assert_eq!(leader.agreement(), Agreement::NoWorkers);
    leader.judge();
    assert_eq!(leader.agreement(), Agreement::NoWorkers);
}

#[test]
fn scenario_21_an_impostor_is_waited_out_and_then_agreement_is_there_at_once() {
    let earlier = |version, workers: &[u64]| {
        let (term, nonce) = (Term::new(1), Nonce::new(1));
        SetId { term, nonce, version: Version::new(version), hash: hash_of(workers) }
    };
    let mut leader = leader(2);
    let w1 = leader.join(&worker(1), Some(earlier(2, &[1, 2])));
    assert_eq!(leader.agreement(), Agreement::Others { named: 2, here: 1 });
    let w3 = leader.join(&worker(3), Some(earlier(1, &[3])));
    assert_eq!(leader.agreement(), Agreement::Split(w3));
    let w2 = leader.join(&worker(2), Some(earlier(2, &[1, 2])));
    assert_eq!(leader.agreement(), Agreement::Split(w3));
    // Ids of another reign are not taken for echoes, however often they come.
    for seat in [w1, w2, w3] {
        assert_eq!(leader.hear(seat, Some(&earlier(2, &[1, 2]))), Echo::Foreign);
        assert_eq!(leader.last(seat), None);
    }
    leader.judge();
    leader.leave(w3);
    assert_eq!(leader.newest().version, Version::new(4));
    assert_eq!(leader.newest().hash, hash_of(&[1, 2]));
    assert_eq!(leader.agreement(), Agreement::Reached);
    // What workers echo meanwhile changes nothing of what they came with.
    let newest = *leader.newest();
    leader.hear(w1, Some(&newest));
    assert_eq!(leader.agreement(), Agreement::Reached);
}

#[test]
fn scenario_22_an_empty_id_never_agrees_even_alone() {
    let mut leader = leader(1);
    let seat = leader.join(&worker(1), None);
    assert_eq!(leader.agreement(), Agreement::Blank(seat));
    for _ in 0..3 {
        let newest = leader.answer(seat).unwrap();
        leader.hear(seat, Some(&newest));
        leader.judge();
        assert_eq!(leader.agreement(), Agreement::Blank(seat));
    }
}

#[test]
fn scenario_24_a_worker_echoes_word_for_word_and_never_goes_back() {
    let mut leader = leader(1);
    let seat = leader.join(&worker(1), None);
    let older = leader.answer(seat).unwrap();
    leader.join(&worker(2), None);
    let newer = leader.answer(seat).unwrap();
    let mut held = Held::default();
    assert_eq!(held.echo(), None, "the first heartbeat of a life carries none");
    assert_eq!(held.take(newer), Taking::Takes);
    assert_eq!(held.echo(), Some(newer));
    assert_eq!(held.take(older), Taking::Keeps);
    assert_eq!(held.take(newer), Taking::Keeps);
    assert_eq!(held.echo(), Some(newer));
    // A later leader begins to count anew; an earlier one is not listened to any more.
    let mut next = super::leader(2);
    let seat = next.join(&worker(1), held.echo());
    let theirs = next.answer(seat).unwrap();
    assert_eq!(held.take(theirs), Taking::Takes);
    assert_eq!(held.take(newer), Taking::Refuses);
    let twin = SetId { nonce: Nonce::new(99), version: Version::new(9), ..theirs };
    assert_eq!(held.take(twin), Taking::Refuses);
    assert_eq!(held.echo(), Some(theirs));
}

/// The story that the whole rule exists for: w1 knows only itself and falls silent.
#[test]
fn a_silent_worker_that_knows_only_itself_keeps_a_newcomer_from_working() {
    let mut script = Script::new();
    script.add("w1", &worker(1));
    script.leader.judge();
    script.add("w2", &worker(2));
    script.leader.judge();
    let w2 = script.seat("w2");
    assert_eq!(script.leader.permits_becoming_healthy(w2), Permission::OthersUnaware);
    // It comes back: one echo of it is enough.
    let mut back = Script { leader: script.leader.clone(), workers: script.workers.clone() };
    back.echo("w1");
    back.leader.judge();
    assert!(back.leader.permits_becoming_healthy(w2).is_granted());
    // Or it is given up: then w2 must first learn of that.
    script.lose("w1");
    script.leader.judge();
    assert_eq!(script.leader.permits_becoming_healthy(w2), Permission::Behind);
    script.echo("w2");
    script.leader.judge();
    assert!(script.leader.permits_becoming_healthy(w2).is_granted());
}

/// What somebody holds who has not echoed anything is not known: it may be of another reign.
#[test]
fn a_worker_that_was_not_heard_keeps_others_from_beginning() {
    let mut script = Script::new();
    script.add("w1", &worker(1));
    script.add("w2", &worker(2));
    script.echo("w1");
    let w3 = script.leader.join(&worker(3), None);
    script.leader.leave(w3);
    script.leader.judge();
    let w2 = script.seat("w2");
    assert_eq!(script.leader.permits_becoming_healthy(w2), Permission::Behind);
    let w4 = script.leader.join(&worker(4), None);
    script.echo("w2");
    assert_eq!(script.leader.permits_becoming_healthy(w2), Permission::OthersUnheard);
    let newest = *script.leader.newest();
    script.leader.hear(w4, Some(&newest));
    assert_eq!(script.leader.permits_becoming_healthy(w2), Permission::Granted);
}

/// In a fleet one echo of anybody is enough for a newcomer; nobody waits for all the others.
#[test]
fn one_echo_of_a_thousand_lets_a_newcomer_go() {
    let mut leader = Consensus::starting_at(Term::new(1), Nonce::new(1), Version::ZERO, u32::MAX);
    let seats: Vec<Seat> = (0..1000).map(|number| leader.join(&worker(number), None)).collect();
    let full = *leader.newest();
    for seat in &seats {
        leader.hear(*seat, Some(&full));
    }
    let newcomer = leader.join(&worker(1000), None);
    let newest = *leader.newest();
    leader.hear(newcomer, Some(&newest));
    leader.judge();
    assert_eq!(leader.permits_becoming_healthy(newcomer), Permission::OthersUnaware);
    leader.hear(seats[500], Some(&newest));
    leader.judge();
    assert!(leader.permits_becoming_healthy(newcomer).is_granted());
}

#[test]
fn what_was_granted_stays_granted_and_a_seat_given_up_means_nobody() {
    let mut script = Script::new();
    script.add("w1", &worker(1));
    script.leader.judge();
    script.add("w2", &worker(2));
    let (w1, w2) = (script.seat("w1"), script.seat("w2"));
    assert_eq!(script.leader.permits_becoming_healthy(w1), Permission::GrantedBefore);
    script.lose("w1");
    let w3 = script.leader.join(&worker(3), None);
    let version = script.leader.newest().version;
    for _ in 0..2 {
        script.leader.leave(w1);
        assert_eq!(script.leader.newest().version, version, "who is gone cannot leave again");
        assert_eq!(script.leader.permits_becoming_healthy(w1), Permission::Gone);
        assert_eq!(script.leader.answer(w1), None);
        let newest = *script.leader.newest();
        assert_eq!(script.leader.hear(w1, Some(&newest)), Echo::Outside);
    }
    assert_eq!(script.leader.permits_becoming_healthy(w3), Permission::Unheard);
    assert_eq!(script.leader.permits_becoming_healthy(w2), Permission::Behind);
}

#[test]
fn echoes_are_judged_by_reign_version_and_hash() {
    let mut script = Script::new();
    script.add("w1", &worker(1));
    let one = *script.leader.newest();
    script.add("w2", &worker(2));
    let (w1, w2) = (script.seat("w1"), script.seat("w2"));
    let two = *script.leader.newest();
    let leader = &mut script.leader;
    let cases = [
        (w1, None, Echo::Foreign),
        (w1, Some(SetId { nonce: Nonce::new(5), ..two }), Echo::Foreign),
        (w1, Some(SetId { term: Term::new(5), ..two }), Echo::Foreign),
        (w1, Some(one), Echo::Same),
        (w1, Some(SetId { version: Version::new(3), ..two }), Echo::NeverIssued),
        (w1, Some(SetId { hash: one.hash, ..two }), Echo::NeverIssued),
        (w1, Some(two), Echo::Newer),
        (w1, Some(one), Echo::Older),
        (w1, Some(two), Echo::Same),
        // A set without the worker itself.
        (w2, Some(one), Echo::Foreign),
    ];
    for (seat, echo, expected) in cases {
        assert_eq!(leader.hear(seat, echo.as_ref()), expected, "{echo:?}");
    }
}
