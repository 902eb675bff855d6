//! Graphics cards, as `nvidia-smi` tells them.

use std::{
    ffi::OsStr,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sterna_model::{Bytes, Span};

use crate::clock::boot_time;

const PROGRAM: &str = "nvidia-smi";
/// Cards that sleep take seconds to answer; a driver that hangs never does.
const PATIENCE: Span = Span::from_secs(15);
/// There where the driver is.
const DRIVER: &str = "/proc/driver/nvidia/version";
/// No answer is longer.
const ANSWER_MAX: usize = 1 << 20;

/// One card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its model, as its maker calls it.
    pub name: String,
    /// Where it is on the bus.
    pub bus: String,
    /// Its own memory.
    pub memory: Bytes,
}

/// The cards of this machine. One that has neither the program nor the driver has none; else a
/// sentence says why they cannot be told.
pub(super) fn discover(path: &OsStr) -> Result<Vec<Gpu>, String> {
    let Some(program) = find(path) else {
        return if Path::new(DRIVER).exists() {
            Err(format!("there is a driver of NVIDIA, and no {PROGRAM} to ask"))
        } else {
            Ok(Vec::new())
        };
    };
    let text = ask(&program, PATIENCE)
        .map_err(|error| format!("{} does not tell: {error}", program.display()))?;
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| card(line).ok_or_else(|| format!("{PROGRAM} says {line:?}, which is no card")))
        .collect()
}

fn find(path: &OsStr) -> Option<PathBuf> {
    let mut places = std::env::split_paths(path).filter(|place| !place.as_os_str().is_empty());
    places.find_map(|place| Some(place.join(PROGRAM)).filter(|program| program.is_file()))
}

/// Name, bus and mebibytes.
fn card(line: &str) -> Option<Gpu> {
    // A name may hold commas; the others do not.
    let mut words = line.rsplitn(3, ',').map(str::trim);
    let (memory, bus, name) = (words.next()?, words.next()?, words.next()?);
    // Cards that share the machine's memory have none of their own.
    let mebibytes = memory.parse::<u64>().or_else(|error| match memory {
        "[N/A]" | "[Not Supported]" => Ok(0),
        _ => Err(error),
    });
    let memory = Bytes::new(mebibytes.ok()?.saturating_mul(1 << 20));
    let is_told = !name.is_empty() && !bus.is_empty();
    is_told.then(|| Gpu { name: name.to_owned(), bus: bus.to_owned(), memory })
}

/// What it says, if it does so in time.
fn ask(program: &Path, patience: Span) -> io::Result<String> {
    let mut child = Command::new(program)
        .args(["--query-gpu=name,pci.bus_id,memory.total", "--format=csv,noheader,nounits"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let said = hear(&mut child, patience);
    if said.is_err() {
        // One that has just ended needs no kill.
        drop(child.kill());
    }
    let status = child.wait()?;
    let said = said?;
    if !status.success() {
        return Err(io::Error::other(format!("{status}: {}", said.trim())));
    }
    Ok(said)
}

fn hear(child: &mut Child, patience: Span) -> io::Result<String> {
    let mut pipe = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
    let until = boot_time().plus(patience);
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let left = until.since(boot_time());
        let timeout = Timespec::try_from(left.as_duration()).map_err(io::Error::other)?;
        if poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&timeout))? == 0 {
            return Err(io::Error::other(format!("no answer within {patience}")));
        }
        let length = pipe.read(&mut buffer)?;
        if length == 0 || said.len() > ANSWER_MAX {
            return String::from_utf8(said).map_err(io::Error::other);
        }
        said.extend_from_slice(buffer.get(..length).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// A directory with a program of that name.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str, script: &str) -> Self {
            let name = format!("sterna-gpus-{name}-{}", std::process::id());
            let place = std::env::temp_dir().join(name);
            fs::create_dir_all(&place).unwrap();
            let program = place.join(PROGRAM);
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            Self(place)
        }

        /// It is found behind other places.
        fn path(&self) -> std::ffi::OsString {
            std::env::join_paths([Path::new("/nowhere"), &self.0]).unwrap()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn cards_are_told_by_a_program_on_the_path() {
        let script = "case \"$*\" in *name,pci.bus_id,memory.total*noheader,nounits*) ;; *) exit 9;; esac\n\
                      echo 'NVIDIA A100-SXM4-40GB, 00000000:07:00.0, 40960'\n\
                      echo 'Odd, Card, 00000000:0F:00.0, [N/A]'";
        let fake = Fake::new("two", script);
        let card = |name: &str, bus: &str, mebibytes: u64| Gpu {
            name: name.to_owned(),
            bus: bus.to_owned(),
            memory: Bytes::new(mebibytes << 20),
        };
        let expected = [
            card("NVIDIA A100-SXM4-40GB", "00000000:07:00.0", 40_960),
            card("Odd, Card", "00000000:0F:00.0", 0),
        ];
        assert_eq!(discover(&fake.path()).unwrap(), expected);
        let given = super::super::Given::default();
        let machine = super::super::Machine::discover(&std::env::temp_dir(), &given, &fake.path());
        assert_eq!(machine.amounts.countables.get(&"gpu".parse().unwrap()), 2);
        assert_eq!(machine.gpus, expected);
    }

    #[test]
    fn a_machine_without_the_program_has_no_cards() {
        let found = discover(OsStr::new("/nowhere"));
        assert_eq!(found.is_ok(), !Path::new(DRIVER).exists(), "{found:?}");
    }

    #[test]
    fn a_program_that_fails_says_nonsense_or_hangs_is_named() {
        let fails = Fake::new("fails", "echo 'NVML: Driver/library version mismatch'; exit 18");
        let why = discover(&fails.path()).unwrap_err();
        assert!(why.contains("mismatch") && why.contains("18"), "{why}");
        let babbles = Fake::new("babbles", "echo No devices were found");
        assert!(discover(&babbles.path()).unwrap_err().contains("No devices were found"));
        let machine = super::super::Machine::discover(
            &std::env::temp_dir(),
            &super::super::Given::default(),
            &babbles.path(),
        );
        assert_eq!((machine.missing.len(), machine.gpus.len()), (1, 0), "{:?}", machine.missing);
        let hangs = Fake::new("hangs", "exec sleep 1000");
        let why = ask(&hangs.0.join(PROGRAM), Span::from_millis(100)).unwrap_err();
        assert!(why.to_string().contains("100ms"), "{why}");
    }
}
