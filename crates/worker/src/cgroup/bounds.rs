//! What the groups that this process is in allow it, and so everything that it starts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sterna_model::{Bytes, Millicores};

use super::{
    Controller,
    discover::{Mount, mounted},
};

/// What is allowed at most; `None` for whatever the machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) cpu: Option<Millicores>,
    pub(crate) memory: Option<Bytes>,
}

/// What the system says of this process.
#[derive(Clone, Debug)]
pub(crate) struct Texts {
    /// `/proc/self/mountinfo`
    pub(crate) mounts: String,
    /// `/proc/self/cgroup`
    pub(crate) groups: String,
}

impl Texts {
    pub(crate) fn read() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self { mounts: read("/proc/self/mountinfo"), groups: read("/proc/self/cgroup") }
    }
}

impl Bounds {
    /// The tightest of every group from ours up to the topmost that is seen here, in each hierarchy.
    pub(crate) fn find(texts: &Texts) -> Self {
        let mounted = mounted(&texts.mounts);
        let two = mounted.two.map(|mount| path_up(&mount, own_two(&texts.groups)));
        let of_one = |controller: Controller| {
            let mount = mounted.one.get(&controller)?;
            Some(path_up(mount, own_one(&texts.groups, controller)?))
        };
        let groups = |paths: Option<Vec<PathBuf>>| paths.into_iter().flatten();
        let cpu_of_two = groups(two.clone()).filter_map(|group| quota_two(&group));
        let cpu_of_one = groups(of_one(Controller::Cpu)).filter_map(|group| quota_one(&group));
        let memory_of_two = groups(two).filter_map(|group| number(&group.join("memory.max")));
        let memory_of_one = groups(of_one(Controller::Memory))
            .filter_map(|group| number(&group.join("memory.limit_in_bytes")));
        Self {
            cpu: cpu_of_two.chain(cpu_of_one).min().map(Millicores::new),
            memory: memory_of_two.chain(memory_of_one).min().map(Bytes::new),
        }
    }
}

/// Our group of version 2, as the system names it.
fn own_two(groups: &str) -> &str {
    groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/")
}

/// Our group in a hierarchy of version 1: its number, its controllers, the group.
fn own_one(groups: &str, controller: Controller) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        controllers.split(',').any(|word| word == controller.name()).then_some(group)
    })
}

/// The directories of a group and of all above it, as far as they are seen.
fn path_up(mount: &Mount, own: &str) -> Vec<PathBuf> {
    let own = Path::new(own);
    // What lies outside of what is mounted here cannot be seen: then the mount is our group.
    let is_below = |below: &&Path| !below.starts_with("..");
    let below = own.strip_prefix(&mount.root).ok().filter(is_below).unwrap_or(Path::new(""));
    below.ancestors().map(|part| mount.place.join(part)).collect()
}

/// In millicores; `max` is none.
fn quota_two(group: &Path) -> Option<u64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    share(quota.parse().ok()?, period.parse().ok()?)
}

/// In millicores; a quota of -1 is none.
fn quota_one(group: &Path) -> Option<u64> {
    share(number(&group.join("cpu.cfs_quota_us"))?, number(&group.join("cpu.cfs_period_us"))?)
}

const fn share(quota: u64, period: u64) -> Option<u64> {
    quota.saturating_mul(1_000).checked_div(period)
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of groups below a directory of its own, removed at the end.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("sterna-bounds-{name}-{}", std::process::id());
            let place = std::env::temp_dir().join(name);
            for (file, text) in files {
                let path = place.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(place)
        }

        fn find(&self, mounts: &str, groups: &str) -> Bounds {
            let mounts = mounts.replace("TREE", self.0.to_str().unwrap());
            Bounds::find(&Texts { mounts, groups: groups.to_owned() })
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    const TWO: &str = "33 30 0:29 / TREE rw - cgroup2 cgroup2 rw\n";
    const ONE: &str = "31 30 0:27 / TREE/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                       32 30 0:28 /box TREE/memory rw - cgroup cgroup rw,memory\n";

    fn bounds(cpu: Option<u64>, memory: Option<u64>) -> Bounds {
        Bounds { cpu: cpu.map(Millicores::new), memory: memory.map(Bytes::new) }
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let tree = Tree::new(
            "two",
            &[
                ("a/cpu.max", "150000 100000\n"),
                ("a/b/cpu.max", "max 100000\n"),
                ("a/b/memory.max", "max\n"),
                ("a/memory.max", "1073741824\n"),
                ("other/cpu.max", "1000 100000\n"),
            ],
        );
        assert_eq!(tree.find(TWO, "0::/a/b\n"), bounds(Some(1_500), Some(1 << 30)));
        assert_eq!(tree.find(TWO, "0::/\n"), bounds(None, None));
        // In a namespace of its own, the mount is its group, and others are not looked at.
        let inner = TWO.replace("TREE", "TREE/a");
        assert_eq!(tree.find(&inner, "0::/../other\n"), bounds(Some(1_500), Some(1 << 30)));
    }

    #[test]
    fn version_1_is_read_where_it_is_mounted() {
        let tree = Tree::new(
            "one",
            &[
                ("cpu/x/cpu.cfs_quota_us", "50000\n"),
                ("cpu/x/cpu.cfs_period_us", "100000\n"),
                ("cpu/cpu.cfs_quota_us", "-1\n"),
                ("cpu/cpu.cfs_period_us", "100000\n"),
                ("memory/memory.limit_in_bytes", "4096000\n"),
                ("memory/inner/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        let groups = "5:cpu,cpuacct:/x\n4:memory:/box/inner\n0::/\n";
        assert_eq!(tree.find(ONE, groups), bounds(Some(500), Some(4_096_000)));
        assert_eq!(tree.find(ONE, "5:cpu,cpuacct:/\n"), bounds(None, None));
    }

    #[test]
    fn a_machine_without_cgroups_allows_everything() {
        let texts =
            Texts { mounts: "24 1 0:1 / / rw - ext4 /dev/vda rw\n".into(), groups: "".into() };
        assert_eq!(Bounds::find(&texts), bounds(None, None));
    }
}
