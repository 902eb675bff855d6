//! About how many bytes specs take: what is long of them is counted, and what is short allowed for.

use sterna_engine::control::ServiceRecord;
use sterna_model::{
    Wants,
    spec::{Definition, ServiceSpec, TaskSpec},
};

/// What any spec takes beside what has no bound of its own.
const PLAIN: usize = 512;

/// The spec of a task.
pub(crate) fn of_task(spec: &TaskSpec) -> u64 {
    let callback = spec.callback.as_ref().map_or(0, |url| url.len());
    (PLAIN + spec.work.len() + callback + of_wants(&spec.wants)) as u64
}

/// The spec of a service.
pub(crate) fn of_service(spec: &ServiceSpec) -> u64 {
    (PLAIN + spec.work.len() + spec.notes.len() + of_wants(&spec.wants)) as u64
}

/// The specs that are kept of a service: with the one to which it may be taken back.
pub(crate) fn of_record(record: &ServiceRecord) -> u64 {
    let before = record.before.as_ref().map_or(0, |(_, spec)| of_service(spec));
    of_service(&record.spec) + before
}

/// What is added where this one becomes that one: nothing if it is no larger.
pub(crate) fn added(known: Option<&ServiceRecord>, next: &ServiceSpec) -> u64 {
    let next = of_service(next);
    match known {
        Some(known) if of_service(&known.spec) >= next => 0,
        Some(_) | None => next,
    }
}

/// What is added where this definition becomes that one: nothing if it is no larger.
pub(crate) fn added_to_definition(known: Option<&Definition>, next: &Definition) -> u64 {
    let next = of_task(&next.spec);
    match known {
        Some(known) if of_task(&known.spec) >= next => 0,
        Some(_) | None => next,
    }
}

fn of_wants(wants: &Wants) -> usize {
    let constraints = &wants.constraints;
    let names = constraints.tags.iter().chain(&constraints.apart_from);
    names.map(|name| name.as_str().len() + 2).sum()
}
