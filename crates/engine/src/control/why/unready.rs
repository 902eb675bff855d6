//! Why an instance that runs takes no requests.

use std::fmt;

use sterna_model::{Name, ServiceKey, Span, payload::WorkOutline, record::Instance};

use super::{Next, Rule, Why, settling::crashes_left};
use crate::control::{Control, standing::Service};

/// An instance that runs, and is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// Whether its spec has a probe for that.
    pub has_probe: bool,
    /// Where a copy that is being moved takes its requests meanwhile.
    pub instead: Option<Name>,
    /// Whether an update waits for it.
    pub is_awaited: bool,
    /// What follows for that update if it is not ready for so long.
    pub late: Option<Late>,
}

/// What follows when an instance of a version that comes about is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// So long of that count as one crash.
    pub within: Span,
    /// So many more, and the version is taken back.
    pub crashes_left: u32,
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { has_probe, instead, is_awaited, late } = self;
        f.write_str(match has_probe {
            true => "it runs, but its readiness probe does not succeed yet, ",
            false => {
                "it runs without a readiness probe, but is not ready: its worker is ending it, "
            }
        })?;
        match instead {
            Some(worker) => write!(f, "and its copy on {worker} takes requests meanwhile")?,
            None => f.write_str("so it takes no requests")?,
        }
        if *is_awaited {
            f.write_str("; the update waits for it")?;
        }
        let Some(Late { within, crashes_left }) = late else { return Ok(()) };
        write!(f, "; each {within} of that counts as a crash, and ")?;
        match crashes_left {
            1 => f.write_str("one more rolls the version back"),
            left => write!(f, "{left} more roll the version back"),
        }
    }
}

impl Control {
    /// An instance that runs, if it is not ready.
    pub(super) fn why_unready(
        &self,
        known: Option<&Service>,
        (service, index): (&ServiceKey, u32),
        instance: &Instance,
    ) -> Option<Why> {
        let copy = instance.copy().filter(|copy| !copy.is_ready())?;
        let instead = instance.twin().and_then(|twin| self.name_of(twin.copy.placed.on.lock));
        let its = known.filter(|known| known.record.version == copy.version);
        let is_awaited = its.is_some_and(Service::is_updating);
        let at = its.and_then(|known| known.unready.get(&index)).copied();
        let late = at.zip(its).and_then(|(_, known)| {
            let (within, crashes_left) = (known.ready_within()?, crashes_left(known)?);
            Some(Late { within, crashes_left })
        });
        let work = self.work_of_copy(&service.instance(index), copy.placed.run);
        let has_probe = work.is_none_or(|work| WorkOutline::read(&work).readiness.is_some());
        let next = match at {
            Some(at) => Next::CountsAt(at),
            None if has_probe => Next::WhenReady,
            None => Next::WhenTold,
        };
        let rule = Rule::Unready(Unready { has_probe, instead, is_awaited, late });
        // Its record has the moment at which it began, and not since when it is not ready.
        Some(Why { rule, since: None, next })
    }
}
