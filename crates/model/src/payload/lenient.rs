//! Reading that takes what it cannot read for nothing.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Reads a JSON object; `None` if these bytes are none. A list is none: its fields would have no names.
pub(super) fn object<'de, T: Deserialize<'de>>(said: &'de [u8]) -> Option<T> {
    let is_object = said.trim_ascii_start().starts_with(b"{");
    is_object.then(|| serde_json::from_slice(said).ok())?
}

/// A field, or its default if it cannot be read.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(T::deserialize(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// A field that is an object, if it is one that can be read.
pub(super) fn part<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let said = Value::deserialize(deserializer)?;
    Ok(if said.is_object() { T::deserialize(said).ok() } else { None })
}

/// Whether a field is an object.
pub(super) fn is_object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Value::deserialize(deserializer)?.is_object())
}

/// Whether a field is a list that holds anything.
pub(super) fn is_filled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_array().is_some_and(|items| !items.is_empty()))
}

/// Those items of a list that can be read.
pub(super) fn each<'de, D, C>(deserializer: D) -> Result<C, D::Error>
where
    D: Deserializer<'de>,
    C: Default + FromIterator<C::Item> + IntoIterator<Item: DeserializeOwned>,
{
    let Value::Array(items) = Value::deserialize(deserializer)? else { return Ok(C::default()) };
    Ok(items.into_iter().filter_map(|item| C::Item::deserialize(item).ok()).collect())
}

/// Those entries of an object that can be read; `None` if it is no object.
pub(super) fn entries<'de, D, K, V, C>(deserializer: D) -> Result<Option<C>, D::Error>
where
    D: Deserializer<'de>,
    K: std::str::FromStr,
    V: DeserializeOwned,
    C: FromIterator<(K, V)>,
{
    let Value::Object(entries) = Value::deserialize(deserializer)? else { return Ok(None) };
    let entry =
        |(name, said): (String, Value)| Some((name.parse().ok()?, V::deserialize(said).ok()?));
    Ok(Some(entries.into_iter().filter_map(entry).collect()))
}
