//! The other cron crates, asked the same.

use std::str::FromStr;

use anyhow::{Context, anyhow};
use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::Tz;
use sterna_cron::Time;

use super::{Best, ZONE, mean, note};

pub(super) struct Peers {
    starts: Vec<DateTime<Tz>>,
    croner: Vec<(&'static str, croner::Cron)>,
    cron: Vec<(&'static str, cron::Schedule)>,
}

impl Peers {
    pub(super) fn new(patterns: &[&'static str], starts: &[Time]) -> anyhow::Result<Self> {
        let zone: Tz = ZONE.parse().map_err(|error| anyhow!("{ZONE}: {error}"))?;
        let starts = starts
            .iter()
            .map(|at| {
                let at = Utc.timestamp_opt(at.epoch(), 0).single().context("out of range")?;
                Ok(at.with_timezone(&zone))
            })
            .collect::<anyhow::Result<_>>()?;
        let mut peers = Self { starts, croner: Vec::new(), cron: Vec::new() };
        for pattern in patterns {
            peers.croner.push((pattern, croner::Cron::from_str(pattern)?));
            // It wants seconds in front, and counts weekdays from Sunday as 1.
            let weekday = pattern.replace("* * 2", "* * Tue");
            peers.cron.push((pattern, cron::Schedule::from_str(&format!("0 {weekday}"))?));
        }
        Ok(peers)
    }

    pub(super) fn round(&self, best: &mut Best) {
        let starts: Vec<&DateTime<Tz>> = self.starts.iter().collect();
        for (pattern, croner) in &self.croner {
            let taken = mean(&starts, |from| croner.find_next_occurrence(from, true).ok());
            note(best, "croner", pattern, taken);
        }
        for (pattern, cron) in &self.cron {
            let taken = mean(&starts, |from| cron.after(from).next());
            note(best, "cron", pattern, taken);
        }
    }
}
