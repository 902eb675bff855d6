//! Who descends from whom, read from `/proc`, for machines without cgroups.

use std::{collections::BTreeMap, fs, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The parents of all processes.
fn parents() -> BTreeMap<i32, i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

/// A word after the name of a process, which stands in brackets and may hold anything; the first is
/// its state. Whoever has ended and waits to be taken is nobody any more.
fn word(pid: i32, at: usize) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = text.rsplit_once(") ")?;
    let mut words = after.split(' ');
    let state = words.next()?;
    (state != "Z" && state != "X").then(|| words.nth(at - 1).map(str::to_owned)).flatten()
}

fn parent(pid: i32) -> Option<i32> {
    word(pid, 1)?.parse().ok()
}

/// The process group that it is in.
pub(super) fn group(pid: i32) -> Option<i32> {
    word(pid, 2)?.parse().ok()
}

/// The tick of the machine at which it began.
pub(super) fn began(pid: i32) -> Option<u64> {
    word(pid, 19)?.parse().ok()
}

/// The children of a process. One that is born while it is looked at may be missed if its parent ends
/// meanwhile; so nobody is found only if nobody is found twice.
pub(super) fn children(of: i32) -> Vec<i32> {
    let look = || -> Vec<i32> {
        parents().into_iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| pid).collect()
    };
    let found = look();
    if found.is_empty() { look() } else { found }
}

/// Everybody below `root`, each by a descriptor that means that process and no later one.
pub(super) fn below(root: i32) -> Vec<OwnedFd> {
    let parents = parents();
    let is_below = |mut pid: i32| {
        // As deep as there are processes, in case the tree changes while it is read.
        for _ in 0..parents.len() {
            match parents.get(&pid) {
                Some(parent) if *parent == root => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let found = parents.keys().filter(|pid| is_below(**pid));
    found.filter_map(|pid| hold(*pid, |again| parents.get(pid) == Some(&again))).collect()
}

/// A descriptor of the process, if it still is whose child it was when it was looked at.
fn hold(pid: i32, is_same: impl Fn(i32) -> bool) -> Option<OwnedFd> {
    let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    parent(pid).is_some_and(is_same).then_some(fd)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn descendants_are_found_and_others_are_not() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & read line; kill $!"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let of_shell = i32::try_from(shell.id()).unwrap();
        while below(of_shell).is_empty() {
            std::thread::yield_now();
        }
        assert!(below(own).len() >= 2);
        assert!(below(of_shell).len() == 1);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(below(of_shell).is_empty());
    }
}
