//! Worker-set consensus from outside: laws, scenarios, holes, crowds, and mistakes that must be
//! found.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `scenarios.rs` | scripted cases, by their numbers |
//! | `hash.rs` | the laws of the set hash, and of the order of versions |
//! | `closure.rs` | the one walk finds what a naive transitive closure finds |
//! | `safety.rs` | nobody agrees without a worker that works, whatever the network does |
//! | `crowd.rs` | a crash-looping crowd keeps nobody from working |
//! | `holes.rs` | what the consensus alone concludes wrongly |
//! | `planted.rs` | the checks find mistakes |
//! | `naive.rs`, `play.rs` | the reference, and the player of random histories |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod closure;
mod crowd;
mod hash;
mod holes;
mod naive;
mod planted;
mod play;
mod safety;
mod scenarios;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sterna_model::{DirectoryId, Incarnation, Lock, MachineId, Nonce, Term, WallTime};
use sterna_protocol::consensus::{Consensus, SetHash, Version};

/// The worker with this number, in its first life.
fn worker(number: u64) -> Incarnation {
    life(number, 1)
}

fn life(number: u64, life: u64) -> Incarnation {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    let directory = DirectoryId::from_parts(WallTime::EPOCH, random);
    let machine = MachineId::from_bytes([1; 16]).unwrap();
    Incarnation { lock: Lock { directory, machine }, life }
}

/// A leader that nobody has joined, in this term.
fn leader(term: u64) -> Consensus {
    Consensus::new(Term::new(term), Nonce::new(term * 31))
}

/// The same without a bound on newcomers, counting from `version`.
fn unbounded(version: Version) -> Consensus {
    Consensus::starting_at(Term::new(1), Nonce::new(31), version, u32::MAX)
}

fn hash_of(workers: &[u64]) -> SetHash {
    let mut hash = SetHash::EMPTY;
    for number in workers {
        hash.add(&worker(*number));
    }
    hash
}

/// The same cases in every run, so that what is found once is found again. `STERNA_LONG=1` runs
/// many more.
fn runner(cases: u32) -> TestRunner {
    let cases = if std::env::var_os("STERNA_LONG").is_some() { 20 * cases } else { cases };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[42; 32]))
}
