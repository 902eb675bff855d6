use std::time::{Duration, Instant};

/// Reads the clock; everything else here is given moments and durations.
#[expect(clippy::disallowed_methods, reason = "the one reader of time in this tool")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A duration for people: `0.4 s`, `12.3 s`, `4 min 05 s`.
pub(crate) fn spoken(duration: Duration) -> String {
    // Tenths first, so that 59.97 s becomes a minute and not `60.0 s`.
    let tenths = (duration.as_millis() + 50) / 100;
    if tenths < 600 {
        return format!("{}.{} s", tenths / 10, tenths % 10);
    }
    let seconds = (duration.as_millis() + 500) / 1000;
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let cases = [
            (0, "0.0 s"),
            (449, "0.4 s"),
            (12_345, "12.3 s"),
            (59_970, "1 min 00 s"),
            (245_400, "4 min 05 s"),
            (4_000_000, "66 min 40 s"),
        ];
        for (millis, wanted) in cases {
            assert_eq!(spoken(Duration::from_millis(millis)), wanted);
        }
    }
}
