//! The states of a container, and what it is to run.

use sterna_model::{Span, payload::GRACE};

use super::End;
use crate::monitor;

/// What a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// A place is kept for it.
    Reserved,
    /// What it needs is being made.
    Initializing,
    /// It is there, and on its way to be up.
    Created,
    /// It is up.
    Running,
    /// Everything of it is gone, and its end is not acknowledged yet.
    Completed,
    /// Nothing is left of it.
    Gone,
}

impl State {
    /// In a word, for people and programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Initializing => "initializing",
            Self::Created => "created",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Gone => "gone",
        }
    }
}

/// The arrows of the diagram, and no others.
#[rustfmt::skip]
pub const fn may_follow(before: State, after: State) -> bool {
    use State as S;
    match (before, after) {
        (S::Reserved,     S::Initializing | S::Gone)                  => true,
        (S::Initializing, S::Created | S::Completed)                  => true,
        (S::Created,      S::Running | S::Completed)                  => true,
        (S::Running,      S::Completed)                               => true,
        (S::Completed,    S::Gone)                                    => true,
        // Work for a reservation that has expired: its end is reported like any other.
        (S::Gone,         S::Initializing)                            => true,
        (S::Reserved,     S::Reserved | S::Created | S::Running | S::Completed)                    => false,
        (S::Initializing, S::Reserved | S::Initializing | S::Running | S::Gone)                    => false,
        (S::Created,      S::Reserved | S::Initializing | S::Created | S::Gone)                    => false,
        (S::Running,      S::Reserved | S::Initializing | S::Created | S::Running | S::Gone)       => false,
        (S::Completed,    S::Reserved | S::Initializing | S::Created | S::Running | S::Completed)  => false,
        (S::Gone,         S::Reserved | S::Created | S::Running | S::Completed | S::Gone)          => false,
    }
}

/// What is to be run, as far as the machine must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// How many steps come before the run step.
    pub setup_steps: u32,
    /// Within this everything must be over; `None` for whenever.
    pub timeout: Option<Span>,
    /// Between its stop signal and KILL.
    pub grace: Span,
    /// How long it still answers, on nobody's list any more, before its stop signal on request.
    pub linger: Span,
    /// What decides that it is up, and that it has failed; without it, it is up at once.
    pub monitor: Option<monitor::Limits>,
    /// What decides whether it takes requests; it ends nothing.
    pub readiness: Option<monitor::Limits>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            setup_steps: 0,
            timeout: None,
            grace: GRACE,
            linger: Span::ZERO,
            monitor: None,
            readiness: None,
        }
    }
}

/// One command of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Prepares; counted from 0.
    Setup(u32),
    /// The work itself.
    Run,
}

impl Spec {
    pub(super) const fn first_step(&self) -> Step {
        if self.setup_steps == 0 { Step::Run } else { Step::Setup(0) }
    }

    pub(super) const fn step_after(&self, step: Step) -> Step {
        match step {
            Step::Setup(number) if number + 1 < self.setup_steps => Step::Setup(number + 1),
            Step::Setup(_) | Step::Run => Step::Run,
        }
    }
}

/// The state, with what is true only in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Reserved {
        until: sterna_model::BootTime,
    },
    /// Nothing came for it in time, or it was given up.
    Expired,
    Initializing,
    Created(Step),
    Running,
    Completed(End),
    Removed,
}

impl Stage {
    pub(super) const fn state(&self) -> State {
        match self {
            Self::Reserved { .. } => State::Reserved,
            Self::Initializing => State::Initializing,
            Self::Created(_) => State::Created,
            Self::Running => State::Running,
            Self::Completed(_) => State::Completed,
            Self::Expired | Self::Removed => State::Gone,
        }
    }
}
