//! PROTOCOL.md is whole: each name on it is a test or a script that is run, each script is on it, each
//! call has its six hazards, and each two calls their interactions, counted without a gap. The scenarios
//! have a script each.

#![expect(clippy::unwrap_used, reason = "a page that cannot be read fails its test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// So many `_` has the name of a test at least; names of calls and fields have fewer.
const UNDERSCORES_MIN: usize = 5;
/// The calls, as the chapter of interactions calls them.
const CORE: [&str; 5] = ["heartbeat", "get_running", "run", "notify", "status"];
const ADDED: [&str; 2] = ["kill", "die"];
/// What else we have added, which is no call of its own and meets them all.
const EVENTS: [&str; 8] =
    ["declared dead", "drain", "raise", "enrolment", "lease", "rebirth", "new stream", "leaving"];
/// Of two events those that change what the same entry of the roster means.
const OF_ENTRIES: [[&str; 2]; 2] = [["declared dead", "raise"], ["declared dead", "drain"]];
/// The sixth, that a call meets others, has a chapter of its own.
const HAZARDS: [&str; 5] = ["failure", "partial failure", "delay", "replay", "identity"];

/// Where else what stands on the page is shown: bytes, and what is said beside the protocol.
const BESIDE: [&str; 4] =
    ["../wire/src", "../wire/tests/messages", "../worker/src/link", "../server/src/reign"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// What there is to be named.
struct There {
    tests: BTreeSet<String>,
    scripts: BTreeSet<String>,
}

impl There {
    fn read() -> Self {
        let mut found = Vec::new();
        files(&root().join("src"), &mut found);
        files(&root().join("tests"), &mut found);
        for beside in BESIDE {
            files(&root().join(beside), &mut found);
        }
        let of = |ending: &'static str| {
            found.iter().filter(move |path| path.extension().is_some_and(|is| is == ending))
        };
        let tests = of("rs").flat_map(|path| tests_of(&fs::read_to_string(path).unwrap()));
        let folder = root().join("tests/scripts");
        let name =
            |path: &PathBuf| path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
        Self { tests: tests.collect(), scripts: of("txt").map(name).collect() }
    }

    fn has(&self, name: &str) -> bool {
        self.tests.contains(name) || self.scripts.contains(name)
    }
}

/// The functions that are run as tests: those right below a line `#[test]`, with nothing but other
/// attributes and comments between.
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

/// What stands between two backticks in one line.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// The cells of a row of a table, without the rule below its head.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    (!cells.iter().all(|cell| cell.starts_with("---"))).then_some(cells)
}

/// The rest of the page from a heading to the next one that is not below it.
fn chapter<'a>(page: &'a str, heading: &str) -> &'a str {
    let Some((_, rest)) = page.split_once(&format!("\n{heading}\n")) else { return "" };
    let level = heading.split(' ').next().unwrap_or_default();
    let is_end = |line: &str| {
        line.split(' ')
            .next()
            .is_some_and(|hashes| hashes.starts_with('#') && hashes.len() <= level.len())
    };
    let length = rest.lines().take_while(|line| !is_end(line)).map(|line| line.len() + 1).sum();
    rest.get(..length).unwrap_or(rest)
}

/// Everything that is wrong with a page.
fn faults(page: &str, there: &There) -> Vec<String> {
    let mut faults = Vec::new();
    check_names(page, there, &mut faults);
    check_evidence(page, there, &mut faults);
    check_hazards(page, &mut faults);
    check_interactions(page, &mut faults);
    faults
}

fn check_names(page: &str, there: &There, faults: &mut Vec<String>) {
    let named = quoted(page);
    let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    for name in &named {
        let is_test = is_word(name) && name.matches('_').count() >= UNDERSCORES_MIN;
        if is_test && !there.tests.contains(*name) {
            faults.push(format!("no test is called {name}"));
        }
        if name.ends_with(".txt") && !there.scripts.contains(*name) {
            faults.push(format!("there is no script {name}"));
        }
    }
    let unnamed = there.scripts.iter().filter(|script| !named.contains(script.as_str()));
    faults.extend(unnamed.map(|script| format!("the page does not say what {script} shows")));
}

/// Each row of a table whose last column is headed "shown by" has something there, and all of it is
/// run; as is what follows these words elsewhere.
fn check_evidence(page: &str, there: &There, faults: &mut Vec<String>) {
    let mut is_shown = false;
    for line in page.lines() {
        let row = cells(line);
        let evidence = match row.as_ref().and_then(|row| row.last()) {
            Some(&"shown by") => {
                is_shown = true;
                continue;
            }
            Some(cell) if is_shown => {
                if quoted(cell).is_empty() {
                    faults.push(format!("nothing shows this: {line}"));
                }
                quoted(cell)
            }
            Some(_) => continue,
            None => {
                is_shown &= line.starts_with('|');
                line.split_once("Shown by ").map(|(_, rest)| quoted(rest)).unwrap_or_default()
            }
        };
        let missing = evidence.into_iter().filter(|name| !there.has(name));
        faults.extend(missing.map(|name| format!("neither test nor script: {name}")));
    }
}

fn check_hazards(page: &str, faults: &mut Vec<String>) {
    let chapter = format!("\n{}", chapter(page, "## Calls and their hazards"));
    let mut calls = BTreeSet::new();
    for section in chapter.split("\n### ").skip(1) {
        let (heading, table) = section.split_once('\n').unwrap_or((section, ""));
        calls.extend(quoted(heading));
        let firsts = table.lines().filter_map(cells).filter_map(|row| row.first().copied());
        let named: Vec<&str> = firsts.flat_map(|cell| cell.split(", ")).collect();
        for hazard in HAZARDS {
            let count = named.iter().filter(|named| **named == hazard).count();
            if count != 1 {
                faults.push(format!("{heading}: {count} times {hazard}"));
            }
        }
    }
    let all = ["heartbeat", "update_status", "get_running", "run", "notify_if_not_running", "logs"];
    let all: BTreeSet<&str> = all.into_iter().chain(ADDED).collect();
    if calls != all {
        faults.push(format!("the calls with hazards are {calls:?}"));
    }
}

fn check_interactions(page: &str, faults: &mut Vec<String>) {
    let rows: Vec<Vec<&str>> =
        chapter(page, "## Two calls at once").lines().filter_map(cells).collect();
    let numbered = rows.iter().filter(|row| row[0].parse::<usize>().is_ok());
    let rows: Vec<&Vec<&str>> = numbered.collect();
    for (row, number) in rows.iter().zip(1..) {
        if row[0] != format!("{number}") {
            faults.push(format!("{} is counted in place of {number}", row[0]));
        }
    }
    let all = rows.len();
    let more = all.saturating_sub(20);
    for heading in [
        "### The five core calls: 20 of 20".to_owned(),
        format!("### What our own additions make: {more} more, {all} of {all}"),
    ] {
        if !page.lines().any(|line| line == heading) {
            faults.push(format!("there is no heading {heading}"));
        }
    }
    // How often each pair stands there, of the first twenty on each side.
    let mut pairs: BTreeMap<(BTreeSet<&str>, &str), usize> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let side = if index < 20 { row[2] } else { "" };
        *pairs.entry((row[1].split(", ").collect(), side)).or_default() += 1;
    }
    let mut check = |one, other, side, is_once: bool| {
        let count = pairs.get(&(BTreeSet::from([one, other]), side)).copied().unwrap_or(0);
        if count == 0 || is_once && count > 1 {
            faults.push(format!("{one} and {other} stand {count} times on the side {side:?}"));
        }
    };
    for (index, one) in CORE.into_iter().enumerate() {
        for other in CORE.into_iter().skip(index + 1) {
            for side in ["leader", "worker"] {
                check(one, other, side, true);
            }
        }
        for added in ADDED.into_iter().chain(EVENTS) {
            check(added, one, "", false);
        }
    }
    check(ADDED[0], ADDED[1], "", false);
    for added in ADDED {
        EVENTS.into_iter().for_each(|event| check(added, event, "", false));
    }
    for [one, other] in OF_ENTRIES {
        check(one, other, "", false);
    }
}

fn page() -> String {
    fs::read_to_string(root().join("../../PROTOCOL.md")).unwrap()
}

#[test]
fn every_test_on_the_page_is_there() {
    let faults = faults(&page(), &There::read());
    assert!(faults.is_empty(), "PROTOCOL.md is not whole:\n{}", faults.join("\n"));
}

/// Of a page that is whole, each of these makes one that is not.
#[test]
fn every_planted_fault_is_found() {
    let (page, there) = (page(), There::read());
    let line = |begins: &str| {
        page.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{begins}"))
    };
    let row = |begins: &str| format!("{}\n", line(begins));
    let shown = |begins: &str| cells(line(begins)).unwrap().pop().unwrap().to_owned();
    let plants = [
        ("worker/rebirth.txt", "worker/rebirths.txt".to_owned(), "there is no script"),
        ("scenario_01_the_table_of_health", "scenario_01_of_all_of_health".to_owned(), "no test"),
        ("`leader/silence_of_a_replaceable_run.txt`", "that".to_owned(), "does not say what"),
        ("`loss_takes_two_judgements_in_a_row`", "`loss`".to_owned(), "neither test nor script"),
        ("| delay, replay | A kill", "| delay | A kill".to_owned(), "0 times replay"),
        ("| partial failure | Started", "| failure | Started".to_owned(), "2 times failure"),
        ("### `update_status`", "### `update`".to_owned(), "the calls with hazards"),
        ("### `logs`", "### `log`".to_owned(), "the calls with hazards"),
        (&row("| 13 |"), String::new(), "14 is counted in place of 13"),
        (&row("| 51 |"), String::new(), "52 is counted in place of 51"),
        ("| 4 | heartbeat, run | worker", "| 4 | heartbeat, run | leader".to_owned(), "stand 2"),
        ("| 12 | notify, run |", "| 12 | notify, status |".to_owned(), "run and notify stand 0"),
        (
            "| 33 | die, get_running |",
            "| 33 | die, run |".to_owned(),
            "die and get_running stand 0",
        ),
        (
            "| 60 | raise, get_running |",
            "| 60 | raise, kill |".to_owned(),
            "raise and get_running stand 0",
        ),
        ("| 36 | drain, run |", "| 36 | drain, rebirth |".to_owned(), "drain and run stand 0"),
        (
            "| 70 | lease, get_running |",
            "| 70 | lease, run |".to_owned(),
            "lease and get_running stand 0",
        ),
        ("| 86 | die, drain |", "| 86 | die, run |".to_owned(), "die and drain stand 0"),
        (
            "| 94 | declared dead, drain |",
            "| 94 | declared dead, run |".to_owned(),
            "declared dead and drain stand 0",
        ),
        (
            "| 97 | leaving, get_running |",
            "| 97 | leaving, run |".to_owned(),
            "leaving and get_running stand 0",
        ),
        ("20 of 20", "19 of 20".to_owned(), "there is no heading"),
        (" more, ", " others, ".to_owned(), "there is no heading"),
        (&shown("| 17 |"), "a look at it".to_owned(), "nothing shows this"),
        (&shown("| identity | By incarnation"), "all".to_owned(), "nothing shows this"),
    ];
    for (from, to, expected) in plants {
        assert!(page.contains(from), "there is no {from} to be changed");
        // Everywhere: what shows several things may stand several times.
        let faults = faults(&page.replace(from, &to), &there);
        let is_found = faults.iter().any(|fault| fault.contains(expected));
        assert!(is_found, "{from} => {to}: {expected} is not among {faults:?}");
    }
}

#[test]
fn each_of_the_27_scenarios_has_its_script() {
    let scripts = There::read().scripts;
    for number in 1..=27 {
        let name = format!("/scenario_{number:02}_");
        assert!(scripts.iter().any(|script| script.contains(&name)), "no script {name}");
    }
}

#[test]
fn only_what_is_run_counts_as_a_test() {
    let code = "#[test]\n#[cfg(unix)]\n// Why.\nfn is_run() {}\nfn is_called() {}\n\
                #[test]\n#[ignore = \"slow\"]\nfn is_ignored() {}\n// #[test]\nfn was_run() {}\n";
    assert_eq!(tests_of(code), BTreeSet::from(["is_run".to_owned()]));
}
