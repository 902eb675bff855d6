//! Names that look like a mistyped one.

use super::Target;
use crate::name::{Kind, Name};

/// More suggestions than this are a list to read, not a hint.
const SUGGESTIONS_MAX: usize = 3;

/// Of the words that are known, the one that somebody meant who wrote `word`, if one is near enough.
pub fn nearest_word<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer ones are nobody's slip, and comparing them costs their length squared.
    const BYTES_MAX: usize = 64;
    let near = |other: &&str| {
        let slips = slips(word.as_bytes(), other.as_bytes());
        (slips <= slips_max(word)).then_some(slips)
    };
    let known = known.into_iter().filter(|_| word.len() <= BYTES_MAX);
    known.filter_map(|other| near(&other).map(|slips| (slips, other))).min().map(|(_, other)| other)
}

/// One slip in a short word, one more for every five characters.
const fn slips_max(word: &str) -> usize {
    1 + word.len() / 5
}

/// The candidates whose names are most like `name`, the nearest first.
pub(super) fn nearest<'a>(
    name: &Name,
    candidates: impl Iterator<Item = (Kind, &'a Name)>,
) -> Vec<Target> {
    let name = name.as_str();
    let slips_max = slips_max(name);
    let slips_to = |other: &str| {
        // Every missing character is a slip; this spares the comparison of most names.
        if name.len().abs_diff(other.len()) <= slips_max {
            let slips = slips(name.as_bytes(), other.as_bytes());
            if slips <= slips_max {
                return Some(slips);
            }
        }
        // Someone who types `build` may well mean `build-42`.
        other.starts_with(name).then_some(slips_max + 1)
    };
    let mut near: Vec<_> = candidates
        .filter_map(|(kind, other)| slips_to(other.as_str()).map(|slips| (slips, other, kind)))
        .collect();
    near.sort();
    near.truncate(SUGGESTIONS_MAX);
    near.into_iter().map(|(_, name, kind)| Target::Whole { kind, name: name.clone() }).collect()
}

/// How many slips lead from one text to the other: a character left out, added or mistaken, or
/// two neighbours swapped. (The optimal string alignment distance.)
fn slips(one: &[u8], other: &[u8]) -> usize {
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, &a) in (1..).zip(one) {
        let mut current = Vec::with_capacity(last.len());
        current.push(row);
        for (column, &b) in (1..).zip(other) {
            let mistaken = last[column - 1] + usize::from(a != b);
            let mut least = mistaken.min(last[column] + 1).min(current[column - 1] + 1);
            if row > 1 && column > 1 && a == other[column - 2] && b == one[row - 2] {
                least = least.min(before_last[column - 2] + 1);
            }
            current.push(least);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_or_none_that_is_far() {
        let known = ["memory", "monitor", "ports"];
        assert_eq!(nearest_word("memmory", known), Some("memory"));
        assert_eq!(nearest_word("port", known), Some("ports"));
        assert_eq!(nearest_word("image", known), None);
        assert_eq!(nearest_word(&"x".repeat(65), [&*"x".repeat(64)]), None);
    }

    #[test]
    fn slips_count_what_fingers_do() {
        let cases = [
            ("web", "web", 0),
            ("wbe", "web", 1),
            ("we", "web", 1),
            ("webb", "web", 1),
            ("wab", "web", 1),
            ("", "web", 3),
            ("ewb", "web", 1),
            ("nightly", "nigthyl", 2),
            ("kitten", "sitting", 3),
        ];
        for (one, other, count) in cases {
            assert_eq!(slips(one.as_bytes(), other.as_bytes()), count, "{one} {other}");
            assert_eq!(slips(other.as_bytes(), one.as_bytes()), count, "{other} {one}");
        }
    }
}
