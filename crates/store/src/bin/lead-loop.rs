//! Competes for leadership until it is killed or told to stop: one of three in the leadership test.
//!
//! `lead-loop URL NAME LEASE_MS` says, with moments in milliseconds of the machine's clock:
//! `lead TERM FROM UNTIL` when it is elected and whenever it renews, `mute TERM AT` before it
//! resigns (when its input ends), and `stale TERM ANSWER` for what it still tries to write under a
//! reign that it has lost.

use std::{io::Write, sync::Arc, time::Duration};

use sterna_model::{BootTime, Span, WallTime, WriteId};
use sterna_store::{
    Commit, Outcome, Store, StoreError,
    leader::{Candidate, Reign, Timing},
};
use tokio::io::AsyncReadExt;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What leaders write, as often as they can.
const KEY: &str = "/v1/default/written";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, name, lease_ms] = &arguments[..] else {
        return Err("usage: lead-loop URL NAME LEASE_MS".into());
    };
    let lease = Span::from_millis(lease_ms.parse()?);
    let timing = Timing {
        lease,
        renew_every: Span::from_millis(lease.as_millis() / 10),
        retry_every: Span::from_millis(lease.as_millis() / 30),
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(compete(url, name, timing))
}

fn now() -> BootTime {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    BootTime::from_millis((now.tv_sec * 1_000 + now.tv_nsec / 1_000_000).unsigned_abs())
}

fn say(text: &str) -> Result<()> {
    // One write for a line, so that a kill leaves whole lines.
    Ok(std::io::stdout().write_all(format!("{text}\n").as_bytes())?)
}

async fn compete(url: &str, name: &str, timing: Timing) -> Result<()> {
    let store = loop {
        match sterna_store::open(url).await {
            Ok(store) => break store,
            // Its server may be down at just this moment.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let mut candidate = Candidate::start(Arc::clone(&store), timing, name);
    let mut told = None;
    let mut lost: Option<Reign> = None;
    let mut number = 0;
    let mut input = tokio::io::stdin();
    let mut byte = [0];
    loop {
        let until = candidate.until();
        if until != told {
            if let Some((reign, until)) = until {
                let (term, from, until) = (reign.term.get(), now(), until.as_millis());
                say(&format!("lead {term} {} {until}", from.as_millis()))?;
            }
            lost = told
                .map(|(reign, _)| reign)
                .filter(|old| Some(*old) != until.map(|u| u.0))
                .or(lost);
            told = until;
        }
        number += 1;
        if let Some(reign) = candidate.leading() {
            drop(write(&*store, reign, name, number).await);
        }
        if let Some(reign) = lost {
            let answer = match write(&*store, reign, name, number).await {
                Ok(Outcome::Applied(revision)) => format!("applied {}", revision.get()),
                Ok(Outcome::Conflict(_)) => "conflict".to_owned(),
                Err(_) => "error".to_owned(),
            };
            say(&format!("stale {} {answer}", reign.term.get()))?;
        }
        tokio::select! {
            () = candidate.changed() => {}
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
            // Whoever reads no more wants us to go, in good order.
            read = input.read(&mut byte) => if read? == 0 { break },
        }
    }
    if let Some((reign, _)) = candidate.until() {
        say(&format!("mute {} {}", reign.term.get(), now().as_millis()))?;
    }
    candidate.resign().await;
    Ok(())
}

async fn write(
    store: &dyn Store,
    reign: Reign,
    name: &str,
    number: u64,
) -> std::result::Result<Outcome, StoreError> {
    let mut unique = [0; 10];
    unique[..4].copy_from_slice(&std::process::id().to_be_bytes());
    unique[4..].copy_from_slice(&number.to_be_bytes()[2..]);
    let id = WriteId::from_parts(
        WallTime::from_millis(term_millis(reign)).unwrap_or(WallTime::EPOCH),
        unique,
    );
    let value = format!("{} {name} {number}", reign.term.get());
    store.commit(reign.fenced(Commit::new(id)).put(KEY, value)).await
}

/// Tells the ids of two reigns of one process apart.
fn term_millis(reign: Reign) -> i64 {
    i64::try_from(reign.term.get() % 1_000_000).unwrap_or_default()
}
