//! The two streams: stdout is data, stderr is talk.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;

/// Whether somebody still listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Yes,
    /// Whoever closed the stream has seen enough.
    NoMore,
}

/// Prints a part of the answer.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn answer(text: &str) -> anyhow::Result<Heard> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Heard::NoMore),
        written => written.map(|()| Heard::Yes).context("cannot write to standard output"),
    }
}

/// Says why the command failed: what happened first, then each cause.
pub(crate) fn error(error: &anyhow::Error) {
    let text = error.to_string();
    if text.is_empty() {
        return;
    }
    let mut text = if text.starts_with("error") || text.starts_with('\u{1b}') {
        text
    } else {
        format!("error: {text}")
    };
    for cause in error.chain().skip(1) {
        text += &format!("\n  because: {cause}");
    }
    // Nothing is left to do if even this cannot be written.
    drop(writeln!(io::stderr(), "{text}"));
}

/// Says something to people, beside the answer.
pub(crate) fn note(text: &str) {
    // Nothing is left to do if it cannot be written.
    drop(writeln!(io::stderr(), "{text}"));
}

/// Says what the user should know beside the answer.
pub(crate) fn warning(text: &str) {
    // Nothing is left to do if it cannot be written.
    drop(writeln!(io::stderr(), "warning: {text}"));
}

/// A line that says how far long work has come; only on a terminal, where it overwrites itself.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal() }
    }

    pub(crate) fn say(&self, text: &str) {
        if self.is_shown {
            // Progress that cannot be shown is no reason to stop.
            drop(write!(io::stderr(), "\r\x1b[2K{text}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.say("");
    }
}
