//! The two streams: stdout is data, stderr is talk.

use std::io::{self, IsTerminal, Write};

/// Prints a part of the answer.
///
/// # Errors
/// Standard output is closed or full.
pub(crate) fn answer(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Says why the command failed: what happened first, then each cause.
pub(crate) fn error(error: &anyhow::Error) {
    let mut text = format!("error: {error}");
    for cause in error.chain().skip(1) {
        text += &format!("\n  because: {cause}");
    }
    // Nothing is left to do if even this cannot be written.
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
