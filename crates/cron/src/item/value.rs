//! What any serde format can say, kept as it was said: error messages quote it, and it is
//! written out again unchanged.

use std::{cell::Cell, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};

/// Deeper nesting has no meaning in an item.
const DEPTH_MAX: u8 = 4;
/// So many values at most are read, in all lists and maps together: reading an item takes a
/// millisecond or so, whatever it holds.
const VALUES_MAX: u32 = 10_000;
/// A quotation is cut after so many characters.
const QUOTE_MAX: usize = 60;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is no `i64`: only quoted, in a refusal.
    Other(Number),
    Text(String),
    List(Vec<Self>),
    /// In the order given; a key may stand twice, which is refused later, by name.
    Map(Vec<(String, Self)>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Unsigned(u64),
    Float(f64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Other(Number::Unsigned(value)) => write!(f, "{value}"),
            // Debug keeps the point: 5.0 is refused, and 5 would not be.
            Self::Other(Number::Float(value)) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Map(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key:?}: {value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Value {
    /// As a quotation for a message, cut to a readable length.
    pub(crate) fn quote(&self) -> String {
        cut(self)
    }
}

/// What is shown, cut to a readable length; no more of it is ever written.
pub(crate) fn cut(shown: impl fmt::Display) -> String {
    use fmt::Write as _;
    let mut text = Cut::default();
    match write!(text, "{shown}") {
        Ok(()) => text.kept,
        // The one error there is: it was too long.
        Err(fmt::Error) => text.kept + "...",
    }
}

#[derive(Default)]
struct Cut {
    kept: String,
    count: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if self.count == QUOTE_MAX {
                return Err(fmt::Error);
            }
            self.count += 1;
            self.kept.push(letter);
        }
        Ok(())
    }
}

/// One value at a depth, and how many more may be read.
#[derive(Clone, Copy)]
struct Nested<'a> {
    depth: u8,
    left: &'a Cell<u32>,
}

impl Nested<'_> {
    const fn deeper(self) -> Self {
        Self { depth: self.depth + 1, left: self.left }
    }
}

impl<'de> DeserializeSeed<'de> for Nested<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > DEPTH_MAX {
            return Err(D::Error::custom("nested too deeply for a cron item"));
        }
        let Some(left) = self.left.get().checked_sub(1) else {
            let many = format!("more than {VALUES_MAX} values are too many for a cron item");
            return Err(D::Error::custom(
                many + "; a range chooses many with one: {\"period\": 5}",
            ));
        };
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a name, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        let large = Value::Other(Number::Unsigned(value));
        Ok(i64::try_from(value).map_or(large, Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Other(Number::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(self.deeper())? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            entries.push((key, map.next_value_seed(self.deeper())?));
        }
        Ok(Value::Map(entries))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Cell::new(VALUES_MAX);
        Nested { depth: 0, left: &left }.deserialize(deserializer)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Other(Number::Unsigned(value)) => serializer.serialize_u64(*value),
            Self::Other(Number::Float(value)) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(values) => {
                let mut seq = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    seq.serialize_element(value)?;
                }
                seq.end()
            }
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}
