//! What this machine's cgroups can do for us.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

pub use sterna_model::payload::Isolation;

use super::{Controller, Group};

/// Our own groups on this machine.
#[derive(Debug)]
pub(crate) struct Cgroups {
    pub(super) isolation: Isolation,
    /// Our group of version 2.
    pub(super) two: Option<PathBuf>,
    /// Which controllers our groups of version 2 have.
    pub(super) of_two: Vec<Controller>,
    /// Our groups of version 1.
    pub(super) one: BTreeMap<Controller, PathBuf>,
    pub(super) mounted: Mounted,
    /// The path of our groups from the top of each hierarchy.
    pub(super) name: PathBuf,
    missing: Vec<String>,
}

impl Cgroups {
    /// Finds what is mounted, and makes the group `name` in it. `ceiling` forbids what is better than
    /// it: a machine that has less can so be tried out.
    pub(crate) fn discover(name: &str, ceiling: Isolation) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut found = Self {
            isolation: Isolation::Tree,
            two: None,
            of_two: Vec::new(),
            one: BTreeMap::new(),
            mounted: mounted(&mounts),
            name: PathBuf::from(name),
            missing: Vec::new(),
        };
        let mounted = found.mounted.clone();
        match ceiling {
            Isolation::Cgroup2 => {
                found.try_two(name, mounted.two.as_ref().map(|mount| mount.place.as_path()), &own);
            }
            Isolation::Freezer | Isolation::Tree => {}
        }
        match ceiling {
            Isolation::Cgroup2 | Isolation::Freezer => found.try_one(name, &mounted),
            Isolation::Tree => {
                found.say("cgroups are not used: runs are told apart by their process tree");
            }
        }
        found.name_what_is_missing(ceiling);
        found
    }

    /// How runs are told apart here.
    pub(crate) const fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// What this machine cannot do for its runs, each in a sentence.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The groups that all others lie in.
    pub(crate) fn ours(&self) -> Vec<PathBuf> {
        let ours: BTreeSet<&PathBuf> = self.two.iter().chain(self.one.values()).collect();
        let others = self.others().into_iter().filter(|path| !ours.contains(path));
        ours.iter().copied().cloned().chain(others).collect()
    }

    /// Our groups in every hierarchy, used by us or not: a runtime of images makes some in each.
    pub(super) fn others(&self) -> Vec<PathBuf> {
        let two = self.mounted.two.as_ref().map(|mount| &mount.place);
        self.mounted.all.iter().chain(two).map(|place| place.join(&self.name)).collect()
    }

    /// Names of groups that are there, in any hierarchy.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let bases = self.ours().into_iter();
        let entries = bases.flat_map(|base| fs::read_dir(base).into_iter().flatten().flatten());
        let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Ends whoever is in the groups of this name, and gives them to be removed.
    pub(crate) fn end(&self, name: &str) -> Group {
        let path = self.two.as_ref().map(|base| base.join(name));
        let of_one = self.one.iter().map(|(controller, base)| (*controller, base.join(name)));
        let of_one: Vec<_> = of_one.filter(|(_, path)| path.exists()).collect();
        let others = self.others().into_iter().map(|base| base.join(name));
        let group = Group::left(path.filter(|path| path.exists()), of_one, others.collect());
        group.kill();
        group
    }

    fn say(&mut self, text: impl Into<String>) {
        self.missing.push(text.into());
    }

    /// At the top, or where this process was put by whoever gave us a part of the tree.
    fn try_two(&mut self, name: &str, mount: Option<&Path>, own: &str) {
        let Some(mount) = mount else { return };
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        for parent in [mount.to_owned(), mount.join(own)] {
            let base = parent.join(name);
            if make(&base).is_err() || !base.join("cgroup.kill").exists() {
                continue;
            }
            for controller in Controller::LIMITING {
                let word = format!("+{}", controller.name());
                // One that is in use by version 1, or that we may not enable, shows below.
                drop(fs::write(parent.join("cgroup.subtree_control"), &word));
                drop(fs::write(base.join("cgroup.subtree_control"), &word));
            }
            let enabled = fs::read_to_string(base.join("cgroup.subtree_control"));
            let enabled = enabled.unwrap_or_default();
            let has = |controller: &Controller| {
                enabled.split_whitespace().any(|word| word == controller.name())
            };
            self.of_two = Controller::LIMITING.into_iter().filter(has).collect();
            self.name = base.strip_prefix(mount).unwrap_or(&base).to_owned();
            self.two = Some(base);
            self.isolation = Isolation::Cgroup2;
            return;
        }
    }

    fn try_one(&mut self, name: &str, mounted: &Mounted) {
        for (controller, mount) in &mounted.one {
            let is_wanted = match controller {
                Controller::Cpu | Controller::Memory | Controller::Pids => {
                    !self.of_two.contains(controller)
                }
                Controller::Freezer => self.two.is_none(),
            };
            let base = mount.place.join(name);
            if is_wanted && make(&base).is_ok() {
                self.one.insert(*controller, base);
            }
        }
        if self.two.is_none() && self.one.contains_key(&Controller::Freezer) {
            self.isolation = Isolation::Freezer;
        }
    }

    fn name_what_is_missing(&mut self, ceiling: Isolation) {
        match (ceiling, self.isolation) {
            (Isolation::Cgroup2 | Isolation::Freezer, Isolation::Cgroup2)
            | (Isolation::Tree, Isolation::Cgroup2 | Isolation::Freezer | Isolation::Tree) => {}
            (Isolation::Cgroup2 | Isolation::Freezer, Isolation::Freezer) => {
                self.say("no cgroup v2 with cgroup.kill (Linux 5.14) that may be written to: runs are frozen and killed process by process");
            }
            (Isolation::Cgroup2 | Isolation::Freezer, Isolation::Tree) => {
                self.say(
                    "no cgroups that may be written to: runs are told apart by their process tree, and none can have an image",
                );
            }
        }
        for controller in Controller::LIMITING {
            if !self.of_two.contains(&controller) && !self.one.contains_key(&controller) {
                let name = controller.name();
                self.say(format!("no {name} controller that may be used: {name} is not limited"));
            }
        }
    }
}

/// Kills a process, if it is in a group of this name: its number may mean another by now.
pub(super) fn end_process(process: u32, name: &str) {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let Some(Ok(fd)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    if groups.lines().any(|line| line.ends_with(name) || line.contains(&format!("/{name}/"))) {
        // Who has ended meanwhile needs no signal.
        let _ = pidfd_send_signal(fd, Signal::KILL);
    }
}

/// Makes a group, unless it is there.
fn make(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// The hierarchies of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) two: Option<Mount>,
    pub(super) one: BTreeMap<Controller, Mount>,
    /// Where each hierarchy of version 1 is, whatever it is for.
    pub(super) all: Vec<PathBuf>,
}

/// Which versions a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    One,
    Two,
    Both,
}

/// Which versions this machine has; who has none cannot be told from who has the first.
pub(crate) fn versions() -> Versions {
    let mounted = mounted(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    match (mounted.two, mounted.all.as_slice()) {
        (Some(_), []) => Versions::Two,
        (Some(_), [_, ..]) => Versions::Both,
        (None, [] | [_, ..]) => Versions::One,
    }
}

/// Where a hierarchy is mounted, and which of its groups is seen there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) place: PathBuf,
    pub(super) root: PathBuf,
}

/// Reads `/proc/self/mountinfo`: after a dash come type, source and the options of the superblock.
pub(super) fn mounted(text: &str) -> Mounted {
    let mut mounted = Mounted::default();
    for line in text.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut places = before.split(' ').skip(3);
        let (Some(root), Some(place)) = (places.next(), places.next()) else { continue };
        // Spaces and the like are written as octal numbers; nobody mounts cgroups there.
        if place.contains('\\') {
            continue;
        }
        let mount = || Mount { place: PathBuf::from(place), root: PathBuf::from(root) };
        let mut words = after.split(' ');
        let (kind, options) = (words.next(), words.nth(1).unwrap_or_default());
        if kind == Some("cgroup2") {
            mounted.two.get_or_insert_with(mount);
        } else if kind == Some("cgroup") {
            mounted.all.push(PathBuf::from(place));
            for option in options.split(',') {
                let all = Controller::LIMITING.into_iter().chain([Controller::Freezer]);
                for controller in all.filter(|controller| controller.name() == option) {
                    mounted.one.entry(controller).or_insert_with(mount);
                }
            }
        }
    }
    mounted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_machine_is_read() {
        let text = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                    31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                    32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                    33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let mounted = mounted(text);
        assert_eq!(mounted.two.unwrap().place, Path::new("/sys/fs/cgroup/unified"));
        let cpu = mounted.one.get(&Controller::Cpu).unwrap();
        assert_eq!(cpu.place, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(mounted.one.keys().collect::<Vec<_>>(), [&Controller::Cpu, &Controller::Memory]);
        assert_eq!(mounted.all.len(), 2);
    }

    #[test]
    fn a_machine_without_cgroups_has_none() {
        assert_eq!(
            mounted("24 1 0:1 / / rw - ext4 /dev/vda rw\nno such line\n"),
            Mounted::default()
        );
    }
}
