use super::*;
use proptest::prelude::*;

fn moment(text: &str) -> WallTime {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn any_moment() -> impl Strategy<Value = WallTime> {
    (WallTime::MIN.as_millis()..=WallTime::MAX.as_millis())
        .prop_map(|millis| WallTime::from_millis(millis).unwrap())
}

#[test]
fn a_moment_has_one_text() {
    let cases = [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_794_730_020_007, "2026-11-15T08:07:00.007Z"),
        (WallTime::MIN.as_millis(), "0001-01-01T00:00:00.000Z"),
        (WallTime::MAX.as_millis(), "9999-12-31T23:59:59.999Z"),
    ];
    for (millis, text) in cases {
        assert_eq!(WallTime::from_millis(millis).unwrap().to_string(), text);
        assert_eq!(moment(text).as_millis(), millis);
    }
}

#[test]
fn other_texts_of_rfc_3339_are_read_too() {
    let cases = [
        ("2026-11-15T08:30:00Z", "2026-11-15T08:30:00.000Z"),
        ("2026-11-15t08:30:00z", "2026-11-15T08:30:00.000Z"),
        ("2026-11-15T08:30:00.5Z", "2026-11-15T08:30:00.500Z"),
        ("2026-11-15T08:30:00.12Z", "2026-11-15T08:30:00.120Z"),
        ("2026-11-15T08:30:00.123999999Z", "2026-11-15T08:30:00.123Z"),
        ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
        ("2026-11-15T08:30:00+02:00", "2026-11-15T06:30:00.000Z"),
        ("2026-11-15T08:30:00-00:00", "2026-11-15T08:30:00.000Z"),
        ("2026-12-31T20:15:00-05:45", "2027-01-01T02:00:00.000Z"),
        ("0001-01-01T01:00:00+01:00", "0001-01-01T00:00:00.000Z"),
    ];
    for (text, canonical) in cases {
        assert_eq!(moment(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn a_leap_second_is_the_last_millisecond_before_it() {
    let last = moment("2016-12-31T23:59:59.999Z");
    assert_eq!(moment("2016-12-31T23:59:60Z"), last);
    assert_eq!(moment("2016-12-31T23:59:60.5Z"), last);
    assert_eq!(moment("2017-01-01T08:59:60+09:00"), last);
}

#[test]
fn a_mistyped_time_names_place_and_form() {
    let cases = [
        ("", "'' at character 1 should be 4 digits of the year"),
        ("now", "'now' at character 1 should be 4 digits of the year"),
        ("26-11-15", "'26-1' at character 1 should be 4 digits of the year"),
        ("２０２６", "'２０２６' at character 1 should be 4 digits of the year"),
        ("2026/11/15", "'/11/' at character 5 should be '-'"),
        ("2026-1-5", "'1-5' at character 6 should be 2 digits of the month"),
        ("2026-11-15", "'' at character 11 should be 'T'"),
        ("2026-11-15 08:30:00Z", "' 08:' at character 11 should be 'T'"),
        ("2026-11-15T08:30Z", "'Z' at character 17 should be ':'"),
        ("2026-11-15T08:30:00", "'' at character 20 should be Z or an offset"),
        ("2026-11-15T08:30:00.Z", "'Z' at character 21 should be digits"),
        ("2026-11-15T08:30:00Zulu", "'ulu' at character 21 should be the end"),
        ("2026-11-15T08:30:00+2", "'2' at character 21 should be 2 digits of the offset's hour"),
    ];
    for (text, message) in cases {
        let message = format!("{message}: write a time as 2026-11-15T08:30:00Z");
        assert_eq!(text.parse::<WallTime>().unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn a_time_that_does_not_exist_is_refused() {
    let leap = "second 60 at character 18 does not exist: only 23:59:60 UTC does";
    let years = "time is outside of the years 0001 to 9999 in UTC";
    let cases = [
        ("2026-02-29T00:00:00Z", "day 29 at character 9 does not exist: it is 1 to 28 here"),
        ("1900-02-29T00:00:00Z", "day 29 at character 9 does not exist: it is 1 to 28 here"),
        ("2026-04-31T00:00:00Z", "day 31 at character 9 does not exist: it is 1 to 30 here"),
        ("2026-13-01T00:00:00Z", "month 13 at character 6 does not exist: it is 1 to 12 here"),
        ("2026-00-01T00:00:00Z", "month 0 at character 6 does not exist: it is 1 to 12 here"),
        ("0000-01-01T00:00:00Z", "year 0 at character 1 does not exist: it is 1 to 9999 here"),
        ("2026-11-15T24:00:00Z", "hour 24 at character 12 does not exist: it is 0 to 23 here"),
        ("2026-11-15T08:60:00Z", "minute 60 at character 15 does not exist: it is 0 to 59 here"),
        ("2026-11-15T08:30:61Z", "second 61 at character 18 does not exist: it is 0 to 60 here"),
        ("2026-11-15T08:30:60Z", leap),
        ("2016-12-31T23:59:60+01:00", leap),
        ("0001-01-01T00:59:59+01:00", years),
        ("9999-12-31T23:59:59-00:01", years),
    ];
    for (text, message) in cases {
        assert_eq!(text.parse::<WallTime>().unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn every_moment_has_a_text_or_is_refused() {
    for millis in [i64::MIN, WallTime::MIN.as_millis() - 1, WallTime::MAX.as_millis() + 1, i64::MAX]
    {
        assert_eq!(WallTime::from_millis(millis), Err(WallTimeError::OutOfRange));
    }
}

#[test]
fn arithmetic_stops_at_both_ends() {
    let for_ever = Span::from_millis(u64::MAX);
    assert_eq!(WallTime::EPOCH.plus(for_ever), WallTime::MAX);
    assert_eq!(WallTime::EPOCH.minus(for_ever), WallTime::MIN);
    assert_eq!(WallTime::MIN.since(WallTime::MAX), Span::ZERO);
    assert_eq!(WallTime::MIN.plus(WallTime::MAX.since(WallTime::MIN)), WallTime::MAX);
}

#[test]
fn json_holds_the_text() {
    let json = serde_json::to_string(&WallTime::EPOCH).unwrap();
    assert_eq!(json, "\"1970-01-01T00:00:00.000Z\"");
    assert_eq!(serde_json::from_str::<WallTime>(&json).unwrap(), WallTime::EPOCH);
}

proptest! {
    #[test]
    fn text_comes_back_as_the_same_moment(moment in any_moment()) {
        prop_assert_eq!(moment.to_string().parse(), Ok(moment));
    }

    #[test]
    fn texts_sort_as_their_moments(one in any_moment(), other in any_moment()) {
        prop_assert_eq!(one.to_string().cmp(&other.to_string()), one.cmp(&other));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[0-9TZ:.+é-]{0,30}") {
        drop(text.parse::<WallTime>());
    }
}
