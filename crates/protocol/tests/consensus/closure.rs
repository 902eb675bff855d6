//! The one walk over stretches finds exactly what a walk over every set finds.

use proptest::{prelude::*, test_runner::TestCaseError};
use sterna_protocol::consensus::{SetId, Version};

use super::{
    naive::Naive,
    play::{Act, Player, Real, Side, acts},
    runner, unbounded,
};

/// Plays the same history to both, and compares them after every judgement.
///
/// The reference hears what the subject hears: both are answered by one network.
pub(crate) fn is_exact(
    subject: &mut impl Side,
    start: Version,
    acts: &[Act],
) -> Result<(), TestCaseError> {
    let mut both = Both { subject, reference: Naive::new(start, None) };
    let mut player = Player::default();
    for (step, act) in acts.iter().enumerate() {
        player.act(&mut both, *act);
        let Act::Judge = act else { continue };
        for who in 0..player.workers.len() {
            prop_assert_eq!(
                both.subject.indirect(who),
                both.reference.indirect(who),
                "w{} at step {}",
                who,
                step
            );
            prop_assert_eq!(
                both.subject.permits(who),
                both.reference.permits(who),
                "w{} at step {}",
                who,
                step
            );
        }
    }
    Ok(())
}

struct Both<'a, S> {
    subject: &'a mut S,
    reference: Naive,
}

impl<S: Side> Side for Both<'_, S> {
    fn join(&mut self) {
        self.subject.join();
        self.reference.join();
    }

    fn hear(&mut self, who: usize, echo: Option<SetId>) {
        self.subject.hear(who, echo);
        self.reference.hear(who, echo);
    }

    fn answer(&self, who: usize) -> Option<SetId> {
        assert_eq!(self.subject.answer(who), self.reference.answer(who));
        self.subject.answer(who)
    }

    fn leave(&mut self, who: usize) {
        self.subject.leave(who);
        self.reference.leave(who);
    }

    fn judge(&mut self) {
        self.subject.judge();
        self.reference.judge();
    }

    fn permits(&self, who: usize) -> bool {
        self.subject.permits(who)
    }

    fn indirect(&self, who: usize) -> Option<Version> {
        self.subject.indirect(who)
    }
}

/// Near the end of the circle, so that many histories wrap round.
pub(crate) fn start() -> impl Strategy<Value = Version> {
    prop_oneof![Just(0), 0..40_u64, (0..40_u64).prop_map(|back| u64::MAX - back)]
        .prop_map(Version::new)
}

#[test]
fn one_walk_finds_the_transitive_closure() {
    runner(4000)
        .run(&(start(), acts()), |(start, acts)| {
            is_exact(&mut Real::new(unbounded(start)), start, &acts)
        })
        .unwrap();
}
