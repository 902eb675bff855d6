//! How the work of services behaves: its spec says so itself, so that a version is good or bad wherever
//! it runs.

use std::sync::Arc;

use sterna_executor::monitor;
use sterna_model::{Span, payload::WorkOutline};

use crate::rng::Rng;

/// Within what it is to be ready, if it is asked whether it is.
const READY_WITHIN: Span = Span::from_secs(6);

/// How it is asked whether it is ready.
const READINESS: monitor::Limits = monitor::Limits {
    starting_every: Span::from_millis(500),
    healthy_every: Span::from_secs(2),
    timeout: Span::from_secs(1),
    failures_max: 2,
    start_timeout: Some(READY_WITHIN),
};

/// What it does beside its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Nothing.
    Good,
    /// It ends soon after it has begun.
    Crashes,
    /// It ends after a while.
    CrashesLater,
    /// It is ready after a while, which may be too long.
    ReadyLate,
    /// It is ready, and then it is not.
    Wavers,
    /// It is never ready.
    NeverReady,
}

impl Manner {
    const ALL: [(Self, &str); 6] = [
        (Self::Good, "good"),
        (Self::Crashes, "crashes"),
        (Self::CrashesLater, "crashes-later"),
        (Self::ReadyLate, "ready-late"),
        (Self::Wavers, "wavers"),
        (Self::NeverReady, "never-ready"),
    ];

    /// Half of all versions are good.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let bad =
            [Self::Crashes, Self::CrashesLater, Self::ReadyLate, Self::Wavers, Self::NeverReady];
        if rng.chance(500) { Self::Good } else { rng.pick(&bad).unwrap_or(Self::Good) }
    }

    /// Whether it is nothing to who is not asked whether it is ready.
    const fn is_of_readiness(self) -> bool {
        match self {
            Self::Good | Self::Crashes | Self::CrashesLater => false,
            Self::ReadyLate | Self::Wavers | Self::NeverReady => true,
        }
    }

    fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(one, _)| *one == self);
        known.map_or("good", |(_, name)| *name)
    }
}

/// The work of a version that behaves so.
pub(crate) fn work(version: u64, manner: Manner, is_probed: bool) -> Arc<[u8]> {
    let name = manner.name();
    let probe = if is_probed || manner.is_of_readiness() {
        format!(r#","readiness":{{"start_timeout":"{READY_WITHIN}"}}"#)
    } else {
        String::new()
    };
    Arc::from(format!(r#"{{"version":{version},"manner":"{name}"{probe}}}"#).into_bytes())
}

/// How work behaves.
pub(crate) fn of(work: &[u8]) -> Manner {
    let work: serde_json::Value = serde_json::from_slice(work).unwrap_or_default();
    let name = work["manner"].as_str().unwrap_or_default();
    let known = Manner::ALL.iter().find(|(_, known)| *known == name);
    known.map_or(Manner::Good, |(manner, _)| *manner)
}

/// How work is asked whether it is ready; `None` if nobody asks.
pub(crate) fn readiness(work: &[u8]) -> Option<monitor::Limits> {
    WorkOutline::read(work).readiness.map(|_| READINESS)
}

/// So long of not being ready counts as one crash of a version that comes about; `None` for never.
pub(crate) fn ready_within(work: &[u8]) -> Option<Span> {
    readiness(work).and_then(|limits| limits.start_timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_says_how_it_behaves() {
        for (manner, _) in Manner::ALL {
            let (plain, probed) = (work(3, manner, false), work(3, manner, true));
            assert_eq!((of(&plain), of(&probed)), (manner, manner));
            assert_eq!(readiness(&probed), Some(READINESS));
            assert_eq!(readiness(&plain).is_some(), manner.is_of_readiness(), "{manner:?}");
        }
        assert_eq!((of(b"once"), ready_within(b"once")), (Manner::Good, None));
    }

    #[test]
    fn the_engine_reads_of_it_within_what_it_is_to_be_ready() {
        let work = WorkOutline::read(&work(3, Manner::NeverReady, false));
        assert_eq!(work.readiness.unwrap().start_timeout, Some(READY_WITHIN));
    }
}
