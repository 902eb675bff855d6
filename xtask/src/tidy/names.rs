use crate::tidy::{
    Finding,
    source::{Source, is_name, line_at, words},
    tree::Tree,
};

/// Names that say nothing about what is inside.
const EMPTY: &[&str] =
    &["manager", "helper", "helpers", "util", "utils", "common", "misc", "base", "data", "info"];

/// Folders, files and modules of the sources are named for what they hold.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let stem = file.name().trim_end_matches(".rs");
        for name in file.folders().chain([stem]).filter(|name| EMPTY.contains(name)) {
            findings.push(finding(&file.path, 1, name));
        }
        let code = Source::split(&file.text).code;
        for at in words(&code, "mod") {
            // A module in a file of its own is found by the name of that file.
            let after = code[at + "mod".len()..].trim_start();
            let (name, rest) = after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()));
            if EMPTY.contains(&name) && rest.trim_start().starts_with('{') {
                findings.push(finding(&file.path, line_at(&code, at), name));
            }
        }
    }
    findings
}

fn finding(path: &str, line: usize, name: &str) -> Finding {
    let text = format!("`{name}` says nothing about what is inside; name it for what it holds");
    Finding::error(path, line, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    #[test]
    fn empty_names_are_found() {
        let tree = Tree::of(&[
            ("crates/a/src/common/x.rs", ""),
            ("crates/a/src/utils.rs", ""),
            ("crates/a/src/y.rs", "mod z;\npub mod data {\n}\n"),
        ]);
        let places =
            ["crates/a/src/common/x.rs:1", "crates/a/src/utils.rs:1", "crates/a/src/y.rs:2"];
        assert_places(&check(&tree), &places);
    }

    #[test]
    fn telling_names_pass() {
        let tree = Tree::of(&[
            ("crates/a/src/database.rs", "mod lease;\n// mod data {\nlet info = 1;\n"),
            ("docs/common/info.md", ""),
        ]);
        assert_eq!(check(&tree), []);
    }
}
