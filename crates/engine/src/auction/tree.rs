//! A tree over numbered things in which the best one is found without looking at all of them.
//!
//! ```text
//!             [ 0.. | 4096.. ]                 a summary of everything below stands beside each way down
//!        [ 0.. | 256.. | 512.. ]
//!   [ 0 | 3 | 17 ]   [ 256 | 300 ]             at the bottom: the things themselves
//! ```
//!
//! Sixteen ways down at each step, chosen by four bits of the number; so the order of the things is
//! that of their numbers, whatever the order in which they came and went.
//!
//! Invariant: a summary promises at least as much as each thing below it.

/// What is known of a thing, or of all things below a place in the tree.
pub(super) trait Summary: Clone + PartialEq {
    /// Makes this promise also what `other` does.
    fn join(&mut self, other: &Self);
}

#[derive(Clone, Debug)]
struct Entry<S> {
    /// The four bits that lead here.
    digit: u8,
    /// The next place; at the bottom, nothing.
    below: u32,
    summary: S,
}

/// See the door of this file.
#[derive(Clone, Debug)]
pub(super) struct Tree<S> {
    /// Each has its entries in the order of their digits. The first is the root.
    places: Vec<Vec<Entry<S>>>,
    /// Places without entries, to be used again.
    unused: Vec<u32>,
    /// How many digits a number has.
    height: u32,
    len: usize,
}

/// Who is told of a change, from the bottom up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Everybody.
    All,
    /// Everybody up to the first to whom it makes no difference.
    WhileItMatters,
}

const BITS: u32 = 4;
const WAYS: usize = 1 << BITS;
const HEIGHT_MAX: usize = 8;

impl<S> Default for Tree<S> {
    fn default() -> Self {
        Self { places: vec![Vec::new()], unused: Vec::new(), height: 1, len: 0 }
    }
}

impl<S: Summary> Tree<S> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, number: u32) -> Option<&S> {
        if self.is_beyond(number) {
            return None;
        }
        let mut place = 0;
        for step in 0..self.height {
            let entries = &self.places[place];
            let found = &entries[find(entries, self.digit(number, step)).ok()?];
            if step + 1 == self.height {
                return Some(&found.summary);
            }
            place = index(found.below);
        }
        None
    }

    /// Puts a thing in, or in the place of what had its number.
    pub(super) fn put(&mut self, number: u32, summary: S) {
        while self.is_beyond(number) {
            self.grow();
        }
        let mut way = [0; HEIGHT_MAX];
        let mut place = 0;
        // What is new above has not been told of by anybody.
        let mut told = Told::WhileItMatters;
        let bottom = self.height - 1;
        for step in 0..bottom {
            way[index(step)] = place;
            let digit = self.digit(number, step);
            place = match find(&self.places[place], digit) {
                Ok(at) => index(self.places[place][at].below),
                Err(at) => {
                    let below = self.new_place();
                    let entry = Entry { digit, below, summary: summary.clone() };
                    self.places[place].insert(at, entry);
                    told = Told::All;
                    index(below)
                }
            };
        }
        way[index(bottom)] = place;
        let digit = self.digit(number, bottom);
        match find(&self.places[place], digit) {
            Ok(at) => self.places[place][at].summary = summary,
            Err(at) => {
                self.places[place].insert(at, Entry { digit, below: 0, summary });
                self.len += 1;
            }
        }
        self.tell(number, (&way, bottom), told);
    }

    /// Takes a thing out; says whether it was there.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        if self.get(number).is_none() {
            return false;
        }
        let mut way = [0; HEIGHT_MAX];
        let mut place = 0;
        for step in 0..self.height {
            way[index(step)] = place;
            let Ok(at) = find(&self.places[place], self.digit(number, step)) else { return false };
            place = index(self.places[place][at].below);
        }
        self.len -= 1;
        // Upward: an entry goes when nothing is left below it.
        for step in (0..self.height).rev() {
            let place = way[index(step)];
            let Ok(at) = find(&self.places[place], self.digit(number, step)) else { return false };
            self.places[place].remove(at);
            if !self.places[place].is_empty() {
                self.tell(number, (&way, step), Told::WhileItMatters);
                break;
            }
            if place != 0 {
                self.unused.push(numbered(place));
            }
        }
        true
    }

    /// The thing with the smallest key, and of several such the one with the smallest number.
    ///
    /// `bound` says of a summary which key a thing below it has at least, or that none of them
    /// comes into question. `judge` says the key of a thing, never below its bound. Only what is
    /// better than `best` is looked for, and put there.
    pub(super) fn best<K: Ord + Copy>(
        &self,
        bound: &impl Fn(&S) -> Option<K>,
        judge: &mut impl FnMut(u32, &S) -> Option<K>,
        best: &mut Option<(K, u32)>,
    ) {
        self.descend((0, 0, 0), bound, judge, best);
    }

    fn descend<K: Ord + Copy>(
        &self,
        (place, step, first): (usize, u32, u32),
        bound: &impl Fn(&S) -> Option<K>,
        judge: &mut impl FnMut(u32, &S) -> Option<K>,
        best: &mut Option<(K, u32)>,
    ) {
        let entries = &self.places[place];
        let shift = BITS * (self.height - 1 - step);
        let mut bounds = [None; WAYS];
        for (at, entry) in entries.iter().enumerate() {
            bounds[at] = bound(&entry.summary);
        }
        loop {
            // The most promising way first: usually it is the only one that is gone.
            let mut next: Option<(K, usize)> = None;
            for (at, bound) in bounds[..entries.len()].iter().enumerate() {
                if let Some(bound) = bound
                    && next.is_none_or(|(least, _)| *bound < least)
                {
                    next = Some((*bound, at));
                }
            }
            let Some((least, at)) = next else { return };
            bounds[at] = None;
            let number = first | u32::from(entries[at].digit) << shift;
            if best.is_some_and(|found| found <= (least, number)) {
                return;
            }
            if step + 1 < self.height {
                self.descend((index(entries[at].below), step + 1, number), bound, judge, best);
            } else if let Some(key) = judge(number, &entries[at].summary)
                && best.is_none_or(|found| (key, number) < found)
            {
                *best = Some((key, number));
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let entries: usize = self.places.iter().map(Vec::capacity).sum();
        entries * size_of::<Entry<S>>() + self.places.capacity() * size_of::<Vec<Entry<S>>>()
    }

    /// All numbers, in their order.
    pub(super) fn numbers(&self) -> Vec<u32> {
        let mut level = vec![(0_usize, 0_u32)];
        for step in 0..self.height {
            let shift = BITS * (self.height - 1 - step);
            let mut next = Vec::new();
            for (place, first) in level {
                next.extend(
                    self.places[place]
                        .iter()
                        .map(|entry| (index(entry.below), first | u32::from(entry.digit) << shift)),
                );
            }
            level = next;
        }
        level.into_iter().map(|(_, number)| number).collect()
    }

    /// Tells upward what has changed in the place at `step` of the way.
    fn tell(&mut self, number: u32, (way, step): (&[usize; HEIGHT_MAX], u32), told: Told) {
        for step in (1..=step).rev() {
            let Some(summary) = self.summary_of(way[index(step)]) else { return };
            let above = way[index(step - 1)];
            let Ok(at) = find(&self.places[above], self.digit(number, step - 1)) else { return };
            if told == Told::WhileItMatters && self.places[above][at].summary == summary {
                return;
            }
            self.places[above][at].summary = summary;
        }
    }

    fn summary_of(&self, place: usize) -> Option<S> {
        let (first, others) = self.places[place].split_first()?;
        let mut summary = first.summary.clone();
        for entry in others {
            summary.join(&entry.summary);
        }
        Some(summary)
    }

    /// One digit more: what is there moves below the digit zero.
    fn grow(&mut self) {
        self.height += 1;
        let Some(summary) = self.summary_of(0) else { return };
        let below = self.new_place();
        self.places.swap(0, index(below));
        self.places[0] = vec![Entry { digit: 0, below, summary }];
    }

    fn new_place(&mut self) -> u32 {
        self.unused.pop().unwrap_or_else(|| {
            self.places.push(Vec::new());
            numbered(self.places.len() - 1)
        })
    }

    const fn is_beyond(&self, number: u32) -> bool {
        let bits = self.height * BITS;
        bits < u32::BITS && number >> bits != 0
    }

    fn digit(&self, number: u32, step: u32) -> u8 {
        let shift = BITS * (self.height - 1 - step);
        (number >> shift).to_le_bytes()[0] & 0xf
    }
}

fn find<S>(entries: &[Entry<S>], digit: u8) -> Result<usize, usize> {
    // A full place is the usual one.
    if entries.len() == WAYS {
        return Ok(usize::from(digit));
    }
    entries.binary_search_by_key(&digit, |entry| entry.digit)
}

const fn index(number: u32) -> usize {
    number as usize
}

/// There are fewer places than numbers that a thing can have.
fn numbered(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A cost, and how much room there is.
    #[derive(Clone, Debug, PartialEq)]
    struct Thing(u64, u64);

    impl Summary for Thing {
        fn join(&mut self, other: &Self) {
            self.0 = self.0.min(other.0);
            self.1 = self.1.max(other.1);
        }
    }

    fn numbers() -> impl Strategy<Value = u32> {
        prop_oneof![0..40_u32, 0..5_000_u32, Just(70_000), Just(u32::MAX)]
    }

    proptest! {
        #[test]
        fn the_best_is_what_a_walk_over_all_would_find(
            steps in proptest::collection::vec((numbers(), proptest::option::of((0..20_u64, 0..20_u64))), 0..200),
            room in 0..22_u64,
        ) {
            let (mut tree, mut plain) = (Tree::default(), BTreeMap::new());
            for (number, thing) in steps {
                match thing {
                    Some((cost, room)) => {
                        tree.put(number, Thing(cost, room));
                        plain.insert(number, Thing(cost, room));
                    }
                    None => {
                        prop_assert_eq!(tree.remove(number), plain.remove(&number).is_some());
                    }
                }
                let walked = plain
                    .iter()
                    .filter(|(_, thing)| thing.1 >= room)
                    .map(|(number, thing)| (thing.0, *number))
                    .min();
                let mut best = None;
                let bound = |thing: &Thing| (thing.1 >= room).then_some(thing.0);
                tree.best(&bound, &mut |number, _| bound(&plain[&number]), &mut best);
                prop_assert_eq!(best, walked);
                prop_assert_eq!(tree.len(), plain.len());
                prop_assert_eq!(tree.numbers(), plain.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(tree.get(number), plain.get(&number));
            }
        }
    }

    #[test]
    fn few_things_are_judged_among_many() {
        let mut tree = Tree::default();
        for number in 0..10_000 {
            tree.put(number, Thing(u64::from(number * 7919 % 10_007), u64::from(number % 3)));
        }
        let mut judged = 0;
        let mut best = None;
        let bound = |thing: &Thing| (thing.1 >= 2).then_some(thing.0);
        let mut judge = |_, thing: &Thing| {
            judged += 1;
            bound(thing)
        };
        tree.best(&bound, &mut judge, &mut best);
        assert!(best.is_some());
        assert!(judged < 50, "{judged} of 10,000 were judged");
    }

    #[test]
    fn what_has_gone_leaves_no_room_behind() {
        let mut tree = Tree::default();
        for round in 0..50_u32 {
            for number in 0..100 {
                tree.put(round * 100 + number, Thing(1, 1));
            }
            for number in 0..100 {
                assert!(tree.remove(round * 100 + number));
            }
        }
        assert_eq!(tree.len(), 0);
        assert!(tree.places.len() < 40, "{} places are kept", tree.places.len());
    }
}
