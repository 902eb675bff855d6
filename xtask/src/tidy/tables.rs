//! Finds arms that stand for pairs nobody wrote down.
//!
//! A decision over two things is a `match` on the pair, and every pair is written. Clippy holds
//! to this when one enum is matched; in a match on a tuple it lets `_ =>` and `(X, _)` through.
//! This scan finds them, and their disguises: `(X, ..)`, `other =>` and `(X, other)`.
//!
//! It looks at the cores: all sources of the pure crates, and of the other crates all but
//! `driver.rs` and `main.rs`, which decide nothing. Tests are left out. A payload may be ignored,
//! as in `(State::Running(_), Input::Tick)`: the state is still named.
//!
//! A match on numbers or words is no table; `// tidy: not a table` on the line above says so.

use std::ops::Range;

use crate::tidy::{
    Finding, floors,
    source::{Source, is_name, line_at, words},
    tree::{File, Tree},
};

/// The comment that excuses the match below it.
const EXCUSE: &str = "// tidy: not a table";

/// Every pair of a decision is written out.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| is_core(file)) {
        for line in wildcards(&Source::split(&file.text)) {
            let text = format!(
                "an arm that stands for pairs nobody wrote down; write them out, or put `{EXCUSE}` \
                 above the match if it is over numbers or words"
            );
            findings.push(Finding::error(&file.path, line, text));
        }
    }
    findings
}

fn is_core(file: &File) -> bool {
    let mut folders = file.folders();
    let (Some("crates"), Some(room), Some("src")) =
        (folders.next(), folders.next(), folders.next())
    else {
        return false;
    };
    let is_pure = floors::pure_crates().any(|name| name.strip_prefix("sterna-") == Some(room));
    !file.is_test() && (is_pure || !matches!(file.name(), "driver.rs" | "main.rs"))
}

/// The 1-based lines of arms with a wildcard, in matches on tuples that are not excused.
fn wildcards(source: &Source) -> Vec<usize> {
    let code = source.code_before_tests();
    let mut found = Vec::new();
    for at in words(code, "match") {
        let Some(block) = table_block(code, at + "match".len()) else { continue };
        let above = line_at(code, at).checked_sub(2);
        let comment = above.and_then(|index| source.comments.lines().nth(index));
        if comment.is_some_and(|comment| comment.contains(EXCUSE)) {
            continue;
        }
        let arms = arms(&code[block.clone()]);
        let hidden = arms.into_iter().filter(|(_, pattern)| is_wildcard(pattern));
        found.extend(hidden.map(|(offset, _)| line_at(code, block.start + offset)));
    }
    // An inner match stands before the later arms of the outer one.
    found.sort_unstable();
    found
}

/// What stands between the braces of a match on a tuple whose scrutinee begins at `after`.
fn table_block(code: &str, after: usize) -> Option<Range<usize>> {
    let scrutinee = enclosed(code, skip_blank(code, after), '(')?;
    let block = enclosed(code, skip_blank(code, scrutinee.end + 1), '{')?;
    let is_tuple = split_outside(&code[scrutinee], ',').len() > 1;
    is_tuple.then_some(block)
}

/// The patterns of the arms in `block`, without guards, each with its offset.
///
/// An arm ends with its block or with a comma at the end of a line, as rustfmt leaves them.
fn arms(block: &str) -> Vec<(usize, &str)> {
    let mut arms = Vec::new();
    let mut at = 0;
    while let Some(arrow) = find_outside(block, at, |rest| rest.starts_with("=>")) {
        let start = skip_blank(block, at);
        let pattern = &block[start..arrow];
        let guard = words(pattern, "if").next().unwrap_or(pattern.len());
        arms.push((start, pattern[..guard].trim()));
        let body = skip_blank(block, arrow + "=>".len());
        at = match enclosed(block, body, '{') {
            Some(inside) => inside.end + 1,
            None => find_outside(block, body, ends_arm).map_or(block.len(), |comma| comma + 1),
        };
        // A comma after a block belongs to the arm that ends there.
        at += usize::from(block[at..].starts_with(','));
    }
    arms
}

fn ends_arm(rest: &str) -> bool {
    rest.strip_prefix(',').is_some_and(|rest| rest.trim_start_matches(' ').starts_with('\n'))
}

/// Whether a whole alternative, or one side of its tuple, takes whatever comes.
fn is_wildcard(pattern: &str) -> bool {
    split_outside(pattern, '|').into_iter().map(str::trim).any(|alternative| {
        let sides = alternative.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        takes_all(alternative)
            || sides.is_some_and(|sides| {
                let mut sides = split_outside(sides, ',').into_iter();
                sides.any(|side| split_outside(side, '|').into_iter().any(takes_all))
            })
    })
}

/// `_`, `..`, a name for whatever comes, or any of them behind `name @`.
fn takes_all(pattern: &str) -> bool {
    let pattern = pattern.rsplit('@').next().unwrap_or(pattern).trim();
    let pattern = pattern.trim_start_matches("ref ").trim_start_matches("mut ");
    let is_binding =
        pattern.chars().all(is_name) && pattern.starts_with(|c: char| c == '_' || c.is_lowercase());
    pattern == ".." || is_binding && !matches!(pattern, "true" | "false")
}

/// Splits at `separator` where it stands in no parentheses.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    while let Some(at) = find_outside(text, start, |rest| rest.starts_with(separator)) {
        parts.push(&text[start..at]);
        start = at + separator.len_utf8();
    }
    parts.push(&text[start..]);
    // A comma at the end closes a tuple and begins nothing.
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The first offset from `from` on where `is_it` holds and no parenthesis is open.
fn find_outside(text: &str, from: usize, is_it: impl Fn(&str) -> bool) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, c) in text[from..].char_indices() {
        let at = from + offset;
        if depth == 0 && is_it(&text[at..]) {
            return Some(at);
        }
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// What stands between the `bracket` at `open` and the one that closes it; `None` when there is
/// no such bracket.
fn enclosed(text: &str, open: usize, bracket: char) -> Option<Range<usize>> {
    if !text[open..].starts_with(bracket) {
        return None;
    }
    let inside = open + bracket.len_utf8();
    let end = find_outside(text, inside, |rest| rest.starts_with([')', ']', '}']))?;
    Some(inside..end)
}

fn skip_blank(text: &str, from: usize) -> usize {
    text.len() - text[from..].trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    /// Checks one table; `wanted` are the arms found, counted from 1.
    #[track_caller]
    fn check_arms(arms: &str, wanted: &[usize]) {
        let text = format!("let x = match (a.b(1, 2), c) {{{arms}\n}};\n");
        let found: Vec<_> =
            wildcards(&Source::split(&text)).into_iter().map(|line| line - 1).collect();
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn a_full_table_passes() {
        check_arms("\n(W::Run, F::Alive) => 1,\n(W::Stop, F::Alive | F::Ended) => 2,", &[]);
        check_arms("\n(None, Some(_)) => 1,\n(Some(x), None) => x,\n(true, false) => 2,", &[]);
        check_arms("\n(S::Running { .. }, I::Exit(code, _)) => 1,\n(all @ (A | B), C) => 2,", &[]);
    }

    #[test]
    fn wildcards_are_found() {
        check_arms("\n(A, B) => 1,\n_ => 2,", &[2]);
        check_arms("\n(A, _) => 1,\n(_, B) => 2,", &[1, 2]);
        check_arms("\n(A, B) | (_, C) => 1,\n(A, B | _) => 2,", &[1, 2]);
    }

    #[test]
    fn wildcards_in_disguise_are_found() {
        check_arms(
            "\n(A, ..) => 1,\nother => 2,\n(A, _what) => 3,\n(A, what) => 4,",
            &[1, 2, 3, 4],
        );
        check_arms("\n(A, x @ _) => 1,\n(ref x, B) => 2,\n(mut x, B) => 3,", &[1, 2, 3]);
        check_arms("\n(A, what) if what.is_known() => 1,", &[1]);
    }

    #[test]
    fn bodies_and_guards_are_not_patterns() {
        check_arms(
            "\n(A, B) if matches!(x, C(_)) => 1,\n(A, C) => {\nlet _ = f(_g);\n}\n(A, D) => 2,",
            &[],
        );
        check_arms("\n(A, B) => x.map(|_| 1),\n(A, C) => f::<_, D>(),\n(A, D) => |a, b| a,", &[]);
        check_arms("\n(A, B) => {\n}\n(A, C) => {\n},\n(A, _) => 1,", &[5]);
        check_arms("\n(A, B) => match c {\n_ => 1,\n},\n(_, C) => 2,", &[4]);
        check_arms("\n// (A, _) => 1,\n(A, B) => \"(_, B) => 2\",", &[]);
    }

    #[test]
    fn a_table_in_a_table_is_found() {
        check_arms("\n(A, B) => match (c, d) {\n(E, _) => 1,\n},\n(A, _) => 2,", &[2, 4]);
    }

    #[test]
    fn only_tuples_are_tables() {
        for text in
            ["match (a) {\n_ => 1,\n}", "match (a, b).c {\n_ => 1,\n}", "match a {\n_ => 1,\n}"]
        {
            assert!(wildcards(&Source::split(text)).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_match_on_numbers_is_excused() {
        let table = "match (a, b) {\n    (0, _) => 1,\n}\n";
        let excused = format!("fn f() {{\n// tidy: not a table\n{table}}}\n");
        assert!(wildcards(&Source::split(&excused)).is_empty());
        let too_far = format!("// tidy: not a table\nfn f() {{\n{table}}}\n");
        assert_eq!(wildcards(&Source::split(&too_far)), [4]);
    }

    #[test]
    fn cores_are_looked_at_and_drivers_and_tests_are_not() {
        let table = "match (a, b) {\n    _ => 1,\n}\n";
        let in_tests = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{table}}}\n");
        let tree = Tree::of(&[
            ("crates/engine/src/auction/driver.rs", table),
            ("crates/engine/src/auction/tests.rs", table),
            ("crates/server/src/driver.rs", table),
            ("crates/server/src/links.rs", table),
            ("crates/server/src/quiet.rs", &in_tests),
            ("crates/server/tests/a.rs", table),
            ("crates/sterna/src/main.rs", table),
            ("xtask/src/args.rs", table),
        ]);
        let places = ["crates/engine/src/auction/driver.rs:2", "crates/server/src/links.rs:2"];
        assert_places(&check(&tree), &places);
    }
}
