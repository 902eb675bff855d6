//! The form of every bench's answer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What a bench found. Keys are in order, so that two reports can be compared line by line.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// What was measured.
    pub(crate) figures: BTreeMap<String, Value>,
    /// The bare work of the machine in the same run.
    pub(crate) floor: BTreeMap<String, Value>,
    /// Figures over floor.
    pub(crate) ratios: BTreeMap<String, Value>,
}

impl Report {
    pub(crate) fn json(&self, bench: &str) -> Value {
        json!({
            "bench": bench,
            "figures": self.figures,
            "floor": self.floor,
            "ratios": self.ratios,
        })
    }

    /// Every figure on a line of its own, for people.
    pub(crate) fn table(&self) -> String {
        let all = self.figures.iter().chain(&self.floor).chain(&self.ratios);
        let lines: Vec<_> = all.map(|(name, value)| format!("{name:<28}{value:>12}")).collect();
        lines.join("\n")
    }
}

/// The middle value; the upper one of two.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The value below which `share` of all values lie. Sorts in place.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length is a length"
    )]
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Three significant digits: more would be noise.
pub(crate) fn rounded(value: f64) -> Value {
    let short = format!("{value:.2e}").parse::<f64>().ok();
    json!(short.filter(|short| short.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_quantile_counts_values() {
        let mut values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut values, 0.99), 99.0);
        assert_eq!(quantile(&mut values, 0.5), 50.0);
    }

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!(rounded(123_456.0), json!(123_000.0));
        assert_eq!(rounded(0.012_345), json!(0.0123));
        assert_eq!(rounded(f64::NAN), json!(null));
    }
}
