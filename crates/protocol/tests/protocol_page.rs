//! PROTOCOL.md names scripts and tests: each is there and is run, each script is on the page, and its
//! count of interactions runs on without a gap.

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

/// The functions of this crate that are run as tests: those right below a line `#[test]`, with
/// nothing but other attributes and comments between.
fn tests_of(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in code.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_test = false;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            let name = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            found.extend(name.filter(|_| is_test).map(str::to_owned));
            is_test = false;
        }
    }
    found
}

fn tests() -> BTreeSet<String> {
    let mut sources = Vec::new();
    files(&root().join("src"), &mut sources);
    files(&root().join("tests"), &mut sources);
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    sources.iter().flat_map(|path| tests_of(&fs::read_to_string(path).unwrap())).collect()
}

/// What a table says in its last column, when that is headed "shown by", and what follows these words
/// elsewhere.
fn evidence(page: &str) -> BTreeSet<&str> {
    let mut is_shown = false;
    let mut found = BTreeSet::new();
    for line in page.lines() {
        let cell = line.strip_suffix('|').and_then(|row| row.rsplit('|').next());
        match cell {
            Some(cell) if cell.trim() == "shown by" => is_shown = true,
            Some(cell) if is_shown => found.extend(quoted(cell)),
            Some(_) => {}
            None => is_shown = false,
        }
        found.extend(line.split_once("Shown by ").into_iter().flat_map(|(_, rest)| quoted(rest)));
    }
    found
}

#[test]
fn every_test_on_the_page_is_there() {
    let (page, tests, scripts) = (page(), tests(), scripts());
    let is_test = |name: &&str| {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name && name.matches('_').count() >= UNDERSCORES_MIN
    };
    let named: BTreeSet<&str> = quoted(&page).into_iter().filter(is_test).collect();
    assert!(named.len() > 5, "the page names no tests any more: {named:?}");
    for name in named {
        assert!(tests.contains(name), "no test is called {name}");
    }
    let evidence = evidence(&page);
    assert!(evidence.len() > 60, "the page shows nothing any more: {evidence:?}");
    for name in evidence {
        let is_there = tests.contains(name) || scripts.contains(name);
        assert!(is_there, "what is said to be shown by {name} is shown by no test and no script");
    }
}

#[test]
fn only_what_is_run_counts_as_a_test() {
    let code = "#[test]\n#[cfg(unix)]\n// Why.\nfn is_run() {}\nfn is_called() {}\n\
                #[test]\n#[ignore = \"slow\"]\nfn is_ignored() {}\n// #[test]\nfn was_run() {}\n";
    assert_eq!(tests_of(code), BTreeSet::from(["is_run".to_owned()]));
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
