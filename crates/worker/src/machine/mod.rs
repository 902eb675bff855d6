//! What this machine has to give, and what it lacks.
//!
//! | what | from |
//! | --- | --- |
//! | processor time | the processors that this process may use, and the quota of its cgroups |
//! | memory | what the machine has, and the limit of our cgroups |
//! | disk | what is free where the data directory is |
//! | `gpu` | `nvidia-smi`, where there are such cards |
//! | what runs images | `runc` or `crun`, where it is installed |
//! | open files | the limit of this process |
//! | other countables, places for containers | whoever sets up the worker |
//!
//! Invariant: what cannot be found out counts nothing, and is named; nothing is guessed.
//!
//! It does not know what of this is in use, nor what cgroups can do for runs.

mod files;
mod gpus;

use std::{ffi::OsStr, fs, io, path::Path};

use sterna_model::{Amounts, Bytes, Countables, Millicores, Name};

pub use self::{files::Files, gpus::Gpu};
use crate::{
    cgroup::{Bounds, Texts},
    oci::{self, Runtime},
};

/// What whoever sets up a worker says of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Places for containers.
    pub containers: u64,
    /// Counted things; one of the name of a thing that is found, such as `gpu`, holds instead of it.
    pub countables: Countables,
}

impl Default for Given {
    fn default() -> Self {
        Self { containers: 1024, countables: Countables::default() }
    }
}

/// A machine, as its worker describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What it has.
    pub amounts: Amounts,
    /// Its graphics cards.
    pub gpus: Vec<Gpu>,
    /// What runs images.
    pub runtime: Option<Runtime>,
    /// What could not be found out, or is too little, each in a sentence.
    pub missing: Vec<String>,
}

impl Machine {
    /// Looks at this machine. `data` is the worker's data directory, `path` where programs are looked
    /// for, as in the environment.
    pub fn discover(data: &Path, given: &Given, path: &OsStr) -> Self {
        let mut missing = Vec::new();
        let bounds = Bounds::find(&Texts::read());
        let cpu = named(processors(), "the number of processors", &mut missing);
        let memory = named(memory(), "the size of the memory", &mut missing);
        let disk = named(disk(data), &format!("the space in {}", data.display()), &mut missing);
        let gpus = gpus::discover(path).unwrap_or_else(|why| {
            missing.push(format!("{why}: no gpu is counted"));
            Vec::new()
        });
        missing.extend(Files::own().lack(given.containers));
        let runtime = oci::discover(path)
            .inspect_err(|why| missing.push(format!("{why}: no run can have an image")))
            .ok();
        let found = gpu().map(|name| (name, gpus.len() as u64));
        let amounts = Amounts {
            cpu: bounds.cpu.map_or(cpu, |bound| bound.min(cpu)),
            memory: bounds.memory.map_or(memory, |bound| bound.min(memory)),
            disk,
            containers: given.containers,
            countables: found
                .into_iter()
                .chain(given.countables.iter().map(|(name, count)| (name.clone(), count)))
                .collect(),
        };
        Self { amounts, gpus, runtime, missing }
    }
}

/// What was found; or nothing, which is named.
fn named<T: Default>(found: io::Result<T>, what: &str, missing: &mut Vec<String>) -> T {
    found.unwrap_or_else(|error| {
        missing.push(format!("{what} cannot be found out ({error}): it counts as none"));
        T::default()
    })
}

fn gpu() -> Option<Name> {
    "gpu".parse().ok()
}

/// Those that this process may use.
fn processors() -> io::Result<Millicores> {
    let usable = rustix::thread::sched_getaffinity(None)?;
    Ok(Millicores::new(u64::from(usable.count()) * 1_000))
}

fn memory() -> io::Result<Bytes> {
    let text = fs::read_to_string("/proc/meminfo")?;
    total(&text).ok_or_else(|| io::Error::other("/proc/meminfo does not say"))
}

/// The line `MemTotal: 16384 kB`.
fn total(text: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::new(kibibytes * 1024))
}

/// What may still be written there by anybody.
fn disk(data: &Path) -> io::Result<Bytes> {
    let about = rustix::fs::statvfs(data)?;
    Ok(Bytes::new(about.f_bavail.saturating_mul(about.f_frsize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discover(given: &Given) -> Machine {
        Machine::discover(&std::env::temp_dir(), given, OsStr::new("/nowhere"))
    }

    #[test]
    fn this_machine_has_something_of_everything() {
        let found = discover(&Given::default());
        assert!(found.amounts.cpu >= Millicores::new(1), "{found:?}");
        assert!(found.amounts.memory >= Bytes::new(64 << 20), "{found:?}");
        assert!(found.amounts.disk >= Bytes::new(1), "{found:?}");
        assert_eq!(found.amounts.containers, 1024);
    }

    #[test]
    fn only_processors_that_may_be_used_count() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        // It holds for one thread, which goes.
        let one = std::thread::spawn(|| {
            let all = sched_getaffinity(None).unwrap();
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|number| all.is_set(*number)).unwrap());
            sched_setaffinity(None, &one).unwrap();
            processors().unwrap()
        });
        assert_eq!(one.join().unwrap(), Millicores::new(1_000));
    }

    #[test]
    fn what_was_given_holds() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let countables = [(name("license"), 3), (name("gpu"), 2)].into_iter().collect();
        let given = Given { containers: 5, countables };
        let found = discover(&given).amounts;
        assert_eq!((found.containers, found.countables), (5, given.countables));
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let found = Machine::discover(Path::new("/no/such"), &Given::default(), OsStr::new(""));
        assert_eq!(found.amounts.disk, Bytes::new(0));
        assert!(found.missing.iter().any(|why| why.contains("/no/such")), "{:?}", found.missing);
    }

    #[test]
    fn the_memory_is_the_total() {
        let text = "MemFree: 5 kB\nMemTotal:       24682416 kB\n";
        assert_eq!(total(text), Some(Bytes::new(24_682_416 * 1024)));
        assert_eq!(total("MemTotal: many\n"), None);
    }
}
