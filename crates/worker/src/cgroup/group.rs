//! The groups of one run.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Cgroups, Controller, Isolation};
use crate::work::Limits;

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
}

/// Length of a period of processor time, in microseconds.
const PERIOD_US: u64 = 100_000;
/// The kernel takes no shorter share of a period.
const QUOTA_MIN_US: u64 = 1_000;

impl Cgroups {
    /// Makes the groups of a run, with its limits. What was made is removed again if one cannot be.
    ///
    /// # Errors
    /// A group cannot be made, or a limit cannot be set.
    pub(crate) fn create(&self, name: &str, limits: &Limits) -> Result<Group, GroupError> {
        let mut group = self.group(name, limits);
        let made = group.make().and_then(|()| self.limit(&mut group, limits));
        if made.is_err() {
            // The reason for which it failed is the one to tell; a sweep finds what is left.
            drop(group.remove());
        }
        made.map(|()| group)
    }

    /// The groups that such a run has.
    pub(crate) fn group(&self, name: &str, limits: &Limits) -> Group {
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
        let one = one.filter_map(|(controller, _)| {
            self.one.get(&controller).map(|base| (controller, base.join(name)))
        });
        Group { hold, one: one.collect(), has_memory: self.of_two.contains(&Controller::Memory) }
    }

    fn limit(&self, group: &mut Group, limits: &Limits) -> Result<(), GroupError> {
        if let Some(cpu) = limits.cpu {
            let quota = cpu.get().saturating_mul(PERIOD_US) / 1_000;
            if quota < QUOTA_MIN_US {
                return Err(refused("cpu", cpu.to_string(), "the least that can be had is 0.01"));
            }
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
            if memory.get() < 64 * 1024 {
                return Err(refused(
                    "memory",
                    memory.to_string(),
                    "no process fits into less than 64KiB",
                ));
            }
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
            if pids == 0 {
                return Err(refused("pids", count, "a run is at least one process"));
            }
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
    pub(super) fn left(two: Option<PathBuf>, one: Vec<(Controller, PathBuf)>) -> Self {
        Self { hold: two.map_or(Hold::Tree, Hold::Cgroup2), one, has_memory: false }
    }

    pub(crate) const fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Files of version 1 to which a process id is written before the go byte.
    pub(crate) fn doors(&self) -> Vec<PathBuf> {
        let held = match &self.hold {
            Hold::Freezer(path) => Some(path.join("cgroup.procs")),
            Hold::Cgroup2(_) | Hold::Tree => None,
        };
        held.into_iter().chain(self.one.iter().map(|(_, path)| path.join("cgroup.procs"))).collect()
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let held = match &self.hold {
            Hold::Cgroup2(path) | Hold::Freezer(path) => Some(path.as_path()),
            Hold::Tree => None,
        };
        held.into_iter().chain(self.one.iter().map(|(_, path)| path.as_path()))
    }

    fn make(&self) -> Result<(), GroupError> {
        for path in self.paths() {
            match fs::create_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(GroupError::Make { path: path.to_owned(), error });
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Removes the groups, and those that were made below them.
    ///
    /// # Errors
    /// One is still in use: the kernel takes a moment to let go of what has ended. Try again.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.paths().try_for_each(remove_tree)
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
