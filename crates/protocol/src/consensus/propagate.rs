//! Who requires whom, through whomever: one merged walk.

use super::{
    Seat, Version,
    history::{History, Stretch},
    members::{Heard, Members},
};

/// Raises every worker's indirect version as far as it goes, and answers with the lowest of them;
/// `None` when nobody has been heard.
///
/// A worker that has echoed version `last` requires everybody in that set; each of them has echoed
/// a version of its own, and so on. Where does it end? Take each worker as the stretch from `first`
/// to `last`. Only a step upwards leads anywhere, and a worker whose `last` is above version `v` is
/// in the set of `v` exactly when its `first` is not above `v`: it has not left before its own
/// echo. So the steps go from stretch to overlapping stretch, and the end is the upper end of the
/// heap of stretches that hang together. In the order of joining no heap has gaps:
///
/// ```text
///     w1  ├────┤                          w1, w2 and w3 hang together: each is raised to the
///     w2     ├──────┤                     end of w3. w4 stands alone.
///     w3         ├────────┤
///     w4                       ├──┤
/// ```
///
/// Those who have left count as well: whoever requires one of them can agree on nothing without it,
/// and therefore on nothing without whom it required.
pub(super) fn propagate(history: &History, members: &mut Members) -> Option<Version> {
    let order = history.order();
    let mut departed = history.departed().iter().peekable();
    let mut walk = Walk { order, members, heap: None, lowest: None };
    for (at, seat) in order.iter().enumerate() {
        let Some(stretch) = walk.stretch(*seat) else { continue };
        while let Some(gone) = departed.next_if(|gone| !stretch.first.is_before(gone.first)) {
            walk.extend(at, *gone);
        }
        walk.extend(at, stretch);
    }
    for gone in departed {
        walk.extend(order.len(), *gone);
    }
    walk.close(order.len());
    walk.lowest
}

/// A part of the order whose stretches hang together.
struct Heap {
    /// Where in the order it begins.
    begin: usize,
    /// How far its stretches reach by now.
    reach: Version,
}

struct Walk<'a> {
    order: &'a [Seat],
    members: &'a mut Members,
    heap: Option<Heap>,
    lowest: Option<Version>,
}

impl Walk<'_> {
    fn stretch(&self, seat: Seat) -> Option<Stretch> {
        let inside = self.members.inside(seat)?;
        Some(Stretch { first: inside.first, last: inside.heard?.last })
    }

    /// Adds a stretch to the heap, or begins a new one with it.
    fn extend(&mut self, at: usize, stretch: Stretch) {
        if let Some(heap) = &mut self.heap
            && !heap.reach.is_before(stretch.first)
        {
            heap.reach = heap.reach.later(stretch.last);
            return;
        }
        self.close(at);
        self.heap = Some(Heap { begin: at, reach: stretch.last });
    }

    /// Ends the heap before `end`, and raises everybody in it.
    fn close(&mut self, end: usize) {
        let Some(Heap { begin, reach }) = self.heap.take() else { return };
        for seat in &self.order[begin..end] {
            if let Some(inside) = self.members.inside_mut(*seat)
                && let Some(Heard { last: _, indirect }) = &mut inside.heard
            {
                // Not lower than before: what was found through history that is gone stays true.
                *indirect = indirect.later(reach);
                // Heaps come in ascending order, so the first one with a worker in it is lowest.
                self.lowest.get_or_insert(reach);
            }
        }
    }
}
