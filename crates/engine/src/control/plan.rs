//! What another spec would change: exactly, in order, and what it restarts.

use std::fmt;

use sterna_model::{
    InstanceKey, ServiceKey,
    record::{InstancePhase, InstanceState},
    spec::ServiceSpec,
};

use super::{Control, fields};

/// What would become of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which.
    pub service: ServiceKey,
    /// What, in the order in which it would be done; nothing if all is as it is wanted.
    pub changes: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is none: it is made, with so many instances.
    Create {
        /// How many.
        instances: u32,
    },
    /// It goes, and its instances end.
    Delete {
        /// Those that run, or are being started.
        ends: Vec<u32>,
    },
    /// Fields that no running instance notices.
    InPlace {
        /// Which.
        fields: Vec<&'static str>,
    },
    /// Indices begin.
    Start {
        /// The first.
        from: u32,
        /// Beyond the last.
        to: u32,
    },
    /// Indices end.
    Stop {
        /// Those that run, or are being started.
        ends: Vec<u32>,
    },
    /// Instances are started anew.
    Restart {
        /// Because of these fields.
        fields: Vec<&'static str>,
        /// Which.
        indices: Vec<u32>,
        /// How many at a time.
        at_a_time: u32,
    },
    /// Instances that crashed and wait, or were given up, begin again.
    BeginAgain {
        /// Which.
        indices: Vec<u32>,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { instances: 1 } => f.write_str("is made, with 1 instance"),
            Self::Create { instances } => write!(f, "is made, with {instances} instances"),
            Self::Delete { ends } if ends.is_empty() => f.write_str("goes; nothing runs that ends"),
            Self::Delete { ends } if ends.len() == 1 => f.write_str("goes; 1 instance ends"),
            Self::Delete { ends } => write!(f, "goes; {} instances end", ends.len()),
            Self::InPlace { fields } => write!(f, "changes in place: {}", fields.join(", ")),
            Self::Start { from, to } => write!(f, "starts {} more, from {from} on", to - from),
            Self::Stop { ends } if ends.is_empty() => {
                f.write_str("wants fewer instances; nothing runs that ends")
            }
            Self::Stop { ends } => write!(f, "ends {}", counted(ends.len())),
            Self::Restart { fields, indices, .. } if indices.is_empty() => {
                write!(
                    f,
                    "is another version, for {}; nothing runs that is restarted",
                    fields.join(", ")
                )
            }
            Self::Restart { fields, indices, at_a_time } => {
                let (count, why) = (indices.len(), fields.join(", "));
                write!(f, "restarts {}, {at_a_time} at a time, for {why}", counted(count))
            }
            Self::BeginAgain { indices } if indices.len() == 1 => {
                f.write_str("1 instance that had crashed begins again")
            }
            Self::BeginAgain { indices } => {
                write!(f, "{} instances that had crashed begin again", indices.len())
            }
        }
    }
}

/// As people count.
fn counted(instances: usize) -> String {
    if instances == 1 { "1 instance".to_owned() } else { format!("{instances} instances") }
}

impl Control {
    /// What it would change if the service were to be like this; `None` for not at all. Nothing is
    /// done.
    pub fn plan(&self, service: &ServiceKey, wanted: Option<&ServiceSpec>) -> Planned {
        let known = self.services.get(service).map(|known| &known.record.spec);
        let changes = match (known, wanted) {
            (None, None) => Vec::new(),
            (None, Some(next)) => vec![Change::Create { instances: next.instances }],
            (Some(_), None) => vec![Change::Delete { ends: self.alive(service, 0) }],
            (Some(now), Some(next)) => self.changes(service, now, next),
        };
        Planned { service: service.clone(), changes }
    }

    fn changes(&self, service: &ServiceKey, now: &ServiceSpec, next: &ServiceSpec) -> Vec<Change> {
        let mut changes = Vec::new();
        let named = |all: &[(bool, &'static str)]| {
            let changed = all.iter().filter(|(is_changed, _)| *is_changed);
            changed.map(|(_, name)| *name).collect::<Vec<_>>()
        };
        let mut fields = named(&[
            (now.crash != next.crash, "crash"),
            (now.update != next.update, "update"),
            (now.domain != next.domain, "domain"),
        ]);
        fields.extend(fields::of_notes(&now.notes, &next.notes));
        if !fields.is_empty() {
            changes.push(Change::InPlace { fields });
        }
        // What is beyond, and was found, ends with it, too.
        let ends = self.alive(service, next.instances);
        if next.instances < now.instances || ends.iter().any(|it| self.runs_on_index(service, *it))
        {
            changes.push(Change::Stop { ends });
        }
        let indices = self.begin_again_with(service, next);
        if !indices.is_empty() {
            changes.push(Change::BeginAgain { indices });
        }
        // Every index is looked at before the first one of an older version is ended.
        // What was found there runs already.
        let mut from = now.instances;
        let there = self.alive(service, now.instances).into_iter();
        for index in there.filter(|it| *it < next.instances).chain([next.instances]) {
            if from < index {
                changes.push(Change::Start { from, to: index });
            }
            from = from.max(index.saturating_add(1));
        }
        if now.needs_restart(next) {
            let fields = fields::of_version(now, next);
            let mut indices = self.alive(service, 0);
            let known = self.services.get(service);
            let again = known.and_then(|known| known.record.taken_back_by(next));
            let is_of = |index: u32| {
                let copy = self.instances.get(&service.instance(index)).and_then(|it| it.copy());
                copy.filter(|copy| copy.stopping.is_none()).map(|copy| copy.version)
            };
            indices.retain(|index| {
                *index < next.instances && (again.is_none() || is_of(*index) != again)
            });
            let at_a_time = next.update.max_unavailable.max(1);
            changes.push(Change::Restart { fields, indices, at_a_time });
        }
        changes
    }

    /// The indices that crashed and wait, or were given up, and would do so no longer under this spec.
    pub(super) fn begin_again_with(&self, service: &ServiceKey, next: &ServiceSpec) -> Vec<u32> {
        let Some(known) = self.services.get(service) else { return Vec::new() };
        let is_anew = known.record.spec.needs_restart(next);
        let begins = |key: &InstanceKey| {
            let instance = self.instances.get(key)?;
            let InstanceState::Crashed { until } = instance.state() else { return None };
            let index = key.index;
            let waits = super::services::waits(instance, *until, &next.crash, self.seen.wall);
            (index < next.instances && (is_anew || !waits)).then_some(index)
        };
        self.indices_from(service, 0).iter().filter_map(begins).collect()
    }

    /// Whether an index has a copy that is not told to end.
    fn runs_on_index(&self, service: &ServiceKey, index: u32) -> bool {
        let instance = self.instances.get(&service.instance(index));
        instance.is_some_and(|it| it.copies().any(|copy| copy.stopping.is_none()))
    }

    /// The indices from this one on that have a copy.
    fn alive(&self, service: &ServiceKey, first: u32) -> Vec<u32> {
        let keys = self.indices_from(service, first);
        let alive = keys.iter().filter(|key| {
            self.instances.get(key).is_some_and(|instance| match instance.phase() {
                InstancePhase::Claimed | InstancePhase::Running => true,
                InstancePhase::Unclaimed | InstancePhase::Crashed => instance.twin().is_some(),
            })
        });
        alive.map(|key| key.index).collect()
    }
}
