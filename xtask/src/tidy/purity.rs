use crate::{
    tidy::{Finding, graph::Graph},
    workspace::Workspace,
};

/// What no core may link, however deep, and why.
const IMPURE: &[(&str, &str)] = &[
    ("ahash", "seeds its maps at random"),
    ("async-std", "is a runtime"),
    ("chrono", "reads the clock; jiff is our date library"),
    ("const-random", "differs from build to build"),
    ("fastrand", "is a random source"),
    ("foldhash", "seeds its maps at random"),
    ("getrandom", "is a random source"),
    ("hyper", "does I/O"),
    ("instant", "reads the clock"),
    ("mio", "does I/O"),
    ("quanta", "reads the clock"),
    ("rand", "is a random source"),
    ("rayon", "runs in an order that nobody chose"),
    ("redb", "does I/O"),
    ("rustix", "does I/O"),
    ("rustls", "does I/O"),
    ("smol", "is a runtime"),
    ("socket2", "does I/O"),
    ("time", "reads the clock; jiff is our date library"),
    ("tokio", "is a runtime"),
    ("tonic", "does I/O"),
];

/// A core decides from its arguments alone, so that the simulator can replay it.
pub(super) fn check(workspace: &Workspace, graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (core, linked) in &graph.linked {
        let manifest = workspace.package(core).map_or("Cargo.toml", |package| &package.manifest);
        for (name, reason) in IMPURE.iter().filter(|(name, _)| linked.contains(*name)) {
            let text = format!(
                "{core} must stay pure, but draws in {name}, which {reason}; find out through whom \
                 with `cargo tree -p {core} -e normal -i {name}` and drop it or its feature"
            );
            findings.push(Finding::error(manifest, 1, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::PathBuf};

    use super::*;
    use crate::{tidy::assert_places, workspace::Package};

    fn found(linked: &[&str]) -> Vec<Finding> {
        let package = Package {
            name: "sterna-engine".to_owned(),
            manifest: "crates/engine/Cargo.toml".to_owned(),
            ..Package::default()
        };
        let workspace =
            Workspace { root: PathBuf::new(), target: PathBuf::new(), packages: vec![package] };
        let linked: BTreeSet<_> = linked.iter().map(|name| (*name).to_owned()).collect();
        let mut graph = Graph::default();
        graph.linked.insert("sterna-engine".to_owned(), linked);
        check(&workspace, &graph)
    }

    #[test]
    fn a_runtime_or_a_random_source_is_found() {
        let found = found(&["sterna-model", "tokio", "getrandom"]);
        assert_places(&found, &["crates/engine/Cargo.toml:1", "crates/engine/Cargo.toml:1"]);
        assert!(found[1].text.contains("-i tokio"), "{found:?}");
    }

    #[test]
    fn harmless_crates_pass() {
        assert_eq!(found(&["sterna-model", "serde", "indexmap", "hashbrown", "jiff"]), []);
    }
}
