//! Whether a bench found what it must: each figure against its limit.

use std::str::FromStr;

use serde_json::Value;

use super::report::Report;
use crate::exit;

/// A figure or ratio, and what it may be at most; a rate (`…_per_s`) must be so much at least.
pub(crate) type Bound = (&'static str, f64);

/// Whether what was measured is judged, and by what.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Check {
    /// Exit with 1, and say which, where a figure misses its limit; for release builds
    #[arg(long)]
    check: bool,
    /// Another limit for a figure or a ratio, by its name in the JSON
    #[arg(long, value_name = "NAME=LIMIT", requires = "check")]
    limit: Vec<Limit>,
}

/// What somebody wants a figure to be at most.
#[derive(Clone, Debug)]
struct Limit {
    name: String,
    most: f64,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(name, most)| {
            let most = most.parse::<f64>().ok().filter(|most| most.is_finite())?;
            Some(Self { name: name.to_owned(), most })
        });
        parts.ok_or_else(|| "write a name and a number, as in sweep_s=2".to_owned())
    }
}

impl Check {
    /// The bounds to judge by; said before anything is measured.
    pub(crate) fn bounds(&self, usual: &[Bound]) -> anyhow::Result<Vec<Bound>> {
        let mut bounds = if self.check { usual.to_vec() } else { Vec::new() };
        for Limit { name, most } in &self.limit {
            let Some(bound) = bounds.iter_mut().find(|(known, _)| known == name) else {
                let known: Vec<_> = usual.iter().map(|(known, _)| *known).collect();
                let wrong =
                    anyhow::anyhow!("--limit {name}: this has limits: {}", known.join(", "));
                return Err(exit::coded(exit::USAGE)(wrong));
            };
            bound.1 = *most;
        }
        Ok(bounds)
    }
}

/// Of a rate more is better.
fn is_rate(name: &str) -> bool {
    name.ends_with("_per_s")
}

/// Fails where something misses its bound, or was not measured.
pub(crate) fn judge(report: &Report, bounds: &[Bound]) -> anyhow::Result<()> {
    let over = bounds.iter().filter_map(|(name, limit)| {
        let found = report.figures.get(*name).or_else(|| report.ratios.get(*name));
        match (found.and_then(Value::as_f64), is_rate(name)) {
            (Some(found), false) if found <= *limit => None,
            (Some(found), true) if found >= *limit => None,
            (Some(found), false) => Some(format!("{name} is {found}, and may be {limit} at most")),
            (Some(found), true) => Some(format!("{name} is {found}, and must be {limit} at least")),
            (None, true | false) => Some(format!("{name} was not measured")),
        }
    });
    let over: Vec<_> = over.collect();
    if over.is_empty() {
        return Ok(());
    }
    let build = if cfg!(debug_assertions) {
        "; the limits are for a release build, which this is not"
    } else {
        ""
    };
    anyhow::bail!("missed: {}{build}", over.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const USUAL: [Bound; 2] = [("sweep_s", 1.0), ("growth", 2.0)];

    fn report(sweep_s: f64, growth: f64) -> Report {
        let mut report = Report::default();
        report.figures.insert("sweep_s".to_owned(), json!(sweep_s));
        report.ratios.insert("growth".to_owned(), json!(growth));
        report
    }

    fn check(limits: &[&str]) -> Check {
        let limit = limits.iter().map(|limit| limit.parse().unwrap()).collect();
        Check { check: true, limit }
    }

    #[test]
    fn what_is_over_its_limit_is_named_and_the_rest_is_not() {
        assert!(judge(&report(1.0, 2.0), &USUAL).is_ok(), "the limit itself is within");
        let over = judge(&report(0.5, 2.1), &USUAL).unwrap_err().to_string();
        assert!(over.contains("growth is 2.1, and may be 2 at most"), "{over}");
        assert!(!over.contains("sweep_s"), "{over}");
    }

    #[test]
    fn a_rate_must_be_so_much_at_least() {
        let with = |rate: f64| {
            let mut report = Report::default();
            report.figures.insert("tasks_per_s".to_owned(), json!(rate));
            judge(&report, &[("tasks_per_s", 4_000.0)])
        };
        assert!(with(4_000.0).is_ok() && with(9_000.0).is_ok());
        let slow = with(3_999.0).unwrap_err().to_string();
        assert!(slow.contains("tasks_per_s is 3999, and must be 4000 at least"), "{slow}");
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let mut report = report(0.5, 1.0);
        report.figures.insert("sweep_s".to_owned(), Value::Null);
        assert!(
            judge(&report, &USUAL).unwrap_err().to_string().contains("sweep_s was not measured")
        );
    }

    #[test]
    fn a_limit_takes_the_place_of_the_usual_one_and_must_be_of_something() {
        let bounds = check(&["sweep_s=0.1"]).bounds(&USUAL).unwrap();
        assert_eq!(bounds, [("sweep_s", 0.1), ("growth", 2.0)]);
        let wrong = check(&["sleep_s=1"]).bounds(&USUAL).unwrap_err();
        assert_eq!(exit::code(&wrong), exit::USAGE);
        assert!(wrong.to_string().contains("sweep_s, growth"), "{wrong}");
        assert!("sweep_s".parse::<Limit>().is_err() && "a=inf".parse::<Limit>().is_err());
    }

    #[test]
    fn nothing_is_judged_unasked() {
        assert!(Check::default().bounds(&USUAL).unwrap().is_empty());
    }
}
