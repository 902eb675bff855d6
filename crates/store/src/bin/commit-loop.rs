//! Commits in a loop until it is killed: the victim of the crash test.
//!
//! `commit-loop DIRECTORY COMMITTERS` says `<committer> <number>` for each acknowledged commit. Each
//! commit puts its number under two keys, and expects the number before it under both.

use std::{io::Write, sync::Arc};

use sterna_model::{WallTime, WriteId};
use sterna_store::{Commit, Embedded, Expect, Outcome, Store, embedded::Sizes};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, committers] = &arguments[..] else {
        return Err("usage: commit-loop DIRECTORY COMMITTERS".into());
    };
    // Small, so that the kill often falls into the closing or merging of a segment.
    let sizes = Sizes { segment_bytes: 8 << 10, history_bytes: 32 << 10, ..Sizes::default() };
    let store = Arc::new(Embedded::open_with(directory, sizes)?);
    let committers: u8 = committers.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    runtime.block_on(async {
        let tasks: Vec<_> = (0..committers)
            .map(|committer| tokio::spawn(commit_loop(Arc::clone(&store), committer)))
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
}

async fn commit_loop(store: Arc<Embedded>, committer: u8) -> Result<()> {
    let keys = [format!("/{committer}/a"), format!("/{committer}/b")];
    let mut number: u64 = match store.get(&keys[0]).await?.item {
        Some(item) => std::str::from_utf8(&item.value)?.parse()?,
        None => 0,
    };
    loop {
        let mut unique = [0; 10];
        unique[1] = committer;
        unique[3..].copy_from_slice(&number.to_be_bytes()[1..]);
        let mut commit = Commit::new(WriteId::from_parts(WallTime::EPOCH, unique));
        for key in &keys {
            let expect = match number {
                0 => Expect::Absent,
                _ => Expect::Value(number.to_string().into()),
            };
            commit = commit.expect(&**key, expect).put(&**key, (number + 1).to_string());
        }
        match store.commit(commit).await? {
            Outcome::Applied(_) => number += 1,
            Outcome::Conflict(keys) => return Err(format!("{keys:?} were changed").into()),
        }
        // One write for a line, so that lines of several committers do not mix.
        std::io::stdout().write_all(format!("{committer} {number}\n").as_bytes())?;
    }
}
