use crate::tidy::{
    Finding,
    tree::{File, Tree},
};

/// The parts of a decision, as headings.
const PARTS: &[&str] = &["Context", "Decision", "Consequences", "Alternatives"];

/// Decisions are `adr/NNNN-title.md`, numbered without gaps from 1, and whole.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut expected = 1;
    for file in tree.files().filter(|file| file.path.starts_with("adr/")) {
        // What is not numbered is an index or a template, and says so.
        if matches!(file.name(), "README.md" | "template.md") {
            continue;
        }
        let Some(number) = number_of(file.name()) else {
            let text = "is not named like a decision; name it adr/NNNN-title-in-words.md";
            findings.push(Finding::error(&file.path, 1, text));
            continue;
        };
        if number != expected {
            let text = format!("number {expected:04} was next; number decisions without gaps");
            findings.push(Finding::error(&file.path, 1, text));
        }
        expected = number + 1;
        findings.extend(missing_parts(file));
    }
    findings
}

fn missing_parts(file: &File) -> impl Iterator<Item = Finding> {
    PARTS.iter().filter(|part| !has_heading(&file.text, part)).map(|part| {
        let text = format!("has no heading {part}; a decision says all of {}", PARTS.join(", "));
        Finding::error(&file.path, 1, text)
    })
}

fn has_heading(text: &str, part: &str) -> bool {
    text.lines().any(|line| {
        let heading = line.trim_start_matches('#').trim();
        line.starts_with('#') && heading.to_lowercase().starts_with(&part.to_lowercase())
    })
}

/// The number in `0007-title.md`.
fn number_of(name: &str) -> Option<u32> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !title.is_empty()).then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    const WHOLE: &str = "# 1. T\n## Context\n## Decision\n## Consequences\n## Alternatives\n";

    #[test]
    fn whole_decisions_in_a_row_pass() {
        let tree = Tree::of(&[
            ("adr/0001-a-title.md", WHOLE),
            ("adr/0002-b.md", WHOLE),
            ("adr/README.md", ""),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn gaps_and_doubles_are_found_once() {
        let gap = Tree::of(&[
            ("adr/0001-a.md", WHOLE),
            ("adr/0003-b.md", WHOLE),
            ("adr/0004-c.md", WHOLE),
        ]);
        assert_places(&check(&gap), &["adr/0003-b.md:1"]);
        let double = Tree::of(&[
            ("adr/0001-a.md", WHOLE),
            ("adr/0001-b.md", WHOLE),
            ("adr/0002-c.md", WHOLE),
        ]);
        assert_places(&check(&double), &["adr/0001-b.md:1"]);
    }

    #[test]
    fn a_missing_part_is_named() {
        let tree = Tree::of(&[("adr/0001-a.md", &WHOLE.replace("## Alternatives\n", ""))]);
        let found = check(&tree);
        assert_places(&found, &["adr/0001-a.md:1"]);
        assert!(found[0].text.contains("no heading Alternatives"), "{found:?}");
    }

    #[test]
    fn other_names_are_found() {
        let tree = Tree::of(&[("adr/1-a.md", WHOLE), ("adr/notes.txt", "")]);
        assert_places(&check(&tree), &["adr/1-a.md:1", "adr/notes.txt:1"]);
    }
}
