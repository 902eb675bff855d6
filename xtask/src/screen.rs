use std::{
    env,
    io::{self, IsTerminal, Write},
};

/// Erases the line that the cursor stands on.
const ERASE: &str = "\r\x1b[2K";
/// Keeps a long status on one line, so that one [`ERASE`] is enough to take it away.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// A colour with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// It is well.
    Good,
    /// It is not.
    Bad,
    /// It must not be overlooked.
    Loud,
    /// It is there for those who look for it.
    Faint,
}

/// Standard output: a live line and colours on a terminal, plain lines everywhere else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    is_terminal: bool,
    is_coloured: bool,
}

impl Screen {
    /// Looks at what standard output is.
    pub(crate) fn detect() -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self { is_terminal, is_coloured: is_terminal && env::var_os("NO_COLOR").is_none() }
    }

    /// What cargo understands about colours.
    pub(crate) const fn cargo_color(self) -> &'static str {
        if self.is_coloured { "always" } else { "never" }
    }

    /// Says that `name` begins. A terminal shows it until [`Screen::end`] replaces it.
    pub(crate) fn begin(self, name: &str, about: &str) {
        if self.is_terminal {
            self.progress(name, about);
        } else {
            println!("== {name}: {about}");
        }
    }

    /// Shows what `name` is busy with, on terminals only.
    pub(crate) fn progress(self, name: &str, now: &str) {
        if self.is_terminal {
            let now = self.paint(Paint::Faint, now.trim());
            print!("{ERASE}{NO_WRAP}  … {name:<10} {now}{WRAP}");
            flush();
        }
    }

    /// Says how `name` ended.
    pub(crate) fn end(self, name: &str, paint: Paint, result: &str, time: &str) {
        if self.is_terminal {
            let result = self.paint(paint, &format!("{result:<8}"));
            println!("{ERASE}  {name:<12} {result} {}", self.paint(Paint::Faint, time));
        } else {
            println!("   {name}: {result}, {time}");
        }
        flush();
    }

    /// One line of a child or of a report, set off so that it is never taken for our own.
    pub(crate) fn quote(self, line: &str) {
        let erase = if self.is_terminal { ERASE } else { "" };
        println!("{erase}  {} {line}", self.paint(Paint::Faint, "|"));
    }

    /// A line that must not be overlooked.
    pub(crate) fn loud(self, line: &str) {
        let erase = if self.is_terminal { ERASE } else { "" };
        println!("{erase}{}", self.paint(Paint::Loud, &format!("!! {line}")));
    }

    /// A line as it is.
    pub(crate) fn line(self, line: &str) {
        println!("{line}");
    }

    /// `text` in the colour of `paint`, or unchanged where there are no colours.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        if !self.is_coloured {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Good => "32",
            Paint::Bad => "1;31",
            Paint::Loud => "1;33",
            Paint::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// A terminal that went away is no reason to fail; the exit code still says how it ended.
fn flush() {
    io::stdout().flush().ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_screen_adds_no_colour() {
        let plain = Screen { is_terminal: false, is_coloured: false };
        assert_eq!(plain.paint(Paint::Bad, "failed"), "failed");
        assert_eq!(plain.cargo_color(), "never");
        let coloured = Screen { is_terminal: true, is_coloured: true };
        assert_eq!(coloured.paint(Paint::Bad, "failed"), "\x1b[1;31mfailed\x1b[0m");
    }
}
