use crate::tidy::{Finding, tree::Tree};

/// The files by which one enters a crate or a module.
const DOORS: &[&str] = &["lib.rs", "mod.rs", "main.rs"];

/// Fewer words than this say nothing that the name does not.
const WORDS_MIN: usize = 4;

/// Every door says, first of all and in a full sentence, what is behind it.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|file| DOORS.contains(&file.name()))
        .filter(|file| !has_sentence(&door_doc(&file.text)))
        .map(|file| {
            let text = "the door does not say what is behind it; open the file with a `//!` \
                        comment of at least one full sentence";
            Finding::error(&file.path, 1, text)
        })
        .collect()
}

/// The comment that the file opens with.
fn door_doc(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

fn has_sentence(doc: &str) -> bool {
    doc.split_inclusive(['.', ':', '!', '?']).any(|sentence| {
        let ends = sentence.ends_with(['.', ':', '!', '?']);
        ends && sentence.split_whitespace().count() >= WORDS_MIN
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    fn found(text: &str) -> Vec<Finding> {
        check(&Tree::of(&[("crates/a/src/lib.rs", text), ("crates/a/src/b.rs", "")]))
    }

    #[test]
    fn a_silent_door_is_found() {
        for text in
            ["", "use a::b;\n", "//! The store.\n", "//!\n", "mod a;\n//! Too late to be a door.\n"]
        {
            assert_places(&found(text), &["crates/a/src/lib.rs:1"]);
        }
    }

    #[test]
    fn a_sentence_is_enough() {
        assert_eq!(found("//! The health of one worker.\n"), []);
        assert_eq!(found("//! What a worker does about each task\n//! it wants.\n\nmod a;\n"), []);
    }

    #[test]
    fn every_kind_of_door_is_looked_at() {
        let tree = Tree::of(&[("a/lib.rs", ""), ("a/x/mod.rs", ""), ("b/main.rs", "")]);
        assert_places(&check(&tree), &["a/lib.rs:1", "a/x/mod.rs:1", "b/main.rs:1"]);
    }
}
