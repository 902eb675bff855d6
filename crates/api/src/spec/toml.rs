//! TOML as a tree.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::tree::{Entry, Node, Unreadable, Value};

/// Everything that can be read, and what cannot: the first thing of each line, for what is wrong
/// behind that in the same line mostly follows from it.
pub(super) fn read(text: &str) -> (Node, Vec<Unreadable>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let node = Node { spot: table.span(), value: Value::Table(entries(table.get_ref())) };
    let mut told: Vec<_> = errors.iter().map(|error| unreadable(text, error)).collect();
    told.sort_by_key(|error| error.spot.start);
    told.dedup_by(|next, kept| {
        let between = text.get(kept.spot.start..next.spot.start);
        between.is_some_and(|between| !between.contains('\n'))
    });
    (node, told)
}

fn unreadable(text: &str, error: &toml::de::Error) -> Unreadable {
    let spot = error.span().unwrap_or(0..text.len());
    let (reason, remedy) = match error.message() {
        "duplicate key" => ("this stands here a second time".to_owned(), "leave one of them out"),
        other => (
            format!("this is not TOML: {other}"),
            "a line is key = value or [table]; texts stand in \"quotes\", and every [ has its ]",
        ),
    };
    Unreadable { spot, reason, remedy }
}

fn entries(table: &DeTable<'_>) -> Vec<Entry> {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let text: &std::borrow::Cow<'_, str> = key.get_ref();
        Entry { key: text.to_string(), spot: key.span(), node: node(value) }
    };
    table.iter().map(entry).collect()
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let said = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        // In decimal, whatever it is written in; what is beyond that is refused by its reader.
        DeValue::Integer(number) => {
            let read = i128::from_str_radix(number.as_str(), number.radix());
            Value::Number(read.map_or_else(|_| number.to_string(), |number| number.to_string()))
        }
        DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Moment,
        DeValue::Array(items) => Value::List(items.iter().map(node).collect()),
        DeValue::Table(table) => Value::Table(entries(table)),
    };
    Node { spot: value.span(), value: said }
}
