//! How words meet text: one face for people, logs and JSON, and quotes that are safe to print.

use serde::de::{Deserializer, Visitor};
use std::error::Error;
use std::fmt::{self, Display, Write as _};
use std::marker::PhantomData;
use std::str::FromStr;

/// Gives types with `Display` and `FromStr` the rest of their one face: `Debug` prints the same,
/// because these words stand in every log line and test table, and serde writes the same text.
macro_rules! text_face {
    ($($name:ident reads with $read:ident, $expecting:literal;)+) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text::$read(deserializer, $expecting)
            }
        }
    )+};
}
pub(crate) use text_face;

/// Reads a word that is always text.
pub(crate) fn word<'de, D, T>(deserializer: D, expecting: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Error + 'static>,
{
    deserializer.deserialize_str(Word { expecting, word: PhantomData })
}

/// Reads an amount, which people also write as a bare number; its own parser then says whether
/// the number is enough (`cpu = 2`) or what unit it lacks (`timeout = 30`).
pub(crate) fn amount<'de, D, T>(deserializer: D, expecting: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Error + 'static>,
{
    deserializer.deserialize_any(Amount(Word { expecting, word: PhantomData }))
}

struct Word<T> {
    expecting: &'static str,
    word: PhantomData<T>,
}

impl<T: FromStr<Err: Error + 'static>> Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|error| E::custom(Chain(&error)))
    }
}

struct Amount<T>(Word<T>);

impl<T: FromStr<Err: Error + 'static>> Visitor<'_> for Amount<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        self.0.visit_str(text)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        self.0.visit_str(&number.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        self.0.visit_str(&number.to_string())
    }

    // The shortest decimal that reads back as the same float is what the person wrote.
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        self.0.visit_str(&number.to_string())
    }
}

/// An error and its causes in one line, for serde, which keeps no sources.
struct Chain<'a>(&'a dyn Error);

impl Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// Text from outside, quoted for a message: cut when long, and escaped, so that a pasted file or
/// a terminal's control sequence does no harm in a log.
pub fn quoted(text: &str) -> String {
    const CHARACTERS_MAX: usize = 80;
    let mut quote = String::from("'");
    for (count, character) in text.chars().enumerate() {
        if count == CHARACTERS_MAX {
            quote.push('…');
            break;
        }
        match character {
            '\'' | '"' => quote.push(character),
            other => write!(quote, "{}", other.escape_debug()).expect("a String takes any text"),
        }
    }
    quote.push('\'');
    quote
}

/// The place of `rest`, a tail of `text`, as people count: in characters, from 1.
pub(crate) fn place(text: &str, rest: &str) -> usize {
    text.chars().count() - rest.chars().count() + 1
}

/// `a`, `a or b`, `a, b or c`.
pub(crate) fn alternatives<T: Display>(items: &[T]) -> String {
    let mut list = String::new();
    for (index, item) in items.iter().enumerate() {
        let joint = match index {
            0 => "",
            _ if index + 1 == items.len() => " or ",
            _ => ", ",
        };
        write!(list, "{joint}{item}").expect("a String takes any text");
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_bounded_and_holds_no_control_character() {
        assert_eq!(quoted("it's"), "'it's'");
        assert_eq!(quoted("a\u{1b}[2Jb\n"), r"'a\u{1b}[2Jb\n'");
        assert_eq!(quoted(&"x".repeat(81)), format!("'{}…'", "x".repeat(80)));
        assert_eq!(quoted(&"x".repeat(80)), format!("'{}'", "x".repeat(80)));
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(&["a"]), "a");
        assert_eq!(alternatives(&["a", "b"]), "a or b");
        assert_eq!(alternatives(&["a", "b", "c"]), "a, b or c");
    }
}
