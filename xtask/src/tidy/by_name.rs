//! Every row of a table, every transition and every duty has a test that is called after it.
//!
//! The row `(C::Starting, R::Missing) => End` is `starting_with_missing_gives_end`; the transition
//! `(P::Pending, E::Claim) => In(P::Running)` is `pending_on_claim_gives_running`. Who changes a
//! table must change a test, and a test whose row is gone is found too. That a test does what it is
//! called is for the test itself.
//!
//! Duties and holes are the rows of `docs/engine.md` with an id: the row `S1` names each test that is
//! called `duty_s1_...`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{
    Finding,
    source::{Source, is_name, line_at, words},
    tree::{File, Tree},
};

/// A table, and where its tests are.
struct Table {
    path: &'static str,
    function: &'static str,
    tests: &'static str,
    /// What stands between the two sides of a row in its name.
    between: &'static str,
}

const TABLES: [Table; 4] = [
    Table {
        path: "crates/engine/src/tables/instance.rs",
        function: "reconcile",
        tests: "crates/engine/src/tables/tests/instance.rs",
        between: "with",
    },
    Table {
        path: "crates/engine/src/tables/task.rs",
        function: "reconcile",
        tests: "crates/engine/src/tables/tests/task.rs",
        between: "with",
    },
    Table {
        path: "crates/model/src/record/instance/mod.rs",
        function: "instance_after",
        tests: "crates/model/src/record/instance/tests.rs",
        between: "on",
    },
    Table {
        path: "crates/model/src/record/task/mod.rs",
        function: "task_after",
        tests: "crates/model/src/record/task/tests.rs",
        between: "on",
    },
];

/// Where duties and holes stand.
const LIST: &str = "docs/engine.md";

/// The letter of an id, how many there are, and how their tests begin.
const IDS: [(&str, usize, &str); 4] =
    [("S", 5, "duty_s"), ("T", 5, "duty_t"), ("E", 9, "step_e"), ("H", 10, "hole_")];

/// Nothing that must be tested by name is without its test.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = TABLES.iter().flat_map(|table| check_table(tree, table)).collect();
    findings.extend(check_list(tree));
    findings
}

fn check_table(tree: &Tree, table: &Table) -> Vec<Finding> {
    let rows = tree.file(table.path).map(|file| rows(&file.text, table)).unwrap_or_default();
    if rows.is_empty() {
        let text =
            format!("no table `{}` is found here; say in `by_name.rs` where", table.function);
        return vec![Finding::error(table.path, 1, text)];
    }
    let tests = tree.file(table.tests).map(|file| tests(&file.text)).unwrap_or_default();
    let missing = rows.iter().filter(|(_, name)| !tests.contains_key(name)).map(|(line, name)| {
        let text = format!("no test `{name}` in {}; write it", table.tests);
        Finding::error(table.path, *line, text)
    });
    let names: BTreeSet<_> = rows.iter().map(|(_, name)| name).collect();
    let is_stale = |name: &String| name.contains("_gives_") && !names.contains(name);
    let stale = tests.iter().filter(|(name, _)| is_stale(name)).map(|(name, line)| {
        let text = format!("`{name}` is no row of {}; name it after its row", table.path);
        Finding::error(table.tests, *line, text)
    });
    missing.chain(stale).collect()
}

/// The names of all rows of a table, each with its line.
fn rows(text: &str, table: &Table) -> Vec<(usize, String)> {
    let code = Source::split(text).code;
    let head = format!("fn {}(", table.function);
    let Some(start) = code.find(&head) else { return Vec::new() };
    let end = code[start..].find("\n}").map_or(code.len(), |length| start + length);
    let mut rows = Vec::new();
    for (index, line) in code[start..end].lines().enumerate() {
        let Some(arm) = line.trim().strip_prefix('(') else { continue };
        let Some((sides, after)) = arm.split_once(')') else { continue };
        let Some(after) = after.trim_start().strip_prefix("=>") else { continue };
        let Some((left, right)) = sides.split_once(',') else { continue };
        for left in left.split('|') {
            for right in right.split('|') {
                let name = format!(
                    "{}_{}_{}_gives_{}",
                    last_word(left),
                    table.between,
                    last_word(right),
                    last_word(after)
                );
                rows.push((line_at(&code, start) + index, name));
            }
        }
    }
    rows
}

/// `In(P::ClaimedHere),` as it stands in a name: `claimed_here`.
fn last_word(path: &str) -> String {
    let path = path.trim_end_matches(|c| !is_name(c));
    let mut word = String::new();
    for c in path.rsplit(|c| !is_name(c)).next().unwrap_or_default().chars() {
        if c.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(c.to_lowercase());
    }
    word
}

/// The tests of a file, each with its line: functions under `#[test]`, and `name: ... => ...;`, of
/// which a macro makes them.
fn tests(text: &str) -> BTreeMap<String, usize> {
    let code = Source::split(text).code;
    let mut tests = BTreeMap::new();
    for at in words(&code, "fn") {
        let rest = code[at + "fn".len()..].trim_start();
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        if code[..at].trim_end().ends_with("#[test]") {
            tests.insert(name.to_owned(), line_at(&code, at));
        }
    }
    for (index, line) in code.lines().enumerate() {
        if let Some((name, row)) = line.trim().split_once(": ")
            && name.chars().all(is_name)
            && row.contains(" => ")
            && row.ends_with(';')
        {
            tests.insert(name.to_owned(), index + 1);
        }
    }
    tests
}

fn check_list(tree: &Tree) -> Vec<Finding> {
    let list = tree.file(LIST).map_or("", |file| file.text.as_str());
    let is_meant = |file: &&File| IDS.iter().any(|(_, _, prefix)| file.text.contains(prefix));
    let tests: BTreeSet<_> =
        tree.rust().filter(is_meant).flat_map(|file| tests(&file.text).into_keys()).collect();
    let mut findings = Vec::new();
    for (letter, count, prefix) in IDS {
        for number in 1..=count {
            let (id, prefix) = (format!("{letter}{number}"), format!("{prefix}{number}_"));
            findings.extend(check_id(list, &tests, &id, &prefix));
        }
    }
    findings
}

fn check_id(list: &str, tests: &BTreeSet<String>, id: &str, prefix: &str) -> Vec<Finding> {
    let head = format!("| {id} |");
    let row = list.lines().enumerate().find(|(_, line)| line.starts_with(&head));
    let Some((index, row)) = row else {
        return vec![Finding::error(LIST, 1, format!("{id} has no row; say what it is"))];
    };
    let error = |text: String| Finding::error(LIST, index + 1, text);
    let quoted: Vec<_> = row.split('`').skip(1).step_by(2).collect();
    let mut findings = Vec::new();
    for name in quoted.iter().filter(|name| name.starts_with(prefix) && !tests.contains(**name)) {
        findings.push(error(format!("there is no test `{name}`; write it")));
    }
    for name in tests.iter().filter(|name| name.starts_with(prefix)) {
        if !quoted.contains(&name.as_str()) {
            findings.push(error(format!("`{name}` is not in the row of {id}; name it there")));
        }
    }
    if !quoted.iter().any(|name| name.starts_with(prefix)) {
        findings.push(error(format!("{id} has no test `{prefix}...`; write one")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    const TABLE: &str = "pub const fn reconcile(c: C, r: R) -> A {\n    match (c, r) {\n        // Why.\n        \
                         (C::Starting, R::ClaimedHere)  => End,\n        (C::A | C::B, R::Missing) => In(P::Run),\n    }\n}\n";
    const ROWS: &str = "rows! {\n    starting_with_claimed_here_gives_end: A, B => C;\n    \
                        a_with_missing_gives_run: A, B => C;\n}\n#[test]\nfn b_with_missing_gives_run() {}\n";

    /// What is found about the first table, when its tests are these.
    fn found(table: &str, tests: &str) -> Vec<Finding> {
        let [first, ..] = &TABLES;
        check_table(&Tree::of(&[(first.path, table), (first.tests, tests)]), first)
    }

    #[test]
    fn a_table_whose_rows_have_their_tests_passes() {
        assert_eq!(found(TABLE, ROWS), []);
    }

    #[test]
    fn a_row_without_its_test_is_found() {
        let path = TABLES[0].path;
        let fewer = ROWS.replace("    a_with_missing_gives_run: A, B => C;\n", "");
        assert_places(&found(TABLE, &fewer), &[&format!("{path}:5")]);
        let no_test = ROWS.replace("#[test]\n", "");
        assert_places(&found(TABLE, &no_test), &[&format!("{path}:5")]);
        let comment = ROWS.replace("    starting", "    // starting");
        assert_places(&found(TABLE, &comment), &[&format!("{path}:4")]);
    }

    #[test]
    fn a_row_that_decides_otherwise_than_its_test_says_is_found() {
        let other = TABLE.replace("=> End", "=> Leave");
        let places = [format!("{}:4", TABLES[0].path), format!("{}:2", TABLES[0].tests)];
        assert_places(&found(&other, ROWS), &places.each_ref().map(String::as_str));
    }

    #[test]
    fn a_table_that_is_not_there_is_found() {
        assert_places(&found("", ROWS), &[&format!("{}:1", TABLES[0].path)]);
    }

    /// A list in which every id has its test, and these tests.
    fn whole() -> (String, String) {
        let (mut list, mut tests) = (String::from("# The engine\n"), String::new());
        for (letter, count, prefix) in IDS {
            for number in 1..=count {
                list += &format!("| {letter}{number} | what | `{prefix}{number}_holds` |\n");
                tests += &format!("#[test]\nfn {prefix}{number}_holds() {{}}\n");
            }
        }
        (list, tests)
    }

    fn listed(list: &str, tests: &str) -> Vec<Finding> {
        check_list(&Tree::of(&[(LIST, list), ("crates/engine/tests/a.rs", tests)]))
    }

    #[test]
    fn a_list_whose_ids_have_their_tests_passes() {
        let (list, tests) = whole();
        assert_eq!(listed(&list, &tests), []);
    }

    #[test]
    fn an_id_without_its_row_or_its_test_is_found() {
        let (list, tests) = whole();
        assert_places(&listed(&list.replace("| S2 |", "| X |"), &tests), &["docs/engine.md:1"]);
        let unnamed = list.replace("`duty_t1_holds`", "");
        let at_t1 = "docs/engine.md:7";
        assert_places(&listed(&unnamed, &tests), &[at_t1, at_t1]);
        let gone = tests.replace("fn duty_t1_holds", "fn duty_held");
        assert_places(&listed(&list, &gone), &[at_t1]);
    }

    #[test]
    fn a_test_that_is_not_in_its_row_is_found_and_hole_10_is_not_hole_1() {
        let (list, tests) = whole();
        let more = format!("{tests}#[test]\nfn hole_1_too() {{}}\n");
        assert_places(&listed(&list, &more), &["docs/engine.md:21"]);
    }
}
