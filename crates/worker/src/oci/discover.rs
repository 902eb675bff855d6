//! Which program runs images here.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::cgroup::{Versions, versions};

/// What a run with an image is told where there is no runtime.
pub(crate) const MISSING: &str =
    "this machine has no container runtime that can be used: install runc, or run it without image";

/// Where programs of the system are, whatever the environment says.
const PLACES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program that runs images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// `runc` or `crun`.
    pub name: &'static str,
    /// Where it is.
    pub program: PathBuf,
}

/// Finds a runtime in `path`, or where programs of the system are.
///
/// # Errors
/// There is none, or none that can be used here; the sentence says why.
pub(crate) fn discover(path: &OsStr) -> Result<Runtime, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("the worker is not root".to_owned());
    }
    let places: Vec<PathBuf> =
        std::env::split_paths(path).chain(std::env::split_paths(PLACES)).collect();
    let find = |name: &str| places.iter().map(|place| place.join(name)).find(|at| is_usable(at));
    choose(find("runc"), find("crun"), versions())
}

/// runc first: it takes every set-up of cgroups.
fn choose(
    runc: Option<PathBuf>,
    crun: Option<PathBuf>,
    versions: Versions,
) -> Result<Runtime, String> {
    match (runc, crun, versions) {
        (Some(program), Some(_) | None, Versions::One | Versions::Two | Versions::Both) => {
            Ok(Runtime { name: "runc", program })
        }
        (None, Some(program), Versions::One | Versions::Two) => {
            Ok(Runtime { name: "crun", program })
        }
        (None, Some(_), Versions::Both) => {
            Err("crun does not work with cgroups of both versions; install runc".to_owned())
        }
        (None, None, Versions::One | Versions::Two | Versions::Both) => {
            Err("no runc and no crun was found; install one".to_owned())
        }
    }
}

fn is_usable(program: &Path) -> bool {
    fs::metadata(program)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_fits_the_cgroups_of_the_machine() {
        let program = |name: &str| Some(PathBuf::from(format!("/usr/bin/{name}")));
        let chosen = |runc, crun, versions| choose(runc, crun, versions).map(|found| found.name);
        for versions in [Versions::One, Versions::Two, Versions::Both] {
            assert_eq!(chosen(program("runc"), program("crun"), versions), Ok("runc"));
            assert!(chosen(None, None, versions).unwrap_err().contains("no runc and no crun"));
        }
        assert_eq!(chosen(None, program("crun"), Versions::Two), Ok("crun"));
        assert!(
            chosen(None, program("crun"), Versions::Both).unwrap_err().contains("install runc")
        );
    }
}
