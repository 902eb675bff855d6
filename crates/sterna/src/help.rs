//! The help of every command, as it is committed under `tests/help`: found by walking the commands
//! themselves, so that a new one without a snapshot of its help, and of what it answers, is noticed.
//! `UPDATE=1` writes the help anew.

use std::{collections::BTreeSet, env, fs, path::Path};

use clap::{Command, CommandFactory};

/// Commands whose answers are figures of this machine, or no text: the test that looks at each.
const ELSEWHERE: [(&str, &str); 9] = [
    ("sterna-bench-consensus", "bench_consensus.rs"),
    ("sterna-bench-control", "bench_control.rs"),
    ("sterna-bench-converge", "bench_converge.rs"),
    ("sterna-bench-cron", "cron.rs"),
    ("sterna-bench-dev", "bench_dev.rs"),
    ("sterna-bench-placement", "bench_placement.rs"),
    ("sterna-bench-spawn", "bench_spawn.rs"),
    ("sterna-bench-store", "bench_store.rs"),
    ("sterna-completions", "dev/said.rs"),
];

/// Every command, with its name and whether it does something by itself.
fn walk(command: &Command, before: &str, all: &mut Vec<(String, bool, String)>) {
    let name = format!("{before}{}", command.get_name());
    let help = command.clone().term_width(100).render_long_help().to_string();
    all.push((name.clone(), !command.has_subcommands(), help));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        walk(inner, &format!("{name}-"), all);
    }
}

fn commands() -> Vec<(String, bool, String)> {
    let mut root = crate::Args::command();
    root.build();
    let mut all = Vec::new();
    walk(&root, "", &mut all);
    all
}

fn tests() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
}

#[test]
fn the_help_of_every_command_is_committed() {
    let folder = tests().join("help");
    let is_new = env::var_os("UPDATE").is_some();
    let mut names = BTreeSet::new();
    for (name, _, help) in commands() {
        let lines: Vec<_> = help.lines().map(str::trim_end).collect();
        let (path, help) = (folder.join(format!("{name}.txt")), lines.join("\n") + "\n");
        if is_new {
            fs::write(&path, &help).expect("the folder can be written to");
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(help, committed, "{}: UPDATE=1 writes it anew", path.display());
        names.insert(format!("{name}.txt"));
    }
    let found = fs::read_dir(folder).expect("the folder is there");
    let found: BTreeSet<_> =
        found.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(found, names, "help of commands that there are not");
}

#[test]
fn what_every_command_answers_is_committed() {
    for (name, _, _) in commands().iter().filter(|(_, does_something, _)| *does_something) {
        let elsewhere = ELSEWHERE.iter().find(|(of, _)| of == name);
        let file =
            elsewhere.map_or_else(|| format!("said/{name}.txt"), |(_, in_)| (*in_).to_owned());
        let text = fs::read_to_string(tests().join(&file)).unwrap_or_default();
        assert!(!text.is_empty(), "{name}: tests/{file} has nothing; say it in tests/said");
    }
}

#[test]
fn every_option_says_what_it_is_for() {
    fn look(command: &Command) {
        let name = command.get_display_name().unwrap_or_default();
        assert!(command.get_about().is_some(), "{name}");
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            assert!(argument.get_help().is_some(), "{name}: {}", argument.get_id());
        }
        command.get_subcommands().for_each(look);
    }
    let mut root = crate::Args::command();
    root.build();
    look(&root);
}

#[test]
fn exit_codes_are_told_alike_in_help_and_docs() {
    let docs = include_str!("../../../docs/cli.md");
    let rows: Vec<_> = docs.lines().filter_map(|line| line.strip_prefix("| ")).collect();
    let codes = crate::exit::TABLE.lines().filter_map(|line| line.strip_prefix("  "));
    let codes: Vec<_> = codes.filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(codes.len(), 7);
    for (code, means) in codes {
        let row = format!("{code} | {} |", means.trim());
        assert!(rows.contains(&&*row), "docs/cli.md has no row {row}");
    }
}
