//! What work takes of a worker, and which worker may have it.

use std::collections::BTreeSet;

use sterna_model::{
    Bytes, Constraints, Countables, Demand, FEATURE_TAGS, IMAGES_TAG, Millicores, Name, Wants,
    Zones, quoted,
};

use super::{
    fields::{Fields, told},
    problem::Found,
    schema::Kind,
};

/// Less than this the kernel does not count out.
const CPU_MIN: Millicores = Millicores::new(10);
/// Less than this holds no program.
const MEMORY_MIN: Bytes = Bytes::new(1 << 20);
const DISK_MIN: Bytes = Bytes::new(4 << 10);
/// So many names in one list at most, and so many things that are used: a record must hold them.
const NAMES_MAX: usize = 256;

/// What is asked for: for the auction, and for the worker, which lets it have no more.
pub(super) struct Asked {
    pub(super) wants: Wants,
    pub(super) cpu: Option<Millicores>,
    pub(super) memory: Option<Bytes>,
    pub(super) disk: Option<Bytes>,
}

pub(super) fn read(fields: &Fields<'_>, kind: Kind, found: &mut Found<'_>) -> Asked {
    let cpu = amount(fields, "cpu", CPU_MIN, found);
    let memory = amount(fields, "memory", MEMORY_MIN, found);
    let disk = amount(fields, "disk", DISK_MIN, found);
    let mut uses = Countables::default();
    let pairs = fields.get("uses").map(|said| said.pairs(found)).unwrap_or_default();
    if let Some((_, said)) = pairs.get(NAMES_MAX) {
        let reason = format!("{} things are used", pairs.len());
        said.refuse(reason, format!("name at most {NAMES_MAX}"), found);
    }
    for (entry, said) in pairs {
        let count = said.whole(&(1..=1_000_000), found);
        match (Name::new(&entry.key), count) {
            (Ok(name), Some(count)) => uses.set(name, count),
            (Ok(_), None) => {}
            (Err(error), Some(_) | None) => {
                let (reason, remedy) = told(&error);
                found.add(&entry.spot, &said.place, reason, remedy);
            }
        }
    }
    let words = Zones::ALL.map(|zones| (zones.as_str(), zones));
    let zones = match kind {
        Kind::Service => fields.get("zones").and_then(|said| said.choice(&words, found)),
        // Where one thing runs, nothing is spread.
        Kind::Task => None,
    };
    let constraints = Constraints {
        stack: fields.get("stack").and_then(|said| said.word(found)),
        tags: tags(fields, found),
        apart_from: names(fields, "apart_from", found),
        zones: zones.unwrap_or_default(),
    };
    let demand = Demand::new(
        cpu.unwrap_or_default(),
        memory.unwrap_or_default(),
        disk.unwrap_or_default(),
        uses,
    );
    Asked { wants: Wants { demand, constraints }, cpu, memory, disk }
}

/// The tags that its worker must have: those that are said, and that it runs images.
fn tags(fields: &Fields<'_>, found: &mut Found<'_>) -> BTreeSet<Name> {
    let mut tags = names(fields, "tags", found);
    if let Some(said) = fields.get("tags")
        && let Some(own) = tags.iter().find(|tag| tag.as_str().starts_with(FEATURE_TAGS))
    {
        let reason = format!("{} is what workers say of themselves", quoted(own.as_str()));
        said.refuse(reason, "leave it out: work asks by itself for what it needs", found);
    }
    let images = fields.get("image").and_then(|_| Name::new(IMAGES_TAG).ok());
    tags.extend(images);
    tags
}

fn amount<T>(fields: &Fields<'_>, name: &str, least: T, found: &mut Found<'_>) -> Option<T>
where
    T: std::str::FromStr<Err: std::fmt::Display> + std::fmt::Display + PartialOrd,
{
    let said = fields.get(name)?;
    let amount: T = said.amount(found)?;
    if amount < least {
        let remedy = format!("write {least} or more, or leave it out");
        said.refuse(format!("{amount} is too little"), remedy, found);
        return None;
    }
    Some(amount)
}

/// A list of names, none of them twice.
pub(super) fn names(fields: &Fields<'_>, name: &str, found: &mut Found<'_>) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    let items = fields.get(name).map(|said| said.items(found)).unwrap_or_default();
    if let Some(said) = items.get(NAMES_MAX) {
        let reason = format!("{} names stand here", items.len());
        said.refuse(reason, format!("name at most {NAMES_MAX}"), found);
    }
    for said in items {
        let Some(name) = said.word::<Name>(found) else { continue };
        if names.contains(&name) {
            let reason = format!("{} stands here twice", quoted(name.as_str()));
            said.refuse(reason, "leave one of them out", found);
        }
        names.insert(name);
    }
    names
}
