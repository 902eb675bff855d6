//! Which of the slow tests play this time.
//!
//! Tests of packages that changed in the last commits always play, and so do those of their dependants.
//! The slow test binaries of the others rotate: each plays when it is its turn by the commit's hash.
//! `--long` plays all of them.

use std::{collections::BTreeSet, path::Path, process::Command};

use crate::{run, workspace::Package};

/// Test binaries that take a minute or more by themselves, by package.
const SLOW: &[(&str, &str)] = &[
    ("sterna-protocol", "consensus_memory"),
    ("sterna-protocol", "model"),
    ("sterna-store", "crash_kill"),
    ("sterna-store", "real_etcd"),
    ("sterna-store", "real_postgres"),
];
/// Changes of so many commits count.
const COMMITS: usize = 50;
/// One in so many plays though nothing changed.
const TURNS: u64 = 3;

/// The slow binaries that do not play now, in the words of nextest's filter; `None` if all do, also
/// where git cannot be asked: then nothing is known to be unchanged.
pub(super) fn left_out(root: &Path, packages: &[Package]) -> Option<String> {
    let (changed, commit) = (changed_files(root)?, head(root)?);
    let affected = affected(packages, &changed);
    let out: Vec<String> = SLOW
        .iter()
        .filter(|(package, binary)| !affected.contains(package) && !is_turn(binary, &commit))
        .map(|(package, binary)| format!("binary_id({package}::{binary})"))
        .collect();
    (!out.is_empty()).then(|| format!("not ({})", out.join(" | ")))
}

/// The packages in whose folders files changed, and those that depend on them. What lies outside of all
/// packages, such as the lock file, concerns all.
fn affected<'a>(packages: &'a [Package], changed: &[String]) -> BTreeSet<&'a str> {
    let folder = |package: &'a Package| package.manifest.strip_suffix("Cargo.toml").unwrap_or("");
    let is_in = |file: &str, package: &'a Package| file.starts_with(folder(package));
    let is_code = |file: &&String| !file.ends_with(".md");
    let everywhere =
        |file: &String| !packages.iter().any(|package| is_in(file, package)) && is_build(file);
    if changed.iter().filter(is_code).any(everywhere) {
        return packages.iter().map(|package| package.name.as_str()).collect();
    }
    let of_file = |file: &String| packages.iter().filter(|package| is_in(file, package)).collect();
    let changed =
        changed.iter().filter(is_code).flat_map(|file| -> Vec<&Package> { of_file(file) });
    let mut affected: BTreeSet<&str> = changed.map(|package| package.name.as_str()).collect();
    loop {
        let needs = |package: &&Package| {
            package.siblings.iter().any(|sibling| affected.contains(sibling.name.as_str()))
        };
        let more: Vec<&str> =
            packages.iter().filter(needs).map(|package| package.name.as_str()).collect();
        let before = affected.len();
        affected.extend(more);
        if affected.len() == before {
            return affected;
        }
    }
}

/// Whether a file outside of all packages has a part in how they are built.
fn is_build(file: &str) -> bool {
    file.ends_with(".toml") || file == "Cargo.lock"
}

fn is_turn(binary: &str, commit: &str) -> bool {
    // FNV-1a: the same everywhere.
    let bytes = binary.bytes().chain(commit.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32).is_multiple_of(TURNS)
}

fn changed_files(root: &Path) -> Option<Vec<String>> {
    let count = format!("-{COMMITS}");
    let text = git(root, &["log", &count, "--name-only", "--format="])?;
    // A clone without its history does not tell what changed.
    let is_shallow = git(root, &["rev-parse", "--is-shallow-repository"])?.trim() == "true";
    (!is_shallow).then(|| text.lines().map(str::to_owned).collect())
}

fn head(root: &Path) -> Option<String> {
    Some(git(root, &["rev-parse", "HEAD"])?.trim().to_owned())
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.args(args).current_dir(root);
    run::capture(command).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Need, Sibling};

    fn package(name: &str, folder: &str, needs: &[&str]) -> Package {
        let sibling = |name: &&str| Sibling { name: (*name).to_owned(), need: Need::Run };
        Package {
            name: name.to_owned(),
            manifest: format!("{folder}/Cargo.toml"),
            features: Vec::new(),
            siblings: needs.iter().map(sibling).collect(),
        }
    }

    fn affected_by(files: &[&str]) -> Vec<String> {
        let packages = [
            package("a", "crates/a", &[]),
            package("b", "crates/b", &["a"]),
            package("c", "crates/c", &["b"]),
            package("d", "crates/d", &[]),
        ];
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        affected(&packages, &files).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_change_concerns_its_package_and_all_that_depend_on_it() {
        assert_eq!(affected_by(&["crates/b/src/lib.rs"]), ["b", "c"]);
        assert_eq!(
            affected_by(&["crates/a/tests/x.rs", "crates/d/src/lib.rs"]),
            ["a", "b", "c", "d"]
        );
        assert!(affected_by(&["crates/a/README.md", "docs/api.md"]).is_empty());
        assert_eq!(affected_by(&["Cargo.lock"]).len(), 4, "it concerns all");
    }

    #[test]
    fn each_slow_binary_has_its_turn() {
        for (_, binary) in SLOW {
            let turns = (0..60).filter(|number| is_turn(binary, &format!("{number:040x}"))).count();
            assert!((5..40).contains(&turns), "{binary}: {turns} of 60");
        }
    }
}
