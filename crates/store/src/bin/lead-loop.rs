//! Competes for leadership until it is killed or its input ends: one of three in the leadership test.
//!
//! `lead-loop URL NAME LEASE_MS` says, with moments in milliseconds of the machine's clock:
//! `lead TERM FROM UNTIL` when it is elected and whenever it renews, where FROM is when it sent for
//! that; `mute TERM AT` after it has resigned, where AT is when it stopped leading; and
//! `stale TERM ANSWER` for what it still tries to write under a reign that it has lost.

use std::{io::Write, sync::Arc, time::Duration};

use sterna_model::{Span, WallTime, WriteId};
use sterna_store::{
    Commit, Outcome, Store, StoreError,
    leader::{Candidate, Reign, Timing},
};
use tokio::{io::AsyncReadExt, task::JoinHandle};

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
        is_alone: false,
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(async {
        // Whoever reads no more wants us to go, in good order.
        let mut asked_to_go = tokio::spawn(input_ends());
        let store = tokio::select! {
            store = open(url) => store,
            _ = &mut asked_to_go => return Ok(()),
        };
        let mut contender = Contender {
            candidate: Candidate::start(Arc::clone(&store), timing, name),
            store,
            timing,
            name: name.clone(),
            led: None,
            lost: None,
            number: 0,
        };
        contender.compete(asked_to_go).await?;
        if let Some((reign, at)) = contender.candidate.resign().await {
            say(&format!("mute {} {}", reign.term.get(), at.as_millis()))?;
        }
        Ok(())
    })
}

async fn input_ends() {
    let mut byte = [0];
    while let Ok(1..) = tokio::io::stdin().read(&mut byte).await {}
}

async fn open(url: &str) -> Arc<dyn Store> {
    loop {
        match sterna_store::open(url).await {
            Ok(store) => return store,
            // Its server may be down at just this moment.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn say(text: &str) -> Result<()> {
    // One write for a line, so that a kill leaves whole lines.
    Ok(std::io::stdout().write_all(format!("{text}\n").as_bytes())?)
}

struct Contender {
    candidate: Candidate,
    store: Arc<dyn Store>,
    timing: Timing,
    name: String,
    /// The reign that was told of last, if it has not ended.
    led: Option<Reign>,
    /// The last one that has.
    lost: Option<Reign>,
    number: u64,
}

impl Contender {
    /// Writes under its own reign, and under one that it has lost, until it is asked to go.
    async fn compete(&mut self, mut asked_to_go: JoinHandle<()>) -> Result<()> {
        loop {
            self.number += 1;
            if let Some(reign) = self.candidate.leading() {
                drop(self.write(reign).await?);
            }
            if let Some(reign) = self.lost {
                // Under an id of its own: that of a write just made may have applied in time.
                self.number += 1;
                let answer = match self.write(reign).await? {
                    Ok(Outcome::Applied(revision)) => format!("applied {}", revision.get()),
                    Ok(Outcome::Conflict(_)) => "conflict".to_owned(),
                    Err(_) => "error".to_owned(),
                };
                say(&format!("stale {} {answer}", reign.term.get()))?;
            }
            tokio::select! {
                () = self.candidate.changed() => self.tell()?,
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
                _ = &mut asked_to_go => return Ok(()),
            }
        }
    }

    /// Says what it holds. From when it sent for the lease, which is before it led: so it does not
    /// matter how long it was stopped before it said so.
    fn tell(&mut self) -> Result<()> {
        let standing = self.candidate.until();
        let reign = standing.map(|(reign, _)| reign);
        self.lost = self.led.filter(|led| Some(*led) != reign).or(self.lost);
        self.led = reign;
        let Some((reign, until)) = standing else { return Ok(()) };
        let (until, held) = (until.as_millis(), self.timing.lease.minus(self.timing.margin()));
        say(&format!("lead {} {} {until}", reign.term.get(), until - held.as_millis()))
    }

    /// Writes, and tells meanwhile of everything that changes.
    async fn write(&mut self, reign: Reign) -> Result<std::result::Result<Outcome, StoreError>> {
        let mut unique = [0; 10];
        unique[..4].copy_from_slice(&std::process::id().to_be_bytes());
        unique[4..].copy_from_slice(&self.number.to_be_bytes()[2..]);
        // The time tells the ids of two reigns of one process apart.
        let time = i64::try_from(reign.term.get() % 1_000_000).unwrap_or_default();
        let id =
            WriteId::from_parts(WallTime::from_millis(time).unwrap_or(WallTime::EPOCH), unique);
        let value = format!("{} {} {}", reign.term.get(), self.name, self.number);
        let store = Arc::clone(&self.store);
        let mut answer = store.commit(reign.fenced(Commit::new(id)).put(KEY, value));
        loop {
            tokio::select! {
                answer = &mut answer => return Ok(answer),
                () = self.candidate.changed() => self.tell()?,
            }
        }
    }
}
