//! Everything at once: workers killed, links cut and stalled, leaders restarted, while work comes.

use std::{collections::BTreeMap, env, time::Duration};

use sterna_model::RunId;
use sterna_protocol::{
    message::News,
    scheduler::{Report, Settlement},
};

use crate::{
    leader::{LONG_STOP, Leader, Seen, run_id, shell},
    place::{LONG, Place, Worker, wait_until},
    proxy::{Mode, Proxy},
};

/// Runs in one round.
const RUNS: u8 = 5;

/// A generator that needs to be no better than this.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// What became of a run.
#[derive(Debug)]
enum Fate {
    /// Its worker has told its end.
    Ended(String),
    /// It is not running there, and will not be.
    Settled(Settlement),
}

fn fates(leader: &Leader) -> BTreeMap<RunId, Fate> {
    let mut fates = BTreeMap::new();
    for seen in leader.history() {
        if let Seen::Reported(Report { run, news: News::Ended(how), .. }) = &seen {
            fates.insert(*run, Fate::Ended(String::from_utf8_lossy(how).into_owned()));
        } else if let Seen::Settled(run, how) = seen {
            fates.entry(run).or_insert(Fate::Settled(how));
        }
    }
    fates
}

#[test]
fn whatever_happens_nothing_runs_twice_and_nothing_is_forgotten() {
    let rounds: u8 = if env::var_os("STERNA_LONG").is_some() { 50 } else { 10 };
    let (place, mut leader) = (Place::new(), Leader::start());
    let proxy = Proxy::to(leader.port);
    let mut worker = Worker::start(&place, proxy.port);
    let mut random = Random(7);
    leader.wait_for_healthy();
    let (mut number, mut sent) = (0, 0);
    for round in 0..rounds {
        // Some at once, some while everything goes wrong.
        for _ in 0..RUNS {
            number += 1;
            let script = format!(
                "echo {} >> {}; sleep 0.{}",
                run_id(number),
                place.path.join("starts").display(),
                random.below(4)
            );
            // A leader that has just begun may not have heard the worker yet.
            if let Some(who) = leader.newest() {
                leader.dispatch(who, number, LONG_STOP, &shell(&place, &script));
                sent += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(random.below(200))); // why: anywhere in between
        match random.below(5) {
            0 | 1 => {
                worker.kill();
                worker = Worker::start(&place, proxy.port);
            }
            2 => {
                proxy.set(Mode::Cut);
                std::thread::sleep(Duration::from_millis(random.below(300))); // why: cut so long
                proxy.set(Mode::Pass);
            }
            3 => {
                proxy.set(Mode::Stall);
                std::thread::sleep(Duration::from_millis(random.below(900))); // why: stalled so long
                proxy.set(Mode::Pass);
            }
            _ => leader = leader.restart(),
        }
        if round % 2 == 0 {
            leader.wait_for_contact();
        }
    }
    leader.wait_for_contact();
    wait_until("every run is known to be over", LONG, || fates(&leader).len() >= sent);
    let mut starts: BTreeMap<String, usize> = BTreeMap::new();
    for line in place.lines("starts") {
        *starts.entry(line).or_default() += 1;
    }
    let (mut done, mut lost) = (0, 0);
    for (run, fate) in fates(&leader) {
        let started = starts.remove(&run.to_string()).unwrap_or(0);
        match fate {
            Fate::Ended(how) if how.contains(r#""cause":"exited","exit":{"code":0}"#) => {
                assert_eq!(started, 1, "{run} has ended well: {how}");
                done += 1;
            }
            // Killed with its worker, before or after it began.
            Fate::Ended(how) => {
                assert!(started <= 1, "{run} was started {started} times: {how}");
                lost += 1;
            }
            Fate::Settled(how) => assert_eq!(started, 0, "{run} never ran: {how:?}"),
        }
    }
    assert!(starts.is_empty(), "nobody knows of {starts:?}");
    assert!(done > 0 && done + lost <= u32::from(number));
    wait_until("nothing is left in the table", LONG, || place.files("held").is_empty());
    assert!(place.marked().is_empty());
    assert!(worker.end_by("TERM").success());
}
