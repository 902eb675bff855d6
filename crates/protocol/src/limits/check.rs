//! Which limits make sense.

use std::{error::Error, fmt};

use sterna_model::Span;

use super::Limits;

/// A limit that nobody can go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsError {
    /// Its name.
    pub limit: &'static str,
    /// What it is.
    pub is: Span,
    /// What is wrong with that.
    pub wrong: Wrong,
}

/// What is wrong with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Whoever went by it would never rest.
    Zero,
    /// Who loses a single heartbeat would be given up before the next one is judged.
    Hasty {
        /// The least that makes sense.
        least: Span,
    },
    /// Health would be judged more seldom than it changes.
    Lazy {
        /// The most that makes sense.
        most: Span,
    },
    /// What was started under `stop` would be stopped before its worker is given up (safety rule 11).
    OutlastsRuns {
        /// Which mark says what was started.
        mark: &'static str,
        /// What it is.
        stop_after: Span,
        /// The shortest `stop_after` under these limits.
        least: Span,
    },
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, is, wrong } = self;
        match wrong {
            Wrong::Zero => write!(
                f,
                "limit {limit} is zero: whoever went by it would never rest; set 1ms or more"
            ),
            Wrong::Hasty { least } => write!(
                f,
                "limit {limit} is {is}: a worker would be given up for a single lost heartbeat; \
                 set {least} or more"
            ),
            Wrong::Lazy { most } => write!(
                f,
                "limit {limit} is {is}: health would be judged more seldom than it changes; set \
                 {most} or less"
            ),
            Wrong::OutlastsRuns { mark, stop_after, least } => write!(
                f,
                "limit {limit} is {is}: what is stopped after {stop_after} of silence ({mark}) \
                 would be stopped before its worker is given up; set it shorter by {} or more, or \
                 give that work a `stop_after` of {least} and raise {mark} to it",
                least.minus(*stop_after)
            ),
        }
    }
}

impl Error for LimitsError {}

impl Limits {
    /// Whether these make sense, with the marks that they come with; to be asked before they are
    /// committed, after [`Limits::after`]. Marks may be zero: then nothing was started yet.
    ///
    /// # Errors
    /// The first one that does not, with what would.
    pub fn check(&self) -> Result<(), LimitsError> {
        self.check_pace()?;
        let least = self.stop_after_min();
        let marks = [
            ("batch_stop_after_max", self.batch_stop_after_max),
            ("stop_after_max", self.stop_after_max),
        ];
        let is_outlasted = |(_, mark): &(&'static str, Span)| *mark != Span::ZERO && *mark < least;
        marks.into_iter().find(is_outlasted).map_or(Ok(()), |(mark, stop_after)| {
            let wrong = Wrong::OutlastsRuns { mark, stop_after, least };
            Err(LimitsError { limit: "lose_after", is: self.lose_after, wrong })
        })
    }

    /// Whether both sides can go by these at all, whatever was started.
    pub(super) fn check_pace(&self) -> Result<(), LimitsError> {
        let spans = [
            ("heartbeat_every", self.heartbeat_every),
            ("check_every", self.check_every),
            ("judge_every", self.judge_every),
            ("lose_after", self.lose_after),
        ];
        if let Some((limit, is)) = spans.into_iter().find(|(_, span)| *span == Span::ZERO) {
            return Err(LimitsError { limit, is, wrong: Wrong::Zero });
        }
        let most = self.leader_terms().heartbeat_gap;
        if self.judge_every > most {
            let wrong = Wrong::Lazy { most };
            return Err(LimitsError { limit: "judge_every", is: self.judge_every, wrong });
        }
        // A worker gives itself up one judgement earlier, and both need two judgements in a row.
        let least = self.heartbeat_every.plus(self.judge_every.times(2));
        if self.lose_after < least {
            let wrong = Wrong::Hasty { least };
            return Err(LimitsError { limit: "lose_after", is: self.lose_after, wrong });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(limits: Limits) -> String {
        limits.check().unwrap_err().to_string()
    }

    #[test]
    fn limits_of_nothing_are_refused_by_name() {
        assert_eq!(Limits::default().check(), Ok(()));
        let none = Limits { judge_every: Span::ZERO, ..Limits::default() };
        let refused =
            "limit judge_every is zero: whoever went by it would never rest; set 1ms or more";
        assert_eq!(said(none), refused);
        let fresh = Limits { batch_stop_after_max: Span::ZERO, ..Limits::default() };
        assert_eq!(fresh.check(), Ok(()), "nothing was started yet");
    }

    #[test]
    fn limits_that_give_workers_up_for_nothing_are_refused() {
        let hasty = |millis| Limits { lose_after: Span::from_millis(millis), ..Limits::default() };
        let refused = "limit lose_after is 1ms: a worker would be given up for a single lost \
                       heartbeat; set 2s or more";
        assert_eq!(said(hasty(1)), refused);
        assert!(hasty(1_999).check().is_err());
        assert_eq!(hasty(2_000).check(), Ok(()));
        let lazy = |millis| Limits { judge_every: Span::from_millis(millis), ..Limits::default() };
        let refused = "limit judge_every is 5s1ms: health would be judged more seldom than it \
                       changes; set 5s or less";
        assert_eq!(said(lazy(5_001)), refused);
        assert_eq!(lazy(5_000).check(), Ok(()));
    }

    /// Nothing of what was started under `stop` could be started again: each run would be refused.
    #[test]
    fn limits_that_outlast_what_is_started_are_refused() {
        let slow = |millis| Limits { lose_after: Span::from_millis(millis), ..Limits::default() };
        let refused = "limit lose_after is 1m32s: what is stopped after 2m of silence \
                       (batch_stop_after_max) would be stopped before its worker is given up; set \
                       it shorter by 743ms or more, or give that work a `stop_after` of 2m743ms \
                       and raise batch_stop_after_max to it";
        assert_eq!(said(slow(92_000)), refused);
        assert_eq!(slow(92_000 - 743).check(), Ok(()));
        let raised = Limits { batch_stop_after_max: Span::from_millis(120_743), ..slow(92_000) };
        assert_eq!(raised.check(), Ok(()));
        let any = Limits { batch_stop_after_max: Span::ZERO, ..slow(600_000) };
        assert!(said(any).contains("stop_after_max"));
    }
}
