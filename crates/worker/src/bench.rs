//! What a process costs: bare, and with each step of isolation added, through a real guardian.
//!
//! The first figure is a loop of posix_spawn and wait. The steps in between ask a guardian for plans
//! that lack the later ones; the last two are whole containers, as work gets them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, channel},
    },
};

use rustix::event::{PollFd, PollFlags, poll};
use sterna_executor::container::Exit;
use sterna_model::{
    Bytes, Millicores, RunId, WallTime,
    payload::{self, To, Work},
};

use crate::{
    Containers, Directory,
    cgroup::{Cgroups, Hold, Isolation, Kind},
    clock::wall_time,
    containers::{Event, Options, spare_journal},
    directory::Layout,
    guardian::{self, Ask, Channel, ContractWord, FateWord, Line, Plan, RoleWord, Say},
    logs::{Limits, Logs},
    stop::StopSignal,
    sys,
};

/// How many are under way at a time.
pub const AT_A_TIME: u32 = 2;
const PROGRAM: &str = "/bin/true";

/// One step of isolation; each has everything that the ones before it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Through the guardian: journal, go byte, pidfd.
    Guardian,
    /// In a process group of its own.
    Group,
    /// In a cgroup of its own.
    Cgroup,
    /// A whole container: work directory, pipes, captured output, its end on the disk.
    Isolated,
    /// With limits of processor time, memory and processes.
    Limited,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Self; 5] =
        [Self::Guardian, Self::Group, Self::Cgroup, Self::Isolated, Self::Limited];

    /// What the figure is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guardian => "guardian",
            Self::Group => "group",
            Self::Cgroup => "cgroup",
            Self::Isolated => "isolated",
            Self::Limited => "limited",
        }
    }
}

/// Spawns `count` processes and waits for each, with nothing done for them.
///
/// # Errors
/// One cannot be started, or does not end well.
pub fn bare(count: u32) -> io::Result<()> {
    let left = Arc::new(AtomicU32::new(count));
    let threads: Vec<_> = (0..AT_A_TIME)
        .map(|_| {
            let left = Arc::clone(&left);
            std::thread::spawn(move || {
                let take = |left: u32| left.checked_sub(1);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    sys::spawn_and_wait(PROGRAM)?;
                }
                Ok(())
            })
        })
        .collect();
    threads.into_iter().try_for_each(|thread| {
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the bench panicked")))
    })
}

/// A guardian, and a worker around it, in a directory of their own.
pub struct Ground {
    directory: Directory,
    path: PathBuf,
    next: u64,
}

impl Ground {
    /// Makes the directory; it is removed when this is dropped.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(path: &Path) -> io::Result<Self> {
        let directory = Directory::open(path).map_err(io::Error::other)?;
        Ok(Self { directory, path: path.to_owned(), next: 1 })
    }

    /// What the machine lacks for isolation or limits, each in a sentence.
    pub fn missing(&self) -> Vec<String> {
        let group = self.directory.layout().group;
        Cgroups::discover(&group, Isolation::Cgroup2).missing().to_vec()
    }

    /// Runs `count` processes under this much isolation, and calls `measured` around the runs alone.
    ///
    /// # Errors
    /// One cannot be started, or does not end well.
    pub fn run<T>(
        &mut self,
        step: Step,
        count: u32,
        measured: impl FnOnce(&mut dyn FnMut() -> io::Result<()>) -> T,
    ) -> io::Result<T> {
        let first = self.next;
        self.next += u64::from(count);
        let runs = (first..self.next).map(numbered);
        match step {
            Step::Guardian | Step::Group | Step::Cgroup => {
                let mut asked = Asked::open(&self.directory, step)?;
                Ok(measured(&mut || asked.play(runs.clone())))
            }
            Step::Isolated | Step::Limited => {
                let mut whole = Whole::open(&self.directory, step)?;
                Ok(measured(&mut || whole.play(runs.clone())))
            }
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What cannot be removed lies in a place for such things.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

fn numbered(number: u64) -> RunId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    RunId::from_parts(WallTime::EPOCH, random)
}

/// A guardian that is asked for bare plans.
struct Asked {
    channel: Channel,
    child: Option<std::process::Child>,
    cgroups: Cgroups,
    layout: Layout,
    step: Step,
    /// Directories of runs that are over.
    spare: Vec<PathBuf>,
}

impl Asked {
    fn open(directory: &Directory, step: Step) -> io::Result<Self> {
        let layout = directory.layout();
        let cgroups = Cgroups::discover(&layout.group, Isolation::Cgroup2);
        let launched = guardian::connect(&layout.path)?;
        let mut asked = Self {
            channel: launched.channel,
            child: launched.child,
            cgroups,
            layout,
            step,
            spare: Vec::new(),
        };
        let incarnation = directory.incarnation();
        asked.channel.push(&Ask::Adopt { incarnation, process: 1, needs: None }, Vec::new());
        asked.channel.flush()?;
        Ok(asked)
    }

    fn play(&mut self, mut runs: impl Iterator<Item = RunId>) -> io::Result<()> {
        let mut under_way = 0;
        for run in runs.by_ref().take(AT_A_TIME as usize) {
            self.ask(run)?;
            under_way += 1;
        }
        while under_way > 0 {
            match self.end()? {
                None => {}
                Some(run) => {
                    self.forget(run)?;
                    under_way -= 1;
                    if let Some(run) = runs.next() {
                        self.ask(run)?;
                        under_way += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, run: RunId) -> io::Result<()> {
        match self.spare.pop() {
            Some(spare) => std::fs::rename(spare, self.layout.run(run))?,
            None => std::fs::create_dir(self.layout.run(run))?,
        }
        // Without a cgroup it is held by one that is not there, so that its end alone counts.
        let mut hold = Hold::Freezer(self.layout.path.join("none"));
        if self.step == Step::Cgroup {
            let group =
                self.cgroups.create(&run.to_string(), &payload::Limits::default(), Kind::Process);
            hold = group.map_err(io::Error::other)?.hold().clone();
        }
        let plan = Box::new(Plan {
            program: PROGRAM.to_owned(),
            arguments: vec![PROGRAM.to_owned()],
            environment: Vec::new(),
            directory: "/".to_owned(),
            ids: None,
            rlimits: Vec::new(),
            own_group: self.step != Step::Guardian,
            death_signal: None,
            no_new_privileges: true,
            streams: Vec::new(),
            hold,
            doors: Vec::new(),
            stop: StopSignal { signal: libc::SIGTERM, to: To::Process },
            leaf: None,
            runtime: None,
            owner: None,
            timeout_ms: None,
        });
        let contract = ContractWord { stop_after_ms: None, is_kept: false };
        let role = RoleWord::Main;
        self.channel.push(&Ask::Spawn { run, part: 0, role, contract, plan }, Vec::new());
        self.channel.flush()
    }

    fn forget(&mut self, run: RunId) -> io::Result<()> {
        self.channel.push(&Ask::Forget { run }, Vec::new());
        self.channel.flush()?;
        if self.step == Step::Cgroup {
            let limits = payload::Limits::default();
            self.cgroups.group(&run.to_string(), &limits, Kind::Process).remove()?;
        }
        // As with containers, its directory is used again.
        let directory = self.layout.run(run);
        spare_journal(&std::fs::File::open(&directory)?.into())?;
        let spare = directory.with_file_name(format!(".{run}"));
        std::fs::rename(&directory, &spare)?;
        self.spare.push(spare);
        Ok(())
    }

    /// The next run that is over, if what was said last tells of one.
    fn end(&mut self) -> io::Result<Option<RunId>> {
        loop {
            match self.channel.next::<Say>()? {
                Some((Say::Fate { run, fate }, _)) => match fate {
                    FateWord::Empty => return Ok(Some(run)),
                    FateWord::NotStarted { why, .. } => return Err(io::Error::other(why)),
                    FateWord::Exited { exit, .. } if exit != Exit::Code(0) => {
                        return Err(io::Error::other(format!("it ended with {exit:?}")));
                    }
                    FateWord::Started { .. }
                    | FateWord::Stopping { .. }
                    | FateWord::Exited { .. } => {}
                },
                Some((Say::Adopted { .. } | Say::Refused { .. } | Say::Pong { .. }, _)) => {}
                None => break,
            }
        }
        poll(&mut [PollFd::new(&self.channel, PollFlags::IN)], None)?;
        match self.channel.fill()? {
            Line::Open => Ok(None),
            Line::Closed => Err(io::Error::other("the guardian went")),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // The guardian ends when nobody speaks to it; its end must be taken.
        if let Ok((socket, _other)) = std::os::unix::net::UnixStream::pair()
            && let Ok(channel) = Channel::new(socket)
        {
            self.channel = channel;
        }
        if let Some(mut child) = self.child.take() {
            drop(child.wait());
        }
    }
}

/// Whole containers.
struct Whole {
    containers: Containers,
    ends: Receiver<(RunId, Result<(), String>)>,
    work: Work,
}

impl Whole {
    fn open(directory: &Directory, step: Step) -> io::Result<Self> {
        let (sender, ends) = channel();
        let listener = move |event| {
            if let Event::Completed(run, report) = event {
                let is_well = report.end.exit == Some(Exit::Code(0));
                let end = if is_well { Ok(()) } else { Err(format!("{:?}", report.end)) };
                // The bench ends when one did not end well.
                drop(sender.send((run, end)));
            }
        };
        let options = Options::default();
        let logs = Logs::open(&directory.layout().path, Limits::default(), wall_time())?;
        let containers = Containers::open(directory, options, Box::new(logs), Box::new(listener))?;
        let limits = match step {
            Step::Limited => payload::Limits {
                cpu: Some(Millicores::new(2_000)),
                memory: Some(Bytes::new(64 << 20)),
                pids: Some(64),
                disk: None,
            },
            Step::Guardian | Step::Group | Step::Cgroup | Step::Isolated => {
                payload::Limits::default()
            }
        };
        let work = Work { run: vec![PROGRAM.to_owned()], limits, ..Work::default() };
        Ok(Self { containers, ends, work })
    }

    fn play(&mut self, mut runs: impl Iterator<Item = RunId>) -> io::Result<()> {
        let mut under_way = 0;
        for run in runs.by_ref().take(AT_A_TIME as usize) {
            self.containers.start(run, self.work.clone());
            under_way += 1;
        }
        while under_way > 0 {
            let (run, end) = self.ends.recv().map_err(io::Error::other)?;
            end.map_err(io::Error::other)?;
            self.containers.acknowledge(run);
            under_way -= 1;
            if let Some(run) = runs.next() {
                self.containers.start(run, self.work.clone());
                under_way += 1;
            }
        }
        Ok(())
    }
}
