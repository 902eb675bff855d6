//! Values with the place where they stand: what TOML and JSON have in common.

use std::ops::Range;

use serde_json::{Map, Number, Value as Json};

/// Where something stands in the text of its file, in bytes.
pub(super) type Spot = Range<usize>;

/// Why a text is not a tree.
#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    pub(super) spot: Spot,
    pub(super) reason: String,
    pub(super) remedy: &'static str,
}

/// One value, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) spot: Spot,
    pub(super) value: Value,
}

/// What a file can say.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// JSON's word for nothing.
    Null,
    Flag(bool),
    /// A number as it is written, without underscores; no float holds it.
    Number(String),
    /// A date or a time of TOML's.
    Moment,
    Text(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// One line of a table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) spot: Spot,
    pub(super) node: Node,
}

impl Value {
    /// What it is, for people.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Flag(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Moment => "a date or time",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    /// The same in JSON, or the first part of it that JSON has no word for.
    pub(super) fn to_json(&self) -> Result<Json, &Self> {
        Ok(match &self.value {
            Value::Null => Json::Null,
            Value::Flag(flag) => Json::Bool(*flag),
            Value::Number(text) => Json::Number(number(text).ok_or(self)?),
            Value::Text(text) => Json::String(text.clone()),
            Value::Moment => return Err(self),
            Value::List(items) => items.iter().map(Self::to_json).collect::<Result<_, _>>()?,
            Value::Table(entries) => {
                let pairs = entries.iter().map(|entry| {
                    let value = entry.node.to_json()?;
                    Ok((entry.key.clone(), value))
                });
                Json::Object(pairs.collect::<Result<Map<_, _>, _>>()?)
            }
        })
    }
}

fn number(text: &str) -> Option<Number> {
    let whole = text.parse::<i64>().ok().map(Number::from);
    whole.or_else(|| text.parse::<u64>().ok().map(Number::from)).or_else(|| {
        let float: f64 = text.parse().ok()?;
        Number::from_f64(float)
    })
}
