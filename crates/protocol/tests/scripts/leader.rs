//! The leader's side, played.

use std::collections::BTreeMap;

use sterna_model::{BootTime, Marks, Name, Nonce, NotifySequence, Revision, Span, Term};
use sterna_protocol::{
    consensus::{SetId, Version},
    health::Health,
    limits::{Book, Limits},
    message::{
        FromLeader, FromWorker, Heartbeat, HeartbeatAnswer, Held, Kill, Mandate, News, Order,
        Ordinal, RunAnswer, RunRefusal, Saying, Status, StatusAnswer, StreamId, VERSION,
    },
    roster::{Doors, Enrolled, Origin},
    scheduler::{Alarm, Begin, Bump, Claim, Dispatch, Effect, Fleet, Input, Report},
};

use crate::{Player, words::*};

#[derive(Default)]
pub(crate) struct Leader {
    fleet: Option<Fleet>,
    now: u64,
    /// What each life was told last, and echoes unless the script says otherwise.
    told: BTreeMap<String, SetId>,
    streams: BTreeMap<String, u64>,
    term: String,
}

impl Player for Leader {
    fn play(&mut self, at_ms: u64, words: &[&str]) -> Vec<String> {
        if words[0] == "begin" {
            self.now = at_ms;
            self.term = option(words, "term").unwrap_or("t1").to_owned();
            let fleet = begin(at_ms, words);
            let doors = show_doors(fleet.doors());
            self.fleet = Some(fleet);
            return vec![doors];
        }
        let mut shown = Vec::new();
        if words[0] == "meet" || words[0] == "beats" {
            return self.keep_up(at_ms, words);
        }
        // Whoever sleeps does not tick; inputs of the same moment come before the next tick.
        if words[0] != "sleep" {
            self.pass_time(at_ms, &mut shown);
        }
        self.now = at_ms;
        match words[0] {
            "sleep" => {}
            "redial" => *self.streams.entry(words[1].to_owned()).or_default() += 1,
            "doors" => {
                let doors = self.fleet().doors();
                shown.push(show_doors(doors));
            }
            "held" => {
                let held: Vec<_> =
                    self.fleet().held(lock(words[1])).map(|held| show_run(held.run)).collect();
                shown.push(format!("[{}]", list(held)));
            }
            "awaited" => {
                let awaited = self.fleet().awaited(at(at_ms));
                let show = |one: sterna_protocol::roster::Awaited| {
                    let until = one.until.map(|until| until.as_millis() as f64 / 1e3);
                    let until = until.map_or("back or dead".to_owned(), |until| until.to_string());
                    format!("{} until {until}", one.name)
                };
                shown.extend(awaited.into_iter().map(show));
            }
            "health" => {
                let worker = life(words[1]);
                let health = self.fleet().health(worker);
                shown.push(health.map_or("unknown".to_owned(), show_health));
            }
            _ => {
                let input = self.input(words);
                self.step(input, &mut shown);
            }
        }
        shown
    }
}

impl Leader {
    fn fleet(&mut self) -> &mut Fleet {
        self.fleet.as_mut().expect("a script begins with `begin`")
    }

    /// `5 beats w1.1 w2.1`: these send heartbeats until then, and confirmations are not shown. Other
    /// words hold for every heartbeat.
    /// `5 meet w1.1 w2.1`: the same of workers that run nothing and come now; nothing is shown but
    /// how they are judged in the end.
    fn keep_up(&mut self, until: u64, words: &[&str]) -> Vec<String> {
        let workers: Vec<&str> = words[1..].iter().copied().filter(|w| w.contains('.')).collect();
        let rest = words[1..].iter().copied().filter(|word| !word.contains('.'));
        let is_met = words[0] == "meet";
        let mut shown = Vec::new();
        if is_met {
            for worker in &workers {
                for word in ["beat", "enrolled", "running"] {
                    let input = self.input(&[word, worker]);
                    self.step(input, &mut Vec::new());
                }
            }
        }
        let every = if is_met { 500 } else { 1_000 };
        while self.now < until {
            let next = (self.now + every).min(until);
            self.pass_time(next, &mut shown);
            self.now = next;
            for worker in &workers {
                let mut seen = Vec::new();
                let line: Vec<&str> = ["beat", worker].into_iter().chain(rest.clone()).collect();
                let input = self.input(&line);
                self.step(input, &mut seen);
                let now = self.now as f64 / 1e3;
                let others = seen.into_iter().filter(|effect| !effect.contains(": confirm"));
                shown.extend(others.map(|effect| format!("@{now} {effect}")));
            }
        }
        if is_met {
            let health = |worker: &&str| self.fleet.as_ref()?.health(life(worker));
            let health = workers.iter().map(|w| health(w).map_or("unknown".into(), show_health));
            shown = health.collect();
        }
        shown
    }

    fn pass_time(&mut self, until: u64, shown: &mut Vec<String>) {
        while self.fleet().deadline() <= at(until) && self.now < until {
            self.now = self.fleet().deadline().as_millis().max(self.now);
            let mut seen = Vec::new();
            self.step(Input::Tick, &mut seen);
            let now = self.now as f64 / 1e3;
            shown.extend(seen.into_iter().map(|effect| format!("@{now} {effect}")));
            if self.now >= until {
                break;
            }
        }
    }

    fn step(&mut self, input: Input, shown: &mut Vec<String>) {
        let now = at(self.now);
        let mut effects = Vec::new();
        self.fleet().step(now, input, &mut effects);
        for effect in effects {
            if let Effect::Send(_, frame) = &effect
                && let Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmation)) = &frame.order
                && let Some(set) = confirmation.set
            {
                self.told.insert(show_life(frame.incarnation), set);
            }
            shown.push(show(self.now, effect));
        }
    }

    /// The newest stream of a machine, or the one that the script names: `on 0` is the first.
    fn stream(&self, worker: &str, words: &[&str]) -> StreamId {
        let machine = worker.split('.').next().unwrap();
        let newest = self.streams.get(machine).copied().unwrap_or(0);
        let count = option(words, "on").map_or(newest, |word| word.parse().unwrap());
        StreamId::new(u64::from(number(machine, "w")) * 100 + count)
    }

    fn says(&self, worker: &str, words: &[&str], saying: Saying) -> Input {
        let version = option(words, "version").map_or(VERSION, |word| word.parse().unwrap());
        let mandate = Some(mandate(option(words, "to").unwrap_or(&self.term)));
        let frame = FromWorker { version, incarnation: life(worker), mandate, saying };
        Input::Frame(self.stream(worker, words), frame)
    }

    fn input(&mut self, words: &[&str]) -> Input {
        let held = |word: &&str| {
            let parts: Vec<&str> = word.splitn(3, '/').collect();
            let (contract, ended) = match parts[2].strip_suffix("/ended") {
                Some(contract) => (contract, true),
                None => (parts[2], false),
            };
            let run = run(parts[0]);
            let status = ended.then(|| Status { number: 1, run, news: News::Ended(nothing()) });
            Held { run, key: key(parts[1]), task: None, contract: contract_of(contract), status }
        };
        match words[0] {
            "tick" => Input::Tick,
            "beat" => self.beat(words),
            "reconnect" => {
                let old = self.stream(words[1], words);
                *self.streams.entry(words[1].to_owned()).or_default() += 1;
                Input::Closed(old)
            }
            "closed" => Input::Closed(self.stream(words[1], words)),
            "lease" => Input::Lease(BootTime::from_millis(seconds(words[1]).as_millis())),
            "enrolled" => Input::Enrolled(life(words[1])),
            "struck" => Input::Struck(life(words[1])),
            "dead" => Input::DeclaredDead(lock(words[1])),
            "drain" => Input::Draining(lock(words[1]), true),
            "undrain" => Input::Draining(lock(words[1]), false),
            "revision" => Input::Revision(Revision::new(words[1].parse().unwrap())),
            "limits" => {
                let limits = *self.fleet().limits();
                Input::Limits(Limits { version: words[1].parse().unwrap(), ..of(words, limits) })
            }
            "complete" => Input::RosterIsComplete,
            "running" => {
                let listed = words[2..].iter().filter(|word| word.starts_with('r'));
                let listed = listed.map(held).collect();
                self.says(words[1], words, Saying::Running(listed))
            }
            "answer" => {
                let answer = match words[3] {
                    "started" => RunAnswer::Started,
                    "refused" => RunAnswer::Refused(RunRefusal::NotHealthy),
                    "drains" => RunAnswer::Refused(RunRefusal::Draining),
                    other => panic!("started, refused or drains, not {other}"),
                };
                self.says(words[1], words, Saying::Answers(vec![(run(words[2]), answer)]))
            }
            "noted" => {
                let number = NotifySequence::new(words[2].parse().unwrap());
                self.says(words[1], words, Saying::Noted(number))
            }
            "status" => {
                let news = match words[4] {
                    "ended" => News::Ended(nothing()),
                    "progress" => News::Progress(nothing()),
                    "was-not-running" => News::WasNotRunning,
                    other => panic!("ended, progress or was-not-running, not {other}"),
                };
                let status = Status { number: words[3].parse().unwrap(), run: run(words[2]), news };
                self.says(words[1], words, Saying::Statuses(vec![status]))
            }
            "send" => Input::Dispatch(vec![Dispatch {
                to: life(words[1]),
                run: run(words[2]),
                key: key(words[3]),
                task: None,
                contract: contract(words[4]),
                ordinal: Ordinal::default(),
                work: nothing(),
            }]),
            "kill" => {
                let how = if words.contains(&"gracefully") { Kill::Gracefully } else { Kill::Now };
                Input::Kill(run(words[1]), how)
            }
            "recorded" => {
                let answer = match words.get(4) {
                    None => StatusAnswer::Recorded,
                    Some(&"ignored") => StatusAnswer::Ignored,
                    Some(&"retry") => StatusAnswer::Retry,
                    Some(other) => panic!("ignored or retry, not {other}"),
                };
                Input::Recorded(life(words[1]), run(words[2]), words[3].parse().unwrap(), answer)
            }
            other => panic!("no input is called {other}"),
        }
    }

    fn beat(&self, words: &[&str]) -> Input {
        let worker = words[1];
        let machine = worker.split('.').next().unwrap();
        let set = match option(words, "echo") {
            None => self.told.get(worker).copied(),
            Some("none") => None,
            Some(life) => self.told.get(life).copied(),
        };
        let checked = match option(words, "checked") {
            None => Some(Span::ZERO),
            Some("none") => None,
            Some(age) => Some(seconds(age)),
        };
        let seen = option(words, "seen").map(|word| {
            let (term, revision) = word.split_once('@').unwrap_or((word, "0"));
            (mandate(term), Revision::new(revision.parse().unwrap()))
        });
        let heartbeat = Heartbeat {
            name: Name::new(option(words, "as").unwrap_or(machine)).unwrap(),
            stamp: option(words, "stamp")
                .map_or(at(self.now), |word| at(seconds(word).as_millis())),
            checked,
            boot: option(words, "boot").map_or(1, |word| word.parse().unwrap()),
            birth: option(words, "born").map_or(1, |word| word.parse().unwrap()),
            seen,
            limits: option(words, "limits").map_or(1, |word| word.parse().unwrap()),
            set,
            wants_drain: match (words.contains(&"wants-drain"), words.contains(&"no-drain")) {
                (true, true | false) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            is_leaving: words.contains(&"leaves"),
            facts: option(words, "facts").unwrap_or_default().as_bytes().into(),
        };
        self.says(worker, words, Saying::Heartbeat(heartbeat))
    }
}

fn contract_of(word: &str) -> sterna_model::Contract {
    contract(word)
}

/// The limits, with what a line says of them: `[lose S] [batch S] [any S] [kept-batches] [claims-kept]
/// [none-kept]`.
fn of(words: &[&str], usual: Limits) -> Limits {
    Limits {
        lose_after: option(words, "lose").map_or(usual.lose_after, seconds),
        batch_stop_after_max: option(words, "batch").map_or(usual.batch_stop_after_max, seconds),
        stop_after_max: option(words, "any").map_or(usual.stop_after_max, seconds),
        has_kept_batches: usual.has_kept_batches || words.contains(&"kept-batches"),
        has_kept_claims: (usual.has_kept_claims || words.contains(&"claims-kept"))
            && !words.contains(&"none-kept"),
        ..usual
    }
}

/// `120/600`, `120/600/kept` or `120/600/kept/claims-kept`: of batches and of any run.
fn marks(word: &str) -> Marks {
    let parts: Vec<&str> = word.split('/').collect();
    let (batch_stop_after_max, stop_after_max) = (seconds(parts[0]), seconds(parts[1]));
    let (has_kept_batches, has_kept_claims) =
        (parts.contains(&"kept"), parts.contains(&"claims-kept"));
    Marks { batch_stop_after_max, stop_after_max, has_kept_batches, has_kept_claims }
}

/// `begin ORIGIN [term t1] [elected S] [lease S] [bump] [LIMITS] [seen MARKS] [roster w1.1[=NAME]]...
/// [dead w1.1]... [claim r1/k1/w1.1/stop:600]...`; says what is open from the first moment.
fn begin(now: u64, words: &[&str]) -> Fleet {
    let origin = match words[1] {
        "virgin" => Origin::Virgin,
        "continued" => Origin::Continued,
        "recovered" => Origin::Recovered,
        other => panic!("virgin, continued or recovered, not {other}"),
    };
    // In most scripts something is kept sooner or later: that it may be was committed long ago.
    let limits = of(words, Limits { has_kept_claims: true, ..Limits::default() });
    let after = |word: &'static str| {
        words.iter().zip(&words[1..]).filter(move |(a, _)| **a == word).map(|(_, b)| *b)
    };
    let enrolled = |word: &str, is_declared_dead| {
        let (who, name) = word.split_once('=').unwrap_or((word, ""));
        let name = if name.is_empty() { who.split('.').next().unwrap() } else { name };
        let (incarnation, name) = (life(who), Name::new(name).unwrap());
        Enrolled {
            incarnation,
            name,
            boot: 1,
            birth: 1,
            is_declared_dead,
            is_draining: false,
            is_forgotten: false,
            zone: sterna_protocol::roster::Zone::Unsaid,
        }
    };
    let roster = after("roster").map(|word| enrolled(word, false));
    let roster = roster.chain(after("dead").map(|word| enrolled(word, true)));
    let claims = after("claim").map(|word| {
        let parts: Vec<&str> = word.split('/').collect();
        Claim {
            holder: life(parts[2]),
            run: run(parts[0]),
            key: key(parts[1]),
            task: None,
            contract: contract(parts[3]),
        }
    });
    let lease = option(words, "lease").map_or(Span::from_secs(1_000_000), seconds);
    Fleet::new(
        at(now),
        Begin {
            mandate: mandate(option(words, "term").unwrap_or("t1")),
            elected: option(words, "elected").map_or(at(now), |word| at(seconds(word).as_millis())),
            lease_until: at(lease.as_millis()),
            revision: Revision::new(100),
            reigns: reigns(words),
            marks: option(words, "seen").map_or(Marks::NONE, marks),
            book: Book::new(limits, Vec::new()).unwrap(),
            roster: roster.collect(),
            claims: claims.collect(),
            origin,
            bump: if words.contains(&"bump") { Bump::Allowed } else { Bump::Forbidden },
            roster_max: option(words, "most").map_or(usize::MAX, |most| most.parse().unwrap()),
        },
    )
}

/// The reigns that the store knows of, each with the revision at which it began: `reign t1@1`.
fn reigns(words: &[&str]) -> BTreeMap<Term, (Nonce, Revision)> {
    let named = words.iter().zip(&words[1..]).filter(|(word, _)| **word == "reign");
    let one = |(_, reign): (&&str, &&str)| {
        let (term, began) = reign.split_once('@').unwrap();
        let Mandate { term, nonce, .. } = mandate(term);
        (term, (nonce, Revision::new(began.parse().unwrap())))
    };
    named.map(one).collect()
}

fn show_health(health: Health) -> String {
    format!("{health:?}")
}

fn show_doors(doors: Doors) -> String {
    let doors = [
        (doors.unclaimed && doors.unclaimed_kept, "unclaimed"),
        (doors.unclaimed && !doors.unclaimed_kept, "unclaimed-but-kept"),
        (doors.stop_batches, "stop-batches"),
        (doors.keep_batches, "keep-batches"),
    ];
    let open = doors.into_iter().filter(|(open, _)| *open);
    format!("open {}", list(open.map(|(_, door)| door.to_owned())))
}

fn show(now: u64, effect: Effect) -> String {
    match effect {
        Effect::Facts(life, ..) => format!("facts of {}", show_life(life)),
        Effect::Send(_, frame) => show_order(now, frame),
        Effect::Close(stream) => format!("close {stream:?}"),
        Effect::Enroll(entry) => {
            let dead = if entry.is_declared_dead { " dead" } else { "" };
            let draining = if entry.is_draining { " draining" } else { "" };
            format!("enroll {}{dead}{draining}", show_life(entry.incarnation))
        }
        Effect::Revive(life) => format!("revive {}", show_life(life)),
        Effect::Strike(life) => format!("strike {}", show_life(life)),
        Effect::Settled(run, how) => format!("{} {how:?}", show_run(run)),
        Effect::Found(from, held) => {
            format!("found {} on {}", show_run(held.run), show_life(from))
        }
        Effect::Reported(Report { from, run, number, news, is_awaited }) => {
            let late = if is_awaited { "" } else { "late " };
            let news = match news {
                News::Progress(_) => "progress",
                News::Ended(_) => "ended",
                News::WasNotRunning => "was-not-running",
            };
            format!("{late}report {} {news} #{number} of {}", show_run(run), show_life(from))
        }
        Effect::Silent(run) => format!("silent {}", show_run(run)),
        Effect::Heard(worker) => format!("{} is heard", show_life(worker)),
        Effect::Health(worker, health) => format!("{} is {health:?}", show_life(worker)),
        Effect::WantsDrain(lock, true) => format!("{} wants to drain", show_lock(lock)),
        Effect::WantsDrain(lock, false) => format!("{} wants no drain", show_lock(lock)),
        Effect::Opened(doors) => show_doors(doors),
        Effect::Raise(limits) => {
            let kept = if limits.has_kept_batches { " kept-batches" } else { "" };
            let seconds = |span: Span| span.as_millis() as f64 / 1e3;
            let batch = seconds(limits.batch_stop_after_max);
            let any = seconds(limits.stop_after_max);
            let claims = if limits.has_kept_claims { " claims-kept" } else { "" };
            format!("raise limits {} batch {batch} any {any}{kept}{claims}", limits.version)
        }
        Effect::Alarm(who, alarm) => {
            let alarm = match alarm {
                Alarm::NameTaken(name) => format!("name {name} is taken"),
                Alarm::RosterFull(most) => format!("is one more than the {most} that may be"),
                Alarm::Foreign(_) => "of another cluster".to_owned(),
                Alarm::WentBack(newest) => format!("went back from life {newest}"),
                Alarm::RunIsElsewhere(run, lock) => {
                    format!("has {}, as {} may", show_run(run), show_lock(lock))
                }
            };
            format!("alarm: {} {alarm}", show_life(who))
        }
        Effect::Healed => "healed".to_owned(),
        Effect::Retired(version) => format!("retired before {version}"),
        Effect::StoreLags(seen, revision) => format!("store lags {seen:?} {revision}"),
    }
}

fn show_order(now: u64, frame: FromLeader) -> String {
    let to = show_life(frame.incarnation);
    let shown = match frame.order {
        Order::Heartbeat(HeartbeatAnswer::Welcome) => "welcome".to_owned(),
        Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmation)) => {
            let version = confirmation.set.map_or(Version::ZERO, |set| set.version);
            let drain = if confirmation.is_draining { " draining" } else { "" };
            let stamp = confirmation.stamp.as_millis();
            let stamp =
                if stamp == now { String::new() } else { format!(" stamp {}", stamp as f64 / 1e3) };
            format!("confirm {:?} v{}{drain}{stamp}", confirmation.verdict, version.get())
        }
        Order::Heartbeat(HeartbeatAnswer::Refused(refusal)) => format!("refuse {refusal:?}"),
        Order::Statuses(_, answers) => list(
            answers
                .iter()
                .map(|(run, number, answer)| format!("{answer:?} {} #{number}", show_run(*run))),
        ),
        Order::GetRunning => "get_running".to_owned(),
        Order::Run(runs) => {
            list(runs.iter().map(|run| {
                format!("run {} {:?} {:?}", show_run(run.run), run.sequence, run.notify)
            }))
        }
        Order::NotifyIfNotRunning(number, runs) => {
            format!("notify {number:?} {}", list(runs.iter().map(|run| show_run(*run))))
        }
        Order::Kill(run, kill) => format!("kill {} {kill:?}", show_run(run)),
        Order::Die => "die".to_owned(),
    };
    format!("{to}: {shown}")
}
