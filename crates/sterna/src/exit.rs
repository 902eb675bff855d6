//! Exit codes say what to do next: 64 look at the command, 65 look at what was given to it, 69 see
//! why nothing is reached, 75 try again later, 77 ask for permission, 1 read the message.

use std::fmt;

use sterna_store::OpenError;

/// The same, for people; docs/cli.md says more.
pub(crate) const TABLE: &str = "\
Exit codes:
  0   done
  1   not done: the message says why
  64  the command line is wrong
  65  what was given to it is wrong: a spec, a pattern
  69  no server, or no store, is reached
  75  not now: try again
  77  not allowed: look at the token, or at permissions
`sterna run` exits as its command did: with its code, or with 128 and the number of the signal;
after Ctrl-C with 130, and with 141 when its output is closed; in both cases the task keeps running.";

/// Wrong usage.
pub(crate) const USAGE: u8 = 64;
/// A pattern or a spec that is refused.
pub(crate) const SPEC: u8 = 65;

/// Nobody is there.
pub(crate) const UNREACHABLE: u8 = 69;
/// Somebody else is at it now.
pub(crate) const TRY_AGAIN: u8 = 75;
/// Not allowed.
pub(crate) const DENIED: u8 = 77;
/// Ctrl-C, as shells say it.
pub(crate) const INTERRUPTED: u8 = 130;
/// Nobody reads what is written any more, as shells say it.
pub(crate) const UNREAD: u8 = 141;

/// An error with the exit code that goes with it; it reads as the error itself.
#[derive(Debug)]
pub(crate) struct Coded {
    code: u8,
    error: anyhow::Error,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Coded {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Gives an error an exit code, unless it has one.
pub(crate) fn coded(code: u8) -> impl FnOnce(anyhow::Error) -> anyhow::Error {
    move |error| match error.downcast::<Coded>() {
        Ok(coded) => coded.into(),
        Err(error) => Coded { code, error }.into(),
    }
}

/// An exit code about which there is nothing to say.
pub(crate) fn silent(code: u8) -> anyhow::Error {
    coded(code)(anyhow::anyhow!(""))
}

/// The error itself, if it is of this kind.
pub(crate) fn of<T: std::error::Error + Send + Sync + 'static>(
    error: &anyhow::Error,
) -> Option<&T> {
    let error = error.downcast_ref::<Coded>().map_or(error, |coded| &coded.error);
    error.downcast_ref()
}

/// The exit code of an error.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    if let Some(coded) = error.downcast_ref::<Coded>() {
        return coded.code;
    }
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::Url { .. }) => USAGE,
        Some(OpenError::Unreachable { .. } | OpenError::NoDatabase { .. }) => UNREACHABLE,
        Some(OpenError::InUse { .. } | OpenError::NoLeader { .. } | OpenError::NotReady { .. }) => {
            TRY_AGAIN
        }
        Some(
            OpenError::Permission { .. }
            | OpenError::ReadOnly { .. }
            | OpenError::Login { .. }
            | OpenError::NotAllowed { .. }
            | OpenError::NoKeys { .. }
            | OpenError::ReadOnlyServer { .. }
            | OpenError::NoTls { .. }
            | OpenError::TlsRequired { .. }
            | OpenError::Untrusted { .. },
        ) => DENIED,
        Some(_) | None => 1,
    }
}
