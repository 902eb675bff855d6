//! A file as a whole: its version, and what it names.

use std::collections::BTreeMap;

use sterna_model::Name;

use super::{
    Format, LAST, LAST_MEANS, STARTED_NAME_MAX, Source, Specs,
    fields::{Fields, Said, below, told},
    json,
    problem::Found,
    schema::{FILE, Kind, NOT_YET},
    service, task, toml,
    tree::{Entry, Node, Spot, Unreadable, Value},
};

/// A longer file was not written by a person, and its problems are not read by one.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Where each name was first said: a file, and a place in it.
type Names = BTreeMap<(Kind, Name), (usize, Spot)>;

pub(super) fn read(sources: &[Source<'_>], found: &mut Found<'_>) -> Specs {
    let (mut specs, mut names) = (Specs::default(), Names::new());
    for (file, source) in sources.iter().enumerate() {
        found.file = file;
        if let Some(node) = parse(source, found) {
            read_file(&node, &mut specs, &mut names, found);
        }
    }
    specs
}

/// The tree of a file; nothing if it cannot be read.
fn parse(source: &Source<'_>, found: &mut Found<'_>) -> Option<Node> {
    if source.text.len() > FILE_BYTES_MAX {
        let reason = format!("the file has more than {FILE_BYTES_MAX} bytes");
        found.add(&(0..0), "", reason, "split it into several files".to_owned());
        return None;
    }
    let (node, errors) = match source.format() {
        Format::Json => match json::read(source.text) {
            Ok(node) => (Some(node), Vec::new()),
            Err(error) => (None, vec![error]),
        },
        Format::Toml => {
            let (node, errors) = toml::read(source.text);
            (Some(node), errors)
        }
    };
    for Unreadable { spot, reason, remedy } in &errors {
        found.add(spot, "", reason, *remedy);
    }
    // What stands behind a line that cannot be read may be read as a part of another table.
    node.filter(|_| errors.is_empty())
}

fn read_file(node: &Node, specs: &mut Specs, names: &mut Names, found: &mut Found<'_>) {
    let Value::Table(entries) = &node.value else {
        let reason = format!("a spec must be a table, and this is {}", node.value.kind());
        found.add(&node.spot, "", reason, r#"write {"version": 1, "service": {...}}"#);
        return;
    };
    let is_later = |entry: &&Entry| NOT_YET.contains(&entry.key.as_str());
    for later in entries.iter().filter(is_later) {
        let reason = "this version does not run it yet";
        found.add(&later.spot, &later.key, reason, "leave it out until a later version does");
    }
    let known: Vec<Entry> = entries.iter().filter(|entry| !is_later(entry)).cloned().collect();
    let file = Fields::open((String::new(), 0..0), &known, (&FILE, &[]), found);
    if let Some(said) = file.need("version", found) {
        read_version(&said, found);
    }
    for kind in Kind::ALL {
        let Some(said) = file.get(kind.word()) else { continue };
        for (name, fields) in named(&said, kind, names, found) {
            match kind {
                Kind::Service => {
                    let service = service::read(&fields, found);
                    specs.services.extend(name.zip(service));
                }
                Kind::Task => {
                    let task = task::read(&fields, found);
                    if let (Some(name), true) = (&name, task.start) {
                        check_room(name, &fields, found);
                    }
                    specs.tasks.extend(name.map(|name| (name, task)));
                }
            }
        }
    }
}

/// What is started is called by its version, too: that must fit behind the name.
fn check_room(name: &Name, fields: &Fields<'_>, found: &mut Found<'_>) {
    let bytes = name.as_str().len();
    if bytes > STARTED_NAME_MAX {
        let reason = format!(
            "the name has {bytes} bytes, and with 'start' it may have {STARTED_NAME_MAX}, as what \
             is started is called NAME.VERSION"
        );
        found.add(&fields.spot, &fields.place, reason, "shorten it, or leave out 'start'");
    }
}

fn read_version(said: &Said<'_>, found: &mut Found<'_>) {
    let Value::Number(number) = &said.node.value else {
        said.expect("the number 1", found);
        return;
    };
    if number != "1" {
        let reason = format!("version {number} of the language is not known here");
        let remedy =
            format!("write {}, or use a sterna that knows it", found.line("version", &1.into()));
        said.refuse(reason, remedy, found);
    }
}

/// The tables of one kind, each with its name if that is one.
fn named<'a>(
    said: &Said<'a>,
    kind: Kind,
    names: &mut Names,
    found: &mut Found<'_>,
) -> Vec<(Option<Name>, Fields<'a>)> {
    let Value::Table(entries) = &said.node.value else {
        let reason = format!("this must be tables by name, and is {}", said.node.value.kind());
        said.refuse(reason, format!("write {}", written(kind, found)), found);
        return Vec::new();
    };
    let mut tables = Vec::new();
    for Entry { key, spot, node } in entries {
        let place = below(kind.word(), key);
        let Value::Table(inner) = &node.value else {
            let what = kind.form().what;
            let reason = format!("{what} must be a table, and this is {}", node.value.kind());
            let remedy = format!("write {}, with what belongs to it", written(kind, found));
            found.add(spot, &place, reason, remedy);
            continue;
        };
        let name = read_name((kind, key, spot), &place, names, found);
        tables.push((
            name,
            Fields::open((place, spot.clone()), inner, (kind.form(), &kind.others()), found),
        ));
    }
    tables
}

/// How a thing of this kind begins in the file that is being read.
fn written(kind: Kind, found: &Found<'_>) -> String {
    match found.format() {
        Format::Toml => format!("[{}.NAME]", kind.word()),
        Format::Json => format!("\"{}\": {{\"NAME\": {{...}}}}", kind.word()),
    }
}

fn read_name(
    (kind, key, spot): (Kind, &str, &Spot),
    place: &str,
    names: &mut Names,
    found: &mut Found<'_>,
) -> Option<Name> {
    let name = match Name::new(key) {
        Ok(name) => name,
        Err(error) => {
            let (reason, remedy) = told(&error);
            found.add(spot, place, reason, remedy);
            return None;
        }
    };
    if key == LAST {
        found.add(spot, place, LAST_MEANS, "give it another name");
    }
    let first = names.entry((kind, name.clone())).or_insert_with(|| (found.file, spot.clone()));
    let (file, first_spot) = (first.0, first.1.clone());
    if (file, &first_spot) != (found.file, spot) {
        let first = found.whereabouts(file, &first_spot);
        let reason = format!("this {} is there already, at {first}", kind.word());
        found.add(spot, place, reason, "leave one of them out, or give it another name");
    }
    Some(name)
}
