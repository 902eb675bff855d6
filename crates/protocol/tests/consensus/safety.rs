//! Nobody agrees without a worker that works, whatever the network does.

use proptest::{prelude::*, test_runner::TestCaseError};
use sterna_model::{Nonce, Term};
use sterna_protocol::consensus::{Consensus, Version};

use super::{
    closure::start,
    naive::Naive,
    play::{Act, Player, Real, Side, acts},
    runner,
};

/// After every step the leader could fall; then no group of workers may agree on a set without one
/// that works.
pub(crate) fn is_safe(side: &mut impl Side, acts: &[Act]) -> Result<(), TestCaseError> {
    let mut player = Player::default();
    for (step, act) in acts.iter().enumerate() {
        player.act(side, *act);
        prop_assert_eq!(player.agreement_without_a_worker_that_works(), None, "at step {}", step);
    }
    Ok(())
}

#[test]
fn nobody_agrees_without_a_worker_that_works() {
    runner(4000)
        .run(&(start(), prop_oneof![Just(u32::MAX), 1..4_u32], acts()), |(start, max, acts)| {
            let (term, nonce) = (Term::new(1), Nonce::new(31));
            let consensus = Consensus::starting_at(term, nonce, start, max);
            is_safe(&mut Real::new(consensus), &acts)
        })
        .unwrap();
}

#[test]
fn the_reference_is_as_safe() {
    runner(500).run(&acts(), |acts| is_safe(&mut Naive::new(Version::ZERO, None), &acts)).unwrap();
}
