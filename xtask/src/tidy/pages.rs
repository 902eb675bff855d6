//! The pages that users read stay short enough to be read: page, paragraph and table cell.

use crate::tidy::{
    Finding,
    tree::{File, Tree},
};

/// The pages that users read, beside those in [`FOLDERS`].
const PAGES: &[&str] = &["README.md", "CHANGELOG.md", "docs/spec.md", "docs/cli.md", "docs/api.md"];
/// Every page in these folders is for users.
const FOLDERS: &[&str] = &["docs/guide/", "docs/operate/"];

/// A longer page is two pages.
const PAGE_LINES_MAX: usize = 250;
/// A longer paragraph hides its second half.
const PARAGRAPH_WORDS_MAX: usize = 80;
/// A longer cell is prose that was pressed into a table.
const CELL_WORDS_MAX: usize = 40;

/// No page, paragraph or table cell is too long. Code blocks do not count.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files().filter(|file| is_page(&file.path)).flat_map(check_page).collect()
}

fn is_page(path: &str) -> bool {
    let is_inside = FOLDERS.iter().any(|folder| path.starts_with(folder));
    PAGES.contains(&path) || (is_inside && path.ends_with(".md"))
}

fn check_page(file: &File) -> Vec<Finding> {
    let prose = prose(&file.text);
    let mut findings = Vec::new();
    if prose.len() > PAGE_LINES_MAX {
        let text = format!(
            "{} lines beside code blocks, of at most {PAGE_LINES_MAX}; split the page by topic",
            prose.len()
        );
        findings.push(Finding::error(&file.path, 1, text));
    }
    findings.extend(paragraphs(&prose).into_iter().filter_map(|(line, words)| {
        let text = format!(
            "a paragraph of {words} words, of at most {PARAGRAPH_WORDS_MAX}; split the paragraph \
             or make it a list"
        );
        (words > PARAGRAPH_WORDS_MAX).then(|| Finding::error(&file.path, line, text))
    }));
    for (line, text) in prose.iter().filter(|(_, text)| is_row(text)) {
        for words in cells(text).map(count).filter(|words| *words > CELL_WORDS_MAX) {
            let text = format!(
                "a table cell of {words} words, of at most {CELL_WORDS_MAX}; move the detail into \
                 a paragraph below the table or make it a list"
            );
            findings.push(Finding::error(&file.path, *line, text));
        }
    }
    findings
}

/// All lines outside of code blocks, each with its 1-based number.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// Where each paragraph begins and how many words it has. A list item is a paragraph of its own.
fn paragraphs(prose: &[(usize, &str)]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    // The number of the line that would continue the last paragraph.
    let mut next = None;
    for &(line, text) in prose {
        if text.is_empty() || text.starts_with('#') || is_row(text) {
            next = None;
            continue;
        }
        match found.last_mut().filter(|_| next == Some(line) && !is_item(text)) {
            Some((_, words)) => *words += count(text),
            None => found.push((line, count(without_number(text)))),
        }
        next = Some(line + 1);
    }
    found
}

fn is_row(text: &str) -> bool {
    text.starts_with('|')
}

/// Whether the line begins an item of a list: `- `, `* ` or `1. `.
fn is_item(text: &str) -> bool {
    let after_number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = after_number.len() < text.len() && after_number.starts_with(". ");
    is_numbered || ["- ", "* "].iter().any(|mark| text.starts_with(mark))
}

/// The text of an item without its number, which is no word.
fn without_number(text: &str) -> &str {
    let after_number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    after_number.strip_prefix(". ").unwrap_or(text)
}

/// The cells of a row; `\|` is no border.
fn cells(row: &str) -> impl Iterator<Item = &str> {
    let mut was_escape = false;
    row.split(move |c| {
        let is_border = c == '|' && !was_escape;
        was_escape = c == '\\';
        is_border
    })
}

fn count(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    fn found(text: &str) -> Vec<Finding> {
        check(&Tree::of(&[("docs/guide/start.md", text)]))
    }

    fn words(count: usize) -> String {
        "word ".repeat(count)
    }

    #[test]
    fn a_long_page_is_found() {
        assert_eq!(found(&"\n".repeat(250)), []);
        let long = found(&"\n".repeat(251));
        assert_places(&long, &["docs/guide/start.md:1"]);
        assert!(long[0].is_error() && long[0].text.contains("251 lines"), "{long:?}");
        assert_eq!(found(&format!("```\n{}```\n", "code\n".repeat(400))), []);
    }

    #[test]
    fn a_long_paragraph_is_found_where_it_begins() {
        assert_eq!(found(&format!("# Title\n\n{}\n\n{}\n", words(80), words(80))), []);
        let long = found(&format!("# Title\n\n{}\n{}\n\nend\n", words(40), words(41)));
        assert_places(&long, &["docs/guide/start.md:3"]);
        assert!(long[0].text.starts_with("a paragraph of 81 words"), "{long:?}");
        assert!(long[0].text.ends_with("split the paragraph or make it a list"), "{long:?}");
    }

    #[test]
    fn each_item_of_a_list_is_a_paragraph() {
        let [most, rest] = [words(80), words(41)];
        assert_eq!(found(&format!("intro\n- {most}\n* {most}\n1. {most}\n12. {most}\n")), []);
        assert_places(&found(&format!("- a\n- {rest}\n  {rest}\n")), &["docs/guide/start.md:2"]);
    }

    #[test]
    fn a_long_cell_is_found_and_a_long_row_is_not() {
        let [most, rest] = [words(40), words(21)];
        assert_eq!(
            found(&format!("| a | b | c |\n| --- | --- | --- |\n| {most} | {most} | x |\n")),
            []
        );
        let long = found(&format!("| a | b |\n| --- | --- |\n| x | {rest}\\| {rest} |\n"));
        assert_places(&long, &["docs/guide/start.md:3"]);
        assert!(long[0].text.starts_with("a table cell of 42 words"), "{long:?}");
    }

    #[test]
    fn code_does_not_count() {
        assert_eq!(found(&format!("```sh\n{}\n| {} |\n```\n", words(99), words(99))), []);
        assert_eq!(found(&format!("~~~\n{}\n~~~\n", words(99))), []);
    }

    #[test]
    fn all_pages_for_users_are_looked_at_and_no_others() {
        let long = words(81);
        let all = ["CHANGELOG.md", "README.md", "docs/api.md", "docs/cli.md", "docs/operate/a.md"];
        let files: Vec<_> =
            all.iter().chain(&["docs/spec.md"]).map(|path| (*path, &*long)).collect();
        assert_eq!(check(&Tree::of(&files)).len(), 6);
        let others =
            [("docs/safety.md", &*long), ("adr/0001-x.md", &long), ("docs/guide/x.rs", &long)];
        assert_eq!(check(&Tree::of(&others)), []);
    }
}
