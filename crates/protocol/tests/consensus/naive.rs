//! The reference: every set written out, and the closure found by walking the graph.
//!
//! It takes quadratic memory and cubic time, and can be read in a minute. It can be given one
//! mistake.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{Nonce, Term};
use sterna_protocol::consensus::{SetHash, SetId, Version};

use super::{play::Side, worker};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Takes what a worker itself has echoed for all that it requires.
    ForgetsIndirect,
    /// Follows nobody who has left.
    ForgetsTheDeparted,
    /// Takes one step through the others, not all.
    StopsAfterOneStep,
    /// Takes the newest set for required by all as soon as anybody has echoed it.
    RaisesEverybody,
    /// Lets a worker go as soon as it knows the newest set itself.
    AsksNobodyElse,
    /// Leaves those out of the question who have not echoed anything.
    SkipsTheUnheard,
    /// Leaves those out of the question who have not been heard since the last judgement.
    SkipsTheSilent,
}

#[derive(Default)]
struct Row {
    first: usize,
    has_left: bool,
    last: Option<usize>,
    is_silent: bool,
    is_granted: bool,
    indirect: Option<usize>,
}

pub(crate) struct Naive {
    mistake: Option<Mistake>,
    start: Version,
    /// Who was in each version, from the empty one on.
    sets: Vec<BTreeSet<usize>>,
    rows: Vec<Row>,
}

impl Naive {
    pub(crate) fn new(start: Version, mistake: Option<Mistake>) -> Self {
        Self { mistake, start, sets: vec![BTreeSet::new()], rows: Vec::new() }
    }

    fn newest(&self) -> usize {
        self.sets.len() - 1
    }

    fn version(&self, index: usize) -> Version {
        Version::new(self.start.get().wrapping_add(index as u64))
    }

    fn present(&self) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(|who| !self.rows[*who].has_left)
    }

    /// Whom a worker requires, itself included, by following every echo.
    fn required(&self, who: usize) -> BTreeSet<usize> {
        let mut steps = BTreeMap::from([(who, 0)]);
        let mut open = vec![who];
        while let Some(at) = open.pop() {
            let depth = steps[&at] + 1;
            let is_dead_end = match self.mistake {
                Some(Mistake::ForgetsIndirect) => depth > 1,
                Some(Mistake::StopsAfterOneStep) => depth > 2,
                Some(Mistake::ForgetsTheDeparted) => self.rows[at].has_left,
                _ => false,
            };
            let Some(last) = self.rows[at].last.filter(|_| !is_dead_end) else { continue };
            for next in &self.sets[last] {
                if steps.get(next).is_none_or(|known| *known > depth) {
                    steps.insert(*next, depth);
                    open.push(*next);
                }
            }
        }
        steps.into_keys().collect()
    }

    fn reach(&self, who: usize) -> Option<usize> {
        let last = self.rows[who].last?;
        let reach = match self.mistake {
            Some(Mistake::RaisesEverybody) => self.rows.iter().filter_map(|row| row.last).max()?,
            Some(Mistake::ForgetsIndirect) => last,
            Some(Mistake::ForgetsTheDeparted) => {
                let here = self.required(who).into_iter().filter(|w| !self.rows[*w].has_left);
                here.filter_map(|who| self.rows[who].last).max()?
            }
            Some(Mistake::StopsAfterOneStep) => {
                self.sets[last].iter().filter_map(|who| self.rows[*who].last).max()?
            }
            Some(Mistake::AsksNobodyElse | Mistake::SkipsTheUnheard | Mistake::SkipsTheSilent)
            | None => {
                let required = self.required(who);
                required.into_iter().filter_map(|who| self.rows[who].last).max()?
            }
        };
        Some(reach)
    }

    fn permits_now(&self, who: usize) -> bool {
        let row = &self.rows[who];
        if row.has_left || row.last != Some(self.newest()) {
            return false;
        }
        self.present().all(|other| match self.mistake {
            Some(Mistake::AsksNobodyElse) => true,
            Some(Mistake::SkipsTheUnheard) if self.rows[other].last.is_none() => true,
            Some(Mistake::SkipsTheSilent) if self.rows[other].is_silent => true,
            Some(Mistake::RaisesEverybody) => self.reach(other).is_some_and(|r| r >= row.first),
            _ => self.rows[other].last.is_some() && self.required(other).contains(&who),
        })
    }
}

impl Side for Naive {
    fn join(&mut self) {
        let mut set = self.sets[self.newest()].clone();
        set.insert(self.rows.len());
        self.sets.push(set);
        self.rows.push(Row { first: self.newest(), ..Row::default() });
    }

    fn hear(&mut self, who: usize, echo: Option<SetId>) {
        let newest = self.newest();
        let start = self.start;
        let row = &mut self.rows[who];
        row.is_silent = false;
        let Some(id) = echo.filter(|_| !row.has_left) else { return };
        let index = usize::try_from(id.version.get().wrapping_sub(start.get())).unwrap();
        assert!(index <= newest, "it was never answered {id:?}");
        row.last = row.last.max(Some(index));
    }

    fn answer(&self, who: usize) -> Option<SetId> {
        let mut hash = SetHash::EMPTY;
        for who in &self.sets[self.newest()] {
            hash.add(&worker(*who as u64));
        }
        let version = self.version(self.newest());
        let id = SetId { term: Term::new(1), nonce: Nonce::new(31), version, hash };
        (!self.rows[who].has_left).then_some(id)
    }

    fn leave(&mut self, who: usize) {
        if !self.rows[who].has_left {
            self.rows[who].has_left = true;
            let mut set = self.sets[self.newest()].clone();
            set.remove(&who);
            self.sets.push(set);
        }
    }

    fn judge(&mut self) {
        for who in 0..self.rows.len() {
            self.rows[who].indirect = self.reach(who);
        }
        let granted: Vec<usize> = self.present().filter(|who| self.permits_now(*who)).collect();
        for who in granted {
            self.rows[who].is_granted = true;
        }
        for row in &mut self.rows {
            row.is_silent = true;
        }
    }

    fn permits(&self, who: usize) -> bool {
        !self.rows[who].has_left && self.rows[who].is_granted
    }

    fn indirect(&self, who: usize) -> Option<Version> {
        let row = &self.rows[who];
        row.indirect.filter(|_| !row.has_left).map(|index| self.version(index))
    }
}
