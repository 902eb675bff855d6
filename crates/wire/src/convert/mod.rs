//! From messages to words of the wire and back: total one way, checked the other.
//!
//! ```text
//!   message ── Word::of ──▶ words ──▶ bytes
//!   message ◀─ Word::read ─ words ◀── bytes
//!                  └── or the field, and what is wrong with it
//! ```
//!
//! Invariant: `read` of `of` gives the same message; what `read` takes is valid in every part.

mod leader;
mod shared;
mod worker;

use std::error::Error;

/// What is wrong with a field of a frame.
#[derive(Debug, thiserror::Error)]
#[error("field {path} {problem}")]
pub struct FieldError {
    /// The field, from the frame down: `heartbeat.name`, `run.runs[3].key`.
    path: String,
    problem: Problem,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What can be wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("is missing, or says something that only a newer version knows")]
    Missing,
    #[error("is {0}, which is none of the values that this version knows")]
    Unknown(i32),
    #[error("has {0} bytes and must have 16")]
    NotSixteen(usize),
    #[error("is {0}, which is out of range")]
    OutOfRange(u64),
    #[error("is not valid")]
    Invalid,
}

impl FieldError {
    const fn new(problem: Problem) -> Self {
        Self { path: String::new(), problem, source: None }
    }

    /// A field that is not valid, because of this.
    pub fn invalid(source: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..Self::new(Problem::Invalid) }
    }

    /// A field that must be there and is not.
    pub const fn missing() -> Self {
        Self::new(Problem::Missing)
    }

    /// The field, from the frame down.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn within(mut self, outer: &str) -> Self {
        self.path = match (self.path.is_empty(), self.path.starts_with('[')) {
            (true, true | false) => outer.to_owned(),
            (false, true) => format!("{outer}{}", self.path),
            (false, false) => format!("{outer}.{}", self.path),
        };
        self
    }
}

/// Says of which field an error is.
pub trait At<T> {
    /// The same, and an error is of this field.
    ///
    /// # Errors
    /// The same.
    fn at(self, field: &str) -> Result<T, FieldError>;
}

impl<T> At<T> for Result<T, FieldError> {
    fn at(self, field: &str) -> Self {
        self.map_err(|error| error.within(field))
    }
}

/// What stands on the wire for a message or a part of one.
pub trait Word<T>: Sized {
    /// How the message is said.
    fn of(message: &T) -> Self;

    /// What was said.
    ///
    /// # Errors
    /// A field is not what it must be.
    fn read(self) -> Result<T, FieldError>;
}

/// A field that must be there.
///
/// # Errors
/// It is not, or not what it must be.
pub fn given<T>(field: &str, word: Option<T>) -> Result<T, FieldError> {
    word.ok_or(FieldError::new(Problem::Missing)).at(field)
}

/// A part that must be there, read.
///
/// # Errors
/// It is not, or not what it must be.
pub fn part<T, W: Word<T>>(field: &str, word: Option<W>) -> Result<T, FieldError> {
    given(field, word)?.read().at(field)
}

/// A part that may be there, read.
///
/// # Errors
/// It is not, or not what it must be.
pub fn perhaps<T, W: Word<T>>(field: &str, word: Option<W>) -> Result<Option<T>, FieldError> {
    word.map(Word::read).transpose().at(field)
}

/// A list, read; an error names the place in it.
///
/// # Errors
/// It is not, or not what it must be.
pub fn list<T, W: Word<T>>(field: &str, words: Vec<W>) -> Result<Vec<T>, FieldError> {
    let read = |(at, word): (usize, W)| word.read().at(&format!("[{at}]"));
    words.into_iter().enumerate().map(read).collect::<Result<_, _>>().at(field)
}

/// A list, said.
pub fn said<T, W: Word<T>>(messages: &[T]) -> Vec<W> {
    messages.iter().map(W::of).collect()
}

/// A number of an enumeration.
///
/// # Errors
/// It is not, or not what it must be.
pub fn known<W: TryFrom<i32>>(field: &str, number: i32) -> Result<W, FieldError> {
    W::try_from(number).map_err(|_| FieldError::new(Problem::Unknown(number))).at(field)
}

/// An id of 16 bytes.
///
/// # Errors
/// It is not, or not what it must be.
pub fn id<T, E>(
    field: &str,
    bytes: &[u8],
    read: impl FnOnce([u8; 16]) -> Result<T, E>,
) -> Result<T, FieldError>
where
    E: Error + Send + Sync + 'static,
{
    let sixteen = bytes.try_into().map_err(|_| FieldError::new(Problem::NotSixteen(bytes.len())));
    sixteen.and_then(|sixteen| read(sixteen).map_err(FieldError::invalid)).at(field)
}

/// A word of the model that is written as text.
///
/// # Errors
/// It is not, or not what it must be.
pub fn word<T, E>(
    field: &str,
    text: &str,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, FieldError>
where
    E: Error + Send + Sync + 'static,
{
    read(text).map_err(FieldError::invalid).at(field)
}

/// A number that has more room on the wire than here.
///
/// # Errors
/// It is not, or not what it must be.
pub fn small<T: TryFrom<u32>>(field: &str, number: u32) -> Result<T, FieldError> {
    let out = |_| FieldError::new(Problem::OutOfRange(u64::from(number)));
    T::try_from(number).map_err(out).at(field)
}
