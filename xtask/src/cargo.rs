use std::{env, ffi::OsStr, path::Path, process::Command};

use crate::run;

/// Prefixes of the variables by which cargo describes a package to a program that it runs.
const PACKAGE_VARIABLES: &[&str] =
    &["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_NAME", "CARGO_BIN_", "CARGO_PRIMARY_PACKAGE"];

/// A cargo that works in `root`, prepared so that every step shares artifacts with the others
/// and with a plain `cargo build`.
pub(crate) fn cargo<S: AsRef<OsStr>>(root: &Path, args: impl IntoIterator<Item = S>) -> Command {
    // Under `cargo run` this names the very cargo that built us, whatever `PATH` says.
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root);
    // Everything is built as if the machine had no protoc, in every step and not only in one:
    // a build script runs once for all steps, so a single honest step would prove nothing.
    command.env("PROTOC", "/nonexistent");
    // `cargo run` describes *this* package to us. Some build scripts (ring's) ask to be run again
    // when these change, so passing them on would rebuild half the tree at every turn.
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(describes_a_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Whether `cargo <name>` can be run here.
pub(crate) fn has_subcommand(root: &Path, name: &str) -> bool {
    run::capture(cargo(root, [name, "--version"])).is_ok()
}

fn describes_a_package(variable: &str) -> bool {
    PACKAGE_VARIABLES.iter().any(|prefix| variable.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_descriptions_of_a_package_are_withheld() {
        for withheld in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_BIN_NAME"] {
            assert!(describes_a_package(withheld), "{withheld}");
        }
        for kept in ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "PATH"] {
            assert!(!describes_a_package(kept), "{kept}");
        }
    }
}
