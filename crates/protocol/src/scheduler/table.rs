//! A small map by run: sorted, in one piece, and no larger than what is in it.
//!
//! Most machines have a few runs. A node of a tree has room for eleven, which for a hundred thousand
//! machines is most of the memory that there is.

use sterna_model::RunId;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Table<V> {
    rows: Vec<(RunId, V)>,
}

impl<V> Table<V> {
    pub(super) const EMPTY: Self = Self { rows: Vec::new() };

    fn find(&self, run: RunId) -> Result<usize, usize> {
        self.rows.binary_search_by(|(other, _)| other.cmp(&run))
    }

    pub(super) fn get(&self, run: RunId) -> Option<&V> {
        self.find(run).ok().map(|at| &self.rows[at].1)
    }

    pub(super) fn get_mut(&mut self, run: RunId) -> Option<&mut V> {
        self.find(run).ok().map(|at| &mut self.rows[at].1)
    }

    pub(super) fn contains(&self, run: RunId) -> bool {
        self.find(run).is_ok()
    }

    /// Puts a value in, in place of any before.
    pub(super) fn insert(&mut self, run: RunId, value: V) {
        match self.find(run) {
            Ok(at) => self.rows[at].1 = value,
            Err(at) => {
                if self.rows.len() == self.rows.capacity() {
                    // By half, and not by four at least.
                    self.rows.reserve_exact(self.rows.len() / 2 + 1);
                }
                self.rows.insert(at, (run, value));
            }
        }
    }

    pub(super) fn remove(&mut self, run: RunId) -> Option<V> {
        let at = self.find(run).ok()?;
        let (_, value) = self.rows.remove(at);
        if self.rows.is_empty() {
            self.rows = Vec::new();
        }
        Some(value)
    }

    pub(super) fn clear(&mut self) {
        self.rows = Vec::new();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (RunId, &V)> {
        self.rows.iter().map(|(run, value)| (*run, value))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (RunId, &mut V)> {
        self.rows.iter_mut().map(|(run, value)| (*run, value))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<(RunId, V)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sterna_model::WallTime;

    fn run(number: u8) -> RunId {
        RunId::from_parts(WallTime::EPOCH, [number; 10])
    }

    #[test]
    fn a_table_is_sorted_and_holds_each_run_once() {
        let mut table = Table::EMPTY;
        for number in [3, 1, 2, 3, 1] {
            table.insert(run(number), number);
        }
        assert_eq!(table.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(table.remove(run(2)), Some(2));
        assert_eq!(table.remove(run(2)), None);
        assert!(table.contains(run(1)) && !table.contains(run(2)));
    }

    #[test]
    fn an_empty_table_holds_nothing() {
        let mut table = Table::EMPTY;
        table.insert(run(1), 1_u64);
        assert_eq!(table.heap_bytes(), size_of::<(RunId, u64)>());
        table.remove(run(1));
        assert_eq!(table.heap_bytes(), 0);
    }
}
