//! `sterna cron explain`: a pattern in words, and its year as a small calendar.

use std::{
    collections::BTreeSet,
    env,
    fs::File,
    io::{self, IsTerminal},
    process::{Command, Stdio},
};

use jiff::{Span, ToSpan, civil::Date};
use serde_json::json;
use sterna_cron::{DstFixes, Missing, Repeated, Time};

use super::query::{Asked, Query, Zones};
use crate::out;

/// Months side by side: as many as fit, of these.
const ABREAST: [usize; 6] = [12, 6, 4, 3, 2, 1];
/// A month is seven days of three letters.
const WIDTH: usize = 21;
/// What stands between two months.
const BETWEEN: &str = "   ";
/// Where nothing says how wide the screen is.
const COLUMNS: usize = 80;

/// Explain a pattern in words, and draw the coming year with the days on which it fires
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// Print JSON: words, what happens at jumps, and the days
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let query = args.asked.resolve(&mut Zones::new(args.asked.system_zones)?)?;
    let days = days(&query);
    let words = query.pattern.describe();
    let jumps = query.pattern.dst_fixes().map(jumps);
    let text = if args.json {
        let days: Vec<String> = days.iter().map(Date::to_string).collect();
        json!({"words": words, "jumps": jumps, "zone": query.zone.name(), "days": days}).to_string()
    } else {
        let mut parts = vec![format!("{words} ({})", query.zone.name())];
        parts.extend(jumps);
        parts.push(String::new());
        parts.push(calendar(first_day(&query), &days, columns()));
        parts.join("\n")
    };
    out::answer(&text)?;
    Ok(())
}

fn jumps(fixes: DstFixes) -> String {
    let missing = match fixes.missing {
        Missing::Skip => "a time that the clock jumps over does not fire",
        Missing::LastSecondBefore => {
            "a time that the clock jumps over fires in the last second before the jump"
        }
        Missing::FirstSecondAfter => {
            "a time that the clock jumps over fires at the first second after the jump"
        }
    };
    let repeated = match fixes.repeated {
        Repeated::Both => "a time that the clock shows twice fires twice",
        Repeated::OnlyEarly => "a time that the clock shows twice fires the first time",
        Repeated::OnlyLate => "a time that the clock shows twice fires the second time",
    };
    format!("{missing}; {repeated}")
}

/// The local date of a moment, and the seconds of that day that have passed.
fn local(query: &Query, at: Time) -> (Date, i64) {
    let label = at.epoch().saturating_add(query.zone.offset_seconds(at));
    let epoch = jiff::civil::date(1970, 1, 1);
    // Beyond what a calendar shows anything is the last day, or the first.
    let days = Span::new().try_days(label.div_euclid(86_400));
    let end = if label < 0 { Date::MIN } else { Date::MAX };
    let date = days.and_then(|days| epoch.checked_add(days)).unwrap_or(end);
    (date, label.rem_euclid(86_400))
}

fn first_day(query: &Query) -> Date {
    local(query, query.from).0.first_of_month()
}

/// How wide the answer may be: what `COLUMNS` says, else the terminal's width.
fn columns() -> usize {
    let read = |text: &str| text.trim().parse().ok().filter(|columns| *columns > 0);
    let told = env::var("COLUMNS").ok().and_then(|columns| read(&columns));
    told.or_else(|| {
        // Only the terminal knows, and stty is how a program without C asks it.
        let terminal = io::stdout().is_terminal().then(|| File::open("/dev/tty").ok())??;
        let asked = Command::new("stty")
            .arg("size")
            .stdin(terminal)
            .stderr(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let size = String::from_utf8(asked.stdout).ok()?;
        read(size.split_once(' ')?.1)
    })
    .unwrap_or(COLUMNS)
}

/// The local dates of the firings in the year ahead.
fn days(query: &Query) -> BTreeSet<Date> {
    let mut days = BTreeSet::new();
    let mut from = query.from;
    // From here on dates are not shown; but a clock set back by a day may show earlier ones again.
    let end = first_day(query).checked_add(1.year()).ok();
    let beyond = end.and_then(|end| end.checked_add(3.days()).ok());
    while let Some(at) = query.pattern.next(&query.zone, from) {
        let (date, second) = local(query, at);
        if beyond.is_some_and(|beyond| date >= beyond) {
            break;
        }
        if end.is_none_or(|end| date < end) {
            days.insert(date);
        }
        // One firing is enough to know a day: go on at its end, unless the clock jumps before it.
        let left = 86_400 - second;
        let offset = |seconds| query.zone.offset_seconds(at.plus_seconds(seconds));
        let is_even = (0..left).step_by(60).chain([left - 1]).all(|now| offset(now) == offset(0));
        from = at.plus_seconds(if is_even { left } else { 1 });
        if from == at {
            break;
        }
    }
    days
}

/// Twelve months; days that fire have their number, the others a dot.
fn calendar(first: Date, days: &BTreeSet<Date>, columns: usize) -> String {
    let months: Vec<Vec<String>> = (0..12)
        .map_while(|month| first.checked_add(month.months()).ok())
        .map(|first| month_lines(first, days))
        .collect();
    let width = |months: usize| months * (WIDTH + BETWEEN.len()) - BETWEEN.len();
    let abreast = ABREAST.into_iter().find(|months| width(*months) <= columns).unwrap_or(1);
    let mut lines = Vec::new();
    for row in months.chunks(abreast) {
        let height = row.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..height {
            let cells: Vec<String> = row
                .iter()
                .map(|month| format!("{:WIDTH$}", month.get(at).map_or("", String::as_str)))
                .collect();
            lines.push(cells.join(BETWEEN).trim_end().to_owned());
        }
        lines.push(String::new());
    }
    lines.join("\n").trim_end().to_owned()
}

fn month_lines(first: Date, days: &BTreeSet<Date>) -> Vec<String> {
    let title = first.strftime("%B %Y").to_string();
    let mut lines = vec![format!("{title:^WIDTH$}"), " Mo Tu We Th Fr Sa Su".to_owned()];
    let blank = usize::try_from(first.weekday().to_monday_zero_offset()).unwrap_or(0);
    let mut week = " ".repeat(blank * 3);
    for date in first.series(1.day()).take_while(|date| date.month() == first.month()) {
        if days.contains(&date) {
            week.push_str(&format!("{:3}", date.day()));
        } else {
            week.push_str("  .");
        }
        if week.len() >= WIDTH {
            lines.push(std::mem::take(&mut week));
        }
    }
    if !week.is_empty() {
        lines.push(week);
    }
    lines
}
