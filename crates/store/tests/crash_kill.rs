//! A process that commits in a loop is killed 200 times at random moments: every commit that it
//! acknowledged is there, and none is half there.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod support;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use sterna_store::{Embedded, Store, conformance::Rng};
use support::Folder;

const COMMITTERS: usize = 8;

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    let rounds = if std::env::var_os("STERNA_LONG").is_some() { 2_000 } else { 200 };
    let folder = Folder::new("crash-kill");
    let mut rng = Rng::new(9);
    let mut acknowledged = [0_u64; COMMITTERS];
    let mut kills = 0;
    for round in 0..rounds {
        // Sometimes while it opens what the last kill left, without a word of ours in between.
        let lines = if rng.one_in(4) { 0 } else { 1 + rng.below(300) };
        run_and_kill(folder.path(), lines, &mut acknowledged);
        kills += 1;
        if rng.one_in(3) {
            continue;
        }
        let store = Embedded::open(folder.path()).unwrap();
        for (committer, acknowledged) in acknowledged.iter_mut().enumerate() {
            let found = numbers(&store, committer).await;
            assert_eq!(found[0], found[1], "round {round}: half a commit of {committer}");
            // One commit for each kill may have been made durable without being acknowledged.
            let may_be = *acknowledged..=*acknowledged + kills;
            assert!(may_be.contains(&found[0]), "round {round}: {found:?}, expected {may_be:?}");
            *acknowledged = found[0];
        }
        kills = 0;
    }
    assert!(acknowledged.iter().all(|number| *number > 0), "somebody never came to commit");
}

/// Lets the victim acknowledge so many commits, kills it, and notes all that it still said. With no
/// commits to wait for it is killed while it opens the store.
fn run_and_kill(directory: &Path, lines: u64, acknowledged: &mut [u64; COMMITTERS]) {
    let mut victim = Command::new(env!("CARGO_BIN_EXE_commit-loop"))
        .arg(directory)
        .arg(COMMITTERS.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut count = 0;
    for line in said.map_while(Result::ok) {
        if line == "opening" && lines == 0 {
            victim.kill().unwrap();
        }
        // A kill may fall into the middle of a line; what is not whole was not said.
        let Some((committer, number)) = line.split_once(' ') else { continue };
        let (Ok(committer), Ok(number)) = (committer.parse::<usize>(), number.parse()) else {
            continue;
        };
        acknowledged[committer] = acknowledged[committer].max(number);
        count += 1;
        if count == lines {
            victim.kill().unwrap();
        }
    }
    victim.wait().unwrap();
    assert!(count >= lines, "the victim ended by itself after {count} commits");
}

async fn numbers(store: &Embedded, committer: usize) -> [u64; 2] {
    let mut found = [0; 2];
    for (found, name) in found.iter_mut().zip(["a", "b"]) {
        let item = store.get(&format!("/{committer}/{name}")).await.unwrap().item;
        *found = item.map_or(0, |item| std::str::from_utf8(&item.value).unwrap().parse().unwrap());
    }
    found
}
