//! One mistake each: the check that forbids it must notice.

use sterna_protocol::consensus::Version;

use super::{
    closure, hash,
    naive::{Mistake, Naive},
    play::acts,
    runner, safety,
};

fn planted(mistake: Mistake) -> Naive {
    Naive::new(Version::ZERO, Some(mistake))
}

#[test]
fn every_wrong_closure_is_found() {
    let all = [
        Mistake::ForgetsIndirect,
        Mistake::ForgetsTheDeparted,
        Mistake::StopsAfterOneStep,
        Mistake::RaisesEverybody,
        Mistake::AsksNobodyElse,
        Mistake::SkipsTheUnheard,
        Mistake::SkipsTheSilent,
    ];
    for mistake in all {
        let found = runner(2000)
            .run(&acts(), |acts| closure::is_exact(&mut planted(mistake), Version::ZERO, &acts));
        assert!(found.is_err(), "{mistake:?} is not found");
    }
}

#[test]
fn every_unsafe_permission_is_found() {
    let unsafe_ones = [
        Mistake::RaisesEverybody,
        Mistake::AsksNobodyElse,
        Mistake::SkipsTheUnheard,
        Mistake::SkipsTheSilent,
    ];
    for mistake in unsafe_ones {
        let found = runner(2000).run(&acts(), |acts| safety::is_safe(&mut planted(mistake), &acts));
        assert!(found.is_err(), "{mistake:?} is not found");
    }
}

/// Waiting for longer than needed is a nuisance and no danger; the check knows the difference.
#[test]
fn mistakes_that_only_delay_are_not_called_unsafe() {
    for mistake in [Mistake::ForgetsIndirect, Mistake::ForgetsTheDeparted] {
        let found = runner(500).run(&acts(), |acts| safety::is_safe(&mut planted(mistake), &acts));
        assert!(found.is_ok(), "{mistake:?}: {found:?}");
    }
}

#[test]
fn every_weak_hash_is_found() {
    assert!(hash::is_lawful::<hash::XorOfRaw>().is_err());
    assert!(hash::is_lawful::<hash::SumOfRaw>().is_err());
    assert!(hash::is_lawful::<hash::InOrder>().is_err());
    assert!(hash::is_lawful::<hash::XorOfMixed>().is_err());
}
