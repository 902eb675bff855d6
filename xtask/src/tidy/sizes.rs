use crate::tidy::{
    Finding,
    tree::{LARGEST_BYTES, Tree},
};

/// A source longer than this fails.
const LINES_MAX: usize = 900;
/// A source longer than this is worth a word in review.
const LINES_WARN: usize = 600;

/// Sources that may be longer: path, and `table: …` or `generated: …` with the reason.
const LONG: &[(&str, &str)] = &[];

/// Files stay of a size that one can read.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_lines(tree, LONG);
    for file in tree.files().filter(|file| file.bytes > LARGEST_BYTES) {
        let text = format!(
            "{} KiB in git, where it stays for ever; keep it out, or make it when it is needed",
            file.bytes / 1024
        );
        findings.push(Finding::error(&file.path, 1, text));
    }
    findings
}

fn check_lines(tree: &Tree, long: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        let is_listed = long.iter().any(|(path, _)| *path == file.path);
        if lines > LINES_MAX && !is_listed {
            let text = format!(
                "{lines} lines, of at most {LINES_MAX}; split it by concern, or list it in LONG of \
                 xtask/src/tidy/sizes.rs if it is a table or generated"
            );
            findings.push(Finding::error(&file.path, 1, text));
        } else if lines > LINES_WARN && !is_listed {
            let text = format!("{lines} lines; is that still one concern?");
            findings.push(Finding::warning(&file.path, 1, text));
        }
    }
    for (path, reason) in long {
        let is_reason = ["table: ", "generated: "].iter().any(|kind| reason.starts_with(kind));
        let is_long = tree.file(path).is_some_and(|file| file.text.lines().count() > LINES_MAX);
        if !is_reason || !is_long {
            let text = "listed in LONG of xtask/src/tidy/sizes.rs, but is not there, not long, or \
                        neither a table nor generated; take it out of the list";
            findings.push(Finding::error(path, 1, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    fn tree_of(lines: usize) -> Tree {
        Tree::of(&[("a.rs", &"x\n".repeat(lines)), ("long.md", &"x\n".repeat(5000))])
    }

    #[test]
    fn a_long_source_is_found() {
        let found = check_lines(&tree_of(901), &[]);
        assert_places(&found, &["a.rs:1"]);
        assert!(found[0].is_error());
    }

    #[test]
    fn a_longish_source_is_a_warning() {
        let found = check_lines(&tree_of(601), &[]);
        assert_places(&found, &["a.rs:1"]);
        assert!(!found[0].is_error());
        assert_eq!(check_lines(&tree_of(600), &[]), []);
    }

    #[test]
    fn a_listed_table_may_be_long() {
        assert_eq!(check_lines(&tree_of(901), &[("a.rs", "table: every pair of states")]), []);
    }

    #[test]
    fn the_list_holds_only_long_tables_and_generated_files() {
        assert_places(&check_lines(&tree_of(901), &[("a.rs", "it grew")]), &["a.rs:1"]);
        assert_places(&check_lines(&tree_of(10), &[("a.rs", "table: x")]), &["a.rs:1"]);
        assert_places(&check_lines(&tree_of(10), &[("b.rs", "table: x")]), &["b.rs:1"]);
    }

    #[test]
    fn a_heavy_file_is_found() {
        let heavy = "x".repeat(512 * 1024 + 1);
        let tree = Tree::of(&[("heavy.bin", &heavy), ("light.bin", &heavy[1..])]);
        assert_places(&check(&tree), &["heavy.bin:1"]);
    }
}
