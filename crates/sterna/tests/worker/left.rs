//! What a run has left behind, and who hears of it.

use std::{fs, process::Command};

use sterna_worker::sink::Stream;

use crate::{
    leader::{LONG_STOP, Leader, shell},
    place::{LONG, Place, Worker, wait_until},
};

/// What keeps a directory from being removed, taken off at the end.
struct InTheWay<'a>(&'a Place);

impl InTheWay<'_> {
    fn clear(&self) {
        let runs = fs::canonicalize(self.0.path.join("runs")).unwrap();
        for run in self.0.runs() {
            let work = runs.join(run).join("work");
            drop(Command::new("umount").arg("--lazy").arg(work.join("m")).status());
            drop(Command::new("chattr").arg("-i").arg(work.join("stays")).status());
        }
    }
}

impl Drop for InTheWay<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[test]
fn a_directory_that_cannot_be_removed_is_told_and_tried_again_at_the_next_start() {
    let (place, leader) = (Place::new(), Leader::start());
    let mut worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let in_the_way = InTheWay(&place);
    let cases = [
        ("mkdir m; mount -t tmpfs none m", "something is mounted at 'm': unmount it"),
        ("echo no > stays; chattr +i stays", "'stays' may not be removed: take its attributes off"),
    ];
    let mut runs = Vec::new();
    for (number, (script, why)) in (1..).zip(cases) {
        let run = leader.dispatch(who, number, LONG_STOP, &shell(&place, script));
        assert_eq!(leader.end(run)["exit"]["code"], 0, "{script}");
        runs.push((run, why));
    }
    // The next worker finds them, and cannot remove them either.
    for round in 1..=2 {
        for (run, why) in &runs {
            let directory = fs::canonicalize(&place.path).unwrap().join(format!("runs/{run}"));
            let said = format!("cannot remove {}: {why}", directory.display());
            worker.wait_to_say(&said);
            let told = || {
                let events = place.output(*run, Stream::Events);
                let is_it = |line: &&String| line.contains("not_removed") && line.contains(why);
                (events.iter().filter(is_it).count(), events)
            };
            wait_until("its log says so", LONG, || told().0 >= 1);
            assert!(
                told().1[0].contains("started"),
                "what was said before is kept: {:?}",
                told().1
            );
            assert_eq!(worker.count(&said), 1, "it is told once");
        }
        assert_eq!(place.runs().len(), 2);
        assert!(worker.end_by("TERM").success());
        if round == 2 {
            in_the_way.clear();
        }
        worker = Worker::start(&place, leader.port);
    }
    wait_until("they are removed", LONG, || place.runs().is_empty());
    assert_eq!(worker.count("cannot remove"), 0);
    assert!(worker.end_by("TERM").success());
}
