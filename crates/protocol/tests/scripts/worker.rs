//! The worker's side, played. The guardian and the checks answer at once unless the script says
//! `guardian off` or `checks off`; `guardian on 3` answers the third question late. Heartbeats between two
//! lines are counted, not shown. `armed S`: the guardian counts deadlines from that stamp; `remember t1@rev2`: that
//! mandate and revision go to the disk.

use std::collections::BTreeSet;

use sterna_model::{Contract, Name, NotifySequence, Revision, RunId, RunSequence};
use sterna_protocol::{
    consensus::{SetHash, SetId, Version},
    health::Health,
    limits::Limits,
    message::{
        Confirmation, FromLeader, FromWorker, HeartbeatAnswer, Held, Kill, News, Order, Ordinal,
        Refusal, Run, RunAnswer, RunRefusal, Saying, Status, StatusAnswer, StreamId, VERSION,
    },
    worker::{Effect, Input, Start, Worker},
};

use crate::{Player, words::*};

pub(crate) struct Played {
    worker: Worker,
    now: u64,
    has_guardian: bool,
    has_checks: bool,
    /// Whether runs can be kept.
    has_disk: bool,
    stream: u64,
    stamp: u64,
}

impl Played {
    pub(crate) fn new() -> Self {
        let worker = start(0, &[]);
        Self {
            worker,
            now: 0,
            has_guardian: true,
            has_checks: true,
            has_disk: true,
            stream: 0,
            stamp: 0,
        }
    }

    fn pass_time(&mut self, until: u64, shown: &mut Vec<String>) {
        let mut beats = 0;
        while self.worker.deadline() < at(until) && self.now < until {
            self.now = self.worker.deadline().as_millis().max(self.now + 1);
            let mut seen = Vec::new();
            self.step(Input::Tick, &mut seen);
            beats += seen.iter().filter(|effect| effect.starts_with("beat")).count();
            let now = self.now as f64 / 1e3;
            let others = seen.into_iter().filter(|effect| !effect.starts_with("beat"));
            shown.extend(others.map(|effect| format!("@{now} {effect}")));
        }
        if beats > 0 {
            shown.insert(0, format!("{beats} beats"));
        }
    }

    fn step(&mut self, input: Input, shown: &mut Vec<String>) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            self.worker.step(at(self.now), input, &mut effects);
            let begins = effects.iter().filter_map(Effect::begins).map(|run| run.run);
            let unkept: BTreeSet<RunId> = begins.filter(|_| !self.has_disk).collect();
            if !unkept.is_empty() {
                self.worker.not_kept(at(self.now), &unkept, &mut effects);
            }
            for effect in effects {
                match effect {
                    Effect::AskGuardian(number) if self.has_guardian => {
                        inputs.push(Input::GuardianAnswered(number));
                    }
                    Effect::Check if self.has_checks => inputs.push(Input::Checked(at(self.now))),
                    Effect::Check => {}
                    effect @ (Effect::AskGuardian(_)
                    | Effect::Confirmed(_)
                    | Effect::Remember(..)
                    | Effect::Send(..)
                    | Effect::Close(_)
                    | Effect::Start(_)
                    | Effect::Stop(..)
                    | Effect::Forget(_)
                    | Effect::Limits(_)
                    | Effect::Rebirth
                    | Effect::Alarm(_)) => {
                        if let Effect::Send(_, frame) = &effect
                            && let Saying::Heartbeat(heartbeat) = &frame.saying
                        {
                            self.stamp = heartbeat.stamp.as_millis();
                        }
                        shown.push(show(effect));
                    }
                }
            }
        }
    }

    fn input(&mut self, words: &[&str]) -> Option<Input> {
        let order = match words[0] {
            "start" => {
                self.worker = start(self.now, words);
                return None;
            }
            "guardian" => {
                self.has_guardian = words[1] == "on";
                let number = words.get(2).map(|word| word.parse().unwrap());
                return number.map(Input::GuardianAnswered);
            }
            "checks" => {
                self.has_checks = words[1] == "on";
                return None;
            }
            "disk" => {
                self.has_disk = words[1] == "on";
                return None;
            }
            "tick" => return Some(Input::Tick),
            "open" => {
                self.stream += 1;
                return Some(Input::Opened(StreamId::new(self.stream)));
            }
            "closed" => return Some(Input::Closed(StreamId::new(self.stream))),
            "ended" => return Some(Input::Ended(run(words[1]), nothing())),
            "progress" => return Some(Input::Progress(run(words[1]), nothing())),
            "no-drain" => return Some(Input::WantsDrain(false)),
            "reborn" => return Some(Input::Reborn(life(words[1]))),
            "wants-drain" => return Some(Input::WantsDrain(true)),
            "leave" => return Some(Input::Leave),
            "welcome" => Order::Heartbeat(HeartbeatAnswer::Welcome),
            "confirm" => self.confirm(words),
            "refuse" => Order::Heartbeat(HeartbeatAnswer::Refused(match words[1] {
                "die" => Refusal::Die,
                "name" => Refusal::NameTaken,
                "full" => Refusal::RosterFull,
                "version" => Refusal::WrongVersion(9),
                "cluster" => Refusal::WrongCluster,
                "life" => Refusal::WentBack(9),
                other => panic!("die, name, full, version, cluster or life, not {other}"),
            })),
            "get" => Order::GetRunning,
            "run" => Order::Run(vec![Run {
                run: run(words[1]),
                key: key(words[2]),
                task: None,
                contract: contract(words[3]),
                sequence: RunSequence::new(option(words, "seq").unwrap().parse().unwrap()),
                notify: NotifySequence::new(
                    option(words, "notify").map_or(0, |word| word.parse().unwrap()),
                ),
                ordinal: Ordinal::default(),
                work: nothing(),
            }]),
            "notify" => {
                let runs = words[2..].iter().take_while(|word| word.starts_with('r'));
                let number = NotifySequence::new(words[1].parse().unwrap());
                Order::NotifyIfNotRunning(number, runs.map(|word| run(word)).collect())
            }
            "ack" => {
                let answer = match words.get(3) {
                    Some(&"retry") => StatusAnswer::Retry,
                    Some(&"ignored") => StatusAnswer::Ignored,
                    Some(_) | None => StatusAnswer::Recorded,
                };
                let revision = words.iter().skip_while(|word| **word != "revision").nth(1);
                let revision = revision.map_or(0, |word| word.parse().unwrap());
                let answers = vec![(run(words[1]), words[2].parse().unwrap(), answer)];
                Order::Statuses(Revision::new(revision), answers)
            }
            "kill" => Order::Kill(
                run(words[1]),
                if words.contains(&"now") { Kill::Now } else { Kill::Gracefully },
            ),
            "die" => Order::Die,
            other => panic!("no input is called {other}"),
        };
        let version = option(words, "version").map_or(VERSION, |word| word.parse().unwrap());
        let frame = FromLeader {
            version,
            mandate: mandate(option(words, "from").unwrap_or("t1")),
            incarnation: option(words, "to").map_or(self.worker.incarnation(), life),
            order,
        };
        let stream = option(words, "stream").map_or(self.stream, |word| word.parse().unwrap());
        Some(Input::Frame(StreamId::new(stream), frame))
    }

    fn confirm(&self, words: &[&str]) -> Order {
        let from = mandate(option(words, "from").unwrap_or("t1"));
        let verdict = match words.get(1) {
            Some(&"unhealthy") => Health::Unhealthy,
            Some(&"must-die") => Health::MustDie,
            Some(_) | None => Health::Healthy,
        };
        let set = option(words, "set").map(|version| SetId {
            term: from.term,
            nonce: from.nonce,
            version: Version::new(version.parse().unwrap()),
            hash: SetHash::EMPTY,
        });
        let stamp = option(words, "stamp").map_or(self.stamp, |word| seconds(word).as_millis());
        Order::Heartbeat(HeartbeatAnswer::Confirmed(Box::new(Confirmation {
            stamp: at(stamp),
            limits: Limits {
                version: option(words, "limits").map_or(1, |word| word.parse().unwrap()),
                kill_wait: option(words, "kill-wait").map_or(Limits::default().kill_wait, seconds),
                check_every: option(words, "check-every")
                    .map_or(Limits::default().check_every, seconds),
                check_grace: option(words, "check-grace")
                    .map_or(Limits::default().check_grace, seconds),
                ..Limits::default()
            },
            verdict,
            set,
            revision: Revision::new(
                option(words, "revision").map_or(1, |word| word.parse().unwrap()),
            ),
            is_draining: words.contains(&"draining"),
        })))
    }
}

impl Player for Played {
    fn play(&mut self, at_ms: u64, words: &[&str]) -> Vec<String> {
        let mut shown = Vec::new();
        // Whoever sleeps does not tick.
        if words[0] != "sleep" {
            self.pass_time(at_ms, &mut shown);
        }
        self.now = at_ms;
        if words[0] == "sleep" {
            return shown;
        }
        if words[0] == "health" {
            shown.push(format!("{:?}", self.worker.health()));
        } else if words[0] == "runs" {
            shown.push(format!("[{}]", list(self.worker.runs().map(|run| show_run(*run)))));
        } else if let Some(input) = self.input(words) {
            self.step(input, &mut shown);
        }
        shown
    }
}

/// `start [life w1.1] [holds r1/k1/stop:120]... [confirmed S] [seen t3]`
fn start(now: u64, words: &[&str]) -> Worker {
    let holds = words.iter().zip(words.iter().skip(1)).filter(|(a, _)| **a == "holds");
    let held = holds.map(|(_, word)| {
        let parts: Vec<&str> = word.split('/').collect();
        let (key, contract) = (key(parts[1]), contract(parts[2]));
        Held { run: run(parts[0]), key, task: None, contract, status: None }
    });
    Worker::new(
        at(now),
        Start {
            incarnation: life(option(words, "life").unwrap_or("w1.1")),
            name: Name::new("w1").unwrap(),
            boot: 1,
            facts: nothing(),
            seen: option(words, "seen").map(|word| (mandate(word), Revision::ZERO)),
            birth: 1,
            confirmed: option(words, "confirmed").map(|word| at(seconds(word).as_millis())),
            held: held.collect(),
            limits: Limits::default(),
        },
    )
}

fn show(effect: Effect) -> String {
    match effect {
        Effect::AskGuardian(number) => format!("ask guardian #{number}"),
        Effect::Check => "check".to_owned(),
        Effect::Send(_, frame) => show_saying(frame),
        Effect::Close(stream) => format!("close {stream:?}"),
        Effect::Start(run) => format!("start {}", show_run(run.run)),
        Effect::Stop(run, how) => format!("stop {} {how:?}", show_run(run)),
        Effect::Forget(run) => format!("forget {}", show_run(run)),
        Effect::Confirmed(stamp) => format!("armed {}", stamp.as_millis() as f64 / 1e3),
        Effect::Remember(mandate, revision) => {
            format!("remember {}@{revision}", show_mandate(&mandate))
        }
        Effect::Limits(limits) => format!("goes by limits {}", limits.version),
        Effect::Rebirth => "rebirth".to_owned(),
        Effect::Alarm(alarm) => format!("alarm {alarm:?}"),
    }
}

fn show_saying(frame: FromWorker) -> String {
    match frame.saying {
        Saying::Heartbeat(heartbeat) => {
            let set = heartbeat.set.map_or(String::new(), |set| format!(" v{}", set.version.get()));
            let drain = match heartbeat.wants_drain {
                Some(true) => " wants-drain",
                Some(false) => " no-drain",
                None => "",
            };
            let limits = match heartbeat.limits {
                1 => String::new(),
                version => format!(" limits {version}"),
            };
            let seen = match heartbeat.seen {
                Some((mandate, revision)) if mandate.epoch.get() > 1 => {
                    format!(" seen {}@{revision}", mandate.epoch)
                }
                Some(_) | None => String::new(),
            };
            let leaves = if heartbeat.is_leaving { " leaves" } else { "" };
            format!("beat {}{set}{drain}{leaves}{limits}{seen}", show_life(frame.incarnation))
        }
        Saying::Statuses(statuses) => list(statuses.iter().map(show_status)),
        Saying::Running(held) => format!("running [{}]", list(held.iter().map(show_held))),
        Saying::Answers(answers) => list(answers.iter().map(|(run, answer)| match answer {
            RunAnswer::Started => format!("{} started", show_run(*run)),
            RunAnswer::Refused(RunRefusal::KeyIsHere(other)) => {
                format!("{} refused {} is here", show_run(*run), show_run(*other))
            }
            RunAnswer::Refused(why) => format!("{} refused {why:?}", show_run(*run)),
        })),
        Saying::Noted(number) => format!("noted {number:?}"),
    }
}

fn show_status(status: &Status) -> String {
    let news = match status.news {
        News::Progress(_) => "progress",
        News::Ended(_) => "ended",
        News::WasNotRunning => "was-not-running",
    };
    format!("{} {news} #{}", show_run(status.run), status.number)
}

/// As `start` reads it, with the newest status.
fn show_held(held: &Held) -> String {
    let status = held.status.as_ref().map(|status| format!(" ({})", show_status(status)));
    let status = status.unwrap_or_default();
    let contract = match held.contract {
        Contract::Stop { after } => format!("stop:{}", after.as_millis() as f64 / 1e3),
        Contract::Replace { after } => format!("replace:{}", after.as_millis() as f64 / 1e3),
        Contract::Keep => "keep".to_owned(),
    };
    format!("{}/{}/{contract}{status}", show_run(held.run), show_key(&held.key))
}
