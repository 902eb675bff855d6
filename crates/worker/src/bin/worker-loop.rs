//! A worker without a link, for tests: takes orders as lines of JSON and answers in the same form.
//!
//! `worker-loop DIRECTORY [ISOLATION]` says `{"ready": …}` first. Output of runs goes to
//! `DIRECTORY/out/<run>.<stream>`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc,
};

use serde::Deserialize;
use serde_json::{Value, json};
use sterna_executor::container::{Cause, How};
use sterna_model::{BootTime, RunId, Span, WallTime};
use sterna_worker::{
    Containers, Directory, Isolation,
    containers::{Event, Options},
    guardian,
    interrupts::{Interrupt, Interrupts},
    sink::{Flow, Sink, Sinks, Stream},
    work::{Signal, To, Work},
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
    let interrupts = Interrupts::watch()?;
    let mut directory = Directory::open(&path)?;
    fs::create_dir_all(path.join("out"))?;
    let (sender, receiver) = mpsc::channel();
    let events = sender.clone();
    let containers = Containers::open(
        &directory,
        Options { isolation, sample_every: Span::from_millis(200), ..Options::default() },
        Box::new(Files(path.join("out"))),
        Box::new(move |event| drop(events.send(Happening::Event(event)))),
    )?;
    let (orders, signals) = (sender.clone(), sender);
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
    let isolation = serde_json::to_value(containers.isolation())?;
    say(
        &json!({ "ready": isolation, "missing": containers.missing(), "life": directory.incarnation().life }),
    );
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
        Order::Reborn | Order::AcknowledgeAll => {}
    }
}

fn tell(event: &Event) {
    say(&match event {
        Event::Became(run, state) => json!({ "run": run, "became": format!("{state:?}") }),
        Event::Readiness(run, is_ready) => json!({ "run": run, "is_ready": is_ready }),
        Event::Completed(run, report) => json!({
            "run": run,
            "completed": format!("{:?}", report.end.cause),
            "exit": report.end.exit.map(|exit| format!("{exit:?}")),
            "usage": report.usage,
            "status": report.status,
        }),
        Event::GuardianAnswered(number) => json!({ "pong": number }),
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

struct Files(PathBuf);

struct Streams {
    place: PathBuf,
    files: [Option<File>; 3],
}

impl Sinks for Files {
    fn open(&mut self, run: RunId) -> Box<dyn Sink> {
        Box::new(Streams { place: self.0.join(run.to_string()), files: [None, None, None] })
    }
}

impl Sink for Streams {
    fn write(&mut self, _at: WallTime, stream: Stream, bytes: &[u8]) -> Flow {
        let (at, name) = match stream {
            Stream::Stdout => (0, "stdout"),
            Stream::Stderr => (1, "stderr"),
            Stream::Events => (2, "events"),
        };
        let file = &mut self.files[at];
        if file.is_none() {
            *file = append(&self.place.with_extension(name)).ok();
        }
        if let Some(file) = file {
            drop(file.write_all(bytes));
        }
        Flow::More
    }

    fn end(self: Box<Self>, _at: WallTime) {}
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}
