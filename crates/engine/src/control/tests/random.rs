//! Anything, in any order: what must hold always, and what must come about when it is over.
//!
//! That a later run of a key has a greater fence is held against every run that is sent, in `play.rs`.

use std::{collections::BTreeMap, sync::Arc};

use sterna_model::{RunId, WorkKey, record::InstancePhase, spec::ServiceSpec};
use sterna_protocol::{
    health::Health,
    message::News,
    scheduler::{GoneBy, Settlement},
};

use super::play::{
    FAILURE, Mood, Play, RUNNING, SUCCESS, UNREADY, incarnation, lock, other_work, service_spec,
    task, task_spec, web,
};
use crate::control::Call;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        super::super::ids::mix(self.0) % below
    }

    fn index(&mut self) -> u32 {
        u32::try_from(self.roll(6)).unwrap()
    }

    fn pick(&mut self, runs: &[RunId]) -> Option<RunId> {
        let at = usize::try_from(self.roll(runs.len().max(1) as u64)).unwrap();
        runs.get(at).copied()
    }
}

const WORKERS: u8 = 4;

fn anything(play: &mut Play, dice: &mut Dice) {
    let worker = 1 + u8::try_from(dice.roll(u64::from(WORKERS))).unwrap();
    let is_silent = play.moods[&worker] == Mood::Silent;
    let heard = play.running.iter().filter(|(_, (on, _))| play.moods[on] != Mood::Silent);
    let heard: Vec<RunId> = heard.map(|(run, _)| *run).collect();
    match dice.roll(16) {
        0 => {
            play.call(Call::PutService(web(), service_spec(dice.index())));
        }
        1 => {
            let readiness = r#""readiness":{"start_timeout":"20s"}"#;
            let version = format!("{{{readiness},\"run\":[\"v{}\"]}}", dice.roll(3));
            let spec = other_work(&service_spec(dice.index()), &version);
            play.call(Call::PutService(web(), spec));
        }
        2 => {
            play.call(Call::DeleteService(web()));
        }
        3 | 4 => {
            let number = u8::try_from(dice.roll(30)).unwrap();
            let key = task(&format!("t{number}"));
            play.call(Call::CreateTask(key, incarnation(number), Arc::new(task_spec())));
        }
        5 => {
            play.call(Call::CancelTask(task(&format!("t{}", dice.roll(30)))));
        }
        6 | 7 => {
            let said = if dice.roll(2) == 0 { SUCCESS } else { FAILURE };
            if let Some(run) = dice.pick(&heard) {
                play.end(run, said);
            }
        }
        8 if !is_silent => play.fall_silent(worker),
        8 | 9 => play.come_back(worker),
        10 => {
            let deadline = play.now.wall.plus(sterna_model::Span::from_secs(60));
            play.call(Call::Drain(lock(worker), deadline));
        }
        11 => {
            play.call(Call::Undrain(lock(worker)));
        }
        12 if is_silent => {
            // It is given up for good.
            play.health(worker, Health::MustDie);
            for run in play.runs_on(worker) {
                play.settle(run, Settlement::Gone(GoneBy::Declaration));
            }
        }
        12 => {
            play.call(Call::StopInstance(web().instance(dice.index())));
        }
        13 | 14 => {
            let said = if dice.roll(3) == 0 { RUNNING } else { UNREADY };
            if let Some(run) = dice.pick(&heard) {
                say(play, run, said);
            }
        }
        _ => play.pass(dice.roll(40)),
    }
}

/// A worker says whether an instance takes requests.
fn say(play: &mut Play, run: RunId, said: &[u8]) {
    let is_instance = |(_, key): &(u8, WorkKey)| key.instance().is_some();
    if play.running.get(&run).is_some_and(is_instance) {
        play.report(run, News::Progress(Arc::from(said)));
    }
}

/// A key has two copies at most, and only while a worker is silent or evacuating; a task has one,
/// and only one ever.
fn always(play: &Play) {
    let mut copies: BTreeMap<&WorkKey, u32> = BTreeMap::new();
    for (_, key) in play.running.values() {
        *copies.entry(key).or_default() += 1;
    }
    for (key, count) in copies {
        let most = if key.may_have_twin() { 2 } else { 1 };
        assert!(count <= most, "{key} has {count} copies");
    }
    let mut starts: BTreeMap<&WorkKey, u32> = BTreeMap::new();
    for key in &play.starts {
        *starts.entry(key).or_default() += 1;
    }
    for (key, count) in starts {
        let is_task = key.task().is_some();
        assert!(!is_task || count == 1, "{key} was started {count} times");
    }
    for worker in 1..=WORKERS {
        assert!(play.runs_on(worker).len() <= 10, "w{worker} has more than it has room for");
    }
}

#[test]
fn whatever_happens_the_promises_hold_and_it_converges() {
    for seed in 0..150 {
        let mut dice = Dice(seed);
        let mut play = Play::with(WORKERS);
        for _ in 0..120 {
            anything(&mut play, &mut dice);
            always(&play);
            if dice.roll(25) == 0 {
                play = play.change_leader();
                always(&play);
            }
        }
        // Faults stop.
        for worker in 1..=WORKERS {
            play.come_back(worker);
            play.call(Call::Undrain(lock(worker)));
        }
        for run in play.running.keys().copied().collect::<Vec<_>>() {
            say(&mut play, run, RUNNING);
        }
        play.call(Call::PutService(web(), ServiceSpec { notes: "end".into(), ..service_spec(5) }));
        for _ in 0..40 {
            play.pass(960);
            always(&play);
        }
        let expected: Vec<_> = (0..5).map(|index| (index, InstancePhase::Running)).collect();
        assert_eq!(play.phases(), expected, "seed {seed}");
        let instances = play.running.values().filter(|(_, key)| key.instance().is_some());
        assert_eq!(instances.count(), 5, "seed {seed}: twins are gone");
    }
}
