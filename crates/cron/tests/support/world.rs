//! Zones and moments at which something may go wrong.

use jiff::{Timestamp, tz::TimeZone};
use sterna_cron::{Database, Zone};

use super::Random;

/// POSIX rules whose changes come close to each other, or to the ends of the year.
const ODD_RULES: [&str; 6] = [
    "AAA0BBB1,J60/2,J60/5",
    "AAA0BBB-3,J60/2,J60/9",
    "AAA0BBB3,J60/2,J60/5:30",
    "<-03>3<+23>-23,J100/0,J101/12",
    "AAA5BBB4,J364/20,J2/3",
    "AAA-5:30BBB-6:15,M2.5.0/-1:30,M10.1.6/30",
];

pub(crate) fn rounds(plain: usize, long: usize) -> usize {
    if std::env::var_os("STERNA_LONG").is_some() { long } else { plain }
}

/// A zone, as the crate has it and as jiff has it.
pub(crate) fn zone(random: &mut Random, database: &Database, names: &[String]) -> (Zone, TimeZone) {
    let bundled = jiff::tz::TimeZoneDatabase::bundled();
    let fewer = [
        "America/Los_Angeles",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "America/St_Johns",
        "Africa/Casablanca",
        "Africa/Monrovia",
        "Asia/Kathmandu",
        "Europe/Berlin",
    ];
    match random.below(4) {
        0 => {
            let name = random.pick(&ODD_RULES);
            (database.zone(name).unwrap(), TimeZone::posix(name).unwrap())
        }
        1 => {
            let name = random.pick(&fewer);
            (database.zone(name).unwrap(), bundled.get(name).unwrap())
        }
        _ => {
            let name = &names[random.below(names.len())];
            (database.zone(name).unwrap(), bundled.get(name).unwrap())
        }
    }
}

/// A moment from 1970 to 2100, mostly beside a change of the zone.
pub(crate) fn moment(random: &mut Random, rules: &TimeZone) -> i64 {
    let anywhere = random.between(0, 4_102_444_800);
    if random.one_in(4) {
        return anywhere;
    }
    let after = Timestamp::from_second(anywhere).unwrap();
    let change = rules.following(after).next().or_else(|| rules.preceding(after).next());
    let change = change.map_or(anywhere, |change| change.timestamp().as_second());
    // Changes of long ago are out of the range that patterns cover.
    change.clamp(0, 4_102_444_800) + random.between(-90_000, 10_000)
}
