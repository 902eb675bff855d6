//! How much room records take in a commit.

use sterna_model::{
    Wants,
    record::{Instance, Task, TaskEnd},
    spec::{ServiceSpec, TaskSpec},
};

use super::{Row, RowKey, ServiceRecord, outbox::Write};

/// What any record takes, beside what has no bound of its own: ids, moments, numbers, keys.
const PLAIN: usize = 512;

impl Write for Row {
    type Key = RowKey;

    fn key(&self) -> RowKey {
        Self::key(self)
    }

    /// Not exact: what is long is counted, and what is short allowed for.
    fn bytes(&self) -> usize {
        let long = match self {
            Self::Service(_, service) => service.as_deref().map(of_service),
            Self::Instance(_, instance) => instance.as_ref().map(of_instance),
            Self::Task(_, task) => task.as_ref().map(|(task, spec)| of_task(task, spec)),
            Self::Definition(_, _, definition) => {
                definition.as_ref().map(|it| of_task_spec(&it.spec))
            }
            // Each has a few numbers.
            Self::Limits(all) => Some(all.len() * PLAIN),
            Self::Tombstone(..)
            | Self::Roster(..)
            | Self::Drain(..)
            | Self::Domain(..)
            | Self::Stage(_) => (!self.is_gone()).then_some(0),
        };
        long.map_or(0, |long| PLAIN + long)
    }
}

fn of_service(service: &ServiceRecord) -> usize {
    let of_spec = |spec: &ServiceSpec| spec.work.len() + spec.notes.len() + of_wants(&spec.wants);
    let before = service.before.as_ref().map_or(0, |(_, spec)| of_spec(spec));
    of_spec(&service.spec) + before
}

fn of_instance(instance: &Instance) -> usize {
    let copies = instance.copies().map(|copy| {
        let told = copy.told.as_ref().map_or(0, |told| told.len());
        told + of_wants(&copy.wants)
    });
    let crash = instance.last_crash().map_or(0, |crash| of_end(&crash.end));
    copies.sum::<usize>() + crash
}

/// What is long of a task: what it is to do, and what its worker said of its end.
pub(super) fn of_task(task: &Task, spec: &TaskSpec) -> usize {
    of_task_spec(spec) + task.end().map_or(0, of_end)
}

fn of_task_spec(spec: &TaskSpec) -> usize {
    let callback = spec.callback.as_ref().map_or(0, |url| url.len());
    spec.work.len() + callback + of_wants(&spec.wants)
}

fn of_end(end: &TaskEnd) -> usize {
    match end {
        TaskEnd::Ran { report, .. } => report.len(),
        TaskEnd::NeverTaken { why } | TaskEnd::NoRoom { why } => why.len(),
        TaskEnd::Cancelled
        | TaskEnd::Lost
        | TaskEnd::Drained
        | TaskEnd::TooLate
        | TaskEnd::UnknownAfterRestore => 0,
    }
}

fn of_wants(wants: &Wants) -> usize {
    let constraints = &wants.constraints;
    let names = constraints.tags.iter().chain(&constraints.apart_from);
    names.map(|name| name.as_str().len() + 2).sum()
}
