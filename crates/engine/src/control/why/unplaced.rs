//! Work that no worker has: the rule as it is now, whose word it is, and the smallest change that helps.

use std::{collections::BTreeSet, fmt, sync::Arc};

use sterna_model::{
    IMAGES_TAG, Lack, Lock, Name, Resource, WallTime, Wants, WorkKey, Zones, payload::Facts,
    record::TwinReason,
};
use sterna_protocol::health::Health;

use crate::{
    auction::{Ask, Prospect, Reason},
    control::{Control, Machine, Now, WorkerSeen},
};

/// Why no worker got it, with what only the whole cluster tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The rule, and the nearest miss.
    pub reason: Arc<Reason>,
    /// Who would get it, if it were given work.
    pub withheld: Option<Withheld>,
    /// What keeps it from the nearest worker, if that is who is there.
    pub apart: Vec<Apart>,
    /// Where a copy of it runs meanwhile that is being moved, and until when at the latest.
    pub copy: Option<(Name, Option<WallTime>)>,
    /// The one zone of several in which it may be; of what is elsewhere nothing is said.
    pub pinned: Option<Pinned>,
}

/// The zone to which an instance is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// This one.
    To(Name),
    /// The workers that are in no zone.
    Outside,
}

impl Unplaced {
    /// By its rule alone.
    pub(super) fn plain(reason: &Arc<Reason>) -> Self {
        Self {
            reason: Arc::clone(reason),
            withheld: None,
            apart: Vec::new(),
            copy: None,
            pinned: None,
        }
    }
}

/// A worker that is given no work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// Which.
    pub worker: Machine,
    /// Why not.
    pub because: Because,
}

/// Why a worker is given no work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// It is drained.
    Drained {
        /// Until when at the latest.
        deadline: WallTime,
    },
    /// Somebody said that it is gone.
    DeclaredDead,
    /// It is not heard, or not well.
    Unwell {
        /// Which check has failed, and how, if it says so.
        check: Option<Box<str>>,
    },
    /// It is here, and is not ready.
    NotReady,
    /// It is the one that somebody thinks of draining.
    ToBeDrained,
}

/// A service that keeps work from a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The service that is there.
    pub service: Name,
    /// Whose spec says so.
    pub whose: Whose,
}

/// Whose `apart_from` keeps two services apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// It names its own service.
    Itself,
    /// That of the work that waits.
    Own,
    /// That of the service that is there.
    Theirs,
}

/// So many of different kinds are looked at again in one step: each costs a look at all workers.
const LOOKED_AT_MAX: usize = 4;

impl Control {
    /// Looks again why nobody has it: what was found when it was last tried may be over. Nothing else is
    /// changed.
    pub(super) fn look_again(&mut self, key: &WorkKey) {
        if self.queue.reason(key).is_some() {
            let outcome = self.registry.rehearse(&[self.ask_of(key)]);
            let left = outcome.left.into_iter().next();
            left.into_iter().for_each(|left| self.note_seen(key, left.reason));
        }
    }

    /// The same of many. Those that ask for the same are looked at once, and a few of different ones: the
    /// others are as they were found when they were tried.
    pub(crate) fn look_again_at(&mut self, keys: &[WorkKey]) {
        let mut found: Vec<(Ask, Option<Arc<Reason>>)> = Vec::new();
        for key in
            keys.iter().filter(|key| self.queue.reason(key).is_some()).cloned().collect::<Vec<_>>()
        {
            let ask = self.ask_of(&key);
            let is_alike = |(other, _): &&(Ask, Option<Arc<Reason>>)| {
                other.key.instance().map(|it| &it.service) == key.instance().map(|it| &it.service)
                    && (Arc::ptr_eq(&other.wants, &ask.wants) || other.wants == ask.wants)
                    && ask.wants.constraints.zones == Zones::Spread
            };
            let known = found.iter().find(is_alike).map(|(_, reason)| reason.clone());
            let reason = match known {
                Some(reason) => reason,
                None if found.len() >= LOOKED_AT_MAX => continue,
                None => {
                    let outcome = self.registry.rehearse(std::slice::from_ref(&ask));
                    let reason = outcome.left.into_iter().next().map(|left| left.reason);
                    found.push((ask, reason.clone()));
                    reason
                }
            };
            reason.into_iter().for_each(|reason| self.note_seen(&key, reason));
        }
    }

    /// What was found by looking again. Updates go by which of them lack room: a question changes nothing
    /// of that.
    fn note_seen(&mut self, key: &WorkKey, reason: Arc<Reason>) {
        if let Some(left) = self.queue.reason_mut(key)
            && left.is_room() == reason.is_room()
        {
            *left = reason;
        }
    }

    /// Why no worker could ever have this, as they are now, however long it waits; `None` if one could, or
    /// if nobody can tell yet. Nothing is changed.
    pub fn in_vain(&mut self, now: Now, key: &WorkKey, wants: &Arc<Wants>) -> Option<Unplaced> {
        if self.may_have_room_soon(now) {
            return None;
        }
        let ask = Ask { key: key.clone(), wants: Arc::clone(wants) };
        let left = self.registry.rehearse(std::slice::from_ref(&ask)).left.into_iter().next()?;
        match left.reason.prospect() {
            Prospect::Never => Some(self.unplaced_as(&ask, &left.reason)),
            Prospect::Wait => None,
        }
    }

    pub(in crate::control) fn ask_of(&self, key: &WorkKey) -> Ask {
        let wants = self.queue.waiting().get(key).cloned().unwrap_or_else(|| self.wants_of(key));
        Ask { key: key.clone(), wants }
    }

    /// What is to be told of work that nobody has.
    pub(in crate::control) fn unplaced(&self, key: &WorkKey, reason: &Arc<Reason>) -> Unplaced {
        let copy = self.moving_copy(key);
        Unplaced { copy, ..self.unplaced_as(&self.ask_of(key), reason) }
    }

    /// What is to be told of work that nobody would have if this machine were drained.
    pub(in crate::control) fn unplaced_without(
        &self,
        ask: &Ask,
        reason: &Arc<Reason>,
        lock: Lock,
    ) -> Unplaced {
        let mut unplaced = self.unplaced_as(ask, reason);
        let machine = self.machine(lock);
        // It takes work, and is withheld for the sake of the question alone.
        if let Reason::Withheld { nearest, .. } = &**reason
            && unplaced.withheld.is_none()
            && let Some(worker) = machine.filter(|machine| machine.name == *nearest)
        {
            unplaced.withheld = Some(Withheld { worker, because: Because::ToBeDrained });
        }
        unplaced
    }

    fn unplaced_as(&self, ask: &Ask, reason: &Arc<Reason>) -> Unplaced {
        let withheld = || self.withheld_from(ask);
        let (lock, apart) = match &**reason {
            Reason::Withheld { nearest, .. } => {
                (withheld().or_else(|| self.withheld_named(nearest)), Vec::new())
            }
            Reason::Apart { nearest, .. } => (withheld(), self.apart(ask, nearest)),
            Reason::Short { .. } => (withheld(), Vec::new()),
            Reason::NoWorker
            | Reason::NoStack { .. }
            | Reason::NoTags { .. }
            | Reason::NoZone { .. }
            | Reason::TooLarge { .. }
            | Reason::StartLimit { .. } => (None, Vec::new()),
        };
        let withheld = lock.and_then(|lock| {
            let because = Because::of(&self.seen(lock)?);
            Some(Withheld { worker: self.machine(lock)?, because })
        });
        let zone = self.registry.only_zone(ask);
        let pinned = zone.map(|zone| zone.map_or(Pinned::Outside, |zone| Pinned::To(zone.clone())));
        Unplaced { reason: Arc::clone(reason), withheld, apart, copy: None, pinned }
    }

    /// Which services on a worker it must be apart from, and whose spec says so.
    fn apart(&self, ask: &Ask, nearest: &Name) -> Vec<Apart> {
        let Ask { key, wants } = ask;
        let own = key.instance().map(|key| &key.service);
        let here = self.workers.iter().find(|(_, worker)| worker.name == *nearest);
        let runs = here.map(|(lock, _)| self.runs_on(*lock)).unwrap_or_default();
        let there = runs.iter().filter_map(|run| self.seats.key_of(*run)?.instance());
        let there = there.map(|key| &key.service);
        let there: BTreeSet<_> =
            there.filter(|service| service.namespace == *key.namespace()).collect();
        let apart = there.into_iter().filter_map(|service| {
            let own_says = wants.constraints.apart_from.contains(&service.name);
            let theirs = self.services.get(service).map(|known| &known.record.spec.wants);
            let they_say = own
                .zip(theirs)
                .is_some_and(|(own, theirs)| theirs.constraints.apart_from.contains(&own.name));
            let whose = if own == Some(service) && own_says {
                Whose::Itself
            } else if own_says {
                Whose::Own
            } else if they_say {
                Whose::Theirs
            } else {
                return None;
            };
            Some(Apart { service: service.name.clone(), whose })
        });
        apart.collect()
    }

    /// Where a copy of it runs that is to be moved.
    fn moving_copy(&self, key: &WorkKey) -> Option<(Name, Option<WallTime>)> {
        let twin = self.instances.get(key.instance()?)?.twin()?;
        let placed = &twin.copy.placed;
        let deadline = self.drains.get(&placed.on.lock).map(|drain| drain.deadline);
        let is_moving = twin.reason == TwinReason::Evacuating;
        is_moving.then(|| self.name_of(placed.on.lock)).flatten().map(|name| (name, deadline))
    }
}

impl Because {
    fn of(seen: &WorkerSeen) -> Self {
        match (seen.is_declared_dead, &seen.drain, seen.health) {
            (true, Some(_) | None, Some(_) | None) => Self::DeclaredDead,
            (false, Some(_) | None, Some(Health::Unhealthy | Health::MustDie) | None) => {
                Self::Unwell { check: Facts::read(&seen.facts).failed_check }
            }
            (false, Some(drain), Some(Health::New | Health::Healthy)) => {
                Self::Drained { deadline: drain.deadline }
            }
            (false, None, Some(Health::New | Health::Healthy)) => Self::NotReady,
        }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whom = self.worker.whom();
        match &self.because {
            Because::Drained { deadline } => {
                write!(
                    f,
                    "is being drained until {deadline}: `sterna undrain {whom}` gives it work again"
                )
            }
            Because::DeclaredDead => f.write_str("was declared dead"),
            Because::Unwell { check: None } => {
                f.write_str("does not answer, or fails its health checks")
            }
            Because::Unwell { check: Some(check) } => {
                write!(f, "fails its health check: {check}")
            }
            Because::NotReady => f.write_str("is not ready for work yet"),
            Because::ToBeDrained => f.write_str("is the worker to drain"),
        }
    }
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.reason {
            Reason::Apart { nearest, from } => self.write_apart(f, nearest, from)?,
            Reason::Withheld { nearest, workers } => self.write_withheld(f, nearest, *workers)?,
            Reason::TooLarge { nearest, lacks } => {
                let lacks = list(lacks, "in all");
                write!(f, "it is too large for every worker; {nearest} comes nearest: {lacks}")?;
            }
            Reason::Short { nearest, lacks } => {
                let lacks = list(lacks, "free");
                write!(f, "no worker has enough free; {nearest} comes nearest: {lacks}")?;
                self.write_but(f)?;
            }
            Reason::NoTags { nearest, missing, unasked } => {
                write_tags(f, nearest, missing, unasked)?;
            }
            Reason::NoWorker => {
                f.write_str("there is no worker: start one with `sterna worker`")?;
            }
            Reason::NoStack { stack, known } if known.is_empty() => {
                write!(
                    f,
                    "it asks for the stack {stack}, and no worker has one: start a worker that has it"
                )?;
            }
            Reason::NoStack { stack, known } => {
                write!(f, "no worker has the stack {stack}; the workers have {}", names(known))?;
            }
            Reason::NoZone { zone: Some(zone) } => {
                write!(f, "it is pinned to the zone {zone}, where no worker may run it")?;
            }
            Reason::NoZone { zone: None } => f.write_str(
                "it is pinned to the workers without a zone, and none of them may run it",
            )?,
            Reason::StartLimit { limit } => {
                let what = if *limit == 1 { "container is" } else { "containers are" };
                write!(f, "{limit} {what} starting, which is the limit: it waits for one of them")?;
            }
        }
        self.write_pinned(f)?;
        match &self.copy {
            Some((worker, Some(deadline))) => {
                write!(
                    f,
                    "; a copy of it runs on {worker} meanwhile, until {deadline} at the latest"
                )
            }
            Some((worker, None)) => write!(f, "; a copy of it runs on {worker} meanwhile"),
            None => Ok(()),
        }
    }
}

impl Unplaced {
    /// Said of what is told of one zone, where the rule does not name it.
    fn write_pinned(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.reason, &self.pinned) {
            (
                Reason::TooLarge { .. }
                | Reason::Withheld { .. }
                | Reason::Short { .. }
                | Reason::Apart { .. },
                Some(Pinned::To(zone)),
            ) => write!(f, "; it is pinned to the zone {zone}, and may be in no other"),
            (
                Reason::TooLarge { .. }
                | Reason::Withheld { .. }
                | Reason::Short { .. }
                | Reason::Apart { .. },
                Some(Pinned::Outside),
            ) => f.write_str("; it is pinned to the workers without a zone"),
            (
                Reason::NoWorker
                | Reason::NoStack { .. }
                | Reason::NoTags { .. }
                | Reason::NoZone { .. }
                | Reason::StartLimit { .. },
                Some(Pinned::To(_) | Pinned::Outside),
            )
            | (
                Reason::NoWorker
                | Reason::NoStack { .. }
                | Reason::NoTags { .. }
                | Reason::NoZone { .. }
                | Reason::TooLarge { .. }
                | Reason::Withheld { .. }
                | Reason::Short { .. }
                | Reason::Apart { .. }
                | Reason::StartLimit { .. },
                None,
            ) => Ok(()),
        }
    }

    fn write_apart(&self, f: &mut fmt::Formatter<'_>, nearest: &Name, from: &Name) -> fmt::Result {
        f.write_str("every worker with room runs something that `apart_from` forbids beside it; ")?;
        write!(f, "{nearest} comes nearest: ")?;
        let because = |apart: &Apart| {
            let service = &apart.service;
            match apart.whose {
                Whose::Itself => {
                    "an instance of the same service runs there, and its `apart_from` names that service"
                        .to_owned()
                }
                Whose::Own => {
                    format!("{service} runs there, and this spec's `apart_from` names it")
                }
                Whose::Theirs => {
                    format!(
                        "{service} runs there, and its `apart_from` names this one"
                    )
                }
            }
        };
        let all: Vec<_> = self.apart.iter().map(because).collect();
        if all.is_empty() {
            write!(f, "{from} runs there")?;
        }
        f.write_str(&all.join("; "))?;
        self.write_but(f)?;
        if self.withheld.is_some() {
            return Ok(());
        }
        let is_itself = |apart: &Apart| apart.whose == Whose::Itself;
        f.write_str(match self.apart.iter().any(is_itself) {
            true => "; start another worker, or ask for fewer instances",
            false => "; start another worker, or change that spec",
        })
    }

    fn write_withheld(
        &self,
        f: &mut fmt::Formatter<'_>,
        nearest: &Name,
        workers: usize,
    ) -> fmt::Result {
        // tidy: not a table
        match (workers, &self.withheld) {
            (1, Some(withheld)) => write!(f, "only {nearest} may run it, which {withheld}"),
            (1, None) => write!(f, "only {nearest} may run it, and it takes no work now"),
            (_, Some(withheld)) => {
                write!(f, "{workers} workers may run it, but none takes work now; ")?;
                write!(f, "{} {withheld}", withheld.worker)
            }
            (_, None) => {
                write!(f, "{workers} workers may run it, but none takes work now; ")?;
                write!(f, "{nearest} is one")
            }
        }
    }

    /// A worker would have room, but for its standing.
    fn write_but(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.withheld {
            Some(withheld) => write!(f, "; {} could run it, but {withheld}", withheld.worker),
            None => Ok(()),
        }
    }
}

/// What lets a worker run images.
const NO_IMAGES: &str =
    "; install runc there and restart its worker as root, or run it without an image";

fn write_tags(
    f: &mut fmt::Formatter<'_>,
    nearest: &Name,
    missing: &BTreeSet<Name>,
    unasked: &BTreeSet<Name>,
) -> fmt::Result {
    let runs_no_images = missing.iter().any(|tag| tag.as_str() == IMAGES_TAG);
    let missing: BTreeSet<_> =
        missing.iter().filter(|tag| tag.as_str() != IMAGES_TAG).cloned().collect();
    if runs_no_images && missing.is_empty() && unasked.is_empty() {
        write!(f, "no eligible worker can run images; {nearest} comes nearest")?;
        return f.write_str(NO_IMAGES);
    }
    if !runs_no_images && missing.is_empty() {
        write!(f, "no worker accepts it; {nearest} comes nearest")?;
    } else {
        let images = if runs_no_images { " and can run images" } else { "" };
        write!(f, "no worker has the right tags{images}; {nearest} comes nearest")?;
    }
    if !missing.is_empty() {
        write!(f, ", it lacks {}", names(&missing))?;
    }
    if runs_no_images {
        f.write_str(", it cannot run images")?;
    }
    if !unasked.is_empty() {
        let tags = if unasked.len() == 1 { "tag" } else { "tags" };
        write!(f, ", it accepts only work with the {tags} {}", names(unasked))?;
    }
    if !missing.is_empty() {
        let tags = flags("--tag", &missing);
        write!(f, "; start a worker with {tags}, or remove it from the spec")?;
    }
    if !unasked.is_empty() {
        let (tags, flags) = (names(unasked), flags("--require-tag", unasked));
        write!(f, "; ask for {tags}, or start a worker without {flags}")?;
    }
    // Who mends only one of both would wait on.
    if runs_no_images { f.write_str(NO_IMAGES) } else { Ok(()) }
}

/// The options that say these tags.
fn flags(option: &str, tags: &BTreeSet<Name>) -> String {
    tags.iter().map(|tag| format!("{option} {tag}")).collect::<Vec<_>>().join(" ")
}

fn names(names: &BTreeSet<Name>) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}

fn list(lacks: &[Lack], of: &str) -> String {
    let one = |lack: &Lack| {
        let (asked, missing) = (amount(lack, lack.asked, true), amount(lack, lack.missing(), true));
        let there = amount(lack, lack.free, false);
        format!("{}: {asked} asked, {there} {of}, {missing} missing", lack.resource)
    };
    lacks.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// An amount in few digits: up where less would not help, down where more is not there.
fn amount(lack: &Lack, raw: u64, rounds_up: bool) -> String {
    match &lack.resource {
        Resource::Cpu => sterna_model::Millicores::new(raw).to_string(),
        Resource::Containers | Resource::Countable(_) => raw.to_string(),
        Resource::Memory | Resource::Disk => bytes(raw, rounds_up),
    }
}

fn bytes(raw: u64, rounds_up: bool) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((size, unit)) = UNITS.iter().find(|(size, _)| raw >= *size) else {
        return format!("{raw}B");
    };
    let tenths = u128::from(raw) * 10;
    let size = u128::from(*size);
    let tenths = if rounds_up { tenths.div_ceil(size) } else { tenths / size };
    // tidy: not a table
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, part) => format!("{whole}.{part}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn amounts_are_short_and_never_flatter() {
        assert_eq!(bytes(40, false), "40B");
        assert_eq!(bytes(900 << 30, true), "900GiB");
        assert_eq!(bytes(3_712_580 << 10, false), "3.5GiB");
        assert_eq!(bytes(2_578_876 << 10, true), "2.5GiB");
        assert_eq!(bytes((1 << 30) + 1, true), "1.1GiB");
        assert_eq!(bytes(u64::MAX, false), "16777215.9TiB");
    }
}
