//! Half-open spans of labels, and the few set operations that building a table needs.

/// From the first number up to, and without, the second.
pub(super) type Span = (i64, i64);

/// What `span` shares with the spans of `others`, merged and in order.
pub(super) fn overlap(span: Span, others: impl IntoIterator<Item = Span>) -> Vec<Span> {
    let mut parts: Vec<Span> = others
        .into_iter()
        .map(|other| (other.0.max(span.0), other.1.min(span.1)))
        .filter(|part| part.0 < part.1)
        .collect();
    parts.sort_unstable();
    let mut merged: Vec<Span> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.last_mut() {
            Some(last) if part.0 <= last.1 => last.1 = last.1.max(part.1),
            Some(_) | None => merged.push(part),
        }
    }
    merged
}

/// What is left of `span` when the spans of `others` are taken out.
pub(super) fn without(span: Span, others: impl IntoIterator<Item = Span>) -> Vec<Span> {
    let mut left = Vec::new();
    let mut from = span.0;
    for taken in overlap(span, others) {
        if from < taken.0 {
            left.push((from, taken.0));
        }
        from = taken.1;
    }
    if from < span.1 {
        left.push((from, span.1));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_merged() {
        assert_eq!(overlap((0, 10), [(8, 12), (2, 4), (3, 6), (20, 30)]), [(2, 6), (8, 10)]);
        assert_eq!(overlap((0, 10), []), []);
    }

    #[test]
    fn what_is_left_keeps_its_order() {
        assert_eq!(without((0, 10), [(8, 12), (2, 4)]), [(0, 2), (4, 8)]);
        assert_eq!(without((0, 10), [(-5, 50)]), []);
        assert_eq!(without((0, 10), []), [(0, 10)]);
    }
}
