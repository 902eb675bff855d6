use crate::{
    tidy::{Finding, tree::Tree},
    workspace::{Need, Package, Workspace},
};

/// The package that people run.
pub(super) const BINARY: &str = "sterna";

/// Where a crate stands. ARCHITECTURE.md says what is in each.
struct Place {
    name: &'static str,
    floor: Floor,
    purity: Purity,
}

/// How high a crate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Floor {
    Number(u8),
    /// Knows anyone, and is known by no one.
    Outside,
}

/// Whether a crate is a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purity {
    /// Decides; reads no clock and no random source, and does no I/O.
    Pure,
    /// Acts.
    Acting,
}

const PLACES: &[Place] = &[
    core("sterna-model", 0),
    core("sterna-cron", 1),
    shell("sterna-store", 1),
    core("sterna-protocol", 1),
    core("sterna-executor", 1),
    core("sterna-engine", 2),
    shell("sterna-schedule", 2),
    shell("sterna-api", 2),
    shell("sterna-wire", 2),
    shell("sterna-server", 3),
    shell("sterna-worker", 3),
    shell("sterna-sim", 4),
    shell(BINARY, 5),
    Place { name: "xtask", floor: Floor::Outside, purity: Purity::Acting },
];

const fn core(name: &'static str, floor: u8) -> Place {
    Place { name, floor: Floor::Number(floor), purity: Purity::Pure }
}

const fn shell(name: &'static str, floor: u8) -> Place {
    Place { name, floor: Floor::Number(floor), purity: Purity::Acting }
}

/// The names of the cores.
pub(super) fn pure_crates() -> impl Iterator<Item = &'static str> {
    PLACES.iter().filter(|place| place.purity == Purity::Pure).map(|place| place.name)
}

/// Crates depend only downward, on a lower floor.
///
/// Tests may also reach their own floor, so that two neighbours can be tried together and a crate
/// can turn on a feature of its own; they never reach upward, or a change above would build and
/// test again what lies below.
pub(super) fn check(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    workspace.packages.iter().flat_map(|package| check_package(package, tree)).collect()
}

fn check_package(package: &Package, tree: &Tree) -> Vec<Finding> {
    let Some(own) = floor_of(&package.name) else {
        let text = format!(
            "{} stands on no floor; add it to PLACES in xtask/src/tidy/floors.rs and to \
             ARCHITECTURE.md",
            package.name
        );
        return vec![Finding::error(&package.manifest, 1, text)];
    };
    let mut findings = Vec::new();
    for sibling in &package.siblings {
        // One that is in no table is found at its own manifest.
        let Some(theirs) = floor_of(&sibling.name) else { continue };
        let is_allowed = match sibling.need {
            Need::Run | Need::Build => theirs < own,
            Need::Test => theirs <= own,
        };
        if !is_allowed || theirs == Floor::Outside {
            let line = line_of(tree, &package.manifest, &sibling.name);
            let text = format!(
                "{} ({}) may not depend on {} ({}), dependencies go only downward; move what is \
                 needed to a lower floor",
                package.name,
                own.shown(),
                sibling.name,
                theirs.shown()
            );
            findings.push(Finding::error(&package.manifest, line, text));
        }
    }
    findings
}

impl Floor {
    fn shown(self) -> String {
        match self {
            Self::Number(number) => format!("floor {number}"),
            Self::Outside => "outside".to_owned(),
        }
    }
}

fn floor_of(name: &str) -> Option<Floor> {
    PLACES.iter().find(|place| place.name == name).map(|place| place.floor)
}

/// The line on which a manifest names `dependency`.
fn line_of(tree: &Tree, manifest: &str, dependency: &str) -> usize {
    let text = tree.file(manifest).map_or("", |file| &file.text);
    let names_it = |line: &str| {
        line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    text.lines().position(names_it).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{tidy::assert_places, workspace::Sibling};

    fn found(name: &str, siblings: &[(&str, Need)]) -> Vec<Finding> {
        let siblings =
            siblings.iter().map(|&(name, need)| Sibling { name: name.to_owned(), need }).collect();
        let package = Package {
            name: name.to_owned(),
            manifest: "Cargo.toml".to_owned(),
            siblings,
            ..Package::default()
        };
        let workspace =
            Workspace { root: PathBuf::new(), target: PathBuf::new(), packages: vec![package] };
        let manifest =
            "[dependencies]\nsterna-api.workspace = true\nsterna-server = { path = 1 }\n";
        check(&workspace, &Tree::of(&[("Cargo.toml", manifest)]))
    }

    #[test]
    fn downward_is_allowed() {
        let below = [("sterna-model", Need::Run), ("sterna-store", Need::Build)];
        assert_eq!(found("sterna-engine", &below), []);
        assert_eq!(found("xtask", &[("sterna", Need::Run)]), []);
    }

    #[test]
    fn upward_and_sideways_are_not() {
        let text = "Cargo.toml:3";
        assert_places(&found("sterna-engine", &[("sterna-server", Need::Run)]), &[text]);
        assert_places(&found("sterna-engine", &[("sterna-server", Need::Build)]), &[text]);
        assert_places(&found("sterna-engine", &[("sterna-api", Need::Run)]), &["Cargo.toml:2"]);
        assert_places(&found("sterna-engine", &[("sterna-engine", Need::Run)]), &["Cargo.toml:1"]);
    }

    #[test]
    fn tests_may_reach_their_own_floor_only() {
        let own = [("sterna-api", Need::Test), ("sterna-engine", Need::Test)];
        assert_eq!(found("sterna-engine", &own), []);
        assert_places(&found("sterna-engine", &[("sterna-server", Need::Test)]), &["Cargo.toml:3"]);
    }

    #[test]
    fn nobody_depends_on_what_is_outside() {
        assert_places(&found("sterna", &[("xtask", Need::Test)]), &["Cargo.toml:1"]);
    }

    #[test]
    fn a_crate_without_a_floor_is_told_where_to_get_one() {
        let found = found("sterna-extra", &[]);
        assert_places(&found, &["Cargo.toml:1"]);
        assert!(found[0].text.contains("add it to PLACES"));
    }
}
