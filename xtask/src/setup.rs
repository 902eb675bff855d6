//! The system packages that steps and tests need: installed where we may, named where we may not.
//!
//! A test never skips itself because something is absent; what it needs stands in [`PACKAGES`].

use std::{env, fs, os::unix::fs::MetadataExt, path::Path, process::Command};

/// What must be on the machine. A new row is all that a new need takes.
pub(crate) const PACKAGES: &[Package] = &[
    Package { name: "git", proof: "git", needed_by: "tidy, to know which files are ours" },
    Package {
        name: "postgresql",
        proof: "/usr/lib/postgresql",
        needed_by: "real_postgres, which starts servers of its own",
    },
    Package {
        name: "etcd-server",
        proof: "etcd",
        needed_by: "real_etcd, which starts clusters of its own",
    },
    Package {
        name: "etcd-client",
        proof: "etcdctl",
        needed_by: "real_etcd, to see how its clusters are",
    },
    Package {
        name: "runc",
        proof: "/usr/sbin/runc",
        needed_by: "real_containers, which runs work in images",
    },
    Package {
        name: "python3-venv",
        proof: "/usr/share/doc/python3-venv",
        needed_by: "dev, which asks the API with schemathesis",
    },
    Package {
        name: "busybox-static",
        proof: "busybox",
        needed_by: "real_containers, which makes an image of it",
    },
];

/// Asked by packages before they start a service that they bring; 101 stands for "no".
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// Runs a command while the policy, `$0`, is that no service is started: tests start servers of
/// their own. A policy that is there already is the owner's, and stays as it is.
const WITHOUT_SERVICES: &str = r#"
if (set -C; echo '#!/bin/sh
exit 101' > "$0") 2>/dev/null; then
    trap 'rm -f "$0"' EXIT
    chmod +x "$0"
fi
"$@""#;

/// One package of Debian and of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// The name by which apt knows it.
    pub(crate) name: &'static str,
    /// What shows that it is there: a command to find on `PATH`, or a path from the root.
    pub(crate) proof: &'static str,
    /// Which step or test needs it, and for what.
    pub(crate) needed_by: &'static str,
}

/// Whether this process may install packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    /// It is root, and apt-get is there.
    MayInstall,
    /// Someone else has to.
    MustAsk,
}

/// What to do about what is absent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Everything is there.
    Nothing,
    /// Install these.
    Install(Vec<Package>),
    /// Say that these are missing, and how to install them.
    Ask(Vec<Package>),
}

/// Decides what to do, given how to tell whether a package is there.
pub(crate) fn plan(
    packages: &[Package],
    authority: Authority,
    is_present: impl Fn(&Package) -> bool,
) -> Plan {
    let absent: Vec<_> = packages.iter().filter(|package| !is_present(package)).copied().collect();
    if absent.is_empty() {
        return Plan::Nothing;
    }
    match authority {
        Authority::MayInstall => Plan::Install(absent),
        Authority::MustAsk => Plan::Ask(absent),
    }
}

/// Looks for the package's proof on this machine.
pub(crate) fn is_present(package: &Package) -> bool {
    is_found(package.proof)
}

/// Looks at who we are and what is there.
pub(crate) fn authority() -> Authority {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if is_root && is_found("apt-get") { Authority::MayInstall } else { Authority::MustAsk }
}

/// Refreshes the lists of packages; a fresh machine has none.
pub(crate) fn update_command() -> Command {
    apt_get(&["update".to_owned()])
}

/// Installs `packages`, and starts no service of theirs.
pub(crate) fn install_command(packages: &[Package]) -> Command {
    let mut command = without_services(POLICY, "apt-get");
    command.args(install_args(packages)).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// One line for each absent package and one that installs them all.
pub(crate) fn request(packages: &[Package]) -> Vec<String> {
    let mut lines: Vec<_> = packages
        .iter()
        .map(|package| {
            format!(
                "missing: {} (no {}; needed by {})",
                package.name, package.proof, package.needed_by
            )
        })
        .collect();
    let names: Vec<_> = packages.iter().map(|package| package.name).collect();
    lines.push(format!(
        "install with: apt-get update && apt-get install --no-install-recommends {}",
        names.join(" ")
    ));
    lines
}

fn is_found(proof: &str) -> bool {
    if proof.starts_with('/') {
        return Path::new(proof).exists();
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(proof).is_file())
}

fn apt_get(args: &[String]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn without_services(policy: &str, program: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", WITHOUT_SERVICES, policy, program]);
    command
}

fn install_args(packages: &[Package]) -> Vec<String> {
    // A fresh machine often upgrades itself in the background; wait for its lock, not for ever.
    let options = ["install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];
    let names = packages.iter().map(|package| package.name);
    options.into_iter().chain(names).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: Package =
        Package { name: "postgresql", proof: "/usr/lib/postgresql", needed_by: "real_postgres" };
    const ETCD: Package = Package { name: "etcd-server", proof: "etcd", needed_by: "real_etcd" };
    const BOTH: &[Package] = &[DATABASE, ETCD];

    #[test]
    fn nothing_is_done_when_everything_is_there() {
        for authority in [Authority::MayInstall, Authority::MustAsk] {
            assert_eq!(plan(BOTH, authority, |_| true), Plan::Nothing);
            assert_eq!(plan(&[], authority, |_| false), Plan::Nothing);
        }
    }

    #[test]
    fn only_what_is_absent_is_installed() {
        let planned = plan(BOTH, Authority::MayInstall, |package| *package == DATABASE);
        assert_eq!(planned, Plan::Install(vec![ETCD]));
    }

    #[test]
    fn without_the_right_to_install_it_asks() {
        let planned = plan(BOTH, Authority::MustAsk, |_| false);
        assert_eq!(planned, Plan::Ask(BOTH.to_vec()));
    }

    #[test]
    fn the_request_says_what_for_and_how() {
        let lines = request(BOTH);
        assert_eq!(lines[1], "missing: etcd-server (no etcd; needed by real_etcd)");
        assert!(lines[2].ends_with("--no-install-recommends postgresql etcd-server"), "{lines:?}");
    }

    #[test]
    fn the_installation_asks_nothing_and_waits_for_the_lock() {
        let args = install_args(BOTH).join(" ");
        assert!(args.starts_with("install --yes --no-install-recommends"), "{args}");
        assert!(args.contains("DPkg::Lock::Timeout=300"), "{args}");
    }

    #[test]
    fn no_service_is_started_and_the_owners_policy_stays() {
        let path = env::temp_dir().join(format!("sterna-policy-{}", std::process::id()));
        let policy = path.to_str().unwrap();
        let asked = || without_services(policy, policy).status().unwrap().code();
        assert_eq!(asked(), Some(101));
        assert!(!path.exists(), "it was left behind");
        fs::write(&path, "#!/bin/sh\nexit 7\n").unwrap();
        assert!(Command::new("chmod").args(["+x", policy]).status().unwrap().success());
        assert_eq!(asked(), Some(7));
        assert!(path.exists(), "it was the owner's");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn proofs_are_paths_or_commands() {
        assert!(is_found("/proc/self"));
        assert!(is_found("sh"));
        assert!(!is_found("/no/such/path"));
        assert!(!is_found("no-such-command"));
    }
}
