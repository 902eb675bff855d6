use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::{cargo::cargo, run, tidy::floors, workspace::Workspace};

/// Which crates are drawn in by whom, other people's among them.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// By pure crate, the names of what it links.
    pub(super) linked: BTreeMap<String, BTreeSet<String>>,
    /// What must be had to build the binary, with versions.
    pub(super) binary: BTreeSet<String>,
}

impl Graph {
    /// Asks `cargo tree` about one crate at a time, as if each were built alone with its default
    /// features. The resolution in `cargo metadata` is no use here: it joins the features that all
    /// members ask for, and so would blame a core for what a shell draws in.
    pub(super) fn load(workspace: &Workspace) -> Result<Self> {
        let mut graph = Self::default();
        for name in floors::pure_crates() {
            if workspace.package(name).is_some() {
                // A procedural macro runs in the compiler and is not linked.
                let crates = reached(workspace, name, "normal,no-proc-macro")?;
                let names = crates.iter().filter_map(|entry| entry.split(' ').next());
                graph.linked.insert(name.to_owned(), names.map(str::to_owned).collect());
            }
        }
        graph.binary = reached(workspace, floors::BINARY, "normal,build")?;
        Ok(graph)
    }
}

fn reached(workspace: &Workspace, package: &str, edges: &str) -> Result<BTreeSet<String>> {
    let args = ["tree", "--locked", "--package", package, "--edges", edges];
    let mut command = cargo(&workspace.root, args);
    command.args(["--prefix", "none", "--format", "{p}"]);
    Ok(parse(&run::capture(command)?))
}

/// Lines such as `bytes v1.12.1 (*)`: the name and the version are what counts.
fn parse(answer: &str) -> BTreeSet<String> {
    let entry = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    answer.lines().map(entry).filter(|entry| !entry.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_crates_are_one_and_versions_are_two() {
        let answer = "sterna v0.1.0 (/w/crates/sterna)\nsyn v2.0.1 (proc-macro)\nsyn v3.0.9\n\
                      bytes v1.12.1\nbytes v1.12.1 (*)\n\n";
        let crates: Vec<_> = parse(answer).into_iter().collect();
        assert_eq!(crates, ["bytes v1.12.1", "sterna v0.1.0", "syn v2.0.1", "syn v3.0.9"]);
    }
}
