//! Numbers in texts, exact: no float ever holds an amount.

/// Why a number is not an amount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// It is not digits, or digits, a point and digits.
    Malformed,
    /// It is finer than the smallest unit.
    TooFine,
    /// It does not fit in 64 bits.
    TooLarge,
}

/// Reads a number as `Display` writes it: no sign, no leading zero; so that an id has one text.
pub(crate) fn plain(text: &str) -> Option<u64> {
    let is_plain = text == "0" || text.starts_with(|c: char| matches!(c, '1'..='9'));
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Splits `text` after its leading digits and points.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// `number` times `scale`, where `number` is decimal text; refused unless the result is whole.
pub(crate) fn scaled(number: &str, scale: u64) -> Result<u64, NumberError> {
    // Ten to this power is the largest that fits in 64 bits; nobody writes a longer fraction.
    const DECIMALS_MAX: usize = 19;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return Err(NumberError::Malformed);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > DECIMALS_MAX {
        return Err(NumberError::TooFine);
    }
    // Only digits are left, so parsing fails in one way: too many of them.
    let whole: u64 = whole.parse().map_err(|_| NumberError::TooLarge)?;
    let digits: u64 = format!("0{fraction}").parse().map_err(|_| NumberError::TooFine)?;
    let parts = fraction.bytes().fold(1_u128, |parts, _| parts * 10);
    let remainder = u128::from(digits) * u128::from(scale);
    if !remainder.is_multiple_of(parts) {
        return Err(NumberError::TooFine);
    }
    let total = u128::from(whole) * u128::from(scale) + remainder / parts;
    u64::try_from(total).map_err(|_| NumberError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_number_is_exact_or_refused() {
        use NumberError::{Malformed, TooFine, TooLarge};
        let cases = [
            ("0", 1, Ok(0)),
            ("007", 10, Ok(70)),
            ("1.5", 1024, Ok(1536)),
            ("0.001", 1000, Ok(1)),
            ("0.5000000000000000000000000000", 2, Ok(1)),
            ("0.0001", 1000, Err(TooFine)),
            ("0.00000000000000000001", 1 << 50, Err(TooFine)),
            ("18446744073709551615", 1, Ok(u64::MAX)),
            ("18446744073709551615.9", 1, Err(TooFine)),
            ("18446744073709551616", 1, Err(TooLarge)),
            ("18446744073709551615", 2, Err(TooLarge)),
            ("9999999999999999999999", 1, Err(TooLarge)),
            ("", 1, Err(Malformed)),
            (".", 1, Err(Malformed)),
            (".5", 1, Err(Malformed)),
            ("5.", 1, Err(Malformed)),
            ("1.2.3", 1, Err(Malformed)),
            ("+1", 1, Err(Malformed)),
        ];
        for (number, scale, expected) in cases {
            assert_eq!(scaled(number, scale), expected, "{number} x {scale}");
        }
    }
}
