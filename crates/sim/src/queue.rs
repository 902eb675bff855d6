//! What will happen, in the order in which it will.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::clock::Moment;

/// Events by time; at one time, in the order in which they were put here.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    number: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Moment,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    const fn place(&self) -> (Moment, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl<E> Queue<E> {
    pub(crate) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), number: 0 }
    }

    pub(crate) fn push(&mut self, at: Moment, event: E) {
        self.number += 1;
        self.heap.push(Reverse(Entry { at, number: self.number, event }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Moment, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}
