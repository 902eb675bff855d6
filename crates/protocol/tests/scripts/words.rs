//! The words of scripts: `w1.2` is the second life of machine 1, `r3` a run, `k4` and `n4` keys.

use std::sync::Arc;

use sterna_model::{
    BootTime, ClusterId, Contract, DirectoryId, Epoch, Incarnation, Lock, MachineId, Name,
    Namespace, NodeName, Nonce, RunId, Span, Term, WallTime, Work, WorkKey,
};
use sterna_protocol::message::{Mandate, Payload};

pub(crate) fn at(ms: u64) -> BootTime {
    BootTime::from_millis(ms)
}

pub(crate) fn seconds(word: &str) -> Span {
    let (whole, part) = word.split_once('.').unwrap_or((word, ""));
    let millis: u64 = format!("{part:0<3}").parse().unwrap_or_else(|_| panic!("time: {word}"));
    Span::from_millis(
        whole.parse::<u64>().unwrap_or_else(|_| panic!("time: {word}")) * 1_000 + millis,
    )
}

pub(crate) fn number(word: &str, prefix: &str) -> u8 {
    let digits = word.strip_prefix(prefix).unwrap_or_else(|| panic!("{prefix}N, not {word}"));
    digits.parse().unwrap_or_else(|_| panic!("{prefix}N, not {word}"))
}

pub(crate) fn lock(word: &str) -> Lock {
    let number = number(word.split('.').next().unwrap(), "w");
    let machine = MachineId::from_bytes([number; 16]).unwrap();
    Lock { directory: DirectoryId::from_parts(WallTime::EPOCH, [number; 10]), machine }
}

pub(crate) fn life(word: &str) -> Incarnation {
    let (_, life) = word.split_once('.').unwrap_or_else(|| panic!("wN.LIFE, not {word}"));
    Incarnation { lock: lock(word), life: life.parse().unwrap() }
}

pub(crate) fn show_lock(lock: Lock) -> String {
    format!("w{}", lock.machine.as_bytes()[0])
}

pub(crate) fn show_life(life: Incarnation) -> String {
    format!("{}.{}", show_lock(life.lock), life.life)
}

pub(crate) fn run(word: &str) -> RunId {
    RunId::from_parts(WallTime::EPOCH, [number(word, "r"); 10])
}

pub(crate) fn show_run(run: RunId) -> String {
    format!("r{}", run.as_bytes()[15])
}

/// `k1` is a task, `n1` a node of a batch, `i1` the first instance of a service of that name.
pub(crate) fn key(word: &str) -> WorkKey {
    let work = if word.starts_with('i') {
        Work::Instance { service: Name::new(word).unwrap(), index: 0 }
    } else if word.starts_with('n') {
        Work::Node { batch: Name::new("b").unwrap(), node: NodeName::new(word).unwrap() }
    } else {
        Work::Task(Name::new(word).unwrap())
    };
    work.within(&Namespace::default())
}

pub(crate) fn show_key(key: &WorkKey) -> String {
    match &key {
        WorkKey::Task(key) => key.name.as_str().to_owned(),
        WorkKey::Instance(key) => key.service.name.as_str().to_owned(),
        WorkKey::Node(key) => key.node.as_str().to_owned(),
    }
}

/// `stop:120`, `replace:15` or `keep`.
pub(crate) fn contract(word: &str) -> Contract {
    match word.split_once(':') {
        Some(("stop", after)) => Contract::Stop { after: seconds(after) },
        Some(("replace", after)) => Contract::Replace { after: seconds(after) },
        _ if word == "keep" => Contract::Keep,
        _ => panic!("stop:SECONDS, replace:SECONDS or keep, not {word}"),
    }
}

/// `t3`, `t3/1` with another nonce than 0, `e2.t3` in another epoch than 1, or `c2:t3` of another cluster
/// than the first.
pub(crate) fn mandate(word: &str) -> Mandate {
    let (cluster, word) = word.split_once(':').unwrap_or(("c1", word));
    let (epoch, word) = word.split_once('.').unwrap_or(("e1", word));
    let (term, nonce) = word.split_once('/').unwrap_or((word, "0"));
    Mandate {
        cluster: ClusterId::from_parts(WallTime::EPOCH, [number(cluster, "c"); 10]),
        epoch: Epoch::new(number(epoch, "e").into()),
        term: Term::new(number(term, "t").into()),
        nonce: Nonce::new(nonce.parse().unwrap()),
    }
}

/// Without the cluster, which has no number.
pub(crate) fn show_mandate(mandate: &Mandate) -> String {
    let epoch = match mandate.epoch.get() {
        1 => String::new(),
        epoch => format!("e{epoch}."),
    };
    let nonce = match mandate.nonce.get() {
        0 => String::new(),
        nonce => format!("/{nonce}"),
    };
    format!("{epoch}t{}{nonce}", mandate.term.get())
}

pub(crate) fn nothing() -> Payload {
    Arc::from([])
}

/// What stands after `word` in a line.
pub(crate) fn option<'a>(words: &[&'a str], word: &str) -> Option<&'a str> {
    let at = words.iter().position(|found| *found == word)?;
    Some(words.get(at + 1).unwrap_or_else(|| panic!("{word} of what? {words:?}")))
}

pub(crate) fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(" ")
}
