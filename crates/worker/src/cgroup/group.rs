//! The groups of one run.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Cgroups, Controller, Isolation};
use sterna_model::payload::Limits;

/// Why a limit cannot be set.
#[derive(Debug, thiserror::Error)]
#[error("cannot limit {what} to {asked}: {why}")]
pub(crate) struct LimitError {
    what: &'static str,
    asked: String,
    why: String,
}

/// By what the guardian knows a run's processes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Hold {
    /// The directory of a cgroup of version 2.
    Cgroup2(PathBuf),
    /// The directory of a group of the freezer.
    Freezer(PathBuf),
    /// Whatever is below its first process.
    Tree,
}

/// The groups of one run, in every hierarchy that it needs.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) hold: Hold,
    /// Groups of version 1 that its processes must be moved into.
    pub(super) one: Vec<(Controller, PathBuf)>,
    pub(super) has_memory: bool,
    /// Where the runtime of an image is, if the run has one: version 2 has no processes in a group
    /// that has others below it.
    leaf: Option<PathBuf>,
    /// Groups that a runtime may have made.
    others: Vec<PathBuf>,
}

/// Whether a run brings its own file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is made of processes of ours.
    Process,
    /// A runtime makes its processes, in groups below ours, which have its limits.
    Image,
}

/// Below a run's own group: where its runtime is, and where what that has made is.
const LEAF: &str = "main";
const BELOW: &str = "oci";

/// Length of a period of processor time, in microseconds.
const PERIOD_US: u64 = 100_000;
/// More than a kernel can have, in thousandths; a longer quota is refused by it without a word.
const CPU_MAX: u64 = 100_000_000;
/// The kernel takes no shorter share of a period.
const QUOTA_MIN_US: u64 = 1_000;

impl Cgroups {
    /// Makes the groups of a run, with its limits. What was made is removed again if one cannot be.
    ///
    /// # Errors
    /// A group cannot be made, or a limit cannot be set.
    pub(crate) fn create(
        &self,
        name: &str,
        limits: &Limits,
        kind: Kind,
    ) -> Result<Group, GroupError> {
        check(limits)?;
        let mut group = self.group(name, limits, kind);
        let made = group.make(kind).and_then(|()| match kind {
            Kind::Process => self.limit(&mut group, limits),
            Kind::Image => Ok(()),
        });
        if made.is_err() {
            // The reason for which it failed is the one to tell; a sweep finds what is left.
            drop(group.remove());
        }
        made.map(|()| group)
    }

    /// The groups that such a run has.
    pub(crate) fn group(&self, name: &str, limits: &Limits, kind: Kind) -> Group {
        let path = match self.isolation {
            Isolation::Cgroup2 => self.two.as_ref(),
            Isolation::Freezer => self.one.get(&Controller::Freezer),
            Isolation::Tree => None,
        };
        let path = path.map(|base| base.join(name));
        let hold = match self.isolation {
            Isolation::Cgroup2 => path.map_or(Hold::Tree, Hold::Cgroup2),
            Isolation::Freezer => path.map_or(Hold::Tree, Hold::Freezer),
            Isolation::Tree => Hold::Tree,
        };
        let wanted = [
            (Controller::Cpu, limits.cpu.is_some()),
            (Controller::Memory, limits.memory.is_some()),
            (Controller::Pids, limits.pids.is_some()),
        ];
        let one = wanted.into_iter().filter(|(_, is_wanted)| *is_wanted);
        let one = one.filter_map(|(controller, _)| match kind {
            Kind::Process => self.one.get(&controller).map(|base| (controller, base.join(name))),
            Kind::Image => {
                let mount = self.mounted.one.get(&controller)?;
                Some((controller, mount.place.join(&self.name).join(name).join(BELOW)))
            }
        });
        let (leaf, others) = match (kind, &hold) {
            (Kind::Process, Hold::Cgroup2(_) | Hold::Freezer(_) | Hold::Tree) => (None, Vec::new()),
            (Kind::Image, Hold::Cgroup2(path)) => (Some(path.join(LEAF)), self.others()),
            (Kind::Image, Hold::Freezer(_) | Hold::Tree) => (None, self.others()),
        };
        Group {
            hold,
            one: one.collect(),
            has_memory: self.of_two.contains(&Controller::Memory),
            leaf,
            others: others.into_iter().map(|base| base.join(name)).collect(),
        }
    }

    /// The path of the groups that a runtime is to make for such a run, from the top of each hierarchy;
    /// `None` where no group would hold them.
    pub(crate) fn below(&self, name: &str) -> Option<String> {
        match self.isolation {
            Isolation::Cgroup2 | Isolation::Freezer => {
                let path = Path::new("/").join(&self.name).join(name).join(BELOW);
                Some(path.to_string_lossy().into_owned())
            }
            Isolation::Tree => None,
        }
    }

    /// Whether swap can be limited.
    pub(crate) fn counts_swap(&self) -> bool {
        let two = self.two.as_ref().map(|base| base.join("memory.swap.max"));
        let one = self.one.get(&Controller::Memory);
        let one = one.map(|base| base.join("memory.memsw.limit_in_bytes"));
        two.into_iter().chain(one).any(|file| file.exists())
    }

    fn limit(&self, group: &mut Group, limits: &Limits) -> Result<(), GroupError> {
        if let Some(cpu) = limits.cpu {
            let quota = cpu.get().saturating_mul(PERIOD_US) / 1_000;
            let both = format!("{quota} {PERIOD_US}");
            self.write(
                group,
                Controller::Cpu,
                ("cpu.max", &both),
                ("cpu.cfs_quota_us", &quota.to_string()),
            )
            .map_err(|error| refused("cpu", cpu.to_string(), error))?;
        }
        if let Some(memory) = limits.memory {
            let bytes = memory.get().to_string();
            self.write(
                group,
                Controller::Memory,
                ("memory.max", &bytes),
                ("memory.limit_in_bytes", &bytes),
            )
            .map_err(|error| refused("memory", memory.to_string(), error))?;
            // Swap counts, too, where it can be counted; few kernels are built so.
            drop(self.write(
                group,
                Controller::Memory,
                ("memory.swap.max", "0"),
                ("memory.memsw.limit_in_bytes", &bytes),
            ));
        }
        if let Some(pids) = limits.pids {
            let count = pids.to_string();
            self.write(group, Controller::Pids, ("pids.max", &count), ("pids.max", &count))
                .map_err(|error| refused("pids", count, error))?;
        }
        Ok(())
    }

    /// Writes to whichever version has the controller; nothing where neither has.
    fn write(
        &self,
        group: &Group,
        controller: Controller,
        two: (&str, &str),
        one: (&str, &str),
    ) -> io::Result<()> {
        if self.of_two.contains(&controller)
            && let Hold::Cgroup2(path) = &group.hold
        {
            return fs::write(path.join(two.0), two.1);
        }
        match group.one.iter().find(|(known, _)| *known == controller) {
            Some((_, path)) => fs::write(path.join(one.0), one.1),
            None => Ok(()),
        }
    }
}

impl Group {
    /// What somebody has left.
    pub(super) fn left(
        two: Option<PathBuf>,
        one: Vec<(Controller, PathBuf)>,
        others: Vec<PathBuf>,
    ) -> Self {
        let hold = two.map_or(Hold::Tree, Hold::Cgroup2);
        Self { hold, one, has_memory: false, leaf: None, others }
    }

    pub(crate) const fn hold(&self) -> &Hold {
        &self.hold
    }

    /// The group of version 2 in which the runtime of an image is.
    pub(crate) fn leaf(&self) -> Option<&Path> {
        self.leaf.as_deref()
    }

    /// Files of version 1 to which a process id is written before the go byte. A runtime does that for
    /// what it makes, and is held itself, but not limited.
    pub(crate) fn doors(&self, kind: Kind) -> Vec<PathBuf> {
        let held = match &self.hold {
            Hold::Freezer(path) => Some(path),
            Hold::Cgroup2(_) | Hold::Tree => None,
        };
        let limiting = self.one.iter().map(|(_, path)| path).filter(|_| kind == Kind::Process);
        held.into_iter().chain(limiting).map(|path| path.join("cgroup.procs")).collect()
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let held = match &self.hold {
            Hold::Cgroup2(path) | Hold::Freezer(path) => Some(path.as_path()),
            Hold::Tree => None,
        };
        held.into_iter().chain(self.one.iter().map(|(_, path)| path.as_path()))
    }

    fn make(&self, kind: Kind) -> Result<(), GroupError> {
        let made = self.paths().take(match kind {
            Kind::Process => usize::MAX,
            // What is below is made by the runtime.
            Kind::Image => 1,
        });
        for path in made.chain(self.leaf()) {
            match fs::create_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(GroupError::Make { path: path.to_owned(), error });
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Kills whoever is in them, for groups of which nothing is to be left: somebody may have been born
    /// while the others were killed.
    pub(crate) fn kill(&self) {
        if let Hold::Cgroup2(path) = &self.hold {
            drop(fs::write(path.join("cgroup.kill"), "1"));
            return;
        }
        // Nobody is born while all are frozen; KILL takes effect when they thaw.
        let freezer = self.one.iter().find(|(known, _)| *known == Controller::Freezer);
        let freeze = |state: &str| {
            if let Some((_, path)) = freezer {
                drop(fs::write(path.join("freezer.state"), state));
            }
        };
        freeze("FROZEN");
        for path in self.paths() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            for process in super::usage::processes(path) {
                super::discover::end_process(process, &name);
            }
        }
        freeze("THAWED");
    }

    /// Removes the groups, and those that were made below them.
    ///
    /// # Errors
    /// One is still in use: the kernel takes a moment to let go of what has ended. Try again.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.paths().chain(self.others.iter().map(PathBuf::as_path)).try_for_each(remove_tree)
    }
}

/// Groups are removed from the leaves up; their files go with them.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(()) => return Ok(()),
        Err(_) => {}
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

/// Refuses what no machine can do.
fn check(limits: &Limits) -> Result<(), GroupError> {
    let Limits { cpu, memory, pids, disk: _ } = limits;
    if let Some(cpu) = cpu
        && cpu.get().saturating_mul(PERIOD_US) / 1_000 < QUOTA_MIN_US
    {
        return Err(refused("cpu", cpu.to_string(), "the least that can be had is 0.01"));
    }
    if let Some(cpu) = cpu
        && cpu.get() > CPU_MAX
    {
        let why = "no machine has so many processors; leave it out to have all";
        return Err(refused("cpu", cpu.to_string(), why));
    }
    if let Some(memory) = memory
        && memory.get() < 64 * 1024
    {
        let why = "no process fits into less than 64KiB";
        return Err(refused("memory", memory.to_string(), why));
    }
    if *pids == Some(0) {
        return Err(refused("pids", "0".to_owned(), "a run is at least one process"));
    }
    Ok(())
}

fn refused(what: &'static str, asked: String, why: impl std::fmt::Display) -> GroupError {
    GroupError::Limit(LimitError { what, asked, why: why.to_string() })
}

/// Why a run has no groups.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GroupError {
    #[error("cannot make the cgroup {}", path.display())]
    Make {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error(transparent)]
    Limit(LimitError),
}

#[cfg(test)]
mod tests {
    use std::{
        process::Command,
        time::{Duration, Instant},
    };

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test of real processes waits for them")]
    fn wait(within: Duration, mut is_so: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        while !is_so() {
            if begun.elapsed() > within {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20)); // why: as the sweeper does between kills
        }
        true
    }

    /// Each begins others for as long as it may, so that for each that is killed another is born. A
    /// sweep is repeated until the group is gone, which is what ends them; the freezer makes it quick:
    /// without it, it was seen to take 4 to 9 s instead of a fraction of one.
    #[test]
    fn who_are_born_as_fast_as_they_are_killed_are_ended_by_a_sweep_all_the_same() {
        let name = format!("sterna-test-{}", std::process::id());
        let cgroups = Cgroups::discover(&name, Isolation::Freezer);
        let limits = Limits { pids: Some(400), ..Limits::default() };
        let group = cgroups.create("run", &limits, Kind::Process).unwrap();
        let doors = group.doors(Kind::Process);
        let [freezer, pids] = doors.as_slice() else {
            // A machine without both has no such sweep, or nothing that would hold the test itself.
            drop(group.remove());
            return;
        };
        let births = r#"$SIG{CHLD} = "IGNORE"; while (1) { fork }"#;
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", "echo $$ >$1; echo $$ >$2; exec perl -e \"$3\"", "sh"]);
        let mut shell = shell.arg(freezer).arg(pids).arg(births).spawn().unwrap();
        let place = freezer.parent().unwrap();
        let many = || super::super::usage::processes(place).len() > 360;
        let came = wait(Duration::from_secs(20), many);
        let left = cgroups.end("run");
        let mut sweep = || {
            left.kill();
            left.remove().is_ok()
        };
        let is_gone = wait(Duration::from_secs(20), &mut sweep);
        // If they are not: now nobody is born any more.
        drop(fs::write(pids.with_file_name("pids.max"), "0"));
        wait(Duration::from_secs(20), &mut sweep);
        shell.wait().unwrap();
        cgroups.ours().into_iter().for_each(|group| drop(fs::remove_dir(group)));
        assert!(came && is_gone, "they came: {came}; they are gone: {is_gone}");
    }
}
