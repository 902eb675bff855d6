//! How people say what they mean: `[KIND/]NAME[/PART]`, or `last`.
//!
//! ```text
//!   web              whatever is called web
//!   task/web         the task of that name
//!   web/3            instance 3 of the service web, or node 3 of the batch web
//!   batch/web/db7    node db7 of the batch web
//!   last             what was created last
//! ```
//!
//! A first part that is the word for a kind means the kind, and `last` alone means the last, so a
//! service of such a name is reached as `service/task/3` or `service/last`.
//!
//! Invariant: a selector means exactly one thing or is refused with all that it may mean. What is
//! about to be stopped or deleted is never guessed.
//!
//! This room does not know what exists, nor whether a service has that many instances: it is
//! given the names, and answers with one of them.

mod near;
#[cfg(test)]
mod tests;

pub use near::nearest_word;

use crate::name::{Kind, Name, NameError, Namespace, NodeError, NodeName, Work, read_index};
use crate::text::{alternatives, quoted};
use std::fmt;
use std::str::FromStr;

/// What a person typed to say what they mean. `Display` gives it back as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    text: String,
    form: Form,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Last,
    Named { kind: Option<Kind>, name: Name, part: Option<String> },
}

/// The one thing that a selector means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The whole of it: a service with all its instances, a task, a batch with all its nodes.
    Whole {
        /// What it is.
        kind: Kind,
        /// Its name.
        name: Name,
    },
    /// One instance of a service, or one node of a batch.
    Part(Work),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole { kind, name } => write!(f, "{kind}/{name}"),
            Self::Part(work) => work.fmt(f),
        }
    }
}

impl FromStr for Selector {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        let selector = || text.to_owned();
        let parts: Vec<&str> = text.split('/').collect();
        let kind = |word: &str| word.parse::<Kind>().ok();
        let (kind, name, part) = match parts[..] {
            ["last"] => return Ok(Self { text: selector(), form: Form::Last }),
            [name] => (None, name, None),
            [first, second] => match kind(first) {
                Some(kind) => (Some(kind), second, None),
                None => (None, first, Some(second)),
            },
            [first, name, part] => match kind(first) {
                Some(kind) => (Some(kind), name, Some(part)),
                None => {
                    let word = first.to_owned();
                    return Err(SelectError::NotAKind { selector: selector(), word });
                }
            },
            _ => return Err(SelectError::TooManyParts { selector: selector() }),
        };
        let name = Name::new(name)
            .map_err(|source| SelectError::BadName { selector: selector(), source })?;
        let form = Form::Named { kind, name, part: part.map(str::to_owned) };
        Ok(Self { text: selector(), form })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Selector {
    /// Finds the one thing that is meant among `candidates`, which are all that is in
    /// `namespace`; `last` is the one of them that was created last.
    ///
    /// # Errors
    /// When nothing or more than one thing is meant, with what comes near or what it may be.
    pub fn resolve<'a, I>(
        &self,
        namespace: &Namespace,
        last: Option<(Kind, &Name)>,
        candidates: I,
    ) -> Result<Target, SelectError>
    where
        I: IntoIterator<Item = (Kind, &'a Name), IntoIter: Clone>,
    {
        let (wanted, name, part) = match &self.form {
            Form::Last => {
                let nothing = || SelectError::NothingYet { namespace: namespace.clone() };
                let (kind, name) = last.ok_or_else(nothing)?;
                return Ok(Target::Whole { kind, name: name.clone() });
            }
            Form::Named { kind, name, part } => (*kind, name, part.as_deref()),
        };
        let candidates = candidates.into_iter();
        let mut targets = Vec::new();
        let mut refusal = None;
        for (kind, candidate) in candidates.clone() {
            if candidate != name || wanted.is_some_and(|wanted| wanted != kind) {
                continue;
            }
            match self.target(kind, name, part) {
                Ok(target) => targets.push(target),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        if targets.len() > 1 {
            return Err(SelectError::Ambiguous { selector: self.text.clone(), targets });
        }
        // Where the name is there and only the part is wrong, that is the nearer reason.
        targets.pop().ok_or_else(|| {
            refusal.unwrap_or_else(|| SelectError::NotFound {
                selector: self.text.clone(),
                namespace: namespace.clone(),
                near: near::nearest(name, candidates),
            })
        })
    }

    /// What is meant if the thing of that name is of this kind.
    fn target(&self, kind: Kind, name: &Name, part: Option<&str>) -> Result<Target, SelectError> {
        let (selector, name) = (self.text.clone(), name.clone());
        let Some(part) = part else {
            return Ok(Target::Whole { kind, name });
        };
        match kind {
            Kind::Service => match read_index(part) {
                Some(index) => Ok(Target::Part(Work::Instance { service: name, index })),
                None => Err(SelectError::NotAnIndex { selector, name, part: part.to_owned() }),
            },
            Kind::Batch => match part.parse::<NodeName>() {
                Ok(node) => Ok(Target::Part(Work::Node { batch: name, node })),
                Err(source) => Err(SelectError::BadNode { selector, source }),
            },
            Kind::Task | Kind::Schedule | Kind::Forest | Kind::Definition => {
                Err(SelectError::NoParts { selector, kind, name })
            }
        }
    }
}

/// Why a selector means nothing, or not one thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// More than three parts.
    #[error(
        "{} has too many parts: write [KIND/]NAME[/PART], and a slash in a node as %2F",
        quoted(.selector)
    )]
    TooManyParts {
        /// What was typed.
        selector: String,
    },
    /// The first of three parts is no kind.
    #[error(
        "{} starts with {}, which is no kind: write service, task, schedule, batch, forest or \
         definition there, and leave the namespace out",
        quoted(.selector), quoted(.word)
    )]
    NotAKind {
        /// What was typed.
        selector: String,
        /// Its first part.
        word: String,
    },
    /// Where the name should be stands something else.
    #[error("{} holds a bad name", quoted(.selector))]
    BadName {
        /// What was typed.
        selector: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// Where the node should be stands something else.
    #[error("{} holds a bad node", quoted(.selector))]
    BadNode {
        /// What was typed.
        selector: String,
        /// What is wrong with it.
        source: NodeError,
    },
    /// The part of a service is not a number.
    #[error(
        "{} is not an index: instances of a service are numbered, write {name}/0",
        quoted(.part)
    )]
    NotAnIndex {
        /// What was typed.
        selector: String,
        /// The service.
        name: Name,
        /// What stands where the index should.
        part: String,
    },
    /// A part of something that has none.
    #[error("{} names a part, but a {kind} has none: write {kind}/{name}", quoted(.selector))]
    NoParts {
        /// What was typed.
        selector: String,
        /// What it names.
        kind: Kind,
        /// Its name.
        name: Name,
    },
    /// It may mean more than one thing; say which.
    #[error("{} is ambiguous: write {}", quoted(.selector), alternatives(.targets))]
    Ambiguous {
        /// What was typed.
        selector: String,
        /// What it may mean, in the order of the candidates.
        targets: Vec<Target>,
    },
    /// There is nothing of that name.
    #[error("no {} in namespace {namespace}: {}", quoted(.selector), hint(.near))]
    NotFound {
        /// What was typed.
        selector: String,
        /// Where it was looked for.
        namespace: Namespace,
        /// What has a similar name, the nearest first.
        near: Vec<Target>,
    },
    /// `last`, and nothing was created.
    #[error("no 'last' in namespace {namespace}: nothing was created there yet")]
    NothingYet {
        /// Where it was looked for.
        namespace: Namespace,
    },
}

fn hint(near: &[Target]) -> String {
    if near.is_empty() {
        "sterna ls lists what there is".to_owned()
    } else {
        format!("did you mean {}?", alternatives(near))
    }
}
