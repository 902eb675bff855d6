//! `sterna cron`: every vector through the command line, its answers, and the guide's examples.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use sterna_cron::{Item, StatefulItem};

const GUIDE: &str = include_str!("../../../docs/cron.md");

fn sterna(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What `--jsonl` answers, in one process.
fn answers(queries: &[u8]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["cron", "next", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // Beside the reading, or both sides might wait for each other.
        scope.spawn(move || stdin.write_all(queries).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success());
    text(&output.stdout)
}

/// The same for queries and answers as values.
fn ask(queries: &[Value]) -> Vec<Value> {
    let lines: String = queries.iter().map(|query| format!("{query}\n")).collect();
    answers(lines.as_bytes()).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_vector_is_answered_over_jsonl() {
    let rows: Vec<Value> =
        serde_json::from_str(include_str!("../../cron/tests/vectors/cron_vectors.json")).unwrap();
    let queries: Vec<Value> = rows
        .iter()
        .map(|row| {
            // One more than there are shows that there are no more.
            let is_end = usize::from(row["exhausted"] == json!(true));
            let count = row["expected_epochs"].as_array().unwrap().len() + is_end;
            json!({"item": row["item"], "timezone": row["timezone"],
                   "from_epoch": row["from_epoch"], "count": count})
        })
        .collect();
    let answers = ask(&queries);
    assert_eq!(answers.len(), rows.len());
    for (row, answer) in rows.iter().zip(answers) {
        let name = &row["name"];
        if row["expect_error"] == json!(true) {
            assert!(answer["error"].is_string(), "{name}: {answer}");
        } else {
            assert_eq!(answer["epochs"], row["expected_epochs"], "{name}");
            assert_eq!(answer["exhausted"], row["exhausted"], "{name}");
        }
    }
}

#[test]
fn every_invalid_item_is_an_error_over_jsonl() {
    let rows: Vec<Value> =
        serde_json::from_str(include_str!("../../cron/tests/vectors/cron_invalid_items.json"))
            .unwrap();
    let queries: Vec<Value> = rows
        .iter()
        .map(|row| json!({"item": row["item"], "timezone": "UTC", "from_epoch": 0, "count": 1}))
        .collect();
    for (row, answer) in rows.iter().zip(ask(&queries)) {
        assert!(answer["error"].is_string(), "{}: {answer}", row["name"]);
    }
}

#[test]
fn policies_and_mistakes_over_jsonl() {
    let fixes = json!(["skip", "repeat_use_both"]);
    let line = |more: Value| {
        let mut query = json!({"line": "30 2 * * *", "timezone": "America/Los_Angeles",
                               "from_epoch": 1_362_902_400, "count": 1});
        query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        query
    };
    let answers = ask(&[
        line(json!({})),
        line(json!({"policy": "vixie"})),
        line(json!({"dst_fixes": fixes})),
        line(json!({"policy": "vixie", "dst_fixes": fixes})),
        line(json!({"policy": "quartz"})),
        line(json!({"timezone": "Mars/Olympus"})),
        line(json!({"line": "CRON_TZ=UTC 30 2 * * *", "timezone": null})),
        line(json!({"item": {"epoch": 5}})),
        json!({"item": {"minute": 0}, "dst_fixes": fixes, "timezone": "UTC", "from_epoch": 1}),
        json!({"item": {"minute": 0}, "policy": "vixie", "timezone": "UTC", "from_epoch": 1}),
        json!({"item": {"epoch": [3]}, "from_epoch": 3, "count": 9, "name": "a note"}),
        json!([]),
    ]);
    let epochs = |at: usize| answers[at]["epochs"].clone();
    assert_eq!(epochs(0), json!([1_362_909_600]));
    assert_eq!(epochs(1), json!([1_362_909_600]));
    assert_eq!(epochs(2), json!([1_362_994_200]));
    assert_eq!(epochs(6), json!([1_362_969_000]));
    assert_eq!(epochs(8), json!([3600]));
    assert_eq!(answers[10], json!({"epochs": [3], "exhausted": true}));
    for at in [3, 4, 5, 7, 9, 11] {
        assert!(answers[at]["error"].is_string(), "{at}: {}", answers[at]);
    }
}

#[test]
fn a_wrong_question_fails_and_says_why() {
    for arguments in [
        &["cron", "next", "--tz", "UTC"][..],
        &["cron", "next", "--line", "* * * * *"],
        &["cron", "next", "--item", "{", "--tz", "UTC"],
        &["cron", "next", "--line", "* * * * *", "--tz", "UTC", "--from", "yesterday"],
        &["cron", "next", "--line", "* * * * *", "--tz", "UTC", "--count", "99999999"],
        &["cron", "explain", "--tz", "UTC"],
    ] {
        let output = sterna(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn explain_answers_in_json_too() {
    let output =
        sterna(&["cron", "explain", "--item", r#"{"epoch": [0, 86400]}"#, "--from", "0", "--json"]);
    let answer: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(answer["days"], json!(["1970-01-01", "1970-01-02"]));
    assert_eq!(answer["jumps"], Value::Null);
}

/// The fenced blocks of the guide that are of one kind.
fn blocks(kind: &str) -> Vec<&'static str> {
    let opening = format!("\n```{kind}\n");
    let blocks = GUIDE.split(opening.as_str()).skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap()).collect()
}

#[test]
fn the_guide_shows_what_the_commands_answer() {
    let shown = blocks("console");
    assert!(shown.len() >= 10);
    for block in shown {
        let (command, expected) = block.split_once('\n').unwrap();
        let script = command.strip_prefix("$ sterna ").unwrap();
        let script = format!("{} {script}", env!("CARGO_BIN_EXE_sterna"));
        let output =
            Command::new("sh").args(["-c", &script]).env("COLUMNS", "80").output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        match expected.strip_suffix("\n...") {
            Some(beginning) => assert!(said.starts_with(beginning), "{command}\n{said}"),
            None => assert_eq!(said.trim_end(), expected, "{command}"),
        }
    }
}

#[test]
fn the_items_of_the_guide_are_items() {
    assert!(blocks("json").len() >= 6);
    for block in blocks("json") {
        serde_json::from_str::<Item>(block).unwrap();
    }
    assert_eq!(blocks("json refused").len(), 3);
    for block in blocks("json refused") {
        assert!(serde_json::from_str::<Item>(block).is_err(), "{block}");
    }
    for block in blocks("json stateful") {
        serde_json::from_str::<StatefulItem>(block).unwrap();
    }
}

#[test]
fn bench_cron_answers_with_the_promised_keys() {
    let output = sterna(&["bench", "cron", "--json", "--rounds", "1", "--starts", "50"]);
    let answer: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    for pattern in ["0 10 * * 2", "*/5 * * * *", "0 0 29 2 *", "30 2 10 3 *"] {
        assert!(answer["figures"]["sterna"][pattern].as_f64().unwrap() > 0.0, "{answer}");
        #[cfg(feature = "bench-peers")]
        for peer in ["croner", "cron"] {
            assert!(answer["figures"][peer][pattern].as_f64().unwrap() > 0.0, "{answer}");
        }
    }
    assert!(answer["figures"]["transition_ns"].is_number());
    assert!(answer["figures"]["worst_ns"].is_number());
    assert!(answer["ratios"]["vs_best_peer"].is_object());
}

#[test]
fn bench_cron_shows_a_table() {
    let output = sterna(&["bench", "cron", "--rounds", "1", "--starts", "50"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for says in ["ns per question", "*/5 * * * *", "beside a change of the clock", "slowest"] {
        assert!(text.contains(says), "{says:?} is not in: {text}");
    }
}

#[test]
fn explain_takes_any_moment() {
    for from in ["99999999999999", "-9223372036854775808", "9223372036854775807"] {
        let from = format!("--from={from}");
        let output = sterna(&["cron", "explain", "--line", "0 0 1 1 *", "--tz", "UTC", &from]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_query_that_cannot_be_read_does_not_end_the_others() {
    let good = br#"{"line":"0 0 * * *","timezone":"UTC","from_epoch":0}"#;
    let long = [&b"\""[..], &vec![b'x'; 100_000]].concat();
    let queries = [&good[..], b"\xff\xfe", b"[1]", &long, good].join(&b'\n');
    let output = answers(&queries);
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines.len(), 5, "{output}");
    assert_eq!(lines[0], r#"{"epochs":[0],"exhausted":false}"#);
    assert!(lines[1].contains("not UTF-8"), "{output}");
    assert!(lines[2].contains("a query is a JSON object"), "{output}");
    assert!(lines[3].contains("too long"), "{output}");
    assert_eq!(lines[4], lines[0]);
}

#[test]
fn a_mistake_in_a_query_names_its_key() {
    let cases = [
        (r#"{"item":{"minute":5,"minute":6},"from_epoch":0}"#, "minute is given twice"),
        (r#"{"line":"* * * * *","timezone":"UTC","from_epoch":1.5}"#, "from_epoch: 1.5 is not"),
        (r#"{"line":"* * * * *","timezone":"UTC","from_epoch":0,"count":-2}"#, "count: -2 is not"),
        (r#"{"line":5,"timezone":"UTC","from_epoch":0}"#, "line: 5 is not allowed"),
        (r#"{"line":"* * * * *","timezone":"UTC"}"#, "from_epoch is missing"),
    ];
    for (query, says) in cases {
        let answer = answers(query.as_bytes());
        assert!(answer.contains(says), "{says:?} is not in {answer}");
    }
}

#[test]
fn the_exit_code_says_where_to_look() {
    let code = |arguments: &[&str]| sterna(&[&["cron", "next"], arguments].concat()).status.code();
    assert_eq!(code(&["--tz", "UTC"]), Some(64));
    assert_eq!(code(&["--line", "* * * * *", "--tz", "UTC", "--from", "noon"]), Some(64));
    assert_eq!(code(&["--line", "* * * * *", "--tz", "UTC", "--count", "0"]), Some(64));
    assert_eq!(code(&["--line", "61 * * * *", "--tz", "UTC"]), Some(65));
    assert_eq!(code(&["--item", "{}", "--tz", "UTC"]), Some(65));
    assert_eq!(code(&["--line", "* * * * *", "--tz", "Atlantis"]), Some(65));
}

#[test]
fn the_end_of_a_pattern_is_said() {
    let output =
        sterna(&["cron", "next", "--item", r#"{"epoch":[5,9223372036854775807]}"#, "--from", "0"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.ends_with("no more firings\n"), "{text}");
}

#[test]
fn an_option_that_would_be_ignored_is_refused() {
    for option in [
        &["--count", "3"][..],
        &["--json"],
        &["--tz", "UTC"],
        &["--from", "0"],
        &["--dst", "vixie"],
    ] {
        let output = sterna(&[&["cron", "next", "--jsonl"], option].concat());
        assert_eq!(output.status.code(), Some(64), "{option:?}");
        assert!(text(&output.stderr).contains("cannot be used with"), "{option:?}");
    }
}

#[test]
fn a_bad_zone_is_told_even_where_another_counts() {
    let output = sterna(&["cron", "next", "--line", "CRON_TZ=UTC 0 9 * * *", "--tz", "Atlantis"]);
    assert_eq!(output.status.code(), Some(65));
    assert!(text(&output.stderr).contains("unknown time zone \"Atlantis\""));
}

/// The calendar of `explain`, with so many columns.
fn calendar(columns: &str, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args([&["cron", "explain"], arguments].concat())
        .env("COLUMNS", columns)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).split_once("\n\n").unwrap().1.to_owned()
}

#[test]
fn the_calendar_fits_its_columns() {
    let arguments = ["--line", "0 0 * * *", "--tz", "UTC", "--from", "0"];
    let widest = |columns: &str| {
        calendar(columns, &arguments).lines().map(|line| line.chars().count()).max().unwrap()
    };
    // One, two, three, four, six and twelve months of 21 letters, with three between them.
    for (columns, expected) in [
        ("10", 21),
        ("44", 21),
        ("45", 45),
        ("69", 69),
        ("80", 69),
        ("93", 93),
        ("120", 93),
        ("141", 141),
        ("500", 285),
        ("wide", 69),
        ("", 69),
    ] {
        assert_eq!(widest(columns), expected, "{columns:?}");
    }
}

#[test]
fn no_day_is_left_out_when_the_clock_jumps_far() {
    // From 1 April to 2 April at noon the clock is a day and two hours ahead.
    let zone = "<-03>3<+23>-23,J100/0,J101/12";
    let output = sterna(&[
        "cron",
        "explain",
        "--line",
        "*/20 * * * *",
        "--tz",
        zone,
        "--from",
        "0",
        "--json",
    ]);
    let answer: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let days = answer["days"].as_array().unwrap();
    let asked = sterna(&[
        "cron",
        "next",
        "--line",
        "*/20 * * * *",
        "--tz",
        zone,
        "--from",
        "0",
        "--count",
        "30000",
    ]);
    let table = text(&asked.stdout);
    let end = days.last().unwrap().as_str().unwrap();
    let mut fired: Vec<&str> =
        table.lines().map(|line| &line[..10]).filter(|day| *day <= end).collect();
    fired.sort_unstable();
    fired.dedup();
    assert_eq!(days, &fired);
    assert_eq!(end, "1970-11-30", "from December 1969 there, a year");
}

#[test]
fn the_calendar_ends_with_the_year_9999() {
    let arguments = ["--line", "0 0 * * *", "--tz", "UTC", "--from", "253397000000"];
    let shown = calendar("80", &arguments);
    assert_eq!(shown.matches("December 9999").count(), 1, "{shown}");
    assert_eq!(shown.matches("9999").count(), 3, "October to December: {shown}");
    assert!(shown.contains(" 30 31"), "{shown}");
}
