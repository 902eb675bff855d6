//! `sterna bench converge`: the leader's control core with a large fleet, in virtual time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Context;
use serde_json::Value;
use sterna_engine::auction::Rules;
use sterna_engine::control::{
    Begin, Call, CallId, Control, Effect, Fate, Forecast, Input, Now, Stage,
};
use sterna_model::{
    BootTime, Bytes, Constraints, Contract, Countables, Demand, DirectoryId, Epoch, Incarnation,
    Lock, MachineId, Millicores, Name, Namespace, RunId, ServiceKey, Span, WallTime, Wants,
    record::CrashPolicy,
    spec::{DEFAULT_DOMAIN, ServiceSpec, UpdatePolicy},
};
use sterna_protocol::{
    health::Health,
    message::{News, Payload},
    roster::Doors,
    scheduler::{self, Claim, GoneBy, Reach, Report as Status, Settlement},
};

use super::{
    check::{Bound, Check, judge},
    report::{Report, quantile, rounded},
};
use crate::{clock, out};

/// Measure what a leader decides with, at the size of a large fleet
///
/// 10,000 workers with 250,000 instances of 1,000 services, on one core and in virtual time: how long
/// a step takes after one event (a crash, and that the next copy runs), how long a sweep over
/// everything, which must find nothing, and its longest slice, how long it takes to say what a drain
/// would do, how many bytes an instance takes, how long the longest step takes of an update of
/// 10,000 instances to a version that nobody has room for and that is to have as many more, and how long it takes
/// until the 25,000 instances of 1,000 workers that are lost at once have their next workers. Beside it:
/// reading and writing the same number of keys in an ordered map.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many workers there are; each has 25 instances
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    workers: u32,
    #[command(flatten)]
    check: Check,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What it may take at most, with 10,000 workers.
const LIMITS: [Bound; 8] = [
    ("step_us_p99", 20.0),
    ("sweep_s", 1.0),
    ("sweep_slice_ms", 10.0),
    ("forecast_ms", 5.0),
    ("why_ms", 5.0),
    ("lost_s", 1.0),
    ("update_ms", 250.0),
    ("bytes_per_instance", 600.0),
];

/// Instances on each worker.
const EACH: u32 = 25;
/// Instances of each service.
const INSTANCES: u32 = 250;
/// Drains that are forecast.
const FORECASTS: usize = 200;
/// How often it is told why something waits.
const EXPLAINED: usize = 200;
/// Events whose steps are measured.
const EVENTS: usize = 20_000;

const RUNNING: &[u8] = br#"{"state":"running","is_ready":true}"#;
const STOPPED: &[u8] = br#"{"cause":"request"}"#;
const CRASHED: &[u8] = br#"{"cause":"exited","exit":{"code":1}}"#;
const FACTS: &[u8] = br#"{"cpu_millicores":64000,"memory_bytes":68719476736,
    "disk_bytes":1099511627776,"containers":250,"zone":"z"}"#;

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let bounds = args.check.bounds(&LIMITS)?;
    let report = measure(args.workers)?;
    let text = if args.json { report.json("converge").to_string() } else { table(&report) };
    out::answer(&text)?;
    judge(&report, &bounds)
}

fn measure(workers: u32) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let progress = out::Progress::new();
    progress.say("the fleet");
    let mut fleet = Fleet::new(workers)?;
    let services = workers * EACH / INSTANCES;
    let instances = services * INSTANCES;
    let before = resident_bytes()?;
    fleet.fill(services)?;
    let placed = fleet.control.claims().count();
    anyhow::ensure!(placed == instances as usize, "only {placed} instances were placed");
    let bytes = (resident_bytes()? - before) / f64::from(instances);
    report.figures.insert("bytes_per_instance".to_owned(), rounded(bytes));
    progress.say("events");
    let mut steps = fleet.crash_some(EVENTS);
    let each = floor_us(instances);
    report.floor.insert("map_us".to_owned(), rounded(each));
    let p99 = quantile(&mut steps, 0.99);
    report.figures.insert("step_us_p50".to_owned(), rounded(quantile(&mut steps, 0.5)));
    report.figures.insert("step_us_p99".to_owned(), rounded(p99));
    report.ratios.insert("step_p99_over_map".to_owned(), rounded(p99 / each));
    progress.say("a sweep");
    let (whole, longest) = fleet.sweep()?;
    report.figures.insert("sweep_s".to_owned(), rounded(whole));
    report.figures.insert("sweep_slice_ms".to_owned(), rounded(longest * 1e3));
    progress.say("forecasts");
    let mut forecasts = fleet.forecast_some(FORECASTS)?;
    let forecast_ms = quantile(&mut forecasts, 0.99);
    report.figures.insert("forecast_ms".to_owned(), rounded(forecast_ms));
    progress.say("lost workers");
    let lost = workers / 10;
    let seconds = fleet.lose(lost)?;
    report.figures.insert("lost_s".to_owned(), rounded(seconds.as_secs_f64()));
    progress.say("an update");
    report.figures.insert("update_ms".to_owned(), rounded(fleet.update_nowhere()? / 1e3));
    // Last: what it drains away stays where it was, for nobody here ends it.
    progress.say("reasons");
    let mut reasons = fleet.explain_some(EXPLAINED)?;
    report.figures.insert("why_ms".to_owned(), rounded(quantile(&mut reasons, 0.99)));
    Ok(report)
}

/// The control core, and workers that do everything at once.
struct Fleet {
    control: Control,
    now: Now,
    lives: Vec<Incarnation>,
    numbers: u64,
    effects: Vec<Effect>,
}

impl Fleet {
    fn new(workers: u32) -> anyhow::Result<Self> {
        let now = Now { boot: BootTime::from_millis(1_000_000), wall: WallTime::EPOCH };
        let begin = Begin {
            epoch: Epoch::new(1),
            stage: Stage::Used,
            records: Vec::new(),
            seed: [1; 16],
            rules: Rules::default(),
        };
        let control = Control::new(now, begin);
        let (lives, effects) = (Vec::new(), Vec::new());
        let mut fleet = Self { control, now, lives, numbers: 0, effects };
        fleet.hear(scheduler::Effect::Opened(Doors::OPEN));
        for number in 0..workers {
            let directory = directory(number);
            let machine = MachineId::from_bytes(*directory.as_bytes())?;
            let life = Incarnation { lock: Lock { directory, machine }, life: 1 };
            let name = Name::new(&format!("w{number}"))?;
            fleet.lives.push(life);
            fleet.hear(scheduler::Effect::Facts(life, name, Payload::from(FACTS)));
            fleet.hear(scheduler::Effect::Health(life, Health::Healthy));
            fleet.step(Input::Takes(life, true));
        }
        Ok(fleet)
    }

    /// A service each of whose instances takes so much memory.
    fn spec(memory: Bytes) -> anyhow::Result<ServiceSpec> {
        let demand =
            Demand::new(Millicores::new(100), memory, Bytes::new(1 << 20), Countables::default());
        Ok(ServiceSpec {
            instances: INSTANCES,
            wants: Arc::new(Wants { demand, constraints: Constraints::default() }),
            contract: Contract::Replace { after: Span::from_secs(15) },
            work: Arc::from(*b"{}"),
            crash: CrashPolicy { wait_from: u32::MAX, ..CrashPolicy::default() },
            update: UpdatePolicy::default(),
            domain: Name::new(DEFAULT_DOMAIN)?,
            notes: "".into(),
        })
    }

    fn fill(&mut self, services: u32) -> anyhow::Result<()> {
        let spec = Self::spec(Bytes::new(128 << 20))?;
        for number in 0..services {
            let name = Name::new(&format!("service-{number}"))?;
            let key = ServiceKey { namespace: Namespace::default(), name };
            let call = Call::PutService(key, spec.clone());
            self.step(Input::Call(CallId(u64::from(number)), call));
            self.settle();
        }
        Ok(())
    }

    /// Ends that many runs, one after the other, and gives how long each step took, in µs.
    fn crash_some(&mut self, events: usize) -> Vec<f64> {
        let mut steps = Vec::with_capacity(events * 2);
        let runs: Vec<_> = self.runs().collect();
        let stride = (runs.len() / events).max(1);
        let crashing: Vec<_> = runs.into_iter().step_by(stride).take(events).collect();
        for (run, lock) in crashing {
            let input = self.status(run, lock, News::Ended(Payload::from(CRASHED)));
            steps.push(self.timed(input));
            self.timed_settle(&mut steps);
        }
        steps
    }

    /// Looks at everything, in the slices of a leader: how long that takes, and its longest slice, in
    /// seconds.
    fn sweep(&mut self) -> anyhow::Result<(f64, f64)> {
        let (mut whole, mut longest, mut is_over) = (0.0, 0.0_f64, false);
        let mut found = Vec::new();
        while !is_over {
            let begun = clock::instant();
            is_over = self.control.sweep_slice(self.now, Control::SLICE, &mut found);
            let seconds = begun.elapsed().as_secs_f64();
            whole += seconds;
            longest = longest.max(seconds);
        }
        anyhow::ensure!(found.is_empty(), "a sweep found {found:?}");
        Ok((whole, longest))
    }

    /// What the drains of so many workers would do, each found by its name, and how long a leader takes
    /// for that, in ms.
    fn forecast_some(&mut self, drains: usize) -> anyhow::Result<Vec<f64>> {
        let mut taken = Vec::with_capacity(drains);
        let stride = (self.lives.len() / drains).max(1);
        for number in (0..self.lives.len()).step_by(stride).take(drains) {
            let wanted = Name::new(&format!("w{number}"))?;
            let begun = clock::instant();
            let found = self.control.workers_where(|_, name| *name == wanted);
            let lock = found.first().map(|seen| seen.life.lock).context("a worker is gone")?;
            let deadline = self.now.wall.plus(Span::from_secs(3_600));
            let forecast = self.control.forecast(self.now, lock, deadline);
            taken.push(begun.elapsed().as_secs_f64() * 1e3);
            let moves = |one: &&Forecast| matches!(one.fate, Fate::Moves { .. });
            let moving = forecast.iter().filter(moves).count();
            anyhow::ensure!(moving > 0 && moving == forecast.len(), "{forecast:?}");
        }
        Ok(taken)
    }

    /// Why something waits that has room nowhere, while every tenth worker is drained: how long a leader
    /// takes to say so, in ms.
    fn explain_some(&mut self, times: usize) -> anyhow::Result<Vec<f64>> {
        let spec = ServiceSpec { instances: 1, ..Self::spec(Bytes::new(64 << 30))? };
        let key = ServiceKey { namespace: Namespace::default(), name: Name::new("boulder")? };
        let drained: Vec<_> = self.lives.iter().step_by(10).map(|life| life.lock).collect();
        let deadline = self.now.wall.plus(Span::from_secs(3_600));
        for lock in &drained {
            self.step(Input::Call(CallId(0), Call::Drain(*lock, deadline)));
            self.settle();
        }
        self.step(Input::Call(CallId(0), Call::PutService(key.clone(), spec)));
        self.settle();
        let mut taken = Vec::with_capacity(times);
        for _ in 0..times {
            let begun = clock::instant();
            let why = self.control.why(self.now, &key.instance(0).to_work(), |_| Reach::Near);
            taken.push(begun.elapsed().as_secs_f64() * 1e3);
            anyhow::ensure!(why.is_some(), "it has room");
        }
        Ok(taken)
    }

    /// As many instances as there are workers get a version that nobody has room for, with as many more:
    /// the longest step of that, of a few crashes meanwhile, and of its end, in µs.
    fn update_nowhere(&mut self) -> anyhow::Result<f64> {
        let key = ServiceKey { namespace: Namespace::default(), name: Name::new("avalanche")? };
        let instances = u32::try_from(self.lives.len())?;
        let update = UpdatePolicy { healthy_for: Span::ZERO, ..UpdatePolicy::default() };
        let spec = ServiceSpec { instances, update, ..Self::spec(Bytes::new(1 << 20))? };
        self.step(Input::Call(CallId(0), Call::PutService(key.clone(), spec.clone())));
        self.settle();
        let wants = Self::spec(Bytes::new(1 << 40))?.wants;
        let next = ServiceSpec { instances: 2 * instances, wants, ..spec };
        let mut steps = Vec::new();
        steps.push(self.timed(Input::Call(CallId(0), Call::PutService(key.clone(), next))));
        self.timed_settle(&mut steps);
        let runs: Vec<_> = self.runs_of(&key).collect();
        anyhow::ensure!(runs.len() == instances as usize, "{} are there", runs.len());
        let (crashing, rest) = runs.split_at(100);
        for (run, lock) in crashing {
            let input = self.status(*run, *lock, News::Ended(Payload::from(CRASHED)));
            steps.push(self.timed(input));
            self.timed_settle(&mut steps);
        }
        steps.push(self.timed(Input::Call(CallId(0), Call::DeleteService(key.clone()))));
        self.timed_settle(&mut steps);
        for (run, lock) in rest {
            let input = self.status(*run, *lock, News::Ended(Payload::from(STOPPED)));
            steps.push(self.timed(input));
        }
        self.timed_settle(&mut steps);
        anyhow::ensure!(self.runs_of(&key).next().is_none(), "it is deleted, and not gone");
        Ok(steps.into_iter().fold(0.0, f64::max))
    }

    /// The runs of one service, in the order of their indices, and where they are.
    fn runs_of(&self, service: &ServiceKey) -> impl Iterator<Item = (RunId, Lock)> {
        let is_its =
            |claim: &Claim| claim.key.instance().is_some_and(|key| key.service == *service);
        let claims = self.control.claims().filter(is_its);
        claims.map(|claim| (claim.run, claim.holder.lock))
    }

    /// Every run, and where it is.
    fn runs(&self) -> impl Iterator<Item = (RunId, Lock)> {
        self.control.claims().map(|claim| (claim.run, claim.holder.lock))
    }

    fn timed(&mut self, input: Input) -> f64 {
        let begun = clock::instant();
        self.control.step(self.now, input, &mut self.effects);
        begun.elapsed().as_secs_f64() * 1e6
    }

    /// Workers are lost, and their instances get others: how long that takes to decide.
    fn lose(&mut self, workers: u32) -> anyhow::Result<Duration> {
        let lost: Vec<_> = self.lives.iter().take(workers as usize).copied().collect();
        let expected = self.control.claims().count();
        let mut by_lock: BTreeMap<Lock, Vec<RunId>> = BTreeMap::new();
        for (run, lock) in self.runs() {
            by_lock.entry(lock).or_default().push(run);
        }
        let begun = clock::instant();
        for life in &lost {
            self.hear(scheduler::Effect::Health(*life, Health::MustDie));
            for run in by_lock.remove(&life.lock).unwrap_or_default() {
                self.hear(scheduler::Effect::Settled(run, Settlement::Gone(GoneBy::Deadline)));
            }
        }
        self.settle();
        let seconds = begun.elapsed();
        let placed = self.control.claims().count();
        anyhow::ensure!(placed == expected, "only {placed} of {expected} instances have a worker");
        Ok(seconds)
    }

    fn hear(&mut self, news: scheduler::Effect) {
        self.step(Input::Fleet(news));
    }

    fn step(&mut self, input: Input) {
        self.control.step(self.now, input, &mut self.effects);
    }

    fn status(&mut self, run: RunId, lock: Lock, news: News) -> Input {
        self.numbers += 1;
        let (from, number) = (Incarnation { lock, life: 1 }, self.numbers);
        let report = Status { from, run, number, news, is_awaited: true };
        Input::Fleet(scheduler::Effect::Reported(report))
    }

    /// Commits everything, and lets the workers start what they are sent.
    fn settle(&mut self) {
        self.timed_settle(&mut Vec::new());
    }

    fn timed_settle(&mut self, steps: &mut Vec<f64>) {
        loop {
            let started = self.take_started();
            for (run, lock) in &started {
                let input = self.status(*run, *lock, News::Progress(Payload::from(RUNNING)));
                steps.push(self.timed(input));
            }
            match self.control.commit() {
                Some((batch, _)) => self.step(Input::Committed(batch)),
                None if started.is_empty() && self.effects.is_empty() => return,
                None => {}
            }
        }
    }

    fn take_started(&mut self) -> Vec<(RunId, Lock)> {
        let mut started = Vec::new();
        for effect in std::mem::take(&mut self.effects) {
            if let Effect::Fleet(input) = effect
                && let scheduler::Input::Dispatch(all) = *input
            {
                for dispatch in all {
                    started.push((dispatch.run, dispatch.to.lock));
                }
            }
        }
        started
    }
}

/// The data directory of a worker. The version and the variant of an id are written over the first bytes
/// that are given, so the number stands behind them.
fn directory(number: u32) -> DirectoryId {
    let mut random = [0; 10];
    for (place, byte) in random.iter_mut().rev().zip(number.to_le_bytes()) {
        *place = byte;
    }
    DirectoryId::from_parts(WallTime::EPOCH, random)
}

/// What this process has in memory.
fn resident_bytes() -> anyhow::Result<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("reading /proc/self/statm")?;
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    Ok(pages.context("/proc/self/statm has no resident pages")? * 4096.0)
}

/// Reads and writes of an ordered map of so many keys: what one costs, in µs.
fn floor_us(keys: u32) -> f64 {
    let name = |number: u32| format!("default/service/service-{}/{}", number % 1_000, number);
    let mut map: BTreeMap<String, u64> = (0..keys).map(|number| (name(number), 0)).collect();
    let asked: Vec<_> =
        (0..20_000_u32).map(|number| name(number.wrapping_mul(7_919) % keys)).collect();
    let begun = clock::instant();
    for key in &asked {
        if let Some(value) = map.get_mut(key) {
            *value += 1;
        }
    }
    begun.elapsed().as_secs_f64() * 1e6 / asked.len() as f64
}

fn table(report: &Report) -> String {
    let figure = |key: &str| report.figures.get(key).map_or_else(String::new, Value::to_string);
    format!(
        "one event       p50 {} µs, p99 {} µs\na sweep         {} s, at most {} ms at once\n\
         an update       {} ms at most at once, with nowhere to go\n\
         a forecast      {} ms\na reason        {} ms\nlost workers    {} s until all their instances have others\n\
         an instance     {} bytes\n",
        figure("step_us_p50"),
        figure("step_us_p99"),
        figure("sweep_s"),
        figure("sweep_slice_ms"),
        figure("update_ms"),
        figure("forecast_ms"),
        figure("why_ms"),
        figure("lost_s"),
        figure("bytes_per_instance"),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::directory;

    #[test]
    fn no_two_workers_of_a_fleet_are_one_machine() {
        let all: BTreeSet<_> = (0..100_000).map(directory).collect();
        assert_eq!(all.len(), 100_000);
    }
}
