//! PROTOCOL.md names scripts and tests: each is there, each script is on the page, and its count of
//! interactions runs on without a gap.

#![expect(clippy::unwrap_used, reason = "a page that cannot be read fails its test")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// So many `_` has the name of a test at least; names of calls and fields have fewer.
const UNDERSCORES_MIN: usize = 5;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What stands between two backticks in one line.
fn quoted(page: &str) -> BTreeSet<&str> {
    page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn scripts() -> BTreeSet<String> {
    let folder = root().join("tests/scripts");
    let mut found = Vec::new();
    files(&folder, &mut found);
    let names = found.iter().map(|path| path.strip_prefix(&folder).unwrap().to_str().unwrap());
    names.filter(|name| name.ends_with(".txt")).map(str::to_owned).collect()
}

fn page() -> String {
    fs::read_to_string(root().join("../../PROTOCOL.md")).unwrap()
}

#[test]
fn the_page_names_exactly_the_scripts_that_there_are() {
    let page = page();
    let named = quoted(&page).into_iter().filter(|name| name.ends_with(".txt"));
    let named: BTreeSet<String> = named.map(str::to_owned).collect();
    let scripts = scripts();
    let missing: Vec<_> = named.difference(&scripts).collect();
    let unnamed: Vec<_> = scripts.difference(&named).collect();
    assert!(missing.is_empty(), "PROTOCOL.md names scripts that are not there: {missing:?}");
    assert!(unnamed.is_empty(), "PROTOCOL.md does not say what these show: {unnamed:?}");
}

#[test]
fn every_test_on_the_page_is_there() {
    let mut sources = Vec::new();
    files(&root().join("src"), &mut sources);
    files(&root().join("tests"), &mut sources);
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let code: String = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let page = page();
    let is_test = |name: &&str| {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name && name.matches('_').count() >= UNDERSCORES_MIN
    };
    let tests: Vec<&str> = quoted(&page).into_iter().filter(is_test).collect();
    assert!(tests.len() > 5, "the page names no tests any more: {tests:?}");
    for test in tests {
        assert!(code.contains(&format!("fn {test}()")), "no test is called {test}");
    }
}

#[test]
fn the_interactions_are_counted_without_a_gap() {
    let page = page();
    let first = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse::<usize>().ok();
    let numbers: Vec<usize> = page.lines().filter_map(first).collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
    let all = numbers.len();
    assert!(page.contains("20 of 20"), "the core calls make 20");
    assert!(page.contains(&format!("{} more, {all} of {all}", all - 20)), "there are {all}");
}
