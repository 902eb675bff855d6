//! Faults to order, decided without a clock: what is late waits until it is released.

use std::collections::VecDeque;

use super::Model;
use crate::{Commit, Outcome, StoreError};

/// What shall befall a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answered [`StoreError::Unavailable`]; nothing is written.
    Unavailable,
    /// Applied, but answered [`StoreError::Unknown`].
    UnknownApplied,
    /// Lost, and answered [`StoreError::Unknown`].
    UnknownLost,
    /// Answered [`StoreError::Unknown`] now, and applied when it is released.
    AppliedLate,
    /// Neither applied nor answered until it is released.
    Slow,
}

/// Names a caller whose commit is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What a commit's caller gets.
#[derive(Debug)]
pub enum Reply {
    /// This, now.
    Now(Result<Outcome, StoreError>),
    /// Nothing yet: [`Faulty::release`] answers under this ticket.
    Later(Ticket),
}

/// A [`Model`] with faults ordered for its next commits.
#[derive(Debug, Default)]
pub struct Faulty {
    model: Model,
    ordered: VecDeque<Fault>,
    /// What is late, oldest first, with the ticket of the caller that still waits, if one does.
    held: VecDeque<(Commit, Option<Ticket>)>,
    tickets: u64,
}

impl Faulty {
    /// The store itself, whose reads suffer no faults.
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// The store itself, for what is not a commit.
    pub const fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Orders a fault for the next commit that has none ordered before it.
    pub fn order(&mut self, fault: Fault) {
        self.ordered.push_back(fault);
    }

    /// Takes a commit and lets its ordered fault befall it.
    pub fn submit(&mut self, commit: Commit) -> Reply {
        let unanswered = || StoreError::Unknown("its answer was ordered to be lost".into());
        match self.ordered.pop_front() {
            None => Reply::Now(self.apply(&commit)),
            Some(Fault::Unavailable) => {
                Reply::Now(Err(StoreError::Unavailable("this fault was ordered".into())))
            }
            Some(Fault::UnknownApplied) => {
                Reply::Now(self.apply(&commit).and_then(|_| Err(unanswered())))
            }
            Some(Fault::UnknownLost) => Reply::Now(Err(unanswered())),
            Some(Fault::AppliedLate) => {
                self.held.push_back((commit, None));
                Reply::Now(Err(unanswered()))
            }
            Some(Fault::Slow) => {
                let ticket = Ticket(self.tickets);
                self.tickets += 1;
                self.held.push_back((commit, Some(ticket)));
                Reply::Later(ticket)
            }
        }
    }

    /// Applies what was held back, oldest first, and answers the callers that still wait.
    pub fn release(&mut self) -> Vec<(Ticket, Result<Outcome, StoreError>)> {
        let held = std::mem::take(&mut self.held);
        held.into_iter()
            .filter_map(|(commit, ticket)| {
                let answer = self.apply(&commit);
                ticket.map(|ticket| (ticket, answer))
            })
            .collect()
    }

    fn apply(&mut self, commit: &Commit) -> Result<Outcome, StoreError> {
        self.model.commit(commit).map_err(StoreError::from)
    }
}
