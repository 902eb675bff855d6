//! What the log says of `why`: that a rule keeps a key, once, and not again while it does. Pure.
//!
//! ```text
//!   something happened to a key ──▶ noted ──1 s──▶ a round: looked at ──▶ one line for each reason
//!                                     ▲                    │
//!                                     └────── later ◀──────┘ it may pass, or enough was said
//! ```
//!
//! What happens at once is one line with a count: a round begins a second after the first note. A rule
//! that mostly passes by itself is told when it has held for a while. Lines of one reason are ten seconds
//! apart at least, of one rule a round tells eight reasons at most, and of one key there are three lines in
//! a minute at most, however often it changes.
//!
//! Invariant: a key that is not where its spec wants it, for the same reason, is told once.
//!
//! It does not know where anything is, nor what is said of it: whoever asks it looks.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{BootTime, Contract, Name, Span, WorkKey, record::TwinReason};

use crate::{
    auction::Reason,
    control::{Rule, Why},
};

/// How long after the first note a round begins: what happens meanwhile is told together.
const GATHER: Span = Span::from_secs(1);
/// How long after its election a leader looks at everything: until then workers come back.
const FIRST: Span = Span::from_secs(5);
/// How many keys are looked at in one step, and how long everybody else has a turn then.
const SLICE: usize = 1_000;
const SLICE_EVERY: Span = Span::from_millis(10);
/// So many reasons of one rule are told in a round; the others later.
const REASONS_MAX: usize = 8;
/// How far lines of the same reason are apart at least.
const APART: Span = Span::from_secs(10);
/// So many lines in a minute may begin with the same key.
const LINES_MAX: u8 = 3;
const MINUTE: Span = Span::from_secs(60);
/// How long a worker may be silent before that is told: it may only have changed its stream.
const SILENT: Span = Span::from_secs(5);

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Of which key it is.
    pub key: WorkKey,
    /// How many others are kept for the same reason since the same moment.
    pub others: usize,
    /// What is told of the key: the value that everybody gets who asks.
    pub why: Why,
}

/// What is told together: a rule, and what makes two keys that it keeps wait for something else. Whoever
/// merely comes nearest is no part of it, for that changes all the time.
type Told = (&'static str, &'static str, Option<Name>);

/// What is known of a key that is not well, or was not a moment ago.
#[derive(Clone, Debug)]
struct Page {
    holds: Option<Told>,
    since: BootTime,
    said: Option<Told>,
    /// Since when its lines are counted.
    counted: BootTime,
    lines: u8,
    later: Option<BootTime>,
}

/// Those that are kept for one reason, as a round found them.
#[derive(Clone, Debug)]
struct Kept {
    first: WorkKey,
    others: usize,
}

/// What was told, and what is to be looked at.
#[derive(Clone, Debug)]
pub(crate) struct Diary {
    noted: BTreeSet<WorkKey>,
    /// What is looked at in the round that goes on.
    round: BTreeSet<WorkKey>,
    later: BTreeSet<(BootTime, WorkKey)>,
    pages: BTreeMap<WorkKey, Page>,
    /// When to go on with what is noted.
    at: BootTime,
    kept: BTreeMap<Told, Kept>,
    /// When each reason may be told again.
    gates: BTreeMap<Told, BootTime>,
}

impl Diary {
    /// Of a leader that has just been elected, and everything that may be told.
    pub(crate) fn new(now: BootTime, noted: BTreeSet<WorkKey>) -> Self {
        Self {
            noted,
            round: BTreeSet::new(),
            later: BTreeSet::new(),
            pages: BTreeMap::new(),
            at: now.plus(FIRST),
            kept: BTreeMap::new(),
            gates: BTreeMap::new(),
        }
    }

    /// Something happened to these.
    pub(crate) fn note(&mut self, now: BootTime, keys: BTreeSet<WorkKey>) {
        if keys.is_empty() {
            return;
        }
        if self.noted.is_empty() && self.round.is_empty() {
            self.at = self.at.max(now.plus(GATHER));
        }
        // One by one: to join two sets costs a walk through both, at every step.
        self.noted.extend(keys);
    }

    /// When there is something to look at.
    pub(crate) fn deadline(&self) -> Option<BootTime> {
        let later = self.later.first().map(|(at, _)| *at);
        let is_idle = self.noted.is_empty() && self.round.is_empty();
        let noted = (!is_idle).then_some(self.at);
        later.into_iter().chain(noted).min()
    }

    /// What is to be looked at now; [`Diary::found`] is told of each, then [`Diary::lines`] asked.
    pub(crate) fn due(&mut self, now: BootTime) -> Vec<WorkKey> {
        while let Some((at, _)) = self.later.first()
            && *at <= now
            && let Some((_, key)) = self.later.pop_first()
        {
            if let Some(page) = self.pages.get_mut(&key) {
                page.later = None;
            }
            self.note(now, BTreeSet::from([key]));
        }
        if self.at > now {
            return Vec::new();
        }
        if self.round.is_empty() {
            self.round = std::mem::take(&mut self.noted);
        }
        let slice = std::iter::from_fn(|| self.round.pop_first()).take(SLICE).collect();
        self.at = now.plus(if self.round.is_empty() { GATHER } else { SLICE_EVERY });
        slice
    }

    /// What keeps a key; nothing if it is where it should be.
    pub(crate) fn found(&mut self, now: BootTime, key: WorkKey, rule: Option<&Rule>) {
        let told = rule.and_then(|rule| Some((told_as(rule), patience(rule)?)));
        let holds = told.as_ref().map(|(told, _)| told.clone());
        if holds.is_none() && !self.pages.contains_key(&key) {
            return;
        }
        let is_full = holds.as_ref().is_some_and(|told| self.is_full(told));
        let page = self.pages.entry(key.clone()).or_insert_with(|| Page {
            holds: holds.clone(),
            since: now,
            said: None,
            counted: now,
            lines: 0,
            later: None,
        });
        if page.holds != holds {
            (page.holds, page.since) = (holds.clone(), now);
        }
        if let Some(at) = page.later.take() {
            self.later.remove(&(at, key.clone()));
        }
        if page.counted.plus(MINUTE) <= now {
            (page.counted, page.lines) = (now, 0);
        }
        let is_enough = page.lines >= LINES_MAX;
        let at = match told {
            // It may be back in a moment: until then it stands as it was told.
            None if page.lines > 0 => page.counted.plus(MINUTE),
            None => {
                self.pages.remove(&key);
                return;
            }
            Some(_) if page.said == holds => return,
            Some((told, patience)) => {
                let gate = self.gates.get(&told).copied().unwrap_or(now);
                let gate = if is_full { gate.max(now.plus(APART)) } else { gate };
                let enough = if is_enough { page.counted.plus(MINUTE) } else { now };
                page.since.plus(patience).max(gate).max(enough)
            }
        };
        if at > now {
            page.later = Some(at);
            self.later.insert((at, key));
        } else if let Some(told) = holds {
            page.said = Some(told.clone());
            page.lines += 1;
            match self.kept.get_mut(&told) {
                Some(kept) => kept.others += 1,
                None => drop(self.kept.insert(told, Kept { first: key, others: 0 })),
            }
        }
    }

    /// Whether this round tells as many other reasons of the same rule as it may.
    fn is_full(&self, told: &Told) -> bool {
        let (rule, ..) = told;
        let of_rule = self.kept.range((*rule, "", None)..).take_while(|((one, ..), _)| one == rule);
        of_rule.count() >= REASONS_MAX && !self.kept.contains_key(told)
    }

    /// What is to be told, when a round is over: a key, and how many others are kept for the same reason.
    pub(crate) fn lines(&mut self, now: BootTime) -> Vec<(WorkKey, usize)> {
        if !self.round.is_empty() {
            return Vec::new();
        }
        let kept = std::mem::take(&mut self.kept);
        self.gates.retain(|_, gate| *gate > now);
        self.gates.extend(kept.keys().map(|told| (told.clone(), now.plus(APART))));
        kept.into_values().map(|Kept { first, others }| (first, others)).collect()
    }
}

/// What a rule is told as.
fn told_as(rule: &Rule) -> Told {
    let (kind, whose) = match rule {
        Rule::Unplaced(unplaced) => match &*unplaced.reason {
            Reason::NoWorker => ("no-worker", None),
            Reason::NoStack { stack, .. } => ("no-stack", Some(stack)),
            Reason::NoTags { missing, unasked, .. } => ("no-tags", missing.union(unasked).next()),
            Reason::NoZone { zone } => ("no-zone", zone.as_ref()),
            Reason::TooLarge { .. } => ("too-large", None),
            Reason::Withheld { .. } => ("withheld", None),
            Reason::Short { .. } => ("short", None),
            Reason::Apart { from, .. } => ("apart", Some(from)),
            Reason::StartLimit { .. } => ("start-limit", None),
        },
        Rule::OutOfReach { worker, contract, is_task } => {
            let kind = match (contract, is_task) {
                (Contract::Replace { .. } | Contract::Stop { .. } | Contract::Keep, true) => "task",
                (Contract::Replace { .. }, false) => "replace",
                (Contract::Stop { .. }, false) => "stop",
                (Contract::Keep, false) => "keep",
            };
            (kind, worker.as_ref().map(|it| &it.name))
        }
        Rule::Sick { worker, .. }
        | Rule::SlotTaken { worker, twin: TwinReason::Silent }
        | Rule::HasTwin { worker, twin: TwinReason::Silent } => {
            ("", worker.as_ref().map(|it| &it.name))
        }
        Rule::Unwanted { stale } => ("", stale.as_ref()),
        Rule::Waiting
        | Rule::MayBeKept { .. }
        | Rule::Returning { .. }
        | Rule::Draining { .. }
        | Rule::TurnedDown
        | Rule::Starting { .. }
        | Rule::Stopping { .. }
        | Rule::Crashed(_)
        | Rule::GivenUp(_)
        | Rule::SlotTaken { twin: TwinReason::Evacuating | TwinReason::Surplus, .. }
        | Rule::Outdated { .. }
        | Rule::Settling(_)
        | Rule::Unready(_)
        | Rule::HasTwin { twin: TwinReason::Evacuating | TwinReason::Surplus, .. }
        | Rule::Telling { .. }
        | Rule::Untold { .. }
        | Rule::Ending { .. }
        | Rule::Over { .. } => ("", None),
    };
    (rule.name(), kind, whose.cloned())
}

/// How long a rule must keep a key before that is told; `None` for never: that something is over is no
/// reason why it is not where it should be.
const fn patience(rule: &Rule) -> Option<Span> {
    match rule {
        Rule::Waiting
        | Rule::MayBeKept { .. }
        | Rule::Unplaced(_)
        | Rule::Crashed(_)
        | Rule::GivenUp(_)
        | Rule::Unwanted { .. }
        | Rule::Sick { .. } => Some(Span::ZERO),
        Rule::OutOfReach { .. }
        | Rule::SlotTaken { twin: TwinReason::Silent, .. }
        | Rule::HasTwin { twin: TwinReason::Silent, .. } => Some(SILENT),
        Rule::Returning { .. }
        | Rule::TurnedDown
        | Rule::Starting { .. }
        | Rule::Stopping { .. }
        | Rule::Outdated { .. }
        | Rule::Settling(_)
        | Rule::Unready(_)
        | Rule::SlotTaken { twin: TwinReason::Evacuating | TwinReason::Surplus, .. }
        | Rule::HasTwin { twin: TwinReason::Evacuating | TwinReason::Surplus, .. } => Some(MINUTE),
        Rule::Telling { tries: 0, .. } => Some(MINUTE),
        Rule::Telling { .. } => Some(Span::ZERO),
        // That a machine is drained is no news of each of its tasks.
        Rule::Draining { .. } | Rule::Untold { .. } | Rule::Ending { .. } | Rule::Over { .. } => {
            None
        }
    }
}

#[cfg(test)]
mod tests;
