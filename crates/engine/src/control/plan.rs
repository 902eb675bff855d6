//! What another spec would change: exactly, in order, and what it restarts.

use std::fmt;

use sterna_model::{
    InstanceKey, ServiceKey,
    record::{InstancePhase, InstanceState},
    spec::ServiceSpec,
};

use super::{Control, fields};

/// The planned changes of one service.
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

/// Whether a change is only planned, or was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tense {
    /// It is planned: "would start".
    Planned,
    /// It was made, and what takes time has begun: "starting".
    Made,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Tense::Planned))
    }
}

impl Change {
    /// The change in words.
    pub fn text(&self, tense: Tense) -> String {
        let say = |planned: &str, made: &str| match tense {
            Tense::Planned => format!("would {planned}"),
            Tense::Made => made.to_owned(),
        };
        match self {
            Self::Create { instances } => {
                let with = counted(*instances as usize);
                say("create", "created") + &format!(", with {with}")
            }
            Self::Delete { ends } if ends.is_empty() => {
                say("delete", "deleted") + "; no instance is running"
            }
            Self::Delete { ends } => match tense {
                Tense::Planned => format!("would delete, and end {}", counted(ends.len())),
                Tense::Made => format!("deleted; ending {}", counted(ends.len())),
            },
            Self::InPlace { fields } => {
                say("change", "changed") + &format!(" in place: {}", fields.join(", "))
            }
            Self::Start { from, to } => {
                let more = to - from;
                let noun = if more == 1 { "instance" } else { "instances" };
                say("start", "starting") + &format!(" {more} more {noun}, from index {from} on")
            }
            Self::Stop { ends } if ends.is_empty() => {
                say("lower", "lowered") + " the number of instances; no running instance ends"
            }
            Self::Stop { ends } => say("end", "ending") + &format!(" {}", counted(ends.len())),
            Self::Restart { fields, indices, .. } if indices.is_empty() => {
                let why = fields.join(", ");
                say("change", "changed")
                    + &format!(" the version because of {why}; no running instance restarts")
            }
            Self::Restart { fields, indices, at_a_time } => {
                let (count, why) = (counted(indices.len()), fields.join(", "));
                say("restart", "restarting")
                    + &format!(" {count}, {at_a_time} at a time, because of {why}")
            }
            Self::BeginAgain { indices } => {
                let noun = if indices.len() == 1 { "instance" } else { "instances" };
                say("restart", "restarting") + &format!(" {} crashed {noun}", indices.len())
            }
        }
    }
}

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
