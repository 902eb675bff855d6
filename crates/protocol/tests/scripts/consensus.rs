//! The parts of the consensus, played: who requires whom, the hash of a set, the order of versions.
//! Lines are numbered in place of a time.

use std::{cmp::Ordering, collections::BTreeMap};

use sterna_model::{Nonce, Term};
use sterna_protocol::consensus::{Consensus, Seat, SetHash, SetId, Version};

use crate::{Player, words::*};

pub(crate) struct Played {
    leader: Consensus,
    workers: Vec<(String, Seat)>,
    /// Every set that there was, by its version.
    sets: BTreeMap<u64, SetId>,
    hash: SetHash,
}

impl Played {
    pub(crate) fn new() -> Self {
        let leader = Consensus::new(Term::new(1), Nonce::new(1));
        Self { leader, workers: Vec::new(), sets: BTreeMap::new(), hash: SetHash::EMPTY }
    }

    fn seat(&self, name: &str) -> Seat {
        let found = self.workers.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("{name} is not here")).1
    }

    /// What everybody is known to require, and who may become healthy.
    fn standing(&mut self) -> Vec<String> {
        let newest = *self.leader.newest();
        self.sets.insert(newest.version.get(), newest);
        let indirect = self.workers.iter().map(|(name, seat)| {
            let version = self.leader.indirect(*seat);
            version.map_or(format!("{name}:-"), |version| format!("{name}:{}", version.get()))
        });
        let is_granted = |seat: &Seat| self.leader.permits_becoming_healthy(*seat).is_granted();
        let may = self.workers.iter().filter(|(_, seat)| is_granted(seat));
        let may = list(may.map(|(name, _)| name.clone()));
        let oldest = self.leader.oldest().map_or("none".to_owned(), |v| v.get().to_string());
        let gone = match self.leader.departed() {
            0 => String::new(),
            pieces => format!(" and {pieces} of the gone"),
        };
        vec![
            list(indirect),
            if may.is_empty() { "none may".to_owned() } else { format!("{may} may") },
            format!("from {oldest}{gone}"),
        ]
    }

    fn hash(&mut self, words: &[&str]) -> String {
        match words[0] {
            "full" => self.hash = SetHash::from_parts([u64::MAX; 2], 5),
            "add" => self.hash.add(&life(words[1])),
            "remove" => self.hash.remove(&life(words[1])),
            other => panic!("full, add or remove, not {other}"),
        }
        let [one, other] = self.hash.lanes();
        format!("{one:016x} {other:016x} of {}", self.hash.count())
    }
}

impl Player for Played {
    fn play(&mut self, _: u64, words: &[&str]) -> Vec<String> {
        match words[0] {
            "hash" => return vec![self.hash(&words[1..])],
            "versions" => {
                let version = |word: &str| Version::new(word.parse().unwrap());
                let order = version(words[1]).compare(version(words[2]));
                return vec![show_order(order).to_owned()];
            }
            "add" => {
                let seat = self.leader.join(&life(words[1]), None);
                self.workers.push((words[1].to_owned(), seat));
                let newest = *self.leader.newest();
                self.leader.hear(seat, Some(&newest));
            }
            "echo" => {
                let seat = self.seat(words[1]);
                let version = words.get(2).map(|word| number(word, "v").into());
                let version = version.unwrap_or(self.leader.newest().version.get());
                self.leader.hear(seat, Some(&self.sets[&version]));
            }
            "lose" => {
                self.leader.leave(self.seat(words[1]));
                self.workers.retain(|(name, _)| name != words[1]);
            }
            "judge" => self.leader.judge(),
            other => panic!("no input is called {other}"),
        }
        self.standing()
    }
}

const fn show_order(order: Option<Ordering>) -> &'static str {
    match order {
        Some(Ordering::Less) => "earlier",
        Some(Ordering::Equal) => "the same",
        Some(Ordering::Greater) => "later",
        None => "neither",
    }
}
