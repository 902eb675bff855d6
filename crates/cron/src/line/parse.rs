//! From the text of a line to its fields.

use super::{
    Line, LineError, Policy,
    field::{self, Field},
    fixes,
};
use crate::{
    item::cut,
    pattern::{Calendar, DayRule, Fields, Join, Pattern},
};

/// Whole lines that have a name.
const NAMED: [(&str, &str); 9] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
    ("@every_minute", "* * * * *"),
    ("@every_second", "* * * * * *"),
];

/// Every time that there is can be written shorter; what is longer is no line.
const BYTES_MAX: usize = 4096;

/// A word and its byte offset in the line.
type Word<'a> = (usize, &'a str);

/// A line, cut into words.
struct Source<'a> {
    text: &'a str,
    words: Vec<Word<'a>>,
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        let words = text.split_ascii_whitespace();
        let words = words.map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word));
        Self { text, words: words.collect() }
    }

    fn refuse(&self, at: usize, problem: impl Into<String>) -> LineError {
        let column = self.text[..at].chars().count() + 1;
        LineError { line: self.text.to_owned(), column, field: None, problem: problem.into() }
    }

    /// The zone in front, and the words after it.
    fn zone(&self) -> Result<(Option<&'a str>, &[Word<'a>]), LineError> {
        let Some((&(at, word), rest)) = self.words.split_first() else {
            return Err(self.refuse(0, "the line is empty; it takes five fields"));
        };
        let Some(zone) = zone_of(word) else { return Ok((None, &self.words)) };
        let zone = zone.trim_matches(['"', '\'']);
        if zone.is_empty() {
            return Err(self.refuse(at + word.len(), "a time zone is missing after ="));
        }
        Ok((Some(zone), rest))
    }
}

fn zone_of(word: &str) -> Option<&str> {
    word.strip_prefix("CRON_TZ=").or_else(|| word.strip_prefix("TZ="))
}

pub(super) fn line(text: &str) -> Result<Line, LineError> {
    if text.len() > BYTES_MAX {
        let problem = format!("the line is too long; at most {BYTES_MAX} bytes are read");
        return Err(LineError { line: cut(text), column: 1, field: None, problem });
    }
    let source = Source::new(text);
    let (zone, words) = source.zone()?;
    let parsed = match words {
        [(at, name)] if name.starts_with('@') && !name.eq_ignore_ascii_case("@every") => {
            named(&source, *at, name)?
        }
        [_, _, _, _, _] | [_, _, _, _, _, _] => timed(&source, words)?,
        [] => return Err(source.refuse(text.len(), "the line ends after the time zone")),
        [(at, name), rest @ ..] if name.eq_ignore_ascii_case("@every") => {
            return Err(source.refuse(*at, every(rest)));
        }
        [(at, name), ..] if name.starts_with('@') => {
            return Err(source.refuse(at + name.len(), format!("{name} stands alone")));
        }
        [.., last] => return Err(miscounted(&source, words.len(), *last)),
    };
    Ok(Line { source: text.trim().to_owned(), timezone: zone.map(str::to_owned), ..parsed })
}

/// Too few fields are missed at the end; too many are marked where they begin.
fn miscounted(source: &Source<'_>, count: usize, last: Word<'_>) -> LineError {
    let fields = if count == 1 { "field" } else { "fields" };
    let problem =
        format!("{count} {fields}; a line takes five, or six with seconds in front of the minutes");
    let at = if count < 5 { last.0 + last.1.len() } else { last.0 };
    source.refuse(at, problem)
}

/// What to write instead of `@every 5m`, which counts from the start of a program.
fn every(rest: &[Word<'_>]) -> String {
    let seconds = match rest {
        [(_, duration)] => seconds(duration),
        _ => None,
    };
    let item = "an item counts seconds since 1970";
    match seconds {
        Some(seconds @ 1..) => {
            let line = match seconds {
                60..3600 if seconds % 60 == 0 && 3600 % seconds == 0 => {
                    format!("write {} * * * *, or ", stepped(seconds / 60, 60))
                }
                3600..=86_400 if seconds % 3600 == 0 && 86_400 % seconds == 0 => {
                    format!("write 0 {} * * *, or ", stepped(seconds / 3600, 24))
                }
                _ => String::new(),
            };
            format!("@every is not known; {line}{item}: {{\"epoch\": {{\"period\": {seconds}}}}}")
        }
        Some(..1) | None => {
            format!(
                "@every is not known; a step such as */5 goes in any field, and {item}: \
                 {{\"epoch\": {{\"period\": 300}}}}"
            )
        }
    }
}

/// Every so many minutes of an hour, or hours of a day.
fn stepped(step: i64, of: i64) -> String {
    match step {
        1 => "*".to_owned(),
        step if step == of => "0".to_owned(),
        step => format!("*/{step}"),
    }
}

/// The seconds of a duration such as `1h30m`.
fn seconds(duration: &str) -> Option<i64> {
    let mut left = duration;
    let mut sum = 0_i64;
    while !left.is_empty() {
        let unit = left.find(|letter: char| !letter.is_ascii_digit())?;
        let count: i64 = left[..unit].parse().ok()?;
        let factor = match left.as_bytes()[unit] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            _ => return None,
        };
        sum = sum.checked_add(count.checked_mul(factor)?)?;
        left = &left[unit + 1..];
    }
    Some(sum)
}

pub(super) fn entry(text: &str) -> Result<(Line, &str), LineError> {
    let mut words = text.split_ascii_whitespace().peekable();
    // A zone in front is no field.
    let zone = usize::from(words.next_if(|word| zone_of(word).is_some()).is_some());
    let fields = match words.peek() {
        Some(word) if word.starts_with('@') => 1,
        Some(_) | None => 5,
    };
    let Some(command) = text.split_ascii_whitespace().nth(zone + fields) else {
        let source = Source { text, words: Vec::new() };
        return Err(source.refuse(text.len(), "the entry ends before its command"));
    };
    let at = command.as_ptr() as usize - text.as_ptr() as usize;
    // The line is read where it stands, so that columns are those of the entry.
    let mut parsed =
        line(&text[..at]).map_err(|error| LineError { line: text.to_owned(), ..error })?;
    parsed.source = text[..at].trim().to_owned();
    Ok((parsed, &text[at..]))
}

fn named(source: &Source<'_>, at: usize, name: &str) -> Result<Line, LineError> {
    if name.eq_ignore_ascii_case("@reboot") {
        return Ok(Line {
            source: String::new(),
            timezone: None,
            follows_real_time: false,
            is_reboot: true,
            pattern: Pattern::never(),
        });
    }
    let Some((_, meaning)) = NAMED.iter().find(|(known, _)| name.eq_ignore_ascii_case(known))
    else {
        let known: Vec<&str> = NAMED.iter().map(|(known, _)| *known).collect();
        let name = cut(name);
        let problem = format!("{name} is unknown; known are {}, @reboot", known.join(", "));
        return Err(source.refuse(at, problem));
    };
    let meaning = Source::new(meaning);
    timed(&meaning, &meaning.words)
}

fn timed<'a>(source: &Source<'a>, words: &[Word<'a>]) -> Result<Line, LineError> {
    let field = |kind: &'static field::Kind, (at, text): Word<'a>| {
        let column = source.text[..at].chars().count() + 1;
        Field { kind, text, column }
    };
    let (seconds, words) = match words {
        [seconds, rest @ ..] if words.len() == 6 => (Some(*seconds), rest),
        _ => (None, words),
    };
    let [minutes, hours, days, months, weekdays] = *words else {
        unreachable!("the caller counted five fields or six");
    };
    let whole = |error: LineError| LineError { line: source.text.to_owned(), ..error };
    let bits = |kind, word| field(kind, word).bits().map_err(whole);
    let (days, weekdays) = (field(&field::DAYS, days), field(&field::WEEKDAYS, weekdays));
    let fields = Fields {
        seconds: seconds.map_or(Ok(1), |word| bits(&field::SECONDS, word))?,
        minutes: bits(&field::MINUTES, minutes)?,
        hours: u32::try_from(bits(&field::HOURS, hours)?).expect("hours are below 24"),
        months: u16::try_from(bits(&field::MONTHS, months)?).expect("months are at most 12"),
        days: DayRule {
            numbers: days.numbers().map_err(whole)?,
            weekdays: weekdays.weekdays().map_err(whole)?,
            // The famous oddity: a leading star makes the two fields go together.
            join: match days.begins_with_star() || weekdays.begins_with_star() {
                true => Join::Both,
                false => Join::Either,
            },
        },
        years: None,
        every: None,
    };
    let follows_real_time = [minutes, hours].iter().any(|(_, text)| text.starts_with(['*', '?']));
    let fixes = fixes(Policy::Vixie, follows_real_time);
    Ok(Line {
        source: String::new(),
        timezone: None,
        follows_real_time,
        is_reboot: false,
        pattern: Pattern::from_calendar(Calendar::new(fields), fixes),
    })
}
