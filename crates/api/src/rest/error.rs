//! Everything that can be refused.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why something was refused. Each has one HTTP status, one exit code of the command line, and one
/// remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The request cannot be understood.
    BadRequest,
    /// A spec has problems.
    BadSpec,
    /// The token is missing or wrong.
    Unauthorized,
    /// Nothing has that name.
    NotFound,
    /// There is no such path.
    NoSuchCall,
    /// The path is there, but not for this method.
    WrongMethod,
    /// The name belongs to another task, or did until lately.
    NameTaken,
    /// Not in this phase.
    WrongPhase,
    /// It has changed since it was read.
    HasChanged,
    /// Events that old are no longer kept.
    EventsGone,
    /// Too much is asked at once.
    TooMuch,
    /// What was sent is too large.
    TooLarge,
    /// This server does not lead.
    NotLeading,
    /// This server is not ready: it has just begun, or its store does not answer.
    NotReady,
    /// The worker that has it does not answer.
    WorkerSilent,
    /// A mistake of ours.
    Internal,
}

impl Code {
    /// All of them, in their order.
    pub const ALL: [Self; 16] = [
        Self::BadRequest,
        Self::BadSpec,
        Self::Unauthorized,
        Self::NotFound,
        Self::NoSuchCall,
        Self::WrongMethod,
        Self::NameTaken,
        Self::WrongPhase,
        Self::HasChanged,
        Self::EventsGone,
        Self::TooMuch,
        Self::TooLarge,
        Self::NotLeading,
        Self::NotReady,
        Self::WorkerSilent,
        Self::Internal,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::BadSpec => "bad-spec",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not-found",
            Self::NoSuchCall => "no-such-call",
            Self::WrongMethod => "wrong-method",
            Self::NameTaken => "name-taken",
            Self::WrongPhase => "wrong-phase",
            Self::HasChanged => "has-changed",
            Self::EventsGone => "events-gone",
            Self::TooMuch => "too-much",
            Self::TooLarge => "too-large",
            Self::NotLeading => "not-leading",
            Self::NotReady => "not-ready",
            Self::WorkerSilent => "worker-silent",
            Self::Internal => "internal",
        }
    }

    /// Its HTTP status.
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::BadSpec => 422,
            Self::Unauthorized => 401,
            Self::NotFound | Self::NoSuchCall => 404,
            Self::WrongMethod => 405,
            Self::NameTaken | Self::WrongPhase => 409,
            Self::HasChanged => 412,
            Self::EventsGone => 410,
            Self::TooMuch => 429,
            Self::TooLarge => 413,
            Self::NotLeading | Self::NotReady | Self::WorkerSilent => 503,
            Self::Internal => 500,
        }
    }

    /// The exit code of a command that was refused so.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::BadRequest | Self::NoSuchCall | Self::WrongMethod => 64,
            Self::BadSpec | Self::TooLarge => 65,
            Self::Unauthorized => 77,
            Self::TooMuch | Self::NotLeading | Self::NotReady | Self::WorkerSilent => 75,
            Self::NotFound
            | Self::NameTaken
            | Self::WrongPhase
            | Self::HasChanged
            | Self::EventsGone
            | Self::Internal => 1,
        }
    }

    /// What to do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::BadRequest => "check the field that is named, and the API description",
            Self::BadSpec => "fix the places that are named; nothing was changed",
            Self::Unauthorized => {
                "give the token: STERNA_TOKEN, STERNA_TOKEN_FILE, or the file admin.token in the \
                 server's data directory"
            }
            Self::NotFound => "list what exists with `sterna ls`",
            Self::NoSuchCall => "see /openapi.json for every call",
            Self::WrongMethod => "use a method that the header Allow names",
            Self::NameTaken => {
                "use another name; the name of a task is free 7 days after it was deleted"
            }
            Self::WrongPhase => {
                "check its state with `sterna why` or `sterna ls`; wait, or end it first"
            }
            Self::HasChanged => "read the current state, then retry",
            Self::EventsGone => "read the current state, then follow from the event in `resume`",
            Self::TooMuch => "wait a moment, then retry",
            Self::TooLarge => "send less at once",
            Self::NotLeading => "ask the leading server if it is named, or wait a moment",
            Self::NotReady => "wait a moment, then retry; the server's log says more",
            Self::WorkerSilent => "wait until it is back, or see `sterna ls workers`",
            Self::Internal => "report it as a bug, with the server's log",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// Why.
    pub code: Code,
    /// The same in words, about this case.
    #[schema(value_type = String)]
    pub message: Box<str>,
    /// What to do about it.
    #[schema(value_type = String)]
    pub remedy: Box<str>,
    /// Everything that is wrong with a spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<SpecProblem>,
    /// Where to follow events from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub resume: Option<Box<str>>,
    /// The server that leads, if it is not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub leader: Option<Box<str>>,
}

impl Refused {
    /// Refused for this reason, with the usual remedy.
    pub fn new(code: Code, message: impl Into<Box<str>>) -> Self {
        let (message, remedy) = (message.into(), code.remedy().into());
        Self { code, message, remedy, problems: Vec::new(), resume: None, leader: None }
    }
}

/// One thing that is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpecProblem {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The character in it, counted from 1.
    pub column: usize,
    /// Which field; empty if it is the file as a whole.
    pub place: String,
    /// Why it cannot stay.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl From<&crate::spec::Problem> for SpecProblem {
    fn from(problem: &crate::spec::Problem) -> Self {
        Self {
            file: problem.file.clone(),
            line: problem.line,
            column: problem.column,
            place: problem.place.clone(),
            reason: problem.reason.clone(),
            remedy: problem.remedy.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_in_the_documents_with_its_status_and_its_exit_code() {
        let page = include_str!("../../../../docs/api.md");
        for code in Code::ALL {
            let row = format!("| `{code}` | {} | {} |", code.status(), code.exit_code());
            assert!(page.contains(&row), "docs/api.md has no row {row}");
        }
    }

    #[test]
    fn every_code_is_said_as_it_is_written_and_has_a_remedy() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert!((400..600).contains(&code.status()), "{code}");
            assert!(!code.remedy().is_empty() && code.exit_code() > 0, "{code}");
        }
    }
}
