//! Items that are hard to search: known ones, and random ones of the same making.

use super::random;

/// Rare dates, far years, and dates that never come where they are asked for.
pub(super) const KNOWN: [(&str, &str); 12] = [
    (
        "America/Los_Angeles",
        r#"{"minute":30,"hour":2,"month":3,"weekday_of_month":{"nth":2,"weekday":"Sun"},"dst_fixes":["skip","repeat_use_both"]}"#,
    ),
    (
        "America/Los_Angeles",
        r#"{"minute":30,"hour":2,"month":3,"weekday_of_month":{"nth":2,"weekday":"Sun"},"every":{"months":12,"start":"2008-03-01"},"dst_fixes":["skip","repeat_use_both"]}"#,
    ),
    (
        "America/Los_Angeles",
        r#"{"minute":0,"hour":0,"month":2,"weekday_of_month":{"nth":5,"weekday":"Mon"},"dst_fixes":["unskip","repeat_use_only_late"]}"#,
    ),
    (
        "America/Los_Angeles",
        r#"{"minute":59,"hour":23,"day_of_month":31,"month":12,"year":9999,"dst_fixes":["skip","repeat_use_both"]}"#,
    ),
    (
        "America/Los_Angeles",
        r#"{"minute":30,"hour":2,"every":{"days":9999,"start":"2008-03-09"},"dst_fixes":["skip","repeat_use_both"]}"#,
    ),
    (
        "America/Los_Angeles",
        r#"{"minute":30,"hour":1,"month":11,"weekday_of_month":{"nth":1,"weekday":"Sun"},"dst_fixes":["skip","repeat_use_only_late"]}"#,
    ),
    (
        "America/Los_Angeles",
        r#"{"second":59,"minute":59,"hour":23,"last_day_of_month":true,"month":2,"year":{"start":2001,"period":97},"dst_fixes":["skip","repeat_use_both"]}"#,
    ),
    (
        "AAA0BBB,J60/2,J300/2",
        r#"{"minute":30,"hour":2,"every":{"months":12,"start":"1969-03-01"},"dst_fixes":["skip","repeat_use_both"]}"#,
    ),
    (
        "AAA0BBB-24,J364/20,J2/3",
        r#"{"minute":30,"hour":2,"day_of_month":31,"month":12,"every":{"weeks":3,"start":"2004-03-27"},"dst_fixes":["skip","repeat_use_only_late"]}"#,
    ),
    (
        "AAA0BBB-24,J364/20,J2/3",
        r#"{"minute":29,"hour":2,"day_of_month":31,"every":{"months":366,"start":"1971-12-06"},"dst_fixes":["skip","repeat_use_only_early"]}"#,
    ),
    (
        "AAA0BBB,0/2,59/2",
        r#"{"minute":[0,30],"hour":2,"day_of_month":1,"every":{"months":84,"start":"2000-01-15"},"dst_fixes":["skip","repeat_use_both"]}"#,
    ),
    (
        // As many years as may be chosen beside a count, all of them barren.
        "America/Los_Angeles",
        r#"{"minute":30,"hour":2,"month":3,"day_of_week":"Sun","every":{"weeks":52,"start":"2008-03-09"},"year":[2297,2298,2299,2300,2301,2302,2303,2590,2591,2592,2593,2594,2595,2883,2884,2885,2886,2887,3176,3177,3178,3179,3180,3181,3469,3470,3471,3472,3473,3474,3762,3763,3764,3765,3766,3767,4055,4056,4057,4058],"dst_fixes":["skip","repeat_use_both"]}"#,
    ),
];

/// Changes on a date, on a weekday, at New Year, by a day, close to each other, and half an hour.
pub(super) const ZONES: [&str; 10] = [
    "America/Los_Angeles",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "AAA0BBB,J60/2,J300/2",
    "AAA0BBB,J60/0,J61/2",
    "AAA0BBB,0/2,59/2",
    "AAA0BBB1,J60/2,J60/5",
    "AAA0BBB-24,J364/20,J2/3",
    "<-03>3<+23>-23,J100/0,J101/12",
    "AAA0BBB,M3.2.0/2,M3.3.0/2",
];

/// An item made up at random, of parts that are hard together.
pub(super) fn item(seed: &mut u64) -> String {
    let mut below = |limit: i64| random(seed) % limit;
    let month = |number: i64| [1, 2, 3, 3, 3, 10, 11, 12][usize::try_from(number).unwrap_or(0)];
    let mut keys = match below(3) {
        0 => r#""minute":30"#.to_owned(),
        1 => format!(r#""minute":{}"#, below(60)),
        _ => r#""minute":[0,30]"#.to_owned(),
    };
    if below(8) > 0 {
        keys += &format!(r#","hour":{}"#, [2, 2, 2, 0][usize::try_from(below(4)).unwrap_or(0)]);
    }
    keys += match below(9) {
        0 => r#","day_of_month":1"#,
        1 => r#","day_of_month":[1,31]"#,
        2 => r#","day_of_month":31"#,
        3 => r#","last_day_of_month":true"#,
        4 => r#","day_of_week":1"#,
        5 => r#","weekday_of_month":{"nth":2,"weekday":1}"#,
        6 => r#","weekday_of_month":{"nth":-1,"weekday":1}"#,
        _ => "",
    };
    if below(2) == 0 {
        keys += &format!(r#","month":{}"#, month(below(8)));
    }
    keys += &match below(8) {
        0 => format!(r#","year":{{"start":{}}}"#, 9000 + below(999)),
        1 => format!(r#","year":{{"period":{}}}"#, 1 + below(400)),
        _ => String::new(),
    };
    if below(2) == 0 {
        let unit = ["days", "weeks", "months"][usize::try_from(below(3)).unwrap_or(0)];
        let period = [1 + below(30), 12 + 12 * below(20), 365 + below(3), 1 + below(10_000)];
        let period = period[usize::try_from(below(4)).unwrap_or(0)];
        let (year, month, day) = (1969 + below(60), month(below(8)), 1 + below(28));
        keys += &format!(r#","every":{{"{unit}":{period},"start":"{year}-{month:02}-{day:02}"}}"#);
    }
    let missing = if below(4) == 0 { "unskip" } else { "skip" };
    let repeated = ["both", "only_late", "only_early"][usize::try_from(below(3)).unwrap_or(0)];
    format!(r#"{{{keys},"dst_fixes":["{missing}","repeat_use_{repeated}"]}}"#)
}

#[cfg(test)]
mod tests {
    use sterna_cron::{Item, Zone};

    use super::*;

    #[test]
    fn most_of_what_is_made_up_is_an_item() {
        let mut seed = 1;
        let items = (0..300).filter(|_| serde_json::from_str::<Item>(&item(&mut seed)).is_ok());
        assert!(items.count() > 200);
        assert!(ZONES.iter().all(|name| name.parse::<Zone>().is_ok()));
        for (zone, item) in KNOWN {
            assert!(zone.parse::<Zone>().is_ok(), "{zone}");
            assert!(serde_json::from_str::<Item>(item).is_ok(), "{item}");
        }
    }
}
