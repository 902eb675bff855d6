//! What is asked: a pattern, a zone, a moment; from the command line or as a JSON object.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;
use sterna_cron::{Database, DstFixes, Item, Line, LineError, Pattern, Policy, Time, Zone};

use crate::clock;

/// More firings than this are not asked for by people.
pub(super) const COUNT_MAX: usize = 1_000_000;
/// Zones that are kept for the next query; beyond it all are forgotten.
const ZONES_MAX: usize = 1_000;

/// The pattern and the zone, as every cron command takes them.
#[derive(Debug, clap::Args)]
pub(super) struct Asked {
    /// The pattern as an item, in JSON
    #[arg(long, value_name = "JSON", conflicts_with = "line")]
    item: Option<String>,
    /// The pattern as a crontab line
    #[arg(long)]
    line: Option<String>,
    /// The time zone: a name, a POSIX rule, or an offset such as +05:30
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Where to begin, in seconds since 1970 or as RFC 3339; now unless given
    #[arg(long, value_name = "EPOCH-or-RFC3339", allow_hyphen_values = true)]
    from: Option<String>,
    /// What happens when clocks jump: two dst_fixes with a comma between them, or vixie, which
    /// lines do unless told otherwise
    #[arg(long, value_name = "A,B | vixie")]
    dst: Option<String>,
    /// Use the time zone database of this machine, not the one that this program brings
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
    /// Whether no pattern was given.
    pub(super) const fn is_empty(&self) -> bool {
        self.item.is_none() && self.line.is_none()
    }

    pub(super) fn resolve(&self, zones: &mut Zones) -> anyhow::Result<Query> {
        let item = match &self.item {
            Some(item) => Some(serde_json::from_str(item).context("the item is no JSON")?),
            None => None,
        };
        let (dst_fixes, policy) = match self.dst.as_deref() {
            None => (None, None),
            Some("vixie") => (None, Some("vixie".to_owned())),
            Some(names) => (Some(names.split(',').map(str::trim).collect()), None),
        };
        let from = match &self.from {
            Some(from) => moment(from)?,
            None => Time::from_epoch(clock::wall_time().as_millis().div_euclid(1000)),
        };
        let source =
            Source { item, line: self.line.clone(), timezone: self.tz.clone(), dst_fixes, policy };
        let (pattern, zone) = source.resolve(zones).map_err(marked)?;
        Ok(Query { pattern, zone, from })
    }
}

/// A pattern with its zone, before it is understood. Keys that are not known are ignored, so that
/// a query may carry notes.
#[derive(Debug, Deserialize)]
pub(super) struct Source {
    item: Option<Value>,
    line: Option<String>,
    timezone: Option<String>,
    dst_fixes: Option<Value>,
    policy: Option<String>,
}

impl Source {
    pub(super) fn resolve(self, zones: &mut Zones) -> anyhow::Result<(Pattern, Zone)> {
        let (pattern, own_zone) = match (self.item, self.line) {
            (Some(item), None) => (item_pattern(item, self.dst_fixes, self.policy)?, None),
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
        let zone = match own_zone.or(self.timezone) {
            Some(name) => zones.get(&name)?,
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
    mut item: Value,
    dst_fixes: Option<Value>,
    policy: Option<String>,
) -> anyhow::Result<Pattern> {
    if let Some(policy) = policy {
        bail!("policy: {policy} is for lines; an item takes dst_fixes");
    }
    if let (Some(keys), Some(fixes)) = (item.as_object_mut(), dst_fixes) {
        match keys.get("dst_fixes") {
            Some(own) if *own != fixes => bail!("dst_fixes is given twice, differently"),
            Some(_) => {}
            None => drop(keys.insert("dst_fixes".to_owned(), fixes)),
        }
    }
    Ok(Item::deserialize(item)?.pattern().clone())
}

fn policy(dst_fixes: Option<Value>, policy: Option<String>) -> anyhow::Result<Option<Policy>> {
    match (dst_fixes, policy.as_deref()) {
        (None, None) => Ok(None),
        (None, Some("vixie")) => Ok(Some(Policy::Vixie)),
        (None, Some(other)) => bail!("policy: {other} is not known; there is vixie"),
        (Some(fixes), None) => Ok(Some(Policy::Fixes(DstFixes::deserialize(fixes)?))),
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

/// Zones by name, each read once.
#[derive(Debug)]
pub(super) struct Zones {
    database: Database,
    known: BTreeMap<String, Zone>,
}

impl Zones {
    pub(super) fn new(is_system: bool) -> anyhow::Result<Self> {
        let database = if is_system { Database::system()? } else { Database::bundled() };
        Ok(Self { database, known: BTreeMap::new() })
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
