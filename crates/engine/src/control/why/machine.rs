//! Which worker is meant.

use std::fmt;

use sterna_model::{Lock, Name};

/// A machine as people are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What it is called.
    pub name: Name,
    /// What it is found by, if another one is called the same.
    pub lock: Option<Lock>,
}

impl Machine {
    /// By what a command finds it.
    pub fn whom(&self) -> String {
        self.lock.map_or_else(|| self.name.to_string(), |lock| lock.to_string())
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}
