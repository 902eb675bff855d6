//! The election by rule, and in a world of three processes that pause, crash and lose messages.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use sterna_model::{BootTime, FenceCounter, Nonce, Revision, Span, Term, WallTime, WriteId};

use super::*;
use crate::{Commit, Outcome, conformance::Rng, memory::Model};

const NONCE: Nonce = Nonce::new(7);

fn at(millis: u64) -> BootTime {
    BootTime::from_millis(millis)
}

fn reign(term: u64, nonce: Nonce) -> Reign {
    Reign { term: Term::new(term), nonce, counter: FenceCounter::ZERO }
}

fn held(term: u64) -> (Lease, Revision) {
    let lease = Lease {
        term: Term::new(term),
        nonce: Nonce::new(1),
        state: LeaseState::Held,
        holder: "other".into(),
    };
    (lease, Revision::new(term * 100))
}

fn step(election: &mut Election, now: u64, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    election.step(at(now), NONCE, input, &mut effects);
    effects
}

/// Elected at once, because nobody ever was: asked at 0, answered at 100.
fn leader() -> Election {
    let mut election = Election::new(Timing::default(), "me", at(0));
    assert_eq!(step(&mut election, 0, Input::Tick), [Effect::Read]);
    let effects = step(&mut election, 0, Input::Seen(None));
    assert!(matches!(effects[..], [Effect::Commit { attempt: Attempt::Takeover(..), .. }]));
    let takeover = Attempt::Takeover(reign(1, NONCE), at(0));
    let applied = Ended::Applied(Revision::new(5));
    let effects = step(&mut election, 100, Input::Answered(takeover, applied));
    assert_eq!(effects, [Effect::Elected(reign(1, NONCE))]);
    election
}

#[test]
fn a_lease_is_counted_from_before_it_was_sent_and_ends_a_margin_early() {
    let election = leader();
    assert_eq!(Timing::default().margin(), Span::from_millis(2_020));
    assert_eq!(election.is_leading(at(7_979)), Some(reign(1, NONCE)));
    assert_eq!(election.is_leading(at(7_980)), None);
}

#[test]
fn a_challenger_waits_a_whole_lease_from_its_first_sight() {
    let mut election = Election::new(Timing::default(), "me", at(0));
    step(&mut election, 0, Input::Tick);
    assert_eq!(step(&mut election, 1_000, Input::Seen(Some(held(3)))), []);
    step(&mut election, 10_900, Input::Tick);
    assert_eq!(step(&mut election, 10_999, Input::Seen(Some(held(3)))), []);
    step(&mut election, 11_500, Input::Tick);
    let effects = step(&mut election, 11_500, Input::Seen(Some(held(3))));
    let [Effect::Commit { attempt, expect, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(*attempt, Attempt::Takeover(reign(4, NONCE), at(11_500)));
    assert_eq!(*expect, crate::Expect::At(Revision::new(300)));
}

#[test]
fn a_process_that_is_alone_at_its_store_waits_for_nobody() {
    let timing = Timing { is_alone: true, ..Timing::default() };
    let mut election = Election::new(timing, "me", at(0));
    step(&mut election, 0, Input::Tick);
    let effects = step(&mut election, 1_000, Input::Seen(Some(held(3))));
    let [Effect::Commit { attempt, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(*attempt, Attempt::Takeover(reign(4, NONCE), at(1_000)));
}

#[test]
fn a_renewal_starts_the_wait_anew() {
    let mut election = Election::new(Timing::default(), "me", at(0));
    step(&mut election, 0, Input::Tick);
    step(&mut election, 0, Input::Seen(Some(held(3))));
    step(&mut election, 9_900, Input::Tick);
    let renewed = (held(3).0, Revision::new(301));
    step(&mut election, 9_900, Input::Seen(Some(renewed.clone())));
    step(&mut election, 19_800, Input::Tick);
    assert_eq!(step(&mut election, 19_800, Input::Seen(Some(renewed))), []);
}

#[test]
fn a_resigned_lease_is_taken_at_once() {
    let mut election = Election::new(Timing::default(), "me", at(0));
    step(&mut election, 0, Input::Tick);
    let (lease, revision) = held(3);
    let resigned = Lease { state: LeaseState::Resigned, ..lease };
    let effects = step(&mut election, 0, Input::Seen(Some((resigned, revision))));
    assert!(matches!(effects[..], [Effect::Commit { .. }]), "{effects:?}");
}

#[test]
fn a_resigning_leader_is_mute_before_it_sends_the_resignation() {
    let mut election = leader();
    let effects = step(&mut election, 200, Input::Resign);
    assert_eq!(election.is_leading(at(200)), None);
    let [Effect::Commit { attempt: Attempt::Resignation, .. }] = effects[..] else {
        panic!("{effects:?}")
    };
    step(&mut election, 300, Input::Answered(Attempt::Resignation, Ended::Unknown));
    assert_eq!(election.deadline(), None);
}

#[test]
fn a_leader_whose_lease_has_gone_back_does_not_go_on_in_its_reign() {
    for (found, goes_on) in [(6, true), (5, false)] {
        let mut election = leader();
        step(&mut election, 3_000, Input::Tick);
        let renewal = Attempt::Renewal(at(3_000));
        step(&mut election, 3_000, Input::Answered(renewal, Ended::Applied(Revision::new(6))));
        step(&mut election, 6_000, Input::Tick);
        let renewal = Attempt::Renewal(at(6_000));
        let read = step(&mut election, 6_000, Input::Answered(renewal, Ended::Conflict));
        assert_eq!(read, [Effect::Read]);
        let lease = Lease { nonce: NONCE, ..held(1).0 };
        let seen = Input::Seen(Some((lease, Revision::new(found))));
        let effects = step(&mut election, 6_100, seen);
        assert_eq!(effects.contains(&Effect::Deposed(reign(1, NONCE))), !goes_on, "{effects:?}");
        assert_eq!(election.is_leading(at(6_100)).is_some(), goes_on);
    }
}

#[test]
fn a_renewal_without_an_answer_extends_nothing() {
    let mut election = leader();
    step(&mut election, 3_000, Input::Tick);
    let unknown = Input::Answered(Attempt::Renewal(at(3_000)), Ended::Unknown);
    assert_eq!(step(&mut election, 5_000, unknown), [Effect::Read]);
    assert_eq!(election.is_leading(at(7_980)), None);
    // It had applied: the lease is still ours, at a new revision, and is renewed at once.
    let mine =
        Lease { term: Term::new(1), nonce: NONCE, state: LeaseState::Held, holder: "me".into() };
    let effects = step(&mut election, 5_100, Input::Seen(Some((mine, Revision::new(9)))));
    assert!(matches!(effects[..], [Effect::Commit { attempt: Attempt::Renewal(_), .. }]));
}

#[test]
fn a_leader_that_reads_another_lease_is_deposed() {
    let mut election = leader();
    step(&mut election, 3_000, Input::Tick);
    step(&mut election, 3_100, Input::Answered(Attempt::Renewal(at(3_000)), Ended::Conflict));
    let effects = step(&mut election, 3_200, Input::Seen(Some(held(2))));
    assert_eq!(effects[0], Effect::Deposed(reign(1, NONCE)));
    assert_eq!(election.is_leading(at(3_200)), None);
}

#[test]
fn records_are_read_as_they_were_written() {
    let lease = "1 3 00000000000000ff held server one";
    assert_eq!(lease.parse::<Lease>().unwrap().to_string(), lease);
    let text = "1 3 00000000000000ff 2";
    assert_eq!(text.parse::<Reign>().unwrap().to_string(), text);
    for damaged in ["", "2 3 00000000000000ff 2", "1 3 ff 2", "1 x 00000000000000ff 2", "1 3"] {
        assert!(damaged.parse::<Reign>().is_err(), "{damaged}");
        assert!(damaged.parse::<Lease>().is_err(), "{damaged}");
    }
}

#[test]
fn a_raised_counter_fences_off_what_was_sent_before() {
    let mut store = Model::default();
    let before = reign(1, NONCE);
    let after = before.raised().unwrap();
    let put = |reign: &Reign, id| commit(id).put(REIGN_KEY, reign.to_string());
    assert!(matches!(store.commit(&put(&before, 1)), Ok(Outcome::Applied(_))));
    assert!(matches!(store.commit(&put(&after, 2)), Ok(Outcome::Applied(_))));
    let late = before.fenced(commit(3).put("/x", "late"));
    assert!(matches!(store.commit(&late), Ok(Outcome::Conflict(_))));
    let new = after.fenced(commit(4).put("/x", "new"));
    assert!(matches!(store.commit(&new), Ok(Outcome::Applied(_))));
}

fn commit(id: u64) -> Commit {
    let mut unique = [0; 10];
    unique[2..].copy_from_slice(&id.to_be_bytes());
    Commit::new(WriteId::from_parts(WallTime::EPOCH, unique))
}

/// Three processes, one store, and time.
struct World {
    rng: Rng,
    now: u64,
    store: Model,
    processes: Vec<Process>,
    /// What happens when: the moment, a number that keeps the order, and what.
    events: BinaryHeap<Reverse<(u64, u64)>>,
    what: BTreeMap<u64, Event>,
    writes: u64,
    is_calm: bool,
    reigns: u64,
}

struct Process {
    election: Election,
    timing: Timing,
    /// Which life of the process this is; what was meant for an earlier one is lost.
    life: u64,
    /// Its clock runs by so many parts in a million faster than the world's.
    drift: i64,
    stopped_until: u64,
}

impl Process {
    fn clock(&self, now: u64) -> BootTime {
        let drifted = i128::from(now) * i128::from(1_000_000 + self.drift) / 1_000_000;
        at(u64::try_from(drifted).unwrap())
    }

    fn is_leading(&self, now: u64) -> Option<Reign> {
        self.election.is_leading(self.clock(now))
    }
}

enum Event {
    Deliver { process: usize, life: u64, input: Input },
    ArriveRead { process: usize, life: u64 },
    ArriveCommit { process: usize, life: u64, attempt: Attempt, commit: Commit, is_told: bool },
    Restart(usize),
}

impl World {
    fn new(seed: u64, timings: [Timing; 3]) -> Self {
        let mut rng = Rng::new(seed);
        let mut processes = Vec::new();
        for timing in timings {
            let drift = i64::try_from(rng.below(2_001)).unwrap() - 1_000;
            let election = Election::new(timing, "p", at(0));
            processes.push(Process { election, timing, life: 0, drift, stopped_until: 0 });
        }
        let (events, what) = (BinaryHeap::new(), BTreeMap::new());
        let store = Model::default();
        let mut world = Self {
            rng,
            now: 0,
            store,
            processes,
            events,
            what,
            writes: 0,
            is_calm: false,
            reigns: 0,
        };
        for process in 0..3 {
            world.deliver(0, process, Input::Tick);
        }
        world
    }

    fn schedule(&mut self, after: u64, event: Event) {
        let number = self.what.keys().next_back().map_or(0, |last| last + 1);
        self.events.push(Reverse((self.now + after, number)));
        self.what.insert(number, event);
    }

    fn deliver(&mut self, after: u64, process: usize, input: Input) {
        let life = self.processes[process].life;
        self.schedule(after, Event::Deliver { process, life, input });
    }

    /// Mostly quick, sometimes not.
    fn delay(&mut self) -> u64 {
        if self.is_calm || !self.rng.one_in(20) {
            self.rng.below(50)
        } else {
            self.rng.below(9_000)
        }
    }

    /// Lives until `end`; says why if two ever lead at once, or a deposed one changes something.
    fn live(&mut self, end: u64) -> Result<(), String> {
        while let Some(Reverse((moment, number))) = self.events.pop() {
            if moment > end {
                self.events.push(Reverse((moment, number)));
                break;
            }
            self.now = moment;
            if let Some(event) = self.what.remove(&number) {
                self.happen(event)?;
            }
            let leading: Vec<_> =
                self.processes.iter().filter_map(|process| process.is_leading(self.now)).collect();
            if leading.len() > 1 {
                return Err(format!("at {} two lead: {leading:?}", self.now));
            }
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Restart(process) => {
                let clock = self.processes[process].clock(self.now);
                let state = &mut self.processes[process];
                state.election = Election::new(state.timing, "p", clock);
                state.life += 1;
                self.deliver(0, process, Input::Tick);
            }
            Event::ArriveRead { process, life } => {
                let item = self.store.get(LEASE_KEY).item;
                let lease = item.map(|item| {
                    let text = std::str::from_utf8(&item.value).unwrap();
                    (text.parse().unwrap(), item.revision)
                });
                let after = self.delay();
                self.schedule(after, Event::Deliver { process, life, input: Input::Seen(lease) });
            }
            Event::ArriveCommit { process, life, attempt, commit, is_told } => {
                let ended = match self.store.commit(&commit).unwrap() {
                    Outcome::Applied(revision) => Ended::Applied(revision),
                    Outcome::Conflict(_) => Ended::Conflict,
                };
                if is_told {
                    let after = self.delay();
                    let input = Input::Answered(attempt, ended);
                    self.schedule(after, Event::Deliver { process, life, input });
                }
            }
            Event::Deliver { process, life, input } => self.handle(process, life, input)?,
        }
        Ok(())
    }

    fn handle(&mut self, process: usize, life: u64, input: Input) -> Result<(), String> {
        let state = &self.processes[process];
        if state.life != life {
            return Ok(());
        }
        if self.now < state.stopped_until {
            let after = state.stopped_until - self.now;
            self.schedule(after, Event::Deliver { process, life, input });
            return Ok(());
        }
        let clock = state.clock(self.now);
        let mut effects = Vec::new();
        let nonce = Nonce::new(self.rng.next());
        self.processes[process].election.step(clock, nonce, input, &mut effects);
        for effect in effects {
            self.perform(process, effect);
        }
        self.act_as_leader(process)?;
        self.disturb(process);
        if let Some(deadline) = self.processes[process].election.deadline() {
            let wait = deadline.since(clock).as_millis() + self.rng.below(20);
            self.deliver(wait, process, Input::Tick);
        }
        Ok(())
    }

    fn perform(&mut self, process: usize, effect: Effect) {
        let life = self.processes[process].life;
        let after = self.delay();
        match effect {
            Effect::Read if !self.is_calm && self.rng.one_in(30) => {
                self.deliver(2_000, process, Input::NotSeen);
            }
            Effect::Read => self.schedule(after, Event::ArriveRead { process, life }),
            Effect::Commit { attempt, expect, writes } => {
                self.writes += 1;
                let mut commit = commit(self.writes).expect(LEASE_KEY, expect);
                commit.writes = writes;
                let fate = if self.is_calm { 9 } else { self.rng.below(20) };
                let is_told = fate > 2;
                if fate == 0 {
                    let input = Input::Answered(attempt, Ended::Unavailable);
                    return self.deliver(2_000, process, input);
                }
                if !is_told {
                    self.deliver(2_000, process, Input::Answered(attempt, Ended::Unknown));
                }
                // What nobody waits for any more may come very late.
                let after = if fate == 1 { after + self.rng.below(30_000) } else { after };
                let event = Event::ArriveCommit { process, life, attempt, commit, is_told };
                self.schedule(after, event);
            }
            Effect::Elected(_) => self.reigns += 1,
            Effect::Deposed(_) => {}
        }
    }

    /// A fenced write applies only if the store still holds the reign that it was fenced by.
    fn act_as_leader(&mut self, process: usize) -> Result<(), String> {
        let Some(reign) = self.processes[process].is_leading(self.now) else { return Ok(()) };
        self.writes += 1;
        let write = reign.fenced(commit(self.writes).put("/work", reign.to_string()));
        let current = self.store.get(REIGN_KEY).item.map(|item| item.value);
        let applied = matches!(self.store.commit(&write).unwrap(), Outcome::Applied(_));
        if applied && current != Some(reign.to_string().into()) {
            return Err(format!("{reign} wrote under {current:?}"));
        }
        Ok(())
    }

    fn disturb(&mut self, process: usize) {
        if self.is_calm {
            return;
        }
        match self.rng.below(60) {
            0 => {
                let stop = self.rng.below(15_000);
                self.processes[process].stopped_until = self.now + stop;
            }
            1 => {
                // Killed: what it waits for is never handled. It comes back as a new process.
                self.processes[process].life += 1;
                let clock = self.processes[process].clock(self.now);
                let timing = self.processes[process].timing;
                self.processes[process].election = Election::new(timing, "p", clock);
                let after = self.rng.below(20_000);
                self.schedule(after, Event::Restart(process));
            }
            2 if self.rng.one_in(4) => {
                // One that has retired is started again, as its supervisor would.
                self.deliver(0, process, Input::Resign);
                let after = 2_000 + self.rng.below(10_000);
                self.schedule(after, Event::Restart(process));
            }
            _ => {}
        }
    }
}

const MINUTE: u64 = 60_000;

/// Five minutes of trouble, then calm; gives how many reigns began.
fn survive(seed: u64, timings: [Timing; 3]) -> Result<u64, String> {
    let mut world = World::new(seed, timings);
    world.live(5 * MINUTE)?;
    world.is_calm = true;
    world.live(6 * MINUTE)?;
    let leads = world.processes.iter().any(|process| process.is_leading(world.now).is_some());
    if leads { Ok(world.reigns) } else { Err("calm has come, and nobody leads".to_owned()) }
}

#[test]
fn no_two_lead_at_once_and_somebody_leads_when_calm_comes() {
    let seeds = if std::env::var_os("STERNA_LONG").is_some() { 20_000 } else { 400 };
    let mut reigns = 0;
    for seed in 0..seeds {
        match survive(seed, [Timing::default(); 3]) {
            Ok(count) => reigns += count,
            Err(why) => panic!("seed {seed}: {why}"),
        }
    }
    assert!(reigns > 3 * seeds, "only {reigns} reigns began: the world is too quiet");
}

/// One process believes in longer leases than the others: the checker must see what comes of it.
#[test]
fn the_checker_sees_two_leaders() {
    let mut timings = [Timing::default(); 3];
    timings[0].lease = Span::from_secs(40);
    let caught = (0..200).filter(|&seed| survive(seed, timings).is_err()).count();
    assert!(caught > 10, "only {caught} of 200 were caught");
}

#[test]
fn who_resigns_does_not_wait_for_a_store_that_is_gone() {
    let mut election = leader();
    // A renewal without an answer: what the lease is now must be read first.
    let effects = step(&mut election, 3_000, Input::Tick);
    let [Effect::Commit { attempt, .. }] = &effects[..] else { panic!("{effects:?}") };
    let read = step(&mut election, 3_100, Input::Answered(*attempt, Ended::Unknown));
    assert_eq!(read, [Effect::Read]);
    step(&mut election, 3_200, Input::Resign);
    step(&mut election, 3_300, Input::NotSeen);
    assert!(election.has_retired());
}

#[tokio::test]
async fn a_raised_counter_is_seen_at_once() {
    let mut candidate =
        Candidate::start(std::sync::Arc::new(crate::Memory::new()), Timing::default(), "me");
    let raised = candidate.elected().await.raised().unwrap();
    candidate.raised(raised).await;
    assert_eq!(candidate.leading(), Some(raised));
    candidate.resign().await;
}

#[tokio::test]
async fn who_resigns_says_since_when_it_was_mute() {
    let store = std::sync::Arc::new(crate::Memory::new());
    let mut leader = Candidate::start(store.clone(), Timing::default(), "one");
    let reign = leader.elected().await;
    let (_, until) = leader.until().unwrap();
    let (ended, mute) = leader.resign().await.unwrap();
    assert_eq!(ended, reign);
    assert!(mute < until, "it led to the end of its lease: {mute:?}, {until:?}");
    let mut next = Candidate::start(store.clone(), Timing::default(), "two");
    next.elected().await;
    // One that never led has nothing to say.
    assert_eq!(Candidate::start(store, Timing::default(), "three").resign().await, None);
}

#[tokio::test]
async fn a_lease_of_a_newer_sterna_is_not_taken_over_and_people_are_told() {
    use crate::Store;

    let store = std::sync::Arc::new(crate::Memory::new());
    let id = WriteId::from_parts(WallTime::EPOCH, [1; 10]);
    drop(store.commit(Commit::new(id).put(LEASE_KEY, "2 something newer")).await.unwrap());
    let mut candidate = Candidate::start(store, Timing::default(), "me");
    candidate.changed().await;
    let trouble = candidate.trouble().unwrap();
    assert!(trouble.contains("of a newer sterna; run one version everywhere"), "{trouble}");
    assert_eq!(candidate.leading(), None);
}
