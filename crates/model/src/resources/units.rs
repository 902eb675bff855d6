//! Amounts with a unit, and how people write them.

use crate::number::{self, NumberError};
use crate::text::{place, quoted, text_face};
use std::fmt;
use std::str::FromStr;

/// An amount of memory or disk.
///
/// People write a number and a unit: `64MiB`, `1.5GiB`, `500MB`, `0B`. Units with an i are powers
/// of 1024, those without are powers of 1000. A number without a unit is refused, because nobody
/// who writes `memory = 64` means bytes; so is `64M`, which means one thing here and another there.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// So many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// How many bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Units and their bytes. Written with the one that leaves the smallest whole number.
const BYTE_UNITS: [(&str, u64); 11] = [
    ("B", 1),
    ("kB", 1000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
    ("PB", 1_000_000_000_000_000),
    ("PiB", 1 << 50),
];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = |(_, bytes): &&(&str, u64)| self.0 != 0 && self.0.is_multiple_of(*bytes);
        let (unit, bytes) = BYTE_UNITS.iter().rev().find(is_whole).unwrap_or(&BYTE_UNITS[0]);
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

impl FromStr for Bytes {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        const EXAMPLE: &str = "write a number and a unit, such as 64MiB";
        let (number, unit) = number::split(text);
        if number.is_empty() {
            return Err(AmountError::NoNumber { text: text.to_owned(), remedy: EXAMPLE });
        }
        if unit.is_empty() {
            return Err(AmountError::NoUnit { number: number.to_owned() });
        }
        // Both spellings of the thousand are common, and no other unit differs by case.
        let known = if unit == "KB" { "kB" } else { unit };
        let Some((_, bytes)) = BYTE_UNITS.iter().find(|(name, _)| *name == known) else {
            return Err(AmountError::UnknownUnit {
                at: place(text, unit),
                unit: unit.to_owned(),
                remedy: "write B, kB, MB, GB, TB or PB for powers of 1000, \
                         KiB, MiB, GiB, TiB or PiB for powers of 1024",
            });
        };
        number::scaled(number, *bytes)
            .map(Self)
            .map_err(|error| AmountError::of_number(error, text, "bytes", EXAMPLE))
    }
}

/// An amount of processor time: a thousand of them keep one core busy.
///
/// People write cores, as `2` or `0.5`, or millicores, as `500m`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millicores(u64);

impl Millicores {
    /// So many thousandths of a core.
    pub const fn new(millicores: u64) -> Self {
        Self(millicores)
    }

    /// How many thousandths of a core.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Millicores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cores, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            return write!(f, "{cores}");
        }
        let decimals = format!("{rest:03}");
        write!(f, "{cores}.{}", decimals.trim_end_matches('0'))
    }
}

impl FromStr for Millicores {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        const REMEDY: &str = "write cores as 0.5, or millicores as 500m";
        let (number, unit) = number::split(text);
        if number.is_empty() {
            return Err(AmountError::NoNumber { text: text.to_owned(), remedy: REMEDY });
        }
        let scale = match unit {
            "" => 1000,
            "m" => 1,
            _ => {
                let (at, unit) = (place(text, unit), unit.to_owned());
                return Err(AmountError::UnknownUnit { at, unit, remedy: REMEDY });
            }
        };
        number::scaled(number, scale)
            .map(Self)
            .map_err(|error| AmountError::of_number(error, text, "millicores", REMEDY))
    }
}

text_face! {
    Bytes reads with amount, "an amount such as \"64MiB\"";
    Millicores reads with amount, "cores such as 0.5 or \"500m\"";
}

/// Why a text is not an amount. Places count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AmountError {
    /// It does not start with a number.
    #[error("{} does not start with a number: {remedy}", quoted(.text))]
    NoNumber {
        /// The whole text.
        text: String,
        /// What to write instead.
        remedy: &'static str,
    },
    /// A number of what is not said.
    #[error("'{number}' has no unit: write {number}B, {number}MiB or {number}GiB")]
    NoUnit {
        /// The number.
        number: String,
    },
    /// The unit is none of ours.
    #[error("unknown unit {} at character {at}: {remedy}", quoted(.unit))]
    UnknownUnit {
        /// Where.
        at: usize,
        /// What stands there.
        unit: String,
        /// What to write instead.
        remedy: &'static str,
    },
    /// A fraction is finer than the smallest unit.
    #[error("{} is not a whole number of {smallest}: round it", quoted(.text))]
    TooFine {
        /// The whole text.
        text: String,
        /// The smallest unit.
        smallest: &'static str,
    },
    /// It does not fit in 64 bits.
    #[error("{} is more than {} {smallest}: write less", quoted(.text), u64::MAX)]
    TooMuch {
        /// The whole text.
        text: String,
        /// The smallest unit.
        smallest: &'static str,
    },
}

impl AmountError {
    fn of_number(
        error: NumberError,
        text: &str,
        smallest: &'static str,
        remedy: &'static str,
    ) -> Self {
        let text = text.to_owned();
        match error {
            NumberError::Malformed => Self::NoNumber { text, remedy },
            NumberError::TooFine => Self::TooFine { text, smallest },
            NumberError::TooLarge => Self::TooMuch { text, smallest },
        }
    }
}
