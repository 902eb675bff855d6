use crate::civil;

/// Firings that count seconds and know no zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Epoch {
    /// Every `period` seconds from `start`, up to `end` included.
    Range { start: i64, end: i64, period: i64 },
    /// These moments, in order, none twice.
    List(Box<[i64]>),
}

impl Epoch {
    /// The least firing at or after `from`.
    #[inline]
    pub(crate) fn at_or_after(&self, from: i64) -> Option<i64> {
        match self {
            Self::Range { start, end, period } => {
                if from <= *start {
                    return Some(*start);
                }
                // All numbers are at least 0, so that only the last addition can overflow.
                let late = (from - start) % period;
                let found = if late == 0 { from } else { from.checked_add(period - late)? };
                (found <= *end).then_some(found)
            }
            Self::List(moments) => {
                let at = moments.partition_point(|moment| *moment < from);
                moments.get(at).copied()
            }
        }
    }

    /// In words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Range { start, end, period } => {
                let mut text = format!("every {period} seconds since 1970-01-01T00:00:00Z");
                if *start > 0 {
                    text = format!("every {period} seconds from {}", utc(*start));
                }
                if *end < i64::MAX {
                    text.push_str(&format!(" until {}", utc(*end)));
                }
                text
            }
            Self::List(moments) => {
                let shown: Vec<String> = moments.iter().take(6).map(|at| utc(*at)).collect();
                let more = moments.len().saturating_sub(6);
                let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("once at each of {}{tail}", shown.join(", "))
            }
        }
    }
}

fn utc(epoch: i64) -> String {
    if epoch >= civil::new_year(10_000) * civil::DAY {
        return epoch.to_string();
    }
    let (day, second) = civil::split(epoch);
    let date = civil::date_of(day);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        date.year,
        date.month,
        date.day,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}
