use crate::tidy::{Finding, tree::Tree};

/// What a newcomer looks for at the root, and what it is for.
const DOCUMENTS: &[(&str, &str)] = &[
    ("README.md", "what it is and two commands to try it"),
    ("ARCHITECTURE.md", "the picture, the code map, the invariants"),
    ("GLOSSARY.md", "each noun in one sentence"),
    ("PROMISES.md", "each promise with what holds it"),
    ("CONTRIBUTING.md", "how to build, the gate, the checklists"),
    ("CHANGELOG.md", "what changed, and what to do about it"),
    ("LICENSE-MIT", "one of the two licences"),
    ("LICENSE-APACHE", "the other licence"),
];

/// The documents are there and are not empty.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    DOCUMENTS
        .iter()
        .filter(|(path, _)| tree.file(path).is_none_or(|file| file.text.trim().is_empty()))
        .map(|(path, content)| {
            Finding::error(path, 1, format!("missing or empty; write it: {content}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    fn all() -> Vec<(&'static str, &'static str)> {
        DOCUMENTS.iter().map(|(path, _)| (*path, "text")).collect()
    }

    #[test]
    fn all_of_them_pass() {
        assert_eq!(check(&Tree::of(&all())), []);
    }

    #[test]
    fn a_missing_and_an_empty_one_are_found() {
        let mut files = all();
        files.retain(|(path, _)| *path != "README.md");
        files.retain(|(path, _)| *path != "GLOSSARY.md");
        files.push(("GLOSSARY.md", "\n"));
        assert_places(&check(&Tree::of(&files)), &["README.md:1", "GLOSSARY.md:1"]);
    }
}
