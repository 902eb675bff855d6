//! JSON as a tree. The parser says where each value stands by lending the text of it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::tree::{Entry, Node, Spot, Unreadable, Value};

/// No spec needs more, and each level is read once more.
const DEPTH_MAX: usize = 32;

/// The tree, or the first thing that cannot be read.
pub(super) fn read(text: &str) -> Result<Node, Unreadable> {
    // Some editors put a mark before the text, which is none of it.
    let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let start = text.len() - rest.len();
    let raw: &RawValue = serde_json::from_str(rest).map_err(|error| told(text, start, &error))?;
    Reader { text }.node(raw, 0)
}

struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn node(&self, raw: &'a RawValue, depth: usize) -> Result<Node, Unreadable> {
        let spot = self.spot(raw);
        if depth > DEPTH_MAX {
            return Err(Unreadable {
                spot: spot.start..spot.start + 1,
                reason: format!("this is nested deeper than {DEPTH_MAX} levels"),
                remedy: "write it flatter",
            });
        }
        let value = match raw.get().as_bytes().first() {
            Some(b'{') => {
                let pairs: Pairs<'a> = self.parse(raw)?;
                let entries = pairs.0.into_iter().map(|(key, value)| {
                    let (key, spot) = (self.parse(key)?, self.spot(key));
                    Ok(Entry { key, spot, node: self.node(value, depth + 1)? })
                });
                Value::Table(entries.collect::<Result<_, _>>()?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = self.parse(raw)?;
                let nodes = items.into_iter().map(|item| self.node(item, depth + 1));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            Some(b'"') => Value::Text(self.parse(raw)?),
            Some(b't' | b'f') => Value::Flag(self.parse(raw)?),
            Some(b'n') => Value::Null,
            Some(_) | None => Value::Number(raw.get().to_owned()),
        };
        Ok(Node { spot, value })
    }

    fn parse<T: Deserialize<'a>>(&self, raw: &'a RawValue) -> Result<T, Unreadable> {
        let start = self.spot(raw).start;
        serde_json::from_str(raw.get()).map_err(|error| told(self.text, start, &error))
    }

    /// Where a part of the text stands in it.
    fn spot(&self, part: &RawValue) -> Spot {
        let part = part.get();
        let start = part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        start..start + part.len()
    }
}

/// What the parser says of the part of `text` that begins at `start`, without its own count of lines.
fn told(text: &str, start: usize, error: &serde_json::Error) -> Unreadable {
    let part = text.get(start..).unwrap_or_default();
    let lines = part.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = start + lines.map(str::len).sum::<usize>();
    let at = before + error.column().saturating_sub(1);
    // A file that ends too early is wrong behind its last sign.
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let length = text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    let reason = error.to_string();
    let counted = format!(" at line {} column {}", error.line(), error.column());
    let reason = reason.strip_suffix(&counted).unwrap_or(&reason);
    let (reason, remedy) = if error.is_eof() {
        let reason = "this is not JSON: it ends before everything is closed".to_owned();
        (reason, "add the }, ] or \" that is missing")
    } else {
        let remedy = "keys and texts stand in \"quotes\", a comma only between two";
        (format!("this is not JSON: {reason}"), remedy)
    };
    Unreadable { spot: at..at + length, reason, remedy }
}

/// The entries of an object, in their order, and twice what stands there twice.
struct Pairs<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
