//! From changes of offset to records: where labels repeat, and where they are missing.
//!
//! A plain change needs one record: the labels seen before are its first ones, the labels seen
//! again its last ones. Where changes follow each other within hours this may fail to hold;
//! then the stretch is cut until it does, and a jump with several missing parts gets empty
//! records that carry the further parts. The search never sees the difference.

use super::{
    spans::{Span, overlap, without},
    table::{FAR, REACH, Record},
};

/// One stretch between two changes.
#[derive(Clone, Copy)]
struct Stretch {
    start: i64,
    end: i64,
    offset: i64,
}

impl Stretch {
    const fn labels(&self) -> Span {
        // A stretch without end shows every label, but "no label" is none of them.
        let until = if self.end >= FAR { FAR } else { self.end + self.offset };
        (self.start + self.offset, until)
    }
}

/// The records of a zone whose offset changes as given, in order of time.
pub(super) fn records(changes: &[(i64, i64)]) -> Vec<Record> {
    let stretches: Vec<Stretch> = changes
        .iter()
        .enumerate()
        .map(|(i, &(start, offset))| {
            let end = changes.get(i + 1).map_or(FAR, |next| next.0);
            Stretch { start, end, offset }
        })
        .collect();
    let mut records = Vec::with_capacity(stretches.len());
    let mut gaps: Vec<Span> = Vec::new();
    for (i, stretch) in stretches.iter().enumerate() {
        let first_near = near_before(&stretches, i);
        let last_near = near_after(&stretches, i);
        let labels = |range: std::ops::Range<usize>| stretches[range].iter().map(Stretch::labels);
        let earlier = overlap(stretch.labels(), labels(first_near..i));
        let later = overlap(stretch.labels(), labels(i + 1..last_near));
        let missing = match i.checked_sub(1).map(|before| stretches[before].labels().1) {
            Some(jumped) if jumped < stretch.labels().0 => {
                // A label that two jumps leave out belongs to the first of them.
                let taken = labels(first_near..last_near).chain(gaps.iter().rev().take(4).copied());
                without((jumped, stretch.labels().0), taken)
            }
            Some(_) | None => Vec::new(),
        };
        gaps.extend(&missing);
        push_stretch(*stretch, &missing, &earlier, &later, &mut records);
    }
    records
}

fn near_before(stretches: &[Stretch], i: usize) -> usize {
    let mut near = i;
    while near > 0 && stretches[near].start > stretches[i].start - REACH {
        near -= 1;
    }
    near
}

fn near_after(stretches: &[Stretch], i: usize) -> usize {
    let mut near = i + 1;
    while near < stretches.len() && stretches[near].start < stretches[i].end.saturating_add(REACH) {
        near += 1;
    }
    near
}

fn push_stretch(
    stretch: Stretch,
    missing: &[Span],
    earlier: &[Span],
    later: &[Span],
    records: &mut Vec<Record>,
) {
    let labels = stretch.labels();
    let is_plain = matches!(earlier, [] | [_])
        && matches!(later, [] | [_])
        && earlier.first().is_none_or(|seen| seen.0 == labels.0)
        && later.first().is_none_or(|again| again.1 == labels.1);
    let mut cuts = vec![labels.0];
    if !is_plain {
        cuts.extend(earlier.iter().chain(later).flat_map(|span| [span.0, span.1]));
    }
    cuts.push(labels.1);
    cuts.sort_unstable();
    cuts.dedup();

    let mut jumps = missing.iter().copied();
    // The last missing part goes to the first piece, the others to empty records before it.
    for part in jumps.by_ref().take(missing.len().saturating_sub(1)) {
        records.push(empty(stretch, part));
    }
    let mut jump = jumps.next();
    for piece in cuts.windows(2) {
        let (from, until) = (piece[0], piece[1]);
        let seen = earlier.iter().find(|seen| seen.0 <= from && from < seen.1);
        let again = later.iter().find(|again| again.0 < until && until <= again.1);
        let gap = jump.take().unwrap_or((from, from));
        records.push(Record {
            start: from - stretch.offset,
            offset: stretch.offset,
            from,
            until,
            new_from: seen.map_or(from, |seen| seen.1.min(until)),
            last_until: again.map_or(until, |again| again.0.max(from)),
            gap_from: gap.0,
            gap_until: gap.1,
        });
    }
}

/// A record that shows nothing and carries one more missing part of the jump at its start.
const fn empty(stretch: Stretch, gap: Span) -> Record {
    let label = stretch.labels().0;
    Record {
        start: stretch.start,
        offset: stretch.offset,
        from: label,
        until: label,
        new_from: label,
        last_until: label,
        gap_from: gap.0,
        gap_until: gap.1,
    }
}
