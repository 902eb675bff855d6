use super::*;

/// The first firings in UTC from the start of 2024, as local times.
fn fire(line: &str, count: usize) -> Vec<String> {
    let line: Line = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
    let zone = Zone::utc();
    let from = Time::from_epoch(1_704_067_200);
    line.pattern()
        .firings(&zone, from)
        .take(count)
        .map(|at| zone.format(at)[..19].to_owned())
        .collect()
}

/// Column and message of a refusal.
fn refused(line: &str) -> String {
    match line.parse::<Line>() {
        Ok(_) => panic!("{line:?} must be refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn fields_fire_as_cron_has_them() {
    let table = [
        ("0 10 * * 2", "2024-01-02T10:00:00"),
        ("*/5 * * * *", "2024-01-01T00:00:00"),
        ("5/20 * * * *", "2024-01-01T00:05:00"),
        ("0 0 29 2 *", "2024-02-29T00:00:00"),
        ("0 12 * DEC sun", "2024-12-01T12:00:00"),
        ("0 12 * * 7", "2024-01-07T12:00:00"),
        ("0 12 * * SAT-SUN", "2024-01-06T12:00:00"),
        ("0 22-2 2 * *", "2024-01-02T00:00:00"),
        ("30 15 10 1 10 ?", "2024-10-01T10:15:30"),
        ("0 0 L * *", "2024-01-31T00:00:00"),
        ("0 0 L-2 2 *", "2024-02-27T00:00:00"),
        ("0 0 LW 3 *", "2024-03-29T00:00:00"),
        ("0 0 6W 1 *", "2024-01-05T00:00:00"),
        ("0 0 1W 6 *", "2024-06-03T00:00:00"),
        ("0 0 * * 5L", "2024-01-26T00:00:00"),
        ("0 0 * * FRIL", "2024-01-26T00:00:00"),
        ("0 0 * * 5#2", "2024-01-12T00:00:00"),
        ("0 0 * * fri#L", "2024-01-26T00:00:00"),
        ("@yearly", "2024-01-01T00:00:00"),
        ("@Weekly", "2024-01-07T00:00:00"),
        (" \t0  10\t* * 2 ", "2024-01-02T10:00:00"),
    ];
    for (line, first) in table {
        assert_eq!(fire(line, 1), [first], "{line}");
    }
}

#[test]
fn two_restricted_day_fields_are_alternatives() {
    assert_eq!(
        fire("0 0 13 * 5", 3),
        ["2024-01-05T00:00:00", "2024-01-12T00:00:00", "2024-01-13T00:00:00"]
    );
    // A field that names every day one by one counts as restricted, so every day will do.
    assert_eq!(fire("0 0 1-31 * 5", 2), ["2024-01-01T00:00:00", "2024-01-02T00:00:00"]);
    // A field that begins with a star does not count as restricted.
    assert_eq!(fire("0 0 */2 * 5", 2), ["2024-01-05T00:00:00", "2024-01-19T00:00:00"]);
}

#[test]
fn refusals_point_at_the_column() {
    assert_eq!(refused(""), "column 1: the line is empty; it takes five fields");
    assert_eq!(refused("60 * * * *"), "column 1, minutes: 60 is not allowed; allowed are 0 to 59");
    assert_eq!(
        refused("* * 5,32 * *"),
        "column 7, days: 32 is not allowed; allowed are 1 to 31, L, L-3, LW or 15W"
    );
    assert_eq!(refused("* * 5-32 * *"), "column 7, days: 32 is not allowed; allowed are 1 to 31");
    assert_eq!(
        refused("* * * * 8"),
        "column 9, weekdays: 8 is not allowed; allowed are 0 to 7, or names from Sunday to \
         Saturday, 5L or 5#2"
    );
    assert_eq!(
        refused("*/0 * * * *"),
        "column 3, minutes: 0 is not allowed; allowed are steps from 1 to 4294967295"
    );
    assert_eq!(
        refused("*/99999999999 * * * *"),
        "column 3, minutes: 99999999999 is not allowed; allowed are steps from 1 to 4294967295"
    );
    assert_eq!(
        refused("5"),
        "column 2: 1 field; a line takes five, or six with seconds in front of the minutes"
    );
    assert_eq!(
        refused("1,,2 * * * *"),
        "column 3, minutes: a value is missing; allowed are 0 to 59"
    );
    assert_eq!(
        refused("* * * * 5#6"),
        "column 11, weekdays: 6 is not allowed; allowed are which of the month: 1 to 5, or L"
    );
    assert_eq!(
        refused("@fortnightly").split(';').next(),
        Some("column 1: @fortnightly is unknown")
    );
    assert_eq!(
        refused("* * * *"),
        "column 8: 4 fields; a line takes five, or six with seconds in front of the minutes"
    );
    assert_eq!(
        refused("CRON_TZ=UTC").split(';').next(),
        Some("column 12: the line ends after the time zone")
    );
}

#[test]
fn what_no_cron_accepts_is_refused() {
    let lines = "-1 * * * *|5- * * * *|- * * * *|, * * * *|,1 * * * *|/ * * * *|*/ * * * *|1/ * * * *\
                 |1/k * * * *|1k * * * *|# * * * *|*#1 * * * *|L * * * *|W * * * *|LW * * * *\
                 |* 24 * * *|* * 0 * *|* * W * *|* * 1-2W * *|* * 1LW * *|* * L-31 * *|* * MON * *\
                 |* * * 0 *|* * * 13 *|* * * foo *|* * * * 8|* * * * L|* * * * 0#|* * * * 0#0|* * * * tu\
                 |* * * * * * *|*-5 * * * *|5--5 * * * *|*//2 * * * *|*/-12 * * * *|+5 * * * *\
                 |*/+5 * * * *|\u{e9} * * * *|1\u{e9} * * * *|99999999999999999999 * * * *|@every 5m|@daily 5";
    for line in lines.split('|') {
        refused(line);
    }
}

#[test]
fn a_command_is_given_back_as_written() {
    let (line, command) = Line::with_command("*/5 * * * * echo  'a b' # c").unwrap();
    assert_eq!((line.to_string().as_str(), command), ("*/5 * * * *", "echo  'a b' # c"));
    assert_eq!(Line::with_command("*/5 * 32 * * echo").unwrap_err().column(), 7);
}

#[test]
fn vixie_tells_fixed_times_from_real_time() {
    let fixes = |line: &str| line.parse::<Line>().unwrap().pattern().dst_fixes().unwrap();
    let fixed = DstFixes { missing: Missing::FirstSecondAfter, repeated: Repeated::OnlyEarly };
    let real = DstFixes { missing: Missing::Skip, repeated: Repeated::Both };
    for line in ["30 2 * * *", "0 0-6 * * *", "@daily", "1,*/5 2 * * *", "* 30 2 * * *"] {
        assert_eq!(fixes(line), fixed, "{line}");
    }
    for line in
        ["*/15 2 * * *", "30 * * * *", "? 2 * * *", "@hourly", "*,5 2 * * *", "0 30 */2 * * *"]
    {
        assert_eq!(fixes(line), real, "{line}");
    }
}

#[test]
fn every_is_answered_with_what_to_write() {
    let item = "an item counts seconds since 1970: {\"epoch\": {\"period\":";
    let table = [
        ("@every 5m", format!("write */5 * * * *, or {item} 300}}}}")),
        ("@every 1m", format!("write * * * * *, or {item} 60}}}}")),
        ("@every 1h", format!("write 0 * * * *, or {item} 3600}}}}")),
        ("@every 6h", format!("write 0 */6 * * *, or {item} 21600}}}}")),
        ("@every 24h", format!("write 0 0 * * *, or {item} 86400}}}}")),
        ("@EVERY 1h30m", format!("{item} 5400}}}}")),
        ("@every", format!("a step such as */5 goes in any field, and {item} 300}}}}")),
        ("@every soon", format!("a step such as */5 goes in any field, and {item} 300}}}}")),
    ];
    for (line, remedy) in table {
        assert_eq!(refused(line), format!("column 1: @every is not known; {remedy}"), "{line}");
    }
}

#[test]
fn what_is_long_is_refused_shortly_and_at_once() {
    let long = format!("{}0 * * * *", "0,".repeat(300_000));
    assert_eq!(refused(&long), "column 1: the line is too long; at most 4096 bytes are read");
    assert!(refused(&format!("{} * * * *", "x".repeat(2_000))).len() < 200);
    assert!(refused(&format!("@{}", "x".repeat(2_000))).len() < 300);
    // A command may be as long as it likes.
    let entry = format!("0 0 * * * echo {}", "x ".repeat(100_000));
    assert_eq!(Line::with_command(&entry).unwrap().1.len(), entry.len() - 10);
}

#[test]
fn a_zone_in_front_of_an_entry_is_no_field() {
    let (line, command) = Line::with_command("CRON_TZ=Asia/Tokyo 0 9 * * * say hello").unwrap();
    assert_eq!((line.timezone(), command), (Some("Asia/Tokyo"), "say hello"));
    let (line, command) = Line::with_command("TZ=UTC @daily say hello").unwrap();
    assert_eq!((line.timezone(), command), (Some("UTC"), "say hello"));
    assert_eq!(
        Line::with_command("CRON_TZ=UTC 0 9 * * *").unwrap_err().to_string(),
        "column 22: the entry ends before its command"
    );
}
