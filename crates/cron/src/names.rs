//! English names of weekdays and months.

/// From Sunday.
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// From January.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The place of the name that `text` begins: three letters or more, in any case.
pub(crate) fn find(names: &[&str], text: &str) -> Option<i64> {
    let is_prefix = |name: &&str| {
        text.len() >= 3
            && name.get(..text.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(text))
    };
    let at = names.iter().position(is_prefix)?;
    i64::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_prefix_of_three_letters_in_any_case() {
        assert_eq!(find(&WEEKDAYS, "tues"), Some(2));
        assert_eq!(find(&MONTHS, "sEpTe"), Some(8));
        assert_eq!(find(&MONTHS, "MAY"), Some(4));
        assert_eq!(find(&WEEKDAYS, "SUNDAY"), Some(0));
        assert_eq!(find(&WEEKDAYS, "tu"), None);
        assert_eq!(find(&WEEKDAYS, "tux"), None);
        assert_eq!(find(&WEEKDAYS, "Sundays"), None);
        assert_eq!(find(&WEEKDAYS, "sun\u{e9}"), None);
    }
}
