//! What a machine is and has, as its worker says with every heartbeat.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{bytes, cut, lenient};
use crate::{
    name::Name,
    placement::{FEATURE_TAGS, IMAGES_TAG, feature_tag},
    resources::{Amounts, Bytes, Millicores},
};

/// A failed check is told in so many bytes at most, however much it says.
pub const FAILED_CHECK_BYTES_MAX: usize = 256;
/// What every worker can make runs by. Who can do only that runs no images.
const PROCESS: &str = "process";

/// What a worker says of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Its failure domain.
    #[serde(deserialize_with = "lenient::or_default")]
    pub zone: Option<Name>,
    /// What kind of root file system work finds here.
    #[serde(deserialize_with = "lenient::or_default")]
    pub stack: Option<Name>,
    /// What work may ask for by name.
    #[serde(deserialize_with = "lenient::each")]
    pub tags: BTreeSet<Name>,
    /// What work must ask for by name to come here.
    #[serde(deserialize_with = "lenient::each", skip_serializing_if = "BTreeSet::is_empty")]
    pub required_tags: BTreeSet<Name>,
    /// Processor time.
    #[serde(deserialize_with = "lenient::or_default")]
    pub cpu_millicores: u64,
    /// Memory.
    #[serde(deserialize_with = "lenient::or_default")]
    pub memory_bytes: u64,
    /// Room for work directories.
    #[serde(deserialize_with = "lenient::or_default")]
    pub disk_bytes: u64,
    /// How many containers it holds at most.
    #[serde(deserialize_with = "lenient::or_default")]
    pub containers: u64,
    /// What is counted by its name, such as `gpu`.
    #[serde(deserialize_with = "counts")]
    pub countables: BTreeMap<Name, u64>,
    /// Its graphics cards.
    #[serde(deserialize_with = "lenient::each")]
    pub gpus: Vec<Gpu>,
    /// The version of the worker.
    #[serde(deserialize_with = "lenient::or_default")]
    pub version: String,
    /// How it tells runs apart.
    #[serde(deserialize_with = "lenient::or_default")]
    pub isolation: Option<Isolation>,
    /// What makes runs.
    #[serde(deserialize_with = "lenient::each")]
    pub runtimes: Vec<String>,
    /// What it can do for work beyond running it, each in a word; [`feature_tag`] makes a tag of it.
    #[serde(deserialize_with = "lenient::each", skip_serializing_if = "BTreeSet::is_empty")]
    pub features: BTreeSet<String>,
    /// What it cannot do, or could not find out, each in a sentence.
    #[serde(deserialize_with = "lenient::each")]
    pub missing: Vec<String>,
    /// Those of them that are limits it cannot hold runs to.
    #[serde(deserialize_with = "lenient::each")]
    pub unheld: Vec<String>,
    /// Which of the worker's health checks failed last, and how. See [`Self::set_failed_check`].
    #[serde(deserialize_with = "check", skip_serializing_if = "Option::is_none")]
    pub failed_check: Option<Box<str>>,
}

/// How a worker tells runs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// By a cgroup of version 2: everything can be done to it at once.
    Cgroup2,
    /// By a group of the version 1 freezer.
    Freezer,
    /// By the process tree below a process of ours.
    Tree,
}

/// A graphics card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its model, as its maker calls it.
    pub name: String,
    /// Where it is on the bus.
    pub bus: String,
    /// Its own memory.
    pub memory_bytes: u64,
}

fn counts<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<Name, u64>, D::Error> {
    Ok(lenient::entries(from)?.unwrap_or_default())
}

fn check<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Box<str>>, D::Error> {
    let said: Option<Box<str>> = lenient::or_default(from)?;
    Ok(said.map(|said| cut(&said, FAILED_CHECK_BYTES_MAX).into()))
}

/// The one field that every change of the list of workers reads.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ZoneAlone {
    #[serde(deserialize_with = "lenient::or_default")]
    zone: Option<Name>,
}

impl Facts {
    /// Reads what a worker says. What cannot be read is offered by nobody.
    pub fn read(said: &[u8]) -> Self {
        lenient::object(said).unwrap_or_default()
    }

    /// The zone in what a worker says.
    pub fn zone_in(said: &[u8]) -> Option<Name> {
        lenient::object::<ZoneAlone>(said).unwrap_or_default().zone
    }

    /// What a worker says.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes(self)
    }

    /// Says which check failed last, and how, in as many bytes as are told of it.
    pub fn set_failed_check(&mut self, failed: &str) {
        self.failed_check = Some(cut(failed, FAILED_CHECK_BYTES_MAX).into());
    }

    /// All that it has for work.
    pub fn amounts(&self) -> Amounts {
        Amounts {
            cpu: Millicores::new(self.cpu_millicores),
            memory: Bytes::new(self.memory_bytes),
            disk: Bytes::new(self.disk_bytes),
            containers: self.containers,
            countables: self
                .countables
                .iter()
                .map(|(name, count)| (name.clone(), *count))
                .collect(),
        }
    }

    /// What makes runs: processes always, and images if there is a runtime for them.
    pub fn runtimes_with(runtime: Option<&str>) -> Vec<String> {
        [PROCESS].into_iter().chain(runtime).map(str::to_owned).collect()
    }

    /// The tags that work may ask for: those that people gave the worker, and one for each of its
    /// features. A worker with a runtime for images has that feature.
    pub fn optional_tags(&self) -> BTreeSet<Name> {
        let has_images = self.runtimes.iter().any(|runtime| runtime != PROCESS);
        let images = Name::new(IMAGES_TAG).ok().filter(|_| has_images);
        let features = self.features.iter().filter_map(|feature| feature_tag(feature).ok());
        let tags = self.tags.iter().filter(|tag| !tag.as_str().starts_with(FEATURE_TAGS));
        tags.cloned().chain(images).chain(features).collect()
    }
}
