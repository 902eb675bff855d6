use anyhow::{Result, bail};

/// What the caller asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Say what may be asked for.
    Help,
    /// Run the gate.
    Test(Options),
    /// Run the scan of the sources alone.
    Tidy,
}

/// How to run the gate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// How many rounds the slow tests play.
    pub(crate) rounds: Rounds,
    /// The steps to run, by name; empty means all.
    pub(crate) only: Vec<String>,
}

/// How much time the slow tests may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rounds {
    /// What fits into every change.
    #[default]
    Short,
    /// Many more, for nights and releases.
    Long,
}

/// The help text.
pub(crate) fn usage(steps: &[&str]) -> String {
    format!(
        "\
Usage: cargo xtask <command>

Commands:
  test    run the whole gate; it prepares the machine by itself
            --long              slow tests multiply their rounds (STERNA_LONG=1)
            --only STEP,STEP    only these steps
  tidy    run only the scan of sources, manifests and documents
  help    say this

Steps, in order: {}
",
        steps.join(", ")
    )
}

/// Reads what stands after `cargo xtask`; `steps` are the names that `--only` may hold.
pub(crate) fn parse(args: impl IntoIterator<Item = String>, steps: &[&str]) -> Result<Request> {
    let mut args = args.into_iter();
    let command = args.next();
    match command.as_deref() {
        None | Some("help" | "--help" | "-h") => Ok(Request::Help),
        Some("test") => parse_test(args, steps),
        Some("tidy") => match args.next().as_deref() {
            None => Ok(Request::Tidy),
            Some("--help" | "-h") => Ok(Request::Help),
            Some(other) => bail!("`tidy` takes no arguments, not even {other:?}"),
        },
        Some(other) => bail!("no command {other:?}; try `cargo xtask --help`"),
    }
}

fn parse_test(mut args: impl Iterator<Item = String>, steps: &[&str]) -> Result<Request> {
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        let (flag, attached) = match arg.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        match flag {
            "--help" | "-h" => return Ok(Request::Help),
            "--long" => options.rounds = Rounds::Long,
            "--only" => match attached.or_else(|| args.next()) {
                Some(names) => options.only.extend(parse_steps(&names, steps)?),
                None => bail!("`--only` needs names of steps: {}", steps.join(", ")),
            },
            other => bail!("no option {other:?} of `test`; try `cargo xtask --help`"),
        }
    }
    Ok(Request::Test(options))
}

fn parse_steps(names: &str, steps: &[&str]) -> Result<Vec<String>> {
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let (known, unknown): (Vec<_>, Vec<_>) = names.partition(|name| steps.contains(name));
    if !unknown.is_empty() {
        bail!("no step {}; there are {}", unknown.join(", "), steps.join(", "));
    }
    if known.is_empty() {
        bail!("`--only` names no step; there are {}", steps.join(", "));
    }
    Ok(known.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[&str] = &["fmt", "clippy", "tests"];

    fn parsed(line: &str) -> Result<Request> {
        parse(line.split_whitespace().map(str::to_owned), STEPS)
    }

    fn refusal(line: &str) -> String {
        parsed(line).expect_err(line).to_string()
    }

    #[test]
    fn nothing_and_help_ask_for_help() {
        for line in ["", "help", "--help", "-h", "test --help", "tidy -h"] {
            assert_eq!(parsed(line).unwrap(), Request::Help, "{line}");
        }
        assert!(usage(STEPS).contains("fmt, clippy, tests"));
    }

    #[test]
    fn a_plain_test_runs_every_step_once() {
        assert_eq!(parsed("test").unwrap(), Request::Test(Options::default()));
    }

    #[test]
    fn options_of_test_come_in_any_order() {
        let wanted =
            Options { rounds: Rounds::Long, only: vec!["fmt".to_owned(), "clippy".to_owned()] };
        for line in ["test --long --only fmt,clippy", "test --only=fmt --only clippy --long"] {
            let Request::Test(options) = parsed(line).unwrap() else { panic!("{line}") };
            assert_eq!(options, wanted, "{line}");
        }
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        assert_eq!(refusal("test --only fmt,lint"), "no step lint; there are fmt, clippy, tests");
        assert_eq!(
            refusal("test --only ,"),
            "`--only` names no step; there are fmt, clippy, tests"
        );
        assert_eq!(refusal("test --only"), "`--only` needs names of steps: fmt, clippy, tests");
    }

    #[test]
    fn unknown_words_are_refused() {
        assert!(refusal("check").contains("no command"));
        assert!(refusal("test --fast").contains("no option"));
        assert!(refusal("tidy now").contains("takes no arguments"));
    }
}
