//! The two streams: stdout is data, stderr is talk. Colours and lines that overwrite themselves are for
//! terminals alone.

use std::{
    borrow::Cow,
    env,
    io::{self, IsTerminal, Write},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::builder::StyledStr;

use crate::clock;

/// Whether somebody still listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Yes,
    /// Whoever closed the stream has seen enough.
    NoMore,
}

/// Whether a stream is painted: a terminal is, unless `NO_COLOR` is set or it can do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Coloured,
    Plain,
}

impl Paint {
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let is_unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if stream.is_terminal() && !is_unwanted && !is_dumb() {
            Self::Coloured
        } else {
            Self::Plain
        }
    }

    fn by(self, code: &str, text: &str) -> String {
        match self {
            Self::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.by("1", text)
    }

    fn red(self, text: &str) -> String {
        self.by("1;31", text)
    }

    fn yellow(self, text: &str) -> String {
        self.by("1;33", text)
    }
}

/// Whether the terminal says of itself that it can only write.
fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Prints help, or what is wrong with a command line, painted by our rules: clap has others and
/// paints even a dumb terminal where `CI` is set.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn usage(error: &clap::Error) -> io::Result<()> {
    fn write(mut stream: impl Write + IsTerminal, text: &StyledStr) -> io::Result<()> {
        match Paint::of(&stream) {
            Paint::Coloured => write!(stream, "{}", text.ansi()),
            Paint::Plain => write!(stream, "{text}"),
        }
    }
    let text = error.render();
    if error.use_stderr() { write(io::stderr(), &text) } else { write(io::stdout(), &text) }
}

/// Without what paints it.
pub(crate) fn plain(text: String) -> String {
    StyledStr::from(text).to_string()
}

/// What others wrote, in one line: what would move the cursor, paint or end the line is a space. A
/// command, a reason and a name can hold anything.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The same of a text of several lines.
pub(crate) fn printable(text: &str) -> String {
    text.lines().map(one_line).collect::<Vec<_>>().join("\n")
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

/// Prints a line of JSON about something that happened, for whoever started this program.
pub(crate) fn event(happened: &serde_json::Value) {
    // Whoever listens no more has seen enough; what it tells of goes on.
    drop(answer(&happened.to_string()));
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
        format!("{} {text}", Paint::of(&io::stderr()).red("error:"))
    };
    for cause in error.chain().skip(1) {
        text += &format!("\n  because: {cause}");
    }
    note(&text);
}

/// Says something to people, beside the answer.
pub(crate) fn note(text: &str) {
    // Nothing is left to do if it cannot be written.
    drop(writeln!(io::stderr(), "{text}"));
}

/// Asks something, and leaves the cursor behind it.
pub(crate) fn ask(question: &str) {
    // Nothing is left to do if it cannot be written.
    drop(write!(io::stderr(), "{question}").and_then(|()| io::stderr().flush()));
}

/// Says what the user should know beside the answer.
pub(crate) fn warning(text: &str) {
    note(&format!("{} {text}", Paint::of(&io::stderr()).yellow("warning:")));
}

/// How often a line is written where lines cannot overwrite themselves.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Who waits for others is told of it from then on: silence looks as if nothing were done.
const FIRST_LINE: Duration = Duration::from_secs(1);
/// How often a spinner turns.
pub(crate) const TURN: Duration = Duration::from_millis(100);

/// How far long work has come: on a terminal a line that overwrites itself, elsewhere a plain line now
/// and then.
#[derive(Debug)]
pub(crate) struct Progress {
    is_terminal: bool,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When a plain line was written last, or it began, and after how long the next one is due.
    line: (Instant, Duration),
    /// Whether something stands on the terminal.
    is_drawn: bool,
}

impl Progress {
    /// Of work: a plain line now and then is enough.
    pub(crate) fn new() -> Self {
        Self::with(LINE_EVERY)
    }

    /// Of waiting: the first plain line comes soon.
    pub(crate) fn waiting() -> Self {
        Self::with(FIRST_LINE)
    }

    fn with(first: Duration) -> Self {
        let began = clock::instant();
        let is_terminal = io::stderr().is_terminal() && !is_dumb();
        let state = State { line: (began, first), is_drawn: false };
        Self { is_terminal, began, state: Mutex::new(state) }
    }

    /// Says how far it has come.
    pub(crate) fn say(&self, text: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Progress that cannot be shown is no reason to stop.
        if self.is_terminal {
            state.is_drawn = true;
            drop(write!(io::stderr(), "\r\x1b[2K{}", fitting(text)));
        } else if state.line.0.elapsed() >= state.line.1 {
            state.line = (clock::instant(), LINE_EVERY);
            drop(writeln!(io::stderr(), "{text}"));
        }
    }

    /// The same, with a sign that turns on a terminal, and for how long it has been so.
    pub(crate) fn spin(&self, text: &str) {
        const SIGNS: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
        let took = self.began.elapsed();
        let turn = usize::try_from(took.as_millis() / TURN.as_millis()).unwrap_or(0);
        let sign = SIGNS.get(turn % SIGNS.len()).copied().unwrap_or(' ');
        let seconds = took.as_secs();
        if self.is_terminal {
            self.say(&format!("{sign} {text} ({seconds} s)"));
        } else {
            self.say(&format!("{text} ({seconds} s)"));
        }
    }

    /// How much of how much, drawn before what is said of it; elsewhere than on a terminal nothing is.
    pub(crate) fn bar(&self, done: u64, all: u64) -> String {
        const WIDTH: u64 = 30;
        if !self.is_terminal {
            return String::new();
        }
        let filled = done.min(all) * WIDTH / all.max(1);
        let bar = (0..WIDTH).map(|at| if at < filled { '█' } else { '░' });
        bar.chain([' ']).collect()
    }

    /// Takes the line off the terminal.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.is_drawn) {
            drop(write!(io::stderr(), "\r\x1b[2K"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What fits into one line of the terminal: a longer one could not be overwritten.
fn fitting(text: &str) -> Cow<'_, str> {
    let room = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
    let room = usize::from(room);
    if room == 0 || text.chars().count() < room {
        return text.into();
    }
    text.chars().take(room.saturating_sub(2)).chain(['…']).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_moves_nothing_on_the_terminal() {
        let text = "./a\u{1b}[31mRED\r\nb\u{9b}2J\tc";
        assert_eq!(one_line(text), "./a [31mRED  b 2J c");
        assert_eq!(printable("a\u{7}\nb"), "a \nb");
    }
}
