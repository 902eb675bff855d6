//! The order of work: who has its turn before whom.

use std::cmp::Reverse;

use sterna_model::{InstanceKey, WorkKey};

/// When it is an ask's turn: the smaller, the sooner. Of equals, the one that was asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    class: u64,
    memory: Reverse<u64>,
    /// When it was asked for, among those with which it is compared.
    pub(super) asked: u64,
}

impl Turn {
    pub(super) const fn new(key: &WorkKey, memory: u64, asked: u64) -> Self {
        // First indices come first, then what has no index, then the other indices.
        let class = match key.instance() {
            Some(InstanceKey { index: 0, .. }) => 0,
            None => 1,
            Some(InstanceKey { index, .. }) => 1 + *index as u64,
        };
        Self { class, memory: Reverse(memory), asked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_indices_then_tasks_then_the_others_and_the_larger_first() {
        let turn = |key: &str, memory| Turn::new(&key.parse().unwrap(), memory, 0);
        let order = [
            turn("default/service/a/0", 9),
            turn("default/service/b/0", 2),
            turn("default/task/t", 90),
            turn("default/batch/b/n", 8),
            turn("default/service/a/1", 9),
            turn("default/service/b/1", 2),
            turn("default/service/a/2", 9),
        ];
        assert!(order.is_sorted());
        let (early, late) = (Turn { asked: 1, ..order[0] }, Turn { asked: 2, ..order[0] });
        assert!(early < late);
    }
}
