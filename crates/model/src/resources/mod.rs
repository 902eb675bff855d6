//! What work asks for and what a worker has, counted so that nothing is sold twice.
//!
//! ```text
//!             take: all of it, or nothing and what was lacking
//!   free ───────────────────────────────────────────────────────▶ taken
//!        ◀───────────────────────────────────────────────────────
//!             give back: refused beyond the total
//! ```
//!
//! Invariant: in a [`Pool`] nothing is below zero, and free is never more than the total.
//! Invariant: resources have one order (cpu, memory, disk, containers, then countables by name),
//! so that reasons read the same everywhere.
//!
//! This room does not know who took what, nor what cgroups make of it.

#[cfg(test)]
mod tests;
mod units;

pub use units::{AmountError, Bytes, Millicores};

use crate::name::Name;
use std::collections::BTreeMap;
use std::fmt;

/// Amounts of every resource: what work asks for, or what a worker has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Processor time.
    pub cpu: Millicores,
    /// Memory.
    pub memory: Bytes,
    /// Disk space.
    pub disk: Bytes,
    /// Places for containers, whatever is in them.
    pub containers: u64,
    /// Things that are counted under a name, such as `gpu`.
    pub countables: Countables,
}

impl Amounts {
    /// Whether all of this can be taken from `free`.
    pub fn fits(&self, free: &Self) -> bool {
        self.cpu <= free.cpu
            && self.memory <= free.memory
            && self.disk <= free.disk
            && self.containers <= free.containers
            && self.countables.iter().all(|(name, count)| count <= free.countables.get(name))
    }

    /// What `free` lacks for this, in the order of resources; empty when it fits.
    pub fn lacks(&self, free: &Self) -> Vec<Lack> {
        let fixed = [
            (Resource::Cpu, self.cpu.get(), free.cpu.get()),
            (Resource::Memory, self.memory.get(), free.memory.get()),
            (Resource::Disk, self.disk.get(), free.disk.get()),
            (Resource::Containers, self.containers, free.containers),
        ];
        let named = self.countables.iter().map(|(name, asked)| {
            (Resource::Countable(name.clone()), asked, free.countables.get(name))
        });
        fixed
            .into_iter()
            .chain(named)
            .filter(|(_, asked, free)| asked > free)
            .map(|(resource, asked, free)| Lack { resource, asked, free })
            .collect()
    }

    /// This together with `other`; what is beyond 64 bits is left out.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// What is left of this without `other`, and nothing below zero.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// The smaller of both, resource by resource.
    #[must_use]
    pub fn at_most(&self, other: &Self) -> Self {
        // What only one of them names is zero in the other.
        let both = other
            .countables
            .iter()
            .map(|(name, count)| (name.clone(), self.countables.get(name).min(count)));
        let countables = both.collect();
        Self { countables, ..self.each(other, u64::min) }
    }

    /// Combines both, resource by resource, where that cannot fail.
    fn each(&self, other: &Self, op: fn(u64, u64) -> u64) -> Self {
        let mut countables = self.countables.clone();
        for (name, count) in other.countables.iter() {
            countables.set(name.clone(), op(self.countables.get(name), count));
        }
        Self {
            cpu: Millicores::new(op(self.cpu.get(), other.cpu.get())),
            memory: Bytes::new(op(self.memory.get(), other.memory.get())),
            disk: Bytes::new(op(self.disk.get(), other.disk.get())),
            containers: op(self.containers, other.containers),
            countables,
        }
    }

    /// Combines both, resource by resource; nothing when one of the results is nothing.
    fn combine(&self, other: &Self, op: fn(u64, u64) -> Option<u64>) -> Option<Self> {
        let mut countables = self.countables.clone();
        for (name, count) in other.countables.iter() {
            countables.set(name.clone(), op(self.countables.get(name), count)?);
        }
        Some(Self {
            cpu: Millicores::new(op(self.cpu.get(), other.cpu.get())?),
            memory: Bytes::new(op(self.memory.get(), other.memory.get())?),
            disk: Bytes::new(op(self.disk.get(), other.disk.get())?),
            containers: op(self.containers, other.containers)?,
            countables,
        })
    }
}

/// Counts of named things. What is not named counts zero, and the other way round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Countables(BTreeMap<Name, u64>);

impl Countables {
    /// How many there are.
    pub fn get(&self, name: &Name) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Says how many there are.
    pub fn set(&mut self, name: Name, count: u64) {
        // Zeros are not kept, or equal amounts would not be equal.
        if count == 0 {
            self.0.remove(&name);
        } else {
            self.0.insert(name, count);
        }
    }

    /// Those that there are, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.0.iter().map(|(name, count)| (name, *count))
    }
}

impl FromIterator<(Name, u64)> for Countables {
    /// The last count of a name holds.
    fn from_iter<I: IntoIterator<Item = (Name, u64)>>(counts: I) -> Self {
        let mut countables = Self::default();
        for (name, count) in counts {
            countables.set(name, count);
        }
        countables
    }
}

/// What a worker has and what of it is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    total: Amounts,
    free: Amounts,
}

impl Pool {
    /// A pool of which nothing is taken.
    pub fn new(total: Amounts) -> Self {
        Self { free: total.clone(), total }
    }

    /// All that there is.
    pub const fn total(&self) -> &Amounts {
        &self.total
    }

    /// What is not taken.
    pub const fn free(&self) -> &Amounts {
        &self.free
    }

    /// Takes all of `asked`, or nothing.
    ///
    /// # Errors
    /// [`Shortage`] with every resource that lacks.
    pub fn take(&mut self, asked: &Amounts) -> Result<(), Shortage> {
        match self.free.combine(asked, u64::checked_sub) {
            Some(left) => {
                self.free = left;
                Ok(())
            }
            None => Err(Shortage { lacks: asked.lacks(&self.free) }),
        }
    }

    /// Gives back what was taken.
    ///
    /// # Errors
    /// [`Surplus`] when more would be free than there is; nothing is given back then. It means
    /// that something was given back twice, a mistake of the caller: believing it would sell the
    /// same memory twice, so the caller keeps the smaller figure and reports the mistake.
    pub fn give_back(&mut self, taken: &Amounts) -> Result<(), Surplus> {
        match self.free.combine(taken, u64::checked_add) {
            Some(free) if free.fits(&self.total) => {
                self.free = free;
                Ok(())
            }
            Some(_) | None => Err(Surplus { taken: Box::new(taken.clone()) }),
        }
    }
}

/// One of the resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Processor time, in millicores.
    Cpu,
    /// Memory, in bytes.
    Memory,
    /// Disk space, in bytes.
    Disk,
    /// Places for containers.
    Containers,
    /// Something counted under a name.
    Countable(Name),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Memory => f.write_str("memory"),
            Self::Disk => f.write_str("disk"),
            Self::Containers => f.write_str("containers"),
            // Named like one of ours, it must not be taken for it.
            Self::Countable(name) if is_ours(name) => write!(f, "countable {name}"),
            Self::Countable(name) => name.fmt(f),
        }
    }
}

fn is_ours(name: &Name) -> bool {
    matches!(name.as_str(), "cpu" | "memory" | "disk" | "containers")
}

/// One resource of which less is free than is asked for, in its own unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// Which.
    pub resource: Resource,
    /// How much is asked for.
    pub asked: u64,
    /// How much is free, which is less.
    pub free: u64,
}

impl Lack {
    /// How much more would have to be free, or less be asked for.
    pub const fn missing(&self) -> u64 {
        self.asked.saturating_sub(self.free)
    }

    /// An amount of this resource as people write it.
    fn amount(&self, raw: u64) -> String {
        match &self.resource {
            Resource::Cpu => Millicores::new(raw).to_string(),
            Resource::Memory | Resource::Disk => Bytes::new(raw).to_string(),
            Resource::Containers | Resource::Countable(_) => raw.to_string(),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [asked, free, missing] =
            [self.asked, self.free, self.missing()].map(|raw| self.amount(raw));
        write!(f, "{}: {asked} asked, {free} free, {missing} missing", self.resource)
    }
}

/// Why nothing was taken: ask for less, or wait until more is given back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.lacks))]
pub struct Shortage {
    /// Every resource that lacks, in their order; at least one.
    pub lacks: Vec<Lack>,
}

fn list(lacks: &[Lack]) -> String {
    let lines: Vec<_> = lacks.iter().map(Lack::to_string).collect();
    lines.join("; ")
}

/// Why nothing was given back: it had not been taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more given back than was taken: {taken:?}")]
pub struct Surplus {
    /// What should have been given back.
    pub taken: Box<Amounts>,
}
