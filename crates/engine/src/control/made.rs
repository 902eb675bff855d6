//! How much there is of what clients make and what goes only when they say so.

use super::{Call, Control};

/// So many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Services.
    pub services: usize,
    /// Their instances, those included that still end.
    pub instances: usize,
    /// Domains.
    pub domains: usize,
    /// Definitions.
    pub definitions: usize,
}

impl Control {
    /// How much there is, as it is going to stand.
    pub fn made(&self) -> Made {
        let (services, instances) = (self.services.len(), self.instances.len());
        let (domains, definitions) = (self.domains.len(), self.definitions.len());
        Made { services, instances, domains, definitions }
    }

    /// How much more there is after a call, if it is carried out.
    pub fn adds(&self, call: &Call) -> Made {
        match call {
            Call::PutService(key, spec) => {
                let known = self.services.get(key).map(|known| known.record.spec.instances);
                let more = spec.instances.saturating_sub(known.unwrap_or(0));
                Made {
                    services: usize::from(known.is_none()),
                    instances: more as usize,
                    ..Made::default()
                }
            }
            Call::SetDomain(name, _) => {
                let is_new = !self.domains.contains_key(name);
                Made { domains: usize::from(is_new), ..Made::default() }
            }
            Call::PutDefinition(key, _) => {
                let is_new = self.definition(key).is_none();
                Made { definitions: usize::from(is_new), ..Made::default() }
            }
            Call::CreateTask(..)
            | Call::CancelTask(_)
            | Call::DeleteTask(_)
            | Call::FreeName(_)
            | Call::DeleteService(_)
            | Call::DeleteDefinition(_)
            | Call::RemoveDomain(_)
            | Call::StopInstance(_)
            | Call::Kill(_)
            | Call::Drain(..)
            | Call::Undrain(_)
            | Call::DeclareDead(_)
            | Call::Forget(_)
            | Call::SetLimits(_) => Made::default(),
        }
    }
}
