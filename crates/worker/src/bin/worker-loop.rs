//! A worker without a link, for tests: takes orders as lines of JSON and answers in the same form.
//!
//! `worker-loop DIRECTORY [ISOLATION [without-runtime | rare-looks | PORT]]` says `{"ready": …}` first.

use std::{
    io::{self, BufRead, Write},
    path::PathBuf,
    process::ExitCode,
    sync::mpsc,
};

use serde::Deserialize;
use serde_json::{Value, json};
use sterna_executor::container::{Cause, How};
use sterna_model::{
    BootTime, RunId, Span, WallTime,
    payload::{Signal, To, Work},
};
use sterna_worker::{
    Containers, Directory, Isolation,
    containers::{Event, Options},
    guardian,
    interrupts::{Interrupt, Interrupts},
    logs::{Direction, Entry, From, Limits, Logs, Of, Reader, Request},
    machine::{Files, Given, Machine},
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What it is told.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Start {
        run: RunId,
        work: Box<Work>,
    },
    Stop {
        run: RunId,
        grace: Option<Span>,
    },
    Kill {
        run: RunId,
    },
    Signal {
        run: RunId,
        signal: Signal,
        to: To,
    },
    Acknowledge {
        run: RunId,
    },
    Confirm,
    KillWait {
        span: Span,
    },
    Freeze {
        is_frozen: bool,
    },
    Ping {
        number: u64,
    },
    Reborn,
    /// Say the last lines of a run.
    Tail {
        run: RunId,
        lines: usize,
    },
    /// Acknowledge every end at once from now on.
    AcknowledgeAll,
}

enum Happening {
    Event(Event),
    Order(Order),
    Interrupt(Interrupt),
}

fn main() -> ExitCode {
    if guardian::is_called() {
        return guardian::run();
    }
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&json!({ "error": error.to_string() }));
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let path = PathBuf::from(arguments.get(1).ok_or("usage: worker-loop DIRECTORY [ISOLATION]")?);
    let isolation = arguments.get(2).map_or(Ok(Isolation::Cgroup2), |word| {
        serde_json::from_value(Value::String(word.clone()))
    })?;
    let files = Files::raise();
    let interrupts = Interrupts::watch()?;
    let mut directory = Directory::open(&path)?;
    let search = std::env::var_os("PATH").unwrap_or_default();
    let machine = Machine::discover(&path, &Given::default(), &search);
    let says = |word: &str| arguments.get(3).is_some_and(|said| said == word);
    let rarely = Options::default().sample_every;
    // The first of two that it has to give.
    let first = arguments.get(3).and_then(|word| word.parse::<u16>().ok());
    let ports = first.map_or(Options::default().ports, |first| first..=first.saturating_add(1));
    let logs = Logs::open(&path, Limits::default(), wall_time())?;
    let reader = logs.reader();
    let (sender, receiver) = mpsc::channel();
    let events = sender.clone();
    let containers = Containers::open(
        &directory,
        Options {
            isolation,
            // Tests do not wait for what is seen rarely.
            sample_every: if says("rare-looks") { rarely } else { Span::from_millis(200) },
            runtime: machine.runtime.filter(|_| !says("without-runtime")),
            files,
            ports,
            ..Options::default()
        },
        Box::new(logs),
        Box::new(move |event| drop(events.send(Happening::Event(event)))),
    )?;
    listen(&sender, interrupts);
    drop(sender);
    let isolation = serde_json::to_value(containers.isolation())?;
    let missing = [containers.missing(), &machine.missing].concat();
    say(&json!({
        "ready": isolation,
        "missing": missing,
        "has": [machine.amounts.cpu.get(), machine.amounts.memory.get(), machine.amounts.disk.get()],
        "life": directory.incarnation().life,
    }));
    let mut acknowledges = false;
    for happening in receiver {
        match happening {
            Happening::Event(Event::ShutDown) => break,
            Happening::Event(event) => {
                if let Event::Completed(run, _) = &event
                    && acknowledges
                {
                    containers.acknowledge(*run);
                }
                tell(&event);
            }
            Happening::Order(Order::AcknowledgeAll) => acknowledges = true,
            Happening::Order(Order::Tail { run, lines }) => tail(&reader, run, lines),
            Happening::Order(Order::Reborn) => containers.reborn(directory.be_reborn()?),
            Happening::Order(order) => obey(&containers, order),
            Happening::Interrupt(Interrupt::End) => containers.shut_down(),
            Happening::Interrupt(Interrupt::Stop) => {
                containers.freeze(true);
                Interrupts::stop()?;
            }
            Happening::Interrupt(Interrupt::Continue) => containers.freeze(false),
        }
    }
    Ok(())
}

/// Takes orders and signals, each on a thread of its own.
fn listen(happenings: &mpsc::Sender<Happening>, interrupts: Interrupts) {
    let (orders, signals) = (happenings.clone(), happenings.clone());
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(io::Result::ok) {
            match serde_json::from_str(&line) {
                Ok(order) => drop(orders.send(Happening::Order(order))),
                Err(error) => say(&json!({ "error": format!("{error}: {line}") })),
            }
        }
    });
    std::thread::spawn(move || {
        while let Ok(interrupt) = interrupts.wait() {
            drop(signals.send(Happening::Interrupt(interrupt)));
        }
    });
}

fn obey(containers: &Containers, order: Order) {
    match order {
        Order::Start { run, work } => containers.start(run, *work),
        Order::Stop { run, grace } => {
            let how = grace.map_or(How::Gracefully, How::Within);
            containers.stop(run, Cause::Request, how);
        }
        Order::Kill { run } => containers.stop(run, Cause::Request, How::Now),
        Order::Signal { run, signal, to } => containers.signal(run, signal, to),
        Order::Acknowledge { run } => containers.acknowledge(run),
        Order::Confirm => containers.confirmed(now()),
        Order::KillWait { span } => containers.kill_wait(span),
        Order::Freeze { is_frozen } => containers.freeze(is_frozen),
        Order::Ping { number } => containers.ping(number),
        Order::Reborn | Order::Tail { .. } | Order::AcknowledgeAll => {}
    }
}

fn tail(reader: &Reader, run: RunId, lines: usize) {
    let direction = Direction::Backward;
    let all = Request::all(Of::Run(run));
    let request = Request { from: From::End, direction, entries_max: lines, ..all };
    // A run that has not begun has no lines.
    let entries = reader.read(&request).map(|page| page.entries).unwrap_or_default();
    let texts = entries.into_iter().rev().map(|entry| match entry {
        Entry::Line(line) => json!([line.number, String::from_utf8_lossy(&line.bytes)]),
        Entry::Gap(gap) => json!({ "gap": [gap.first, gap.last] }),
    });
    say(&json!({ "run": run, "tail": texts.collect::<Vec<_>>() }));
}

fn tell(event: &Event) {
    say(&match event {
        Event::Became(run, state) => json!({ "run": run, "became": format!("{state:?}") }),
        Event::Ports(run, ports) => json!({ "run": run, "ports": ports }),
        Event::Readiness(run, is_ready) => json!({ "run": run, "is_ready": is_ready }),
        Event::Completed(run, report) => json!({
            "run": run,
            "completed": format!("{:?}", report.end.cause),
            "exit": report.end.exit.map(|exit| format!("{exit:?}")),
            "usage": report.usage,
            "status": report.status,
            "result": report.result,
        }),
        Event::GuardianAnswered(number) => json!({ "pong": number }),
        Event::GuardianReplaced(why) => json!({ "replaced": why }),
        Event::NotRemoved(directory, why) => json!({ "not_removed": directory, "why": why }),
        Event::ShutDown => json!({ "shut_down": true }),
    });
}

fn say(value: &Value) {
    // One write for a line, so that a kill leaves whole lines; whoever reads no more needs none.
    drop(io::stdout().write_all(format!("{value}\n").as_bytes()));
}

fn now() -> BootTime {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    BootTime::from_millis(
        now.tv_sec.unsigned_abs() * 1_000 + now.tv_nsec.unsigned_abs() / 1_000_000,
    )
}

fn wall_time() -> WallTime {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    WallTime::from_millis(now.tv_sec * 1_000 + now.tv_nsec / 1_000_000).unwrap_or(WallTime::EPOCH)
}
