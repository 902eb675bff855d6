//! Years in which every matching label is missing.
//!
//! "02:30 on the second Sunday of March", skipped when missing, never fires in Los Angeles. The
//! plain search would find that out year by year up to 9999. But under rules that repeat with
//! the calendar, what a year shows depends only on its kind, and one look at each kind is enough.

use super::{
    calendar::Calendar,
    every::Every,
    kinds::{ROUND, YEARS_OF_KIND, is_alike, kind},
};
use crate::{
    civil::{self, DAY},
    zone::Table,
};

/// The first selected year from `year` on in which some matching label is shown.
///
/// The rules must repeat from `year` on. Where a count from a date chooses other days in other
/// years of a kind, a year that only the count makes barren tells about no other. Such counts meet
/// a gap a few dozen times in a row at most; where the years are chosen, an item allows few of them.
pub(super) fn next_fertile(calendar: &Calendar, table: &Table, year: i64) -> Option<i64> {
    // The years of kinds that are not known to be barren.
    let mut hopeful = [u64::MAX; ROUND];
    let mut next = year;
    let every = calendar.fields().every.as_ref();
    let judged_by = if calendar.is_alike_by_kind() { every } else { None };
    loop {
        next = calendar.years().at_or_after_within(next, &hopeful)?;
        if shows_match(calendar, table, next, judged_by) {
            if judged_by.is_some() == every.is_some() || shows_match(calendar, table, next, every) {
                return Some(next);
            }
            next += 1;
            continue;
        }
        let barren = kind(next);
        for (other, years) in YEARS_OF_KIND.iter().enumerate() {
            // What lies beside a year matters only to changes that may reach over.
            if other == barren || (!table.changes_at_new_year() && is_alike(other, barren)) {
                hopeful.iter_mut().zip(years).for_each(|(word, years)| *word &= !years);
            }
        }
    }
}

/// Whether some matching label of a year is shown by the clock.
fn shows_match(calendar: &Calendar, table: &Table, year: i64, every: Option<&Every>) -> bool {
    let mut label = civil::new_year(year) * DAY;
    while let Some(found) = calendar.within_year(year, label, every) {
        match table.missing_until(found) {
            Some(end) => label = end,
            None => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Item, Time, Zone};

    /// A count may choose another day in another year of the same kind.
    #[test]
    fn a_barren_year_says_nothing_about_other_counts() {
        // Every 52 weeks a Sunday of March; mostly the second, when 02:30 is missing.
        let start = civil::day_of(civil::Date { year: 2008, month: 3, day: 9 });
        let counted = |year: i64| {
            let first = civil::day_of(civil::Date { year, month: 3, day: 1 });
            let of_month = (first..first + 31).map(|day| (day, day - first + 1));
            of_month.filter(|(day, _)| (day - start) % 364 == 0).map(|(_, of)| of).next()
        };
        let of_march = |days: std::ops::RangeInclusive<i64>| {
            (2010..9000).filter(move |year| counted(*year).is_some_and(|day| days.contains(&day)))
        };
        let barren: Vec<i64> = of_march(8..=14).take(20).collect();
        let alike = |year: &i64| barren[8..].iter().any(|other| kind(*other) == kind(*year));
        let shown = of_march(15..=21).find(|year| *year > barren[19] && alike(year)).unwrap();
        let item: Item = serde_json::from_str(&format!(
            r#"{{"minute": 30, "hour": 2, "month": 3, "day_of_week": "Sun",
                 "every": {{"weeks": 52, "start": "2008-03-09"}}, "year": {:?},
                 "dst_fixes": ["skip", "repeat_use_both"]}}"#,
            [&barren[..], &[shown]].concat(),
        ))
        .unwrap();
        let zone: Zone = "America/Los_Angeles".parse().unwrap();
        let next = item.next(&zone, Time::from_epoch(1_262_304_000)).map(|at| zone.format(at));
        let day = counted(shown).unwrap();
        assert_eq!(next, Some(format!("{shown}-03-{day:02}T02:30:00-07:00")));
    }
}
