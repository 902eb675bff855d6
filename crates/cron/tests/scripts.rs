//! Plays every script in `tests/scripts` and compares what it says with what is written there.
//!
//! `UPDATE=1 cargo test --test scripts` rewrites the expectations; read the diff before
//! committing it, because the diff is the review.
//!
//! A line sets the scene (`item JSON`, `start TIME ZONE`), lets time pass under the eyes of a driver
//! (`wait SECONDS`), or disturbs it: `suspend SECONDS`, `clock SECONDS`, `zone NAME` and
//! `restart SECONDS` may stand together on a line, and one step follows them all.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::{env, fs, path::Path};

use jiff::Timestamp;
use sterna_cron::{
    Decision, Movement, Reading, Saved, StatefulItem, Time, Timekeeper, Uptime, Verdict, Zone,
};

/// How often the driver of the scripts steps at least.
const POLL_SECONDS: u32 = 60;

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let written = fs::read_to_string(&path).unwrap();
        let played = play(&written);
        if env::var_os("UPDATE").is_some() {
            fs::write(&path, &played).unwrap();
        } else {
            assert_eq!(played, written, "{}", path.display());
        }
    }
}

/// Keeps each line up to `=>` and answers after it; scenes, comments and blank lines stay.
fn play(script: &str) -> String {
    let mut stage = Stage::default();
    let answer = |line: &str| {
        let asked = line.split_once("=>").map_or(line, |(asked, _)| asked).trim_end();
        match stage.play(asked) {
            Some(answer) => format!("{asked:36} => {answer}\n"),
            None => format!("{line}\n"),
        }
    };
    script.lines().map(answer).collect()
}

#[derive(Default)]
struct Stage {
    item: Option<StatefulItem>,
    zone: Option<Zone>,
    system: i64,
    monotonic: i64,
    keeper: Option<Timekeeper>,
}

impl Stage {
    fn play(&mut self, line: &str) -> Option<String> {
        let (word, rest) = line.split_once(' ')?;
        match (word, self.keeper.is_some()) {
            ("#", true | false) => None,
            ("item", true | false) => {
                self.item = Some(serde_json::from_str(rest).unwrap());
                self.keeper = None;
                None
            }
            ("start", true | false) => {
                let (time, zone) = rest.split_once(' ').unwrap();
                self.system = time.parse::<Timestamp>().unwrap().as_second();
                self.monotonic = 1_000;
                let zone: Zone = zone.parse().unwrap();
                self.zone = Some(zone.clone());
                let item = self.item.clone().unwrap();
                self.keeper = Some(Timekeeper::new(item, zone, POLL_SECONDS, self.reading()));
                None
            }
            ("wait", true | false) => Some(self.wait(rest.parse().unwrap())),
            (_, true | false) => Some(self.disturb(line)),
        }
    }

    fn reading(&self) -> Reading {
        Reading {
            system: Time::from_epoch(self.system),
            monotonic: Uptime::from_seconds(self.monotonic),
        }
    }

    /// As a driver does: steps at each deadline, and every minute besides.
    fn wait(&mut self, seconds: i64) -> String {
        let end = self.system + seconds;
        let mut decisions = Vec::new();
        while self.system < end {
            let deadline = self.keeper.as_ref().unwrap().deadline().map_or(end, Time::epoch);
            let next = (self.system + i64::from(POLL_SECONDS)).min(end);
            let passed = next.min(deadline.max(self.system + 1)) - self.system;
            self.system += passed;
            self.monotonic += passed;
            let reading = self.reading();
            self.keeper.as_mut().unwrap().step(reading, &mut decisions);
        }
        self.tell(Movement::default(), &decisions)
    }

    fn disturb(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.chunks(2) {
            let [word, value] = pair else { panic!("odd line {line:?}") };
            let seconds = || value.parse::<i64>().unwrap();
            match *word {
                "suspend" => {
                    self.system += seconds();
                    self.monotonic += seconds();
                }
                "clock" => self.system += seconds(),
                "zone" => {
                    self.zone = Some(value.parse().unwrap());
                    self.keeper.as_mut().unwrap().set_timezone(self.zone.clone().unwrap());
                }
                "restart" => self.restart(seconds()),
                other => panic!("unknown word {other:?}"),
            }
        }
        let mut decisions = Vec::new();
        let reading = self.reading();
        let movement = self.keeper.as_mut().unwrap().step(reading, &mut decisions);
        self.tell(movement, &decisions)
    }

    /// The machine is off meanwhile, so its monotonic clock begins anew.
    fn restart(&mut self, seconds: i64) {
        let saved = serde_json::to_string(self.keeper.as_ref().unwrap().saved()).unwrap();
        let saved: Saved = serde_json::from_str(&saved).unwrap();
        self.system += seconds;
        self.monotonic = 5;
        let (item, zone) = (self.item.clone().unwrap(), self.zone.clone().unwrap());
        self.keeper = Some(Timekeeper::load(item, zone, POLL_SECONDS, saved, self.reading()));
    }

    fn tell(&self, movement: Movement, decisions: &[Decision]) -> String {
        let zone = self.zone.as_ref().unwrap();
        let mut parts = Vec::new();
        if movement.step_seconds != 0 {
            parts.push(format!("clock {:+}", movement.step_seconds));
        }
        if movement.zone_shift_seconds != 0 {
            parts.push(format!("zone {:+}", movement.zone_shift_seconds));
        }
        if let Some((first, until)) = movement.unlisted {
            parts.push(format!("dropped from {} to {}", zone.format(first), zone.format(until)));
        }
        for group in decisions.chunk_by(|one, other| one.verdict == other.verdict) {
            let what = match group[0].verdict {
                Verdict::FireOnTime => "fire on time",
                Verdict::FireUnskipped => "fire late",
                Verdict::FireRepeated => "fire again",
                Verdict::DropTooLate => "drop as too late",
                Verdict::DropRepeated => "drop as repeated",
            };
            let (first, last) = (group[0].event.due, group[group.len() - 1].event.due);
            parts.push(match group.len() {
                1 => format!("{what} {}", zone.format(first)),
                many => {
                    format!("{what} {many} from {} to {}", zone.format(first), zone.format(last))
                }
            });
        }
        if decisions.is_empty() {
            parts.push("nothing".to_owned());
        }
        parts.join(", ")
    }
}
