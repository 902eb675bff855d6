//! One page of keys, read in steps that etcd can bear.
//!
//! etcd bounds an answer by its items and never by its bytes, and makes it whole in its memory
//! before it sends any of it. So the first step asks for no more than fills a page if every value
//! is as large as may be; the next ones for what should fill the rest, by what was met so far.

use super::{
    known::Known,
    link::Link,
    reader::{first_of, item, pinned, reached},
    trouble::{Topic, Trouble},
    wire::{RangeRequest, RangeResponse, path},
};
use crate::{Limits, Page, Scan, StoreError};
use sterna_model::Revision;

/// How much more a step may ask for than the last one, and how much less after one that was too
/// much: small values say little about those behind them.
const GROWTH: usize = 16;
/// Items that are asked for at most: so many of the largest do no member harm.
const STEP_MAX: usize = 256;

/// One page of keys.
pub(super) async fn scan(
    link: &Link,
    known: &Known,
    limits: &Limits,
    scan: &Scan,
) -> Result<Page, StoreError> {
    // What cannot be right at any revision is refused before anything is sent.
    limits.check_scan(&Scan { at: None, ..scan.clone() }, Revision::ZERO)?;
    let bounds = known.keys.bounds(&scan.prefix, scan.after.as_deref());
    let mut request = RangeRequest {
        key: bounds.first,
        range_end: bounds.end,
        revision: scan.at.map_or(0, first_of),
        ..RangeRequest::default()
    };
    let mark = known.reached.mark()?;
    let (mut items, mut bytes, mut at) = (Vec::new(), 0, None);
    let mut step = first_step(limits);
    loop {
        step = step.min(scan.limit - items.len());
        request.limit = i64::try_from(step).unwrap_or(i64::MAX);
        let fewer = |request: &mut RangeRequest, trouble: &Trouble| {
            let Some(smaller) = smaller(step, trouble) else { return false };
            step = smaller;
            request.limit = i64::try_from(step).unwrap_or(i64::MAX);
            true
        };
        let asked = link.ask_or_change(path::RANGE, request.clone(), fewer).await;
        let answer: RangeResponse = match asked {
            Ok(answer) => answer,
            Err(trouble) => match at {
                None => return Err(pinned(link, known, scan.at, trouble).await),
                // What there is of it is a page too; whoever asks for the next one meets it again.
                Some(revision) => return Ok(Page { items, revision, more: true }),
            },
        };
        let revision = match at {
            None => limits.check_scan(scan, reached(known, mark, &answer)?)?,
            Some(revision) => revision,
        };
        (at, request.revision) = (Some(revision), first_of(revision));
        let mut more = answer.more;
        for kv in answer.kvs {
            if bytes >= limits.page_bytes_max {
                more = true;
                break;
            }
            bytes += kv.key.len() + kv.value.len();
            request.key = [&*kv.key, &[0]].concat().into();
            items.push(item(known, kv));
        }
        if !more || items.len() >= scan.limit || bytes >= limits.page_bytes_max {
            return Ok(Page { items, revision, more });
        }
        step = next_step(limits, step, items.len(), bytes);
    }
}

/// For how many items to ask while nothing is known of them.
fn first_step(limits: &Limits) -> usize {
    (limits.page_bytes_max / limits.value_bytes_max).clamp(1, STEP_MAX)
}

/// For how many to ask after a step of so many, when so many came, of so many bytes.
fn next_step(limits: &Limits, step: usize, items: usize, bytes: usize) -> usize {
    let each = (bytes / items.max(1)).max(1);
    let rest = limits.page_bytes_max.saturating_sub(bytes) / each + 1;
    rest.min(step.saturating_mul(GROWTH)).clamp(1, STEP_MAX)
}

/// For how many to ask instead, if it may have failed because they were too much.
fn smaller(step: usize, trouble: &Trouble) -> Option<usize> {
    let is_too_much =
        trouble.topic() == Topic::TooLarge || matches!(trouble, Trouble::Silent { .. });
    (is_too_much && step > 1).then(|| (step / GROWTH).max(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: Limits = Limits::PORTABLE;

    #[test]
    fn a_page_begins_with_no_more_than_fills_it_at_most() {
        assert_eq!(first_step(&LIMITS), 2);
    }

    #[test]
    fn small_items_are_asked_for_by_more_and_more_but_never_by_too_many() {
        assert_eq!(next_step(&LIMITS, 2, 2, 20), 32);
        assert_eq!(next_step(&LIMITS, 32, 34, 340), STEP_MAX);
        assert_eq!(next_step(&LIMITS, STEP_MAX, 290, 2_900), STEP_MAX);
    }

    #[test]
    fn large_items_are_asked_for_as_the_rest_of_the_page_holds_them() {
        assert_eq!(next_step(&LIMITS, 2, 2, 400_000), 9);
        assert_eq!(next_step(&LIMITS, 1, 1, 1_000_000), 2);
    }

    #[test]
    fn silence_and_answers_that_are_too_large_ask_for_fewer() {
        let silent = Trouble::Silent { limit: Duration::ZERO };
        let large = tonic::Status::out_of_range("Error, decoded message length too large");
        for trouble in [silent, large.into()] {
            assert_eq!(smaller(256, &trouble), Some(16), "{trouble}");
            assert_eq!(smaller(2, &trouble), Some(1), "{trouble}");
            assert_eq!(smaller(1, &trouble), None, "{trouble}");
        }
        assert_eq!(smaller(256, &Trouble::Closed), None);
    }
}
