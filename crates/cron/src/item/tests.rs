use super::*;

const FIXES: &str = r#""dst_fixes": ["skip", "repeat_use_both"]"#;

fn item(selectors: &str) -> Item {
    let text = format!("{{{selectors}, {FIXES}}}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The message about an item that is refused.
fn refused(text: &str) -> String {
    match serde_json::from_str::<Item>(text) {
        Ok(_) => panic!("{text} must be refused"),
        Err(error) => error.to_string(),
    }
}

/// Local dates of the first firings from the start of 2024, in UTC.
fn dates(selectors: &str, count: usize) -> Vec<String> {
    let item = item(selectors);
    let zone = Zone::utc();
    let firings = item.pattern().firings(&zone, Time::from_epoch(1_704_067_200));
    firings.take(count).map(|at| zone.format(at)[..10].to_owned()).collect()
}

#[test]
fn refusals_name_the_key_the_value_and_what_is_allowed() {
    let table = [
        (
            r#"{"minute": 60, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "minute: 60 is not allowed; allowed are whole numbers from 0 to 59",
        ),
        (
            r#"{"minute": 0, "month": "Foo", "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "month: \"Foo\" is not allowed; allowed are whole numbers from 1 to 12, or English \
             names from January to December, of which three letters are enough",
        ),
        (
            r#"{"minute": {"period": 59}, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "minute.period: 59 is not allowed; allowed are whole numbers from 1 to 58",
        ),
        (
            r#"{"minute": {"step": 5}, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "minute.step: there is no such key; allowed are start, end and period",
        ),
        (
            r#"{"minute": {"start": 9, "end": 3}, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "minute.end: 3 is not allowed; allowed are a range that does not wrap: end at least 9",
        ),
        (
            r#"{"minute": 0, "day_of_week": 1, "day_of_month": 1, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "day_of_week and day_of_month do not go together: write two items, one with each",
        ),
        (
            r#"{"minute": 0}"#,
            "dst_fixes is missing; it takes two names: skip or unskip, and repeat_use_both, \
             repeat_use_only_early or repeat_use_only_late",
        ),
        (
            r#"{"hour": 0, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "minute is missing; it takes whole numbers from 0 to 59; {} means every minute",
        ),
        (
            r#"{"minute": 0, "day_of_month": 30, "month": "Feb", "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "the item can never match: no date from 1969 to 9999 is on day 30 of the month in \
             February",
        ),
        (
            r#"{"epoch": 5, "minute": 0}"#,
            "epoch and minute do not go together: epoch counts seconds, so no other key may stand \
             beside it",
        ),
        (r#"{"epoch": -1}"#, "epoch: -1 is not allowed; allowed are whole numbers from 0"),
        (
            r#"{"minute": 0, "last_day_of_month": false, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "last_day_of_month: false is not allowed; allowed are true, or leave the key out",
        ),
        (r#"5"#, "an item is a map of keys, not 5"),
        (
            r#"{"minute": 0, "minute": 1, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "minute is given twice",
        ),
        (r#"{"minute": [[[[[[0]]]]]]}"#, "nested too deeply for a cron item at line 1 column 15"),
    ];
    for (text, message) in table {
        assert_eq!(refused(text), message);
    }
}

#[test]
fn counts_and_numbers_are_refused_as_they_were_written() {
    let table = [
        (
            r#"{"minute": 0, "every": {"days": 0, "start": "2024-01-01"}, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "every.days: 0 is not allowed; allowed are whole numbers from 1 to 10000",
        ),
        (
            r#"{"minute": 0, "every": {"days": 3, "start": "2000-01-01"}, "year": {"start": 2000, "period": 2}, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "year: {\"start\": 2000, \"period\": 2} is not allowed; allowed are at most 40 years beside \
             days or weeks that are counted, or a range without gaps; give `every` a start and an \
             end instead",
        ),
        (
            r#"{"minute": 0, "every": {"days": 3, "start": "2023-02-29"}, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "every.start: \"2023-02-29\" is not allowed; allowed are dates such as 2024-01-31, \
             from 1969 to 9999",
        ),
        (
            r#"{"minute": 0, "every": {"days": 3, "start": "2024-01-31", "end": "2024-01-30"}, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "every.end: \"2024-01-30\" is not allowed; allowed are dates from the start on, \
             2024-01-31",
        ),
        (
            r#"{"minute": 5.0, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "minute: 5.0 is not allowed; allowed are whole numbers from 0 to 59",
        ),
        (
            r#"{"minute": 18446744073709551615, "dst_fixes": ["skip", "repeat_use_both"]}"#,
            "minute: 18446744073709551615 is not allowed; allowed are whole numbers from 0 to 59",
        ),
    ];
    for (text, message) in table {
        assert_eq!(refused(text), message);
    }
}

#[test]
fn days_beyond_the_classic_keys() {
    let table: [(&str, &[&str]); 8] = [
        (
            r#""hour": 0, "minute": 0, "weekday_of_month": {"nth": 2, "weekday": "Tue"}"#,
            &["2024-01-09", "2024-02-13", "2024-03-12"],
        ),
        (
            r#""hour": 0, "minute": 0, "weekday_of_month": [{"nth": [1, -1], "weekday": "Fri"}]"#,
            &["2024-01-05", "2024-01-26", "2024-02-02"],
        ),
        (
            r#""hour": 0, "minute": 0, "weekday_of_month": {"nth": 5, "weekday": "Thu"}, "month": 2"#,
            &["2024-02-29", "2052-02-29"],
        ),
        (
            r#""hour": 0, "minute": 0, "last_day_of_month": true"#,
            &["2024-01-31", "2024-02-29", "2024-03-31"],
        ),
        (
            r#""hour": 0, "minute": 0, "every": {"days": 3, "start": "2024-02-27", "end": "2024-03-04"}"#,
            &["2024-02-27", "2024-03-01", "2024-03-04"],
        ),
        (
            r#""hour": 0, "minute": 0, "every": {"weeks": 2, "start": "2024-01-02"}"#,
            &["2024-01-02", "2024-01-16", "2024-01-30"],
        ),
        (
            r#""hour": 0, "minute": 0, "every": {"weeks": 2, "start": "2024-01-02"}, "day_of_week": ["Tue", "Thu"]"#,
            &["2024-01-02", "2024-01-04", "2024-01-16"],
        ),
        (
            r#""hour": 0, "minute": 0, "every": {"months": 5, "start": "2023-12-31"}"#,
            &["2024-05-31", "2024-10-31", "2025-03-31"],
        ),
    ];
    for (selectors, expected) in table {
        assert_eq!(dates(selectors, expected.len()), expected, "{selectors}");
    }
}

#[test]
fn a_count_ends_with_its_last_day() {
    let end = r#""hour": 0, "minute": 0, "every": {"days": 3, "start": "2024-02-27", "end": "2024-03-04"}"#;
    assert_eq!(dates(end, 10).len(), 3);
}

#[test]
fn a_date_of_toml_is_a_date() {
    let toml = r#""hour": 0, "minute": 0, "every": {"days": 3, "start": {"$__toml_private_datetime": "2024-02-27"}}"#;
    assert_eq!(dates(toml, 1), ["2024-02-27"]);
}

#[test]
fn counts_that_meet_no_date_are_refused() {
    let text = format!(
        r#"{{"minute": 0, "every": {{"days": 7, "start": "2024-01-01"}}, "day_of_week": "Tue", {FIXES}}}"#
    );
    assert!(refused(&text).starts_with("the item can never match"));
}

#[test]
fn seconds_fire_within_the_minute() {
    let item = item(r#""minute": 0, "second": {"period": 20}"#);
    let zone = Zone::utc();
    let firings: Vec<i64> =
        item.pattern().firings(&zone, Time::from_epoch(1)).take(3).map(Time::epoch).collect();
    assert_eq!(firings, [20, 40, 3600]);
}

#[test]
fn what_was_read_is_written_unchanged() {
    let text = r#"{"minute":{"period":"5"},"day_of_week":["Mon",3],"dst_fixes":["unskip","repeat_use_only_late"]}"#;
    let item: Item = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&item).unwrap(), text);
}

#[test]
fn words_for_many_patterns() {
    let table = [
        (r#""minute": {}"#, "every minute"),
        (r#""minute": {"period": 5}"#, "every 5 minutes"),
        (r#""minute": [3, 7]"#, "minutes 3 and 7"),
        (
            r#""minute": 0, "hour": [10, 20], "day_of_week": "Tue""#,
            "at 10:00 and 20:00 on Tuesdays",
        ),
        (r#""minute": 30, "hour": 2"#, "at 02:30 every day"),
        (
            r#""minute": 0, "hour": 9, "day_of_week": {"start": "Mon", "end": "Fri"}"#,
            "at 09:00 on Mondays to Fridays",
        ),
        (
            r#""minute": 0, "hour": 0, "day_of_month": 29, "month": 2, "year": [2024, 2028]"#,
            "at 00:00 on day 29 of the month in February in 2024 and 2028",
        ),
        (
            r#""minute": 0, "hour": 0, "weekday_of_month": {"nth": -1, "weekday": "Fri"}"#,
            "at 00:00 on the last Friday of the month",
        ),
        (
            r#""minute": 0, "hour": 0, "every": {"days": 3, "start": "2024-01-31"}"#,
            "at 00:00 every 3 days from 2024-01-31",
        ),
    ];
    for (selectors, words) in table {
        assert_eq!(item(selectors).pattern().describe(), words);
    }
}

/// Every date that this names falls into the hour that Los Angeles leaves out in spring.
#[test]
fn an_item_that_only_ever_falls_into_gaps_ends() {
    let text = format!(
        r#"{{"minute": 30, "hour": 2, "month": 3,
            "weekday_of_month": {{"nth": 2, "weekday": "Sun"}}, {FIXES}}}"#
    );
    let item: Item = serde_json::from_str(&text).unwrap();
    let zone: Zone = "America/Los_Angeles".parse().unwrap();
    assert_eq!(item.next(&zone, Time::from_epoch(1_700_000_000)), None);
    // Before 2007 summer time began in April.
    let early = item.next(&zone, Time::from_epoch(1_100_000_000)).unwrap();
    assert_eq!(zone.format(early), "2005-03-13T02:30:00-08:00");
}

#[test]
fn what_is_long_is_refused_shortly_and_at_once() {
    let many = format!(r#"{{"minute": [{}0], {FIXES}}}"#, "0,".repeat(300_000));
    assert_eq!(
        refused(&many).split(" at line").next(),
        Some(
            "more than 10000 values are too many for a cron item; a range chooses many with one: \
             {\"period\": 5}"
        )
    );
    let long = "x".repeat(1_000_000);
    for text in [
        format!(r#"{{"minute": "{long}", {FIXES}}}"#),
        format!(r#"{{"minute": 0, "{long}": 0, {FIXES}}}"#),
        format!(r#"{{"epoch": 0, "{long}": 0}}"#),
        format!(r#"{{"minute": {{"{long}": 0}}, {FIXES}}}"#),
        format!(r#"{{"minute": 0, "dst_fixes": ["{long}"]}}"#),
        format!(r#""{long}""#),
    ] {
        assert!(refused(&text).len() < 300, "{}", &refused(&text)[..300]);
    }
    item(&format!(r#""minute": [{}59]"#, "5,".repeat(9_000)));
}
