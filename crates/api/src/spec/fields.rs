//! Reading the fields of a table: what is said, what is missing, and what nobody knows.
//!
//! Every reader answers with nothing both for what is absent and for what it has refused: whatever
//! was refused, the whole spec is, so that nobody sees what was made of it.

use std::{collections::BTreeMap, fmt::Display, ops::RangeInclusive, str::FromStr};

use serde_json::Value as Json;
use sterna_model::{Span, nearest_word, quoted};

use super::{
    Format,
    problem::Found,
    schema::{Field, Form},
    toml,
    tree::{Entry, Node, Spot, Value},
};

/// A table of a known form.
pub(super) struct Fields<'a> {
    form: &'static Form,
    entries: &'a [Entry],
    /// What the table is called, such as `service.web`.
    pub(super) place: String,
    /// Where that is said.
    pub(super) spot: Spot,
}

/// The value of one field, or a part of it.
pub(super) struct Said<'a> {
    pub(super) node: &'a Node,
    pub(super) place: String,
    field: &'static Field,
}

impl<'a> Fields<'a> {
    /// Takes the entries of a table, and refuses those that the form does not have or has twice.
    /// `others` are the forms in which people may have meant to write.
    pub(super) fn open(
        (place, spot): (String, Spot),
        entries: &'a [Entry],
        (form, others): (&'static Form, &[&'static Form]),
        found: &mut Found<'_>,
    ) -> Self {
        let fields = Self { form, entries, place, spot };
        refuse_twice(&fields.place, entries, found);
        for Entry { key, spot, .. } in entries {
            if form.field(key).is_some() {
                continue;
            }
            let place = fields.below(key);
            if let Some(other) = others.iter().find(|other| other.field(key).is_some()) {
                let reason = format!("{} has no such field; {} has", form.what, other.what);
                found.add(spot, &place, reason, "leave it out");
                continue;
            }
            let reason = format!("{} has no such field", form.what);
            found.add(spot, &place, reason, meant(key, form.fields().map(|field| field.name)));
        }
        fields
    }

    fn below(&self, name: &str) -> String {
        below(&self.place, name)
    }

    /// What is said of a field.
    pub(super) fn get(&self, name: &str) -> Option<Said<'a>> {
        let field = self.form.field(name);
        assert!(field.is_some(), "the form of {} has no field {name}", self.form.what);
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        Some(Said { node: &entry.node, place: self.below(name), field: field? })
    }

    /// What is said of a field that must be there.
    pub(super) fn need(&self, name: &str, found: &mut Found<'_>) -> Option<Said<'a>> {
        let said = self.get(name);
        if let (None, Some(field)) = (&said, self.form.field(name)) {
            let remedy = format!("add {}", example(field, found));
            found.add(&self.spot, &self.place, format!("'{name}' is missing"), remedy);
        }
        said
    }
}

impl<'a> Said<'a> {
    /// Notes why it cannot stay.
    pub(super) fn refuse(
        &self,
        reason: impl Into<String>,
        remedy: impl Into<String>,
        found: &mut Found<'_>,
    ) {
        found.add(&self.node.spot, &self.place, reason, remedy);
    }

    /// Notes that it is something else than it must be.
    pub(super) fn expect(&self, what: &str, found: &mut Found<'_>) {
        let reason = format!("this must be {what}, and is {}", self.node.value.kind());
        let remedy = match &self.node.value {
            Value::Null => "leave it out".to_owned(),
            Value::Number(number) if what == "a text" => format!("write \"{number}\""),
            Value::Flag(flag) if what == "a text" => format!("write \"{flag}\""),
            Value::Number(_)
            | Value::Flag(_)
            | Value::Moment
            | Value::Text(_)
            | Value::List(_)
            | Value::Table(_) => self.example(found),
        };
        self.refuse(reason, remedy, found);
    }

    /// How the field is written, for a remedy.
    pub(super) fn example(&self, found: &Found<'_>) -> String {
        format!("such as {}", example(self.field, found))
    }

    fn part(&self, node: &'a Node, place: String) -> Self {
        Self { node, place, field: self.field }
    }

    pub(super) fn text(&self, found: &mut Found<'_>) -> Option<&'a str> {
        if let Value::Text(text) = &self.node.value {
            return Some(text);
        }
        self.expect("a text", found);
        None
    }

    pub(super) fn flag(&self, found: &mut Found<'_>) -> Option<bool> {
        if let Value::Flag(flag) = self.node.value {
            return Some(flag);
        }
        self.expect("true or false", found);
        None
    }

    /// A whole number.
    pub(super) fn whole(&self, range: &RangeInclusive<u64>, found: &mut Found<'_>) -> Option<u64> {
        let Value::Number(text) = &self.node.value else {
            self.expect("a whole number", found);
            return None;
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let is_whole = text.parse::<i128>().is_ok();
            let what = if is_whole { "out of range" } else { "not a whole number" };
            let remedy = format!("write one from {} to {}", range.start(), range.end());
            self.refuse(format!("{text} is {what}"), remedy, found);
        }
        number
    }

    /// A whole number, 1 or more, of 32 bits.
    pub(super) fn count(&self, found: &mut Found<'_>) -> Option<u32> {
        let number = self.whole(&(1..=1_000_000), found)?;
        u32::try_from(number).ok()
    }

    /// Whether it is the word `never`.
    pub(super) fn is_never(&self) -> bool {
        matches!(&self.node.value, Value::Text(text) if text == "never")
    }

    /// A word that reads itself: a name.
    pub(super) fn word<T: FromStr<Err: Display>>(&self, found: &mut Found<'_>) -> Option<T> {
        let text = self.text(found)?;
        self.read(text, found)
    }

    /// An amount that reads itself: a duration, a size, cores. People also write a bare number; its
    /// own reader says whether that is enough, or what unit it lacks.
    pub(super) fn amount<T: FromStr<Err: Display>>(&self, found: &mut Found<'_>) -> Option<T> {
        if let Value::Text(text) | Value::Number(text) = &self.node.value {
            return self.read(text, found);
        }
        self.expect("a text", found);
        None
    }

    /// A duration of at least `least`.
    pub(super) fn span(&self, least: Span, found: &mut Found<'_>) -> Option<Span> {
        let span: Span = self.amount(found)?;
        if span < least {
            let reason = format!("{span} is too short");
            self.refuse(reason, format!("write {least} or more"), found);
            return None;
        }
        Some(span)
    }

    fn read<T: FromStr<Err: Display>>(&self, text: &str, found: &mut Found<'_>) -> Option<T> {
        match text.parse() {
            Ok(read) => Some(read),
            Err(error) => {
                let (reason, remedy) = told(&error);
                self.refuse(reason, remedy, found);
                None
            }
        }
    }

    /// One of these words.
    pub(super) fn choice<T: Copy>(
        &self,
        words: &[(&'static str, T)],
        found: &mut Found<'_>,
    ) -> Option<T> {
        let text = self.text(found)?;
        let chosen = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if chosen.is_none() {
            let reason = format!("{} is none of the words for it", quoted(text));
            self.refuse(reason, meant(text, words.iter().map(|(word, _)| *word)), found);
        }
        chosen
    }

    /// The parts of a list.
    pub(super) fn items(&self, found: &mut Found<'_>) -> Vec<Self> {
        let Value::List(items) = &self.node.value else {
            self.expect("a list", found);
            return Vec::new();
        };
        let part = |(index, node)| self.part(node, format!("{}[{index}]", self.place));
        items.iter().enumerate().map(part).collect()
    }

    /// Whether it is a list with something in it.
    pub(super) const fn has_items(&self) -> bool {
        matches!(&self.node.value, Value::List(items) if !items.is_empty())
    }

    /// The parts of a table whose keys people choose, each with its key.
    pub(super) fn pairs(&self, found: &mut Found<'_>) -> Vec<(&'a Entry, Self)> {
        let Value::Table(entries) = &self.node.value else {
            self.expect("a table", found);
            return Vec::new();
        };
        refuse_twice(&self.place, entries, found);
        let part =
            |entry: &'a Entry| (entry, self.part(&entry.node, below(&self.place, &entry.key)));
        entries.iter().map(part).collect()
    }

    /// A table of a known form.
    pub(super) fn form(&self, form: &'static Form, found: &mut Found<'_>) -> Option<Fields<'a>> {
        let Value::Table(entries) = &self.node.value else {
            self.expect("a table", found);
            return None;
        };
        let at = (self.place.clone(), self.node.spot.clone());
        Some(Fields::open(at, entries, (form, &[]), found))
    }
}

/// JSON lets a key stand twice; TOML's parser does not.
fn refuse_twice(place: &str, entries: &[Entry], found: &mut Found<'_>) {
    let mut seen = BTreeMap::new();
    for Entry { key, spot, .. } in entries {
        if let Some(first) = seen.insert(key, spot) {
            let first = found.whereabouts(found.file, first);
            let reason = format!("this stands here a second time; first at {first}");
            found.add(spot, &below(place, key), reason, "leave one of them out");
        }
    }
}

/// The reason and the remedy of an error of a word: they stand in it in this order, with a colon.
pub(super) fn told(error: &impl Display) -> (String, String) {
    let told = error.to_string();
    let (reason, remedy) = told.rsplit_once(": ").unwrap_or((&told, "write another"));
    (reason.to_owned(), remedy.to_owned())
}

/// The place of what is called `name` below `place`.
pub(super) fn below(place: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name =
        if !name.is_empty() && name.chars().all(is_plain) { name.to_owned() } else { quoted(name) };
    if place.is_empty() { name } else { format!("{place}.{name}") }
}

/// What somebody meant who wrote `word`, or all that there is.
pub(super) fn meant(word: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<_> = known.collect();
    // Who shouts, and who writes SIGTERM for TERM, is near however many slips that is.
    let is_end = |other: &&&str| {
        let end = word.len().checked_sub(other.len()).and_then(|at| word.get(at..));
        other.len() > 2 && end.is_some_and(|end| end.eq_ignore_ascii_case(other))
    };
    let near = known.iter().find(is_end).copied();
    match near.or_else(|| nearest_word(word, known.iter().copied())) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("write one of: {}", known.join(", ")),
    }
}

/// How a field is written in the file that is being read.
fn example(field: &Field, found: &Found<'_>) -> String {
    let Field { name, example, .. } = field;
    let (node, _) = toml::read(&format!("{name} = {example}"));
    let json = node.to_json().ok().and_then(|mut json| json.get_mut(name).map(Json::take));
    match (found.format(), json) {
        (Format::Json, Some(json)) => found.line(name, &json),
        (Format::Json, None) | (Format::Toml, Some(_) | None) => format!("{name} = {example}"),
    }
}
