//! What work asks of the worker that runs it: how much of it, and what kind of worker.
//!
//! | word | what it says |
//! | --- | --- |
//! | [`Demand`] | how much of each resource the work takes, its place for a container included |
//! | [`Constraints`] | which workers may have it at all |
//! | [`Zones`] | whether it spreads over zones, or keeps to one |
//! | [`Wants`] | both together: all that placement needs to know of the work |
//!
//! Invariant: whatever is placed takes one place for a container, so nothing is placed for nothing.
//!
//! This room does not know which workers there are, nor who gets what.

use crate::name::{Name, NameError};
use crate::resources::{Amounts, Bytes, Countables, Millicores};
use crate::text::{quoted, text_face};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// How much of each resource work takes on its worker, from its start until it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand(Amounts);

impl Demand {
    /// So much, and one place for a container.
    pub const fn new(cpu: Millicores, memory: Bytes, disk: Bytes, countables: Countables) -> Self {
        Self(Amounts { cpu, memory, disk, containers: 1, countables })
    }

    /// What is taken from a worker's pool for it.
    pub const fn amounts(&self) -> &Amounts {
        &self.0
    }
}

/// Which workers may have the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraints {
    /// The stack that the worker must have; any will do when none is named.
    pub stack: Option<Name>,
    /// The tags that are asked for. The worker has each of them, as a required or an optional one,
    /// and requires none that is not among them.
    pub tags: BTreeSet<Name>,
    /// The services of the same namespace with which it shares no worker, neither now nor when they
    /// come later. Its own name means: one instance on each worker.
    pub apart_from: BTreeSet<Name>,
    /// How its instances lie in zones.
    pub zones: Zones,
}

/// What the tags begin with that workers give themselves: one for each feature that they have, such
/// as [`IMAGES_TAG`]. People may not give these.
pub const FEATURE_TAGS: &str = "sterna.";

/// The tag that a worker has of itself if it can run work in an image, and that such work asks for.
pub const IMAGES_TAG: &str = "sterna.images";

/// The tag of a feature: work that needs the feature asks for it, and a worker that has the feature
/// has it. So the auction finds a worker for both in one way.
///
/// # Errors
/// When the word is no name, or the tag is too long for one.
pub fn feature_tag(feature: &str) -> Result<Name, NameError> {
    Name::new(&format!("{FEATURE_TAGS}{feature}"))
}

/// How the instances of a service lie in zones. Tasks ignore it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Zones {
    /// Evenly, and elsewhere when a zone is full.
    #[default]
    Spread,
    /// Each index has a zone of its own. The first two go elsewhere when it is full; the others
    /// wait, so that the loss of a zone does not flood those that are left.
    Pinned,
}

impl Zones {
    /// All of them, in their order.
    pub const ALL: [Self; 2] = [Self::Spread, Self::Pinned];

    /// The word for it in specs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Pinned => "pinned",
        }
    }
}

impl fmt::Display for Zones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Zones {
    type Err = ZonesError;

    fn from_str(text: &str) -> Result<Self, ZonesError> {
        let unknown = || ZonesError { text: text.to_owned() };
        Self::ALL.into_iter().find(|zones| zones.as_str() == text).ok_or_else(unknown)
    }
}

text_face! {
    Zones reads with word, "'spread' or 'pinned'";
}

/// Why a text does not say how instances lie in zones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} says nothing about zones: write 'spread' or 'pinned'", quoted(.text))]
pub struct ZonesError {
    /// The whole text.
    pub text: String,
}

/// All that placement needs to know of a piece of work, beside its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wants {
    /// How much it takes.
    pub demand: Demand,
    /// Who may have it.
    pub constraints: Constraints,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_takes_one_place_for_a_container() {
        let gpus: Countables = [(Name::new("gpu").unwrap(), 2)].into_iter().collect();
        let demand = Demand::new(Millicores::new(500), Bytes::new(64), Bytes::new(8), gpus.clone());
        let expected = Amounts {
            cpu: Millicores::new(500),
            memory: Bytes::new(64),
            disk: Bytes::new(8),
            containers: 1,
            countables: gpus,
        };
        assert_eq!(demand.amounts(), &expected);
    }

    #[test]
    fn zones_read_back_what_they_write() {
        for zones in Zones::ALL {
            assert_eq!(zones.to_string().parse(), Ok(zones));
        }
        let error = "even".parse::<Zones>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'even' says nothing about zones: write 'spread' or 'pinned'"
        );
    }

    #[test]
    fn work_that_says_nothing_goes_anywhere_and_spreads() {
        let constraints = Constraints::default();
        assert_eq!(constraints.zones, Zones::Spread);
        assert!(constraints.stack.is_none());
        assert!(constraints.tags.is_empty() && constraints.apart_from.is_empty());
    }
}
