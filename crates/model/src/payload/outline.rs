//! As much of work as decisions depend on.

use serde::Deserialize;

use super::{GRACE, Signals, lenient};
use crate::time::Span;

/// What decisions read of work. Whoever decides must not need the whole of it: a newer server may have
/// written what this one cannot read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WorkOutline {
    /// The command and its arguments.
    #[serde(deserialize_with = "lenient::each")]
    pub run: Vec<String>,
    /// Whether anybody can reach it.
    #[serde(rename = "ports", deserialize_with = "lenient::is_filled")]
    pub has_ports: bool,
    /// Whether it counts as running only once its monitor has found it up.
    #[serde(rename = "monitor", deserialize_with = "lenient::is_object")]
    pub is_monitored: bool,
    /// Its readiness probe. Without one, work is ready while it runs.
    #[serde(deserialize_with = "lenient::part")]
    pub readiness: Option<Readiness>,
    #[serde(deserialize_with = "lenient::or_default")]
    signals: SignalTimes,
}

/// What decisions read of a readiness probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Readiness {
    /// The work is to be ready within this time once it runs; `None` for whenever.
    #[serde(deserialize_with = "lenient::or_default")]
    pub start_timeout: Option<Span>,
}

/// What decisions read of signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct SignalTimes {
    #[serde(deserialize_with = "lenient::or_default")]
    grace: Option<Span>,
    #[serde(deserialize_with = "lenient::or_default")]
    linger: Option<Span>,
}

impl Default for SignalTimes {
    fn default() -> Self {
        Self { grace: Some(GRACE), linger: None }
    }
}

impl WorkOutline {
    /// Reads work.
    pub fn read(work: &[u8]) -> Self {
        lenient::object(work).unwrap_or_default()
    }

    /// How long work runs on at most that is asked to end: it lingers if it runs, and then has its grace.
    /// `None` if the worker waits for it however long it takes.
    pub fn ends_within(&self, is_running: bool) -> Option<Span> {
        let SignalTimes { grace, linger } = self.signals;
        let linger = linger.unwrap_or(Signals::usual_linger(self.has_ports));
        Some(grace?.plus(if is_running { linger } else { Span::ZERO }))
    }
}
