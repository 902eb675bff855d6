//! Both sides of one link over a queue that loses, doubles and reorders frames, from one seed.
//!
//! ```text
//!   pair.rs    the two cores, the queue between them, and what became of each run
//!   rng.rs     randomness from a seed
//! ```
//!
//! For a while streams break, the worker's process ends and comes back, and frames fare as they may;
//! then the queue behaves. `STERNA_LONG=1` plays a hundred times as many seeds. Whole clusters are
//! played by the simulator, and every state of a small world by the model checker.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod pair;
mod rng;

use pair::Pair;

#[test]
fn whatever_the_queue_does_no_run_starts_twice_and_each_is_accounted_for() {
    let seeds = if std::env::var_os("STERNA_LONG").is_some() { 40_000 } else { 400 };
    let mut done = pair::Done::default();
    for seed in 0..seeds {
        match Pair::new(seed).play() {
            Ok(one) => done.add(&one),
            Err(broken) => panic!("seed {seed}: {broken}"),
        }
    }
    // Nothing of this was merely never tried.
    assert!(done.is_varied(), "{done:?}");
}

#[cfg(feature = "planted")]
mod planted {
    use sterna_protocol::planted::{Mistake, plant};

    use super::Pair;

    fn is_found(mistake: Mistake) {
        plant(Some(mistake));
        let found = (0..400).find_map(|seed| Pair::new(seed).play().err());
        plant(None);
        assert!(found.is_some(), "{mistake:?} is not found");
    }

    #[test]
    fn a_worker_that_decides_twice_is_found() {
        is_found(Mistake::DecidesTwice);
    }

    #[test]
    fn a_leader_that_frees_the_unsure_is_found() {
        is_found(Mistake::FreesTheUnsure);
    }

    #[test]
    fn a_leader_that_forgets_at_rebirth_is_found() {
        is_found(Mistake::ForgetsAtRebirth);
    }
}
