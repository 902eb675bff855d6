use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};

use super::state::Follows;
use crate::{Item, ItemError, item::Value};

const MAX_SHIFT: &str = "max_shift_seconds_for_unskip_and_do_not_repeat";
const FOLLOWS: &str = "follows";

/// An item that is kept through disturbances: the keys of an [`Item`], one number that has no
/// default, and perhaps the clock that it follows.
///
/// ```
/// use sterna_cron::StatefulItem;
///
/// let text = r#"{
///     "hour": 3, "minute": 0, "dst_fixes": ["unskip", "repeat_use_only_early"],
///     "max_shift_seconds_for_unskip_and_do_not_repeat": 7200
/// }"#;
/// let kept: StatefulItem = serde_json::from_str(text)?;
/// assert_eq!(kept.max_shift_seconds_for_unskip_and_do_not_repeat, 7200);
/// // The number has no default.
/// assert!(serde_json::from_str::<StatefulItem>(r#"{"epoch": 5}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StatefulItem {
    /// When it fires, if nothing goes wrong.
    pub item: Item,
    /// What is late by at most this fires at once, what is later is dropped; when time is set
    /// back by at most this, nothing is repeated, otherwise everything is. There is no default:
    /// it depends on how often the item fires.
    pub max_shift_seconds_for_unskip_and_do_not_repeat: u32,
    /// The clock that it follows, the system's unless given; the monotonic one is for `epoch`
    /// items only.
    pub follows: Follows,
}

impl StatefulItem {
    fn from_value(source: Value) -> Result<Self, ItemError> {
        let Value::Map(mut entries) = source else {
            return Err(ItemError::NotAMap { found: source.quote() });
        };
        let max_shift = match take(&mut entries, MAX_SHIFT)? {
            Some(value) => max_shift(&value)?,
            None => {
                let allowed = "whole numbers of seconds, from 0".to_owned();
                return Err(ItemError::Missing { key: MAX_SHIFT.to_owned(), allowed });
            }
        };
        let follows = match take(&mut entries, FOLLOWS)? {
            Some(value) => follows(&value)?,
            None => Follows::System,
        };
        let item = Item::from_value(Value::Map(entries))?;
        if follows == Follows::Monotonic && item.is_timezone_dependent() {
            let remedy = "only epoch items can follow the monotonic clock".to_owned();
            let (one, other) = (FOLLOWS.to_owned(), "minute".to_owned());
            return Err(ItemError::Clash { one, other, remedy });
        }
        Ok(Self { item, max_shift_seconds_for_unskip_and_do_not_repeat: max_shift, follows })
    }
}

/// Takes the value of a key out of a map.
fn take(entries: &mut Vec<(String, Value)>, key: &str) -> Result<Option<Value>, ItemError> {
    let Some(at) = entries.iter().position(|(name, _)| name == key) else { return Ok(None) };
    let (_, value) = entries.remove(at);
    match entries.iter().any(|(name, _)| name == key) {
        true => Err(ItemError::twice(key)),
        false => Ok(Some(value)),
    }
}

fn max_shift(value: &Value) -> Result<u32, ItemError> {
    let number = match value {
        Value::Int(number) => u32::try_from(*number).ok(),
        Value::Null
        | Value::Bool(_)
        | Value::Other(_)
        | Value::Text(_)
        | Value::List(_)
        | Value::Map(_) => None,
    };
    let allowed = format!("whole numbers of seconds, from 0 to {}", u32::MAX);
    number.ok_or_else(|| ItemError::refused(MAX_SHIFT, value, allowed))
}

fn follows(value: &Value) -> Result<Follows, ItemError> {
    let text = match value {
        Value::Text(text) => text.as_str(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Other(_)
        | Value::List(_)
        | Value::Map(_) => "",
    };
    match text {
        "system" => Ok(Follows::System),
        "monotonic" => Ok(Follows::Monotonic),
        _ => Err(ItemError::refused(FOLLOWS, value, "system and monotonic")),
    }
}

impl<'de> Deserialize<'de> for StatefulItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for StatefulItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Map(entries) = self.item.source() else {
            unreachable!("an item is made from a map");
        };
        let mut map = serializer.serialize_map(Some(entries.len() + 2))?;
        for (key, value) in entries {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry(MAX_SHIFT, &self.max_shift_seconds_for_unskip_and_do_not_repeat)?;
        map.serialize_entry(FOLLOWS, &self.follows)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<StatefulItem, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_read_is_written_in_full() {
        let text = r#"{"epoch":{"period":60},"max_shift_seconds_for_unskip_and_do_not_repeat":90,"follows":"monotonic"}"#;
        assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
    }

    #[test]
    fn refusals_name_the_key() {
        let table = [
            (
                r#"{"epoch": 5}"#,
                "max_shift_seconds_for_unskip_and_do_not_repeat is missing; it takes whole numbers \
                 of seconds, from 0",
            ),
            (
                r#"{"epoch": 5, "max_shift_seconds_for_unskip_and_do_not_repeat": -1}"#,
                "max_shift_seconds_for_unskip_and_do_not_repeat: -1 is not allowed; allowed are \
                 whole numbers of seconds, from 0 to 4294967295",
            ),
            (
                r#"{"epoch": 5, "follows": "me", "max_shift_seconds_for_unskip_and_do_not_repeat": 1}"#,
                "follows: \"me\" is not allowed; allowed are system and monotonic",
            ),
            (
                r#"{"minute": 5, "dst_fixes": ["skip", "repeat_use_both"], "follows": "monotonic", "max_shift_seconds_for_unskip_and_do_not_repeat": 1}"#,
                "follows and minute do not go together: only epoch items can follow the monotonic \
                 clock",
            ),
            (
                r#"{"epoch": 5, "clown": 1, "max_shift_seconds_for_unskip_and_do_not_repeat": 1}"#,
                "epoch and clown do not go together: epoch counts seconds, so no other key may \
                 stand beside it",
            ),
        ];
        for (text, message) in table {
            assert_eq!(read(text).unwrap_err(), message);
        }
    }
}
