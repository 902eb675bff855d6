//! How far a run has come, and where it takes requests.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{
    Deserialize, Serialize,
    de::{IntoDeserializer, value},
};

use super::{bytes, lenient};

/// The leader records what a worker says of a run if it is no longer.
pub const PROGRESS_BYTES_MAX: usize = 16_384;

/// What a worker says of a run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// How far it is.
    #[serde(deserialize_with = "lenient::or_default")]
    pub state: RunState,
    /// Whether it takes requests. A run that says nothing does: it has no readiness probe.
    #[serde(deserialize_with = "said_ready")]
    pub is_ready: bool,
    /// Where it takes them.
    #[serde(flatten)]
    pub endpoint: Option<Endpoint>,
}

/// Where a run is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The address of its machine.
    pub address: String,
    /// Its ports, by name.
    #[serde(deserialize_with = "ports")]
    pub ports: BTreeMap<String, u16>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The worker keeps a place for it.
    Reserved,
    /// The worker makes what it needs.
    Initializing,
    /// It is there and on its way up. A reader takes words that it does not know for this one.
    #[default]
    Created,
    /// It is up.
    Running,
    /// Every process of it is gone.
    Completed,
    /// Nothing is left of it.
    Gone,
}

impl RunState {
    fn of_word(word: &str) -> Option<Self> {
        Self::deserialize(IntoDeserializer::<value::Error>::into_deserializer(word)).ok()
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self { state: RunState::default(), is_ready: true, endpoint: None }
    }
}

fn said_ready<'de, D: serde::Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let said: Option<bool> = lenient::or_default(from)?;
    Ok(said.unwrap_or(true))
}

fn ports<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u16>, D::Error> {
    let said: Option<BTreeMap<String, u16>> = lenient::entries(from)?;
    said.ok_or_else(|| serde::de::Error::custom("ports are no object"))
}

/// The state alone. Every instance says its progress again and again, so the reader skips the other
/// fields and copies nothing.
#[derive(Default, Deserialize)]
struct StateAlone<'a> {
    #[serde(borrow)]
    state: Option<Cow<'a, str>>,
}

/// The readiness alone.
#[derive(Default, Deserialize)]
struct ReadyAlone {
    is_ready: Option<bool>,
}

impl Progress {
    /// Reads what a worker says.
    pub fn read(said: &[u8]) -> Self {
        lenient::object(said).unwrap_or_default()
    }

    /// How far a run is by what its worker says.
    pub fn state_in(said: &[u8]) -> RunState {
        let said: StateAlone<'_> = lenient::object(said).unwrap_or_default();
        said.state.as_deref().and_then(RunState::of_word).unwrap_or_default()
    }

    /// Whether a run takes requests by what its worker says.
    pub fn is_ready_in(said: &[u8]) -> bool {
        lenient::object::<ReadyAlone>(said).and_then(|said| said.is_ready).unwrap_or(true)
    }

    /// What a worker says.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes(self)
    }
}
