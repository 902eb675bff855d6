use std::ops::AddAssign;

/// How many tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
}

/// Who ran the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    /// `cargo nextest run`, with one summary for all.
    Nextest,
    /// `cargo test`, with one for each binary.
    Libtest,
}

impl Counts {
    /// No tests.
    pub(super) const NONE: Self = Self { passed: 0, failed: 0 };

    /// One test.
    pub(super) const fn one(is_success: bool) -> Self {
        if is_success { Self { passed: 1, failed: 0 } } else { Self { passed: 0, failed: 1 } }
    }

    /// Adds up the summaries in what `runner` said. They are written for people, but stable Rust
    /// has no other form of them.
    pub(super) fn in_output(runner: Runner, output: &str) -> Self {
        let mut counts = Self::default();
        for line in output.lines() {
            let line = without_colours(line);
            counts += runner.summary(&line).map(of_summary).unwrap_or_default();
        }
        counts
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Runner {
    /// The list of numbers in `line`, if it is this runner's summary. The other's does not count:
    /// nextest quotes, indented, what a failed test said, and that is a summary of libtest.
    fn summary(self, line: &str) -> Option<&str> {
        match self {
            // "Summary [  1.2s] 3 tests run: 2 passed, 1 failed, 0 skipped"
            Self::Nextest => Some(line.trim().strip_prefix("Summary [")?.split_once(" run: ")?.1),
            // "test result: FAILED. 2 passed; 1 failed; 0 ignored; ..."
            Self::Libtest => Some(line.strip_prefix("test result: ")?.split_once(". ")?.1),
        }
    }
}

fn of_summary(list: &str) -> Counts {
    let mut counts = Counts::default();
    for part in without_parentheses(list).split([',', ';']) {
        let Some((number, what)) = part.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse::<usize>() else { continue };
        match what.trim() {
            "passed" => counts.passed += number,
            "failed" | "exec failed" | "timed out" => counts.failed += number,
            // "skipped", "ignored", "measured": nobody ran them.
            _ => {}
        }
    }
    counts
}

/// Drops "(1 slow, 2 leaky)": its commas are not those of the list.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let mut kept = String::new();
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept
}

fn without_colours(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some((before, escape)) = rest.split_once("\x1b[") {
        kept.push_str(before);
        rest = escape.split_once('m').map_or("", |(_, after)| after);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(runner: Runner, output: &str, passed: usize, failed: usize) {
        assert_eq!(Counts::in_output(runner, output), Counts { passed, failed }, "{output}");
    }

    #[test]
    fn nextest_says_it_once() {
        let all = "     Summary [   0.1s] 57 tests run: 57 passed, 0 skipped";
        check(Runner::Nextest, all, 57, 0);
        let one = "Summary [  9.2s] 1 test run: 1 passed, 3 skipped";
        check(Runner::Nextest, one, 1, 0);
        let many = "Summary [  9.2s] 9/12 tests run: 5 passed (1 slow, 2 leaky), 2 failed, \
                    1 exec failed, 1 timed out, 0 skipped";
        check(Runner::Nextest, many, 5, 4);
    }

    #[test]
    fn what_a_failed_test_said_is_not_counted_again() {
        let output = "  stdout ───\n\n    test result: FAILED. 0 passed; 1 failed; 0 ignored\n\
                      ────\n     Summary [ 0.4s] 88 tests run: 87 passed, 1 failed, 0 skipped\n";
        check(Runner::Nextest, output, 87, 1);
    }

    #[test]
    fn cargo_test_says_it_for_each_binary() {
        let output = "running 3 tests\n...\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; finished in 0.1s\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored; 4 filtered out\n";
        check(Runner::Libtest, output, 5, 1);
    }

    #[test]
    fn colours_do_not_hide_a_summary() {
        let output = "\x1b[32;1m     Summary\x1b[0m [   0.1s] \x1b[1m2\x1b[0m tests run: \
                      \x1b[1m2\x1b[0m \x1b[32;1mpassed\x1b[0m, \x1b[1m0\x1b[0m skipped";
        check(Runner::Nextest, output, 2, 0);
    }

    #[test]
    fn other_lines_count_nothing() {
        for runner in [Runner::Nextest, Runner::Libtest] {
            check(runner, "error: could not compile\n7 passed, 1 failed\ntest a ... ok\n", 0, 0);
        }
    }
}
