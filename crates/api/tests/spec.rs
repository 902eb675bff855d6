//! Specs that people write: good ones are read, and bad ones are told all that is wrong with them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use sterna_api::spec::{Problems, Source, Specs, fields, read, reference};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The specs of a folder by file name, in order.
fn specs(folder: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(here(folder)).expect(folder);
    let paths = entries.map(|entry| entry.expect(folder).path());
    let is_spec = |path: &PathBuf| path.extension().is_some_and(|end| end != "txt");
    let mut paths: Vec<_> = paths.filter(is_spec).collect();
    paths.sort();
    let name = |path: &PathBuf| path.file_name().expect(folder).to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).expect(folder))).collect()
}

fn one(name: &str, text: &str) -> Result<Specs, Problems> {
    read(&[Source { name, text }])
}

/// Compares with what is committed, or writes it anew when `UPDATE` is set.
fn assert_committed(path: &Path, text: &str) {
    if env::var_os("UPDATE").is_some() {
        fs::write(path, text).expect("the folder can be written to");
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, committed, "{}: UPDATE=1 writes it anew", path.display());
}

#[test]
fn every_bad_spec_is_told_where_why_and_what_to_do() {
    let all = specs("tests/bad");
    assert!(all.len() >= 30, "{} kinds of bad specs", all.len());
    for (name, text) in all {
        let problems = one(&name, &text).expect_err(&name);
        for problem in problems.iter() {
            assert!(!problem.reason.is_empty() && !problem.remedy.is_empty(), "{problem:?}");
            let line = text.lines().nth(problem.line - 1).unwrap_or_default();
            let rest: String = line.chars().skip(problem.column - 1).collect();
            assert!(rest.starts_with(&problem.text), "{name}: {problem:?}");
        }
        assert_committed(&here("tests/bad").join(format!("{name}.txt")), &format!("{problems}\n"));
    }
}

#[test]
fn examples_are_read_without_a_problem() {
    let all = specs("../../examples");
    assert!(!all.is_empty());
    for (name, text) in all {
        if let Err(problems) = one(&name, &text) {
            panic!("{problems}");
        }
    }
}

#[test]
fn the_reference_is_what_the_code_knows() {
    const BEGIN: &str = "<!-- fields: written by the tests of crates/api -->\n\n";
    let path = here("../../docs/spec.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once("<!-- end of fields -->").unwrap();
    let whole = format!("{before}{BEGIN}{}<!-- end of fields -->{after}", reference());
    assert_committed(&path, &whole);
}

/// Nothing takes a date: who reads a field refuses it.
#[test]
fn every_field_of_the_reference_is_read() {
    for (form, field) in fields() {
        let (table, line) = match form {
            "The file" if field == "version" => continue,
            "The file" => ("", format!("{field} = 1979-05-27")),
            "Services and tasks" | "Tasks only" => ("[task.x]", format!("{field} = 1979-05-27")),
            "Services only" => ("[service.x]", format!("{field} = 1979-05-27")),
            "`monitor` and `readiness`" if field == "port" => {
                ("[service.x]", "readiness = { http = \"/\", port = 1979-05-27 }".to_owned())
            }
            inner => {
                let name = inner.split('`').nth(1).unwrap();
                ("[service.x]", format!("{name} = {{ {field} = 1979-05-27 }}"))
            }
        };
        let problems = one("x.toml", &format!("version = 1\n{table}\n{line}\n")).unwrap_err();
        let is_told = problems.iter().any(|problem| {
            problem.line == 3 && problem.place.ends_with(field) && !problem.reason.contains("such")
        });
        assert!(is_told, "{form}: {field}: {problems}");
    }
}

#[test]
fn what_stands_in_two_files_is_told_in_the_second() {
    let text = "version = 1\n[task.x]\nrun = [\"true\"]\n";
    let twice = [Source { name: "a.toml", text }, Source { name: "b.toml", text }];
    let problems = read(&twice).unwrap_err();
    let told: Vec<_> = problems.iter().map(|problem| (&*problem.file, &*problem.reason)).collect();
    assert_eq!(told, [("b.toml", "this task is there already, at a.toml:2:7")]);
}
