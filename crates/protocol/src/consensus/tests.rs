//! The tables, entry by entry. What takes more than one call is in `tests/consensus/`.

use std::cmp::Ordering::{self, Equal, Greater, Less};

use sterna_model::{DirectoryId, Incarnation, Lock, MachineId, Nonce, Term, WallTime};

use super::{
    Agreement, Consensus, Permission, SetHash, SetId, Taking, Version, held,
    set_id::Token,
    verdict::{self, Others, Standing},
};

fn worker(life: u64) -> Incarnation {
    let directory = DirectoryId::from_parts(WallTime::EPOCH, [7; 10]);
    let machine = MachineId::from_bytes([9; 16]).unwrap();
    Incarnation { lock: Lock { directory, machine }, life }
}

#[test]
fn permission_table_is_whole() {
    use Permission as P;
    let standings =
        [Standing::Gone, Standing::Queued, Standing::Unheard, Standing::Behind, Standing::Newest];
    let others = [Others::Unheard, Others::Unaware, Others::Aware];
    let table: Vec<Vec<P>> = standings
        .map(|standing| others.map(|others| verdict::permission(standing, others)).to_vec())
        .to_vec();
    assert_eq!(
        table,
        [
            [P::Gone, P::Gone, P::Gone],
            [P::Queued, P::Queued, P::Queued],
            [P::Unheard, P::Unheard, P::Unheard],
            [P::Behind, P::Behind, P::Behind],
            [P::OthersUnheard, P::OthersUnaware, P::Granted],
        ]
    );
}

#[test]
fn only_two_permissions_are_a_yes() {
    use Permission as P;
    let all = [
        (P::Granted, true),
        (P::GrantedBefore, true),
        (P::Queued, false),
        (P::Unheard, false),
        (P::Behind, false),
        (P::OthersUnheard, false),
        (P::OthersUnaware, false),
        (P::Gone, false),
    ];
    for (permission, is_yes) in all {
        assert_eq!(permission.is_granted(), is_yes, "{permission:?}");
    }
}

#[test]
fn agreement_table_is_whole() {
    let mut consensus = Consensus::new(Term::new(1), Nonce::new(1));
    let seats = [1, 2].map(|life| consensus.join(&worker(life), None));
    let id = |term, version, hash| {
        let (term, version) = (Term::new(term), Version::new(version));
        Some(SetId { term, nonce: Nonce::new(1), version, hash })
    };
    let here = consensus.newest().hash;
    let mut one = SetHash::EMPTY;
    one.add(&worker(1));
    // Who is meant by an id is decided by all of it, and by the hash of those who are here.
    let cases = [
        ([id(1, 2, here), id(1, 2, here)], Agreement::Reached),
        ([id(1, 2, one), id(1, 2, one)], Agreement::Others { named: 1, here: 2 }),
        ([None, None], Agreement::Blank(seats[0])),
        ([None, id(1, 2, here)], Agreement::Blank(seats[0])),
        ([id(1, 2, here), None], Agreement::Blank(seats[1])),
        ([id(1, 2, here), id(2, 2, here)], Agreement::Split(seats[1])),
        ([id(1, 2, here), id(1, 3, here)], Agreement::Split(seats[1])),
        ([id(1, 2, here), id(1, 2, one)], Agreement::Split(seats[1])),
    ];
    for (ids, expected) in cases {
        let came_with = seats.into_iter().zip(ids);
        assert_eq!(verdict::agreement(came_with, here), expected, "{ids:?}");
    }
    assert_eq!(verdict::agreement([], here), Agreement::NoWorkers);
    assert_eq!(verdict::agreement([], SetHash::EMPTY), Agreement::NoWorkers);
}

#[test]
fn a_worker_takes_only_what_is_newer() {
    let terms = [Less, Equal, Greater];
    let versions: [Option<Ordering>; 4] = [None, Some(Less), Some(Equal), Some(Greater)];
    for term in terms {
        for is_same in [true, false] {
            for version in versions {
                let expected = if term == Greater {
                    Taking::Takes
                } else if term == Less || !is_same || version.is_none() {
                    Taking::Refuses
                } else if version == Some(Greater) {
                    Taking::Takes
                } else {
                    Taking::Keeps
                };
                assert_eq!(held::decide(term, is_same, version), expected);
            }
        }
    }
}

/// Leaders of two builds compare these numbers: they must never change.
#[test]
fn the_hash_is_the_same_for_ever() {
    let mut hash = SetHash::EMPTY;
    hash.add(&worker(1));
    hash.add(&worker(2));
    assert_eq!(
        hash,
        SetHash::from_parts([17_438_769_967_293_285_882, 15_850_510_258_451_237_695], 2)
    );
}

#[test]
fn every_bit_of_a_worker_moves_about_half_of_its_token() {
    let moved = |one: &Incarnation, other: &Incarnation| {
        let bits = |worker| {
            let mut hash = SetHash::EMPTY;
            hash.add_token(Token::of(worker));
            hash.lanes()
        };
        let (one, other) = (bits(one), bits(other));
        (one[0] ^ other[0]).count_ones() + (one[1] ^ other[1]).count_ones()
    };
    let plain = worker(1);
    for bit in 0..64 {
        let other = Incarnation { life: plain.life ^ 1 << bit, ..plain };
        assert!((32..=96).contains(&moved(&plain, &other)), "bit {bit} of the life");
    }
    for bit in 0..128 {
        let mut bytes = [9; 16];
        bytes[bit / 8] ^= 1 << (bit % 8);
        let machine = MachineId::from_bytes(bytes).unwrap();
        let other = Incarnation { lock: Lock { machine, ..plain.lock }, ..plain };
        assert!((32..=96).contains(&moved(&plain, &other)), "bit {bit} of the machine");
    }
    for bit in 0..80 {
        let mut random = [7; 10];
        random[bit / 8] ^= 1 << (bit % 8);
        let directory = DirectoryId::from_parts(WallTime::EPOCH, random);
        if directory != plain.lock.directory {
            let other = Incarnation { lock: Lock { directory, ..plain.lock }, ..plain };
            assert!((32..=96).contains(&moved(&plain, &other)), "bit {bit} of the directory");
        }
    }
}
