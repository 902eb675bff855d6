//! How a task ended, as `why` tells it.

use std::fmt;

use sterna_model::record::{TaskEnd, TaskOutcome};

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownEnd {
    /// In one word.
    pub outcome: TaskOutcome,
    /// In words, or as the worker reported it.
    pub text: String,
}

impl KnownEnd {
    pub(super) fn of(end: &TaskEnd) -> Self {
        Self { outcome: end.outcome(), text: end.to_string() }
    }
}

impl fmt::Display for KnownEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.outcome.as_str())?;
        match self.outcome {
            // The words of its end say no more.
            TaskOutcome::Cancelled => Ok(()),
            TaskOutcome::Succeeded | TaskOutcome::Failed | TaskOutcome::Lost => {
                write!(f, ": {}", self.text)
            }
        }
    }
}
