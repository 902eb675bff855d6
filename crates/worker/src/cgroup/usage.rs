//! What a run uses, as its groups count it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use sterna_model::payload::Usage;

use super::{Controller, Group, Hold};

impl Group {
    /// What the run uses now; nothing where nothing counts it.
    pub(crate) fn usage(&self) -> Usage {
        let Hold::Cgroup2(two) = &self.hold else {
            return self.memory_of_one(Usage::default());
        };
        let cpu_us = field(&two.join("cpu.stat"), "usage_usec");
        let usage = Usage { cpu_us, ..Usage::default() };
        if self.has_memory {
            let memory_bytes = number(&two.join("memory.current"));
            let memory_peak_bytes = number(&two.join("memory.peak")).max(memory_bytes);
            return Usage { memory_bytes, memory_peak_bytes, ..usage };
        }
        if self.one.iter().any(|(controller, _)| *controller == Controller::Memory) {
            return self.memory_of_one(usage);
        }
        let memory_bytes = processes(two).into_iter().map(resident).sum();
        Usage { memory_bytes, memory_peak_bytes: memory_bytes, ..usage }
    }

    /// What a run has used of which nothing is left: nobody has memory, and only what was counted for
    /// it is asked for.
    pub(crate) fn usage_at_end(&self) -> Usage {
        let has_memory =
            |(controller, _): &(Controller, PathBuf)| *controller == Controller::Memory;
        match &self.hold {
            Hold::Cgroup2(two) if !self.has_memory && !self.one.iter().any(has_memory) => {
                Usage { cpu_us: field(&two.join("cpu.stat"), "usage_usec"), ..Usage::default() }
            }
            Hold::Cgroup2(_) | Hold::Freezer(_) | Hold::Tree => self.usage(),
        }
    }

    fn memory_of_one(&self, usage: Usage) -> Usage {
        let Some((_, path)) = self.one.iter().find(|(known, _)| *known == Controller::Memory)
        else {
            return usage;
        };
        Usage {
            memory_bytes: number(&path.join("memory.usage_in_bytes")),
            memory_peak_bytes: number(&path.join("memory.max_usage_in_bytes")),
            ..usage
        }
    }

    /// How many of its processes the kernel has killed because its memory limit was reached.
    pub(crate) fn oom_kills(&self) -> u64 {
        if self.has_memory
            && let Hold::Cgroup2(two) = &self.hold
        {
            return field(&two.join("memory.events"), "oom_kill");
        }
        let one = self.one.iter().find(|(known, _)| *known == Controller::Memory);
        one.map_or(0, |(_, path)| field(&path.join("memory.oom_control"), "oom_kill"))
    }
}

/// Everybody in a group and in those below it.
pub(super) fn processes(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut all: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        all.extend(processes(&entry.path()));
    }
    all
}

/// The memory of one process that is in use; shared pages count for each that shares them.
fn resident(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn number(path: &Path) -> u64 {
    small(path).trim().parse().unwrap_or(0)
}

/// A file of the kernel's that is short: it is read at once, and not asked how long it is.
fn small(path: &Path) -> String {
    let mut bytes = [0; 1024];
    let read = fs::File::open(path).and_then(|mut file| io::Read::read(&mut file, &mut bytes));
    let length = read.unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// The number after `name` in a file of names and numbers.
fn field(path: &Path, name: &str) -> u64 {
    let text = small(path);
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_samples_keep_what_was_seen() {
        let early = Usage { cpu_us: 5, memory_bytes: 100, memory_peak_bytes: 120 };
        let late = Usage { cpu_us: 3, memory_bytes: 90, memory_peak_bytes: 90 };
        let both = early.later(late);
        assert_eq!(both, Usage { cpu_us: 5, memory_bytes: 90, memory_peak_bytes: 120 });
    }
}
