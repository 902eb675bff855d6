use std::time::Duration;

use crate::{
    clock,
    gate::{
        counts::Counts,
        turn::{Outcome, Verdict},
    },
    screen::Screen,
};

/// What a gate found, and how long it took.
pub(super) struct Report {
    /// The steps, in the order in which they ran.
    pub(super) entries: Vec<Entry>,
    pub(super) total: Duration,
    pub(super) warmth: Warmth,
}

/// One step of the report.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
    pub(super) time: Duration,
}

/// Whether dependencies had already been built when the gate began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Warmth {
    Cold,
    Warm,
}

impl Warmth {
    /// Warm is when an earlier gate left something.
    pub(super) const fn of(is_something_left: bool) -> Self {
        if is_something_left { Self::Warm } else { Self::Cold }
    }

    /// How long the gate may take on two cores. Beyond it people stop running it.
    const fn budget(self) -> Duration {
        match self {
            Self::Cold => Duration::from_secs(45 * 60),
            Self::Warm => Duration::from_secs(20 * 60),
        }
    }
}

impl Report {
    /// Whether nothing failed.
    pub(super) fn is_clean(&self) -> bool {
        self.sum().failed == 0
    }

    /// Prints the table of steps and, last, the line that machines read.
    pub(super) fn print(&self, screen: Screen) {
        screen.line("");
        for entry in &self.entries {
            let (paint, word) = entry.outcome.verdict.shown();
            let word = screen.paint(paint, &format!("{word:<8}"));
            let time = clock::spoken(entry.time);
            let row = format!("  {:<12} {word} {time:>12}  {}", entry.name, tests_of(entry));
            screen.line(row.trim_end());
        }
        screen.line(&format!("  {:<12} {:<8} {:>12}", "total", "", clock::spoken(self.total)));
        screen.line("");
        if let Some(line) = self.overrun() {
            screen.loud(&line);
        }
        screen.line(&self.last_line());
    }

    fn last_line(&self) -> String {
        let sum = self.sum();
        format!("{} passed, {} failed", sum.passed, sum.failed)
    }

    fn overrun(&self) -> Option<String> {
        let budget = self.warmth.budget();
        (self.total > budget).then(|| {
            format!(
                "the gate took {}; {:?} it has {}: find the step that grew",
                clock::spoken(self.total),
                self.warmth,
                clock::spoken(budget)
            )
        })
    }

    fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        for entry in &self.entries {
            sum += entry.outcome.counts;
            match entry.outcome.verdict {
                Verdict::Passed => sum += Counts::one(true),
                Verdict::Failed => sum += Counts::one(false),
                Verdict::Skipped => {}
            }
        }
        sum
    }
}

/// In other words than the last line's, which must be the only one of its form.
fn tests_of(entry: &Entry) -> String {
    let Counts { passed, failed } = entry.outcome.counts;
    match (passed + failed, failed) {
        (0, _) => String::new(),
        (all, 0) => format!("{all} run"),
        (all, failed) => format!("{all} run, {failed} of them failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &'static str, outcome: Outcome) -> Entry {
        Entry { name, outcome, time: Duration::ZERO }
    }

    fn report(entries: Vec<Entry>) -> Report {
        Report { entries, total: Duration::ZERO, warmth: Warmth::Warm }
    }

    #[test]
    fn the_last_line_counts_tests_and_steps() {
        let tests = Outcome::with(false, Counts { passed: 40, failed: 2 });
        let entries = vec![entry("fmt", Outcome::of(true)), entry("tests", tests)];
        let report = report(entries);
        assert_eq!(report.last_line(), "41 passed, 3 failed");
        assert!(!report.is_clean());
    }

    #[test]
    fn a_skipped_step_is_neither() {
        let entries = vec![entry("fmt", Outcome::of(true)), entry("deny", Outcome::skipped())];
        let report = report(entries);
        assert_eq!(report.last_line(), "1 passed, 0 failed");
        assert!(report.is_clean());
    }

    #[test]
    fn a_step_that_fails_without_a_test_still_fails() {
        assert!(!report(vec![entry("fmt", Outcome::of(false))]).is_clean());
    }

    #[test]
    fn only_a_run_beyond_its_budget_is_loud() {
        let mut report = report(Vec::new());
        report.total = Duration::from_secs(21 * 60);
        assert!(report.overrun().is_some());
        report.warmth = Warmth::Cold;
        assert_eq!(report.overrun(), None);
    }

    #[test]
    fn the_table_does_not_speak_like_the_last_line() {
        let tests = entry("tests", Outcome::with(true, Counts { passed: 3, failed: 1 }));
        assert_eq!(tests_of(&tests), "4 run, 1 of them failed");
    }
}
