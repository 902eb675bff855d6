//! What follows for this core from what workers say of themselves and of their runs. How that is read is
//! the matter of [`sterna_model::payload`].

use sterna_model::{
    Bytes, Name,
    payload::{Facts, Progress, REPORT_BYTES_MAX, ReportWords, RunState},
    planted::{Mistake, is_planted},
    record::TaskEnd,
};
use sterna_protocol::roster::Zone;

use crate::{
    auction::{Offer, Standing},
    tables::Container,
};

/// What a worker is and has, as the auction wants to know it.
pub fn offer(name: &Name, facts: &[u8], standing: Standing) -> Offer {
    let facts = Facts::read(facts);
    let mut total = facts.amounts();
    if is_planted(Mistake::PlacesOverCapacity) {
        total.memory = Bytes::new(total.memory.get() * 2);
    }
    let (name, optional) = (name.clone(), facts.optional_tags());
    let Facts { zone, stack, required_tags: required, .. } = facts;
    Offer { name, zone, stack, required, optional, total, standing }
}

/// In which zone a worker is.
pub(super) fn zone(facts: &[u8]) -> Zone {
    Facts::zone_in(facts).map_or(Zone::Nameless, Zone::Named)
}

/// How far a run is, by its worker's last word on it.
pub fn progress(said: &[u8]) -> Container {
    match Progress::state_in(said) {
        RunState::Running => Container::Running,
        RunState::Reserved => Container::Reserved,
        RunState::Initializing | RunState::Created | RunState::Completed | RunState::Gone => {
            Container::Starting
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether the worker ended it, for whatever reason.
    pub was_stopped: bool,
    /// Whether it did what it was to do.
    pub is_success: bool,
    /// All of it, in the worker's words; of a report that fits into no record, why and how.
    pub report: Box<str>,
}

/// Whether its worker ended a run, for whatever reason.
pub(super) fn was_stopped(said: &[u8]) -> bool {
    ReportWords::read(said).is_some_and(|words| words.was_stopped())
}

/// Reads an end. One that cannot be read is an end, too.
pub fn ended(said: &[u8]) -> Ended {
    let words = ReportWords::read(said).unwrap_or_default();
    let (was_stopped, is_success) = (words.was_stopped(), words.is_success());
    let report = if said.len() > REPORT_BYTES_MAX {
        words.in_brief().into()
    } else {
        String::from_utf8_lossy(said).into()
    };
    Ended { was_stopped, is_success, report }
}

/// How a run of a service crashed, in so much of its worker's words as says why: what was used of what,
/// and what it left, stays out of a record that there may be many of.
pub(super) fn crash(said: &[u8]) -> TaskEnd {
    TaskEnd::Ran { is_success: false, report: ReportWords::brief_of(said).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_report_that_fits_into_no_record_it_is_kept_why() {
        let report = |result: usize| {
            let result = "x".repeat(result);
            let said = format!(r#"{{"cause":"exited","exit":{{"code":0}},"result":"{result}"}}"#);
            let Ended { is_success, report, .. } = ended(said.as_bytes());
            assert!(is_success);
            (report.len() == said.len(), report)
        };
        assert!(report(300_000).0, "word for word");
        assert_eq!(&*report(REPORT_BYTES_MAX).1, r#"{"cause":"exited","exit":{"code":0}}"#);
    }

    #[test]
    fn a_worker_is_offered_as_its_facts_say() {
        let name = Name::new("w1").unwrap();
        let facts = br#"{"zone":"a","tags":["ssd"],"required_tags":["gpu"],"memory_bytes":64,
            "cpu_millicores":2000}"#;
        let offer = offer(&name, facts, Standing::Withheld);
        let word = |text: &str| Name::new(text).unwrap();
        assert_eq!((offer.name, offer.zone), (name, Some(word("a"))));
        assert_eq!((offer.required, offer.optional), ([word("gpu")].into(), [word("ssd")].into()));
        assert_eq!((offer.total.cpu.get(), offer.total.memory.get()), (2_000, 64));
        assert_eq!(offer.standing, Standing::Withheld);
    }

    #[test]
    fn who_has_everything_made_and_is_not_up_is_starting() {
        let read = |state: &str| progress(format!(r#"{{"state":"{state}"}}"#).as_bytes());
        assert_eq!(read("running"), Container::Running);
        assert_eq!(read("reserved"), Container::Reserved);
        for state in ["initializing", "created", "a newer word"] {
            assert_eq!(read(state), Container::Starting, "{state}");
        }
    }
}
