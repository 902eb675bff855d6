//! What is asked: a pattern, a zone, a moment; from the command line or as a JSON object.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use sterna_cron::{Database, DstFixes, Item, Line, LineError, Pattern, Policy, Time, Zone};

use crate::{
    clock,
    exit::{SPEC, USAGE, coded},
};

/// More firings than this are not asked for by people.
pub(super) const COUNT_MAX: u64 = 1_000_000;
/// A pattern is a line or a small map; what is longer is a mistake, and would take long to refuse.
pub(super) const LINE_BYTES_MAX: u64 = 16 << 10;
/// Zones that are kept for the next query; beyond it all are forgotten.
const ZONES_MAX: usize = 1_000;
/// How old what was read of the machine's zones may be.
const REFRESH_AFTER: Duration = Duration::from_secs(1);

/// The pattern and the zone, as every cron command takes them.
#[derive(Debug, clap::Args)]
pub(super) struct Asked {
    /// The pattern as an item, in JSON
    #[arg(long, value_name = "JSON", conflicts_with = "line", allow_hyphen_values = true)]
    item: Option<String>,
    /// The pattern as a crontab line
    #[arg(long, allow_hyphen_values = true)]
    line: Option<String>,
    /// The time zone: a name, a POSIX rule, or an offset such as +05:30
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Start time, in seconds since 1970 or as RFC 3339 [default: now]
    #[arg(long, value_name = "EPOCH-or-RFC3339", allow_hyphen_values = true)]
    from: Option<String>,
    /// What happens when clocks jump: two dst_fixes with a comma between them, or vixie, which
    /// lines do unless told otherwise
    #[arg(long, value_name = "A,B | vixie")]
    dst: Option<String>,
    /// Use the time zone database of this machine instead of the built-in one
    #[arg(long)]
    pub(super) system_zones: bool,
}

/// A query, ready to be answered.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) pattern: Pattern,
    pub(super) zone: Zone,
    pub(super) from: Time,
}

impl Asked {
    pub(super) fn resolve(&self, zones: &mut Zones) -> anyhow::Result<Query> {
        if self.item.is_none() && self.line.is_none() {
            let missing = anyhow!("a pattern is missing: give --item JSON or --line LINE");
            return Err(coded(USAGE)(missing));
        }
        let given = [&self.item, &self.line].into_iter().flatten();
        if given.map(|text| text.len() as u64).any(|bytes| bytes > LINE_BYTES_MAX) {
            let long = anyhow!("the pattern is too long; at most {LINE_BYTES_MAX} bytes are read");
            return Err(coded(SPEC)(long));
        }
        let from = match &self.from {
            Some(from) => moment(from).map_err(coded(USAGE))?,
            None => Time::from_epoch(clock::wall_time().as_millis().div_euclid(1000)),
        };
        let (dst_fixes, policy) = match self.dst.as_deref() {
            None => (None, None),
            Some("vixie") => (None, Some("vixie".to_owned())),
            Some(names) => (Some(fixes(names.split(',').map(str::trim))?), None),
        };
        let (item, line, timezone) = (self.item.clone(), self.line.clone(), self.tz.clone());
        let source = Source { item, line, timezone, dst_fixes, policy };
        let (pattern, zone) = source.resolve(zones).map_err(marked).map_err(coded(SPEC))?;
        Ok(Query { pattern, zone, from })
    }
}

fn fixes<'a>(names: impl IntoIterator<Item = &'a str>) -> anyhow::Result<DstFixes> {
    DstFixes::from_names(names).map_err(anyhow::Error::from).map_err(coded(USAGE))
}

/// A pattern with its zone, before it is understood.
#[derive(Debug)]
pub(super) struct Source {
    /// As it was written: a map would forget that a key was given twice.
    item: Option<String>,
    line: Option<String>,
    timezone: Option<String>,
    dst_fixes: Option<DstFixes>,
    policy: Option<String>,
}

/// One query of many.
#[derive(Debug)]
pub(super) struct LineQuery {
    pub(super) source: Source,
    pub(super) from: Time,
    pub(super) count: u64,
}

/// The same, as it was written. Keys that are not known are ignored, so that a query may carry
/// notes.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    line: Option<&'a RawValue>,
    #[serde(borrow)]
    timezone: Option<&'a RawValue>,
    #[serde(borrow)]
    from_epoch: Option<&'a RawValue>,
    #[serde(borrow)]
    count: Option<&'a RawValue>,
    #[serde(borrow)]
    dst_fixes: Option<&'a RawValue>,
    #[serde(borrow)]
    policy: Option<&'a RawValue>,
}

impl LineQuery {
    /// Reads a query; an error names the key.
    pub(super) fn read(line: &str) -> anyhow::Result<Self> {
        let object = "a query is a JSON object with item or line, timezone and from_epoch";
        let written: Written<'_> = serde_json::from_str(line).context(object)?;
        let from = key("from_epoch", written.from_epoch, "seconds since 1970, a whole number")?;
        let count = key("count", written.count, "a whole number from 0")?.unwrap_or(1);
        if count > COUNT_MAX {
            bail!("count: {count} is too much; at most {COUNT_MAX}");
        }
        let names: Option<Vec<String>> =
            key("dst_fixes", written.dst_fixes, "a list of two names")?;
        let source = Source {
            item: written.item.map(|item| item.get().to_owned()),
            line: key("line", written.line, "a crontab line, as text")?,
            timezone: key("timezone", written.timezone, "the name of a zone, as text")?,
            dst_fixes: match names {
                Some(names) => Some(DstFixes::from_names(names.iter().map(String::as_str))?),
                None => None,
            },
            policy: key("policy", written.policy, "the word vixie")?,
        };
        let from = from.ok_or_else(|| anyhow!("from_epoch is missing: give seconds since 1970"))?;
        Ok(Self { source, from: Time::from_epoch(from), count })
    }
}

fn key<T: DeserializeOwned>(
    name: &str,
    written: Option<&RawValue>,
    allowed: &str,
) -> anyhow::Result<Option<T>> {
    let Some(written) = written else { return Ok(None) };
    let read = serde_json::from_str(written.get()).ok();
    read.map(Some).ok_or_else(|| {
        let shown: String = written.get().chars().take(40).collect();
        anyhow!("{name}: {shown} is not allowed; allowed is {allowed}")
    })
}

impl Source {
    pub(super) fn resolve(self, zones: &mut Zones) -> anyhow::Result<(Pattern, Zone)> {
        let (pattern, own_zone) = match (self.item, self.line) {
            (Some(item), None) => (item_pattern(&item, self.dst_fixes, self.policy)?, None),
            (None, Some(line)) => {
                let line: Line = line.parse()?;
                let line = match policy(self.dst_fixes, self.policy)? {
                    Some(policy) => line.with_policy(policy),
                    None => line,
                };
                (line.pattern().clone(), line.timezone().map(str::to_owned))
            }
            (Some(_), Some(_)) => bail!("give an item or a line, not both"),
            (None, None) => bail!("a pattern is missing: give an item or a line"),
        };
        // A zone in the line counts more, but one beside it that does not exist is a mistake too.
        let beside = self.timezone.map(|name| zones.get(&name)).transpose()?;
        let own = own_zone.map(|name| zones.get(&name)).transpose()?;
        let zone = match own.or(beside) {
            Some(zone) => zone,
            None if pattern.is_timezone_dependent() => {
                bail!("a time zone is missing, such as Europe/Berlin or UTC")
            }
            None => Zone::utc(),
        };
        Ok((pattern, zone))
    }
}

/// On a terminal the place of a mistake in a line is shown, not only told.
fn marked(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<LineError>() {
        Some(refused) => anyhow::anyhow!("{refused}\n{}", refused.marked()),
        None => error,
    }
}

/// An item says what it does about jumps itself; what is said beside it fills a gap only.
fn item_pattern(
    text: &str,
    beside: Option<DstFixes>,
    policy: Option<String>,
) -> anyhow::Result<Pattern> {
    if let Some(policy) = policy {
        bail!("policy: {policy} is for lines; an item takes dst_fixes");
    }
    let Some(beside) = beside else {
        let item: Item = serde_json::from_str(text).context("the item is refused")?;
        return Ok(item.pattern().clone());
    };
    let own = serde_json::from_str::<Value>(text).context("the item is no JSON")?;
    let text = match (own.get("dst_fixes"), text.trim_start().strip_prefix('{')) {
        (None, Some(keys)) => {
            let comma = if own.as_object().is_some_and(|keys| !keys.is_empty()) { "," } else { "" };
            &format!("{{\"dst_fixes\":{}{comma}{keys}", serde_json::to_string(&beside)?)
        }
        (Some(_), Some(_)) | (Some(_) | None, None) => text,
    };
    let item: Item = serde_json::from_str(text).context("the item is refused")?;
    if item.pattern().dst_fixes().is_some_and(|own| own != beside) {
        bail!("dst_fixes is given twice, differently");
    }
    Ok(item.pattern().clone())
}

fn policy(dst_fixes: Option<DstFixes>, policy: Option<String>) -> anyhow::Result<Option<Policy>> {
    match (dst_fixes, policy.as_deref()) {
        (None, None) => Ok(None),
        (None, Some("vixie")) => Ok(Some(Policy::Vixie)),
        (None, Some(other)) => bail!("policy: {other} is not known; there is vixie"),
        (Some(fixes), None) => Ok(Some(Policy::Fixes(fixes))),
        (Some(_), Some(_)) => bail!("give dst_fixes or a policy, not both"),
    }
}

/// Seconds since 1970, or RFC 3339; a fraction of a second is left out.
fn moment(text: &str) -> anyhow::Result<Time> {
    if let Ok(epoch) = text.parse() {
        return Ok(Time::from_epoch(epoch));
    }
    let moment: jiff::Timestamp = text.parse().with_context(|| {
        format!(
            "--from {text}: expected seconds since 1970, or a time such as 2024-03-10T02:30:00Z"
        )
    })?;
    Ok(Time::from_epoch(moment.as_second()))
}

/// Zones by name, each read once; those of the machine anew when they may have changed.
#[derive(Debug)]
pub(super) struct Zones {
    database: Database,
    known: BTreeMap<String, Zone>,
    /// Since when they are known; none for those that cannot change.
    read: Option<Instant>,
}

impl Zones {
    pub(super) fn new(is_system: bool) -> anyhow::Result<Self> {
        let (database, read) = match is_system {
            true => (Database::system()?, Some(clock::instant())),
            false => (Database::bundled(), None),
        };
        Ok(Self { database, known: BTreeMap::new(), read })
    }

    /// Forgets zones that were read more than a second ago, so that a newer database counts
    /// without a restart.
    pub(super) fn refresh(&mut self, now: Instant) {
        let Some(read) = &mut self.read else { return };
        if now.saturating_duration_since(*read) >= REFRESH_AFTER {
            *read = now;
            self.database.reload();
            self.known.clear();
        }
    }

    fn get(&mut self, name: &str) -> anyhow::Result<Zone> {
        if let Some(zone) = self.known.get(name) {
            return Ok(zone.clone());
        }
        let zone = self.database.zone(name)?;
        if self.known.len() >= ZONES_MAX {
            self.known.clear();
        }
        self.known.insert(name.to_owned(), zone.clone());
        Ok(zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compiled zone file with one offset for ever.
    fn rules(hours: i32) -> Vec<u8> {
        let counts = [0_u32, 0, 0, 0, 1, 4].map(u32::to_be_bytes).concat();
        let part =
            [&b"TZif2"[..], &[0; 15], &counts, &(hours * 3600).to_be_bytes(), &[0, 0], b"AAA\0"]
                .concat();
        [&part[..], &part, format!("\nAAA{}\n", -hours).as_bytes()].concat()
    }

    #[test]
    fn a_newer_database_counts_after_a_second() {
        let folder = std::env::temp_dir().join(format!("sterna-zones-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("Test")).unwrap();
        let write = |hours| std::fs::write(folder.join("Test/Here"), rules(hours)).unwrap();
        write(1);
        let begun = clock::instant();
        let database = Database::from_folder(&folder).unwrap();
        let mut zones = Zones { database, known: BTreeMap::new(), read: Some(begun) };
        let mut offset = |after| {
            zones.refresh(begun + after);
            zones.get("Test/Here").unwrap().offset_seconds(Time::from_epoch(0))
        };
        assert_eq!(offset(Duration::ZERO), 3600);
        write(9);
        assert_eq!(offset(REFRESH_AFTER - Duration::from_millis(1)), 3600);
        assert_eq!(offset(REFRESH_AFTER), 9 * 3600);
        write(1);
        assert_eq!(offset(REFRESH_AFTER * 2 - Duration::from_millis(1)), 9 * 3600);
        assert_eq!(offset(REFRESH_AFTER * 2), 3600);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
