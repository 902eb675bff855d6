//! A bench that is told to end: nothing of it stays.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{clock, exit, remote};

/// TERM and Ctrl-C.
pub(super) struct Signals(Signal, Signal);

impl Signals {
    pub(super) fn watch() -> anyhow::Result<Self> {
        let watch = |kind| signal(kind).context("cannot take signals");
        Ok(Self(watch(SignalKind::terminate())?, watch(SignalKind::interrupt())?))
    }

    /// Waits for one of them.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

/// As what a bench then ends.
pub(super) fn ended() -> anyhow::Error {
    exit::silent(exit::INTERRUPTED)
}

/// Whoever wants this to end wants nothing of it left.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended(Arc<AtomicBool>);

impl Ended {
    /// Notices TERM and Ctrl-C from now on.
    pub(super) fn watch() -> anyhow::Result<Self> {
        let (ended, told) = (Self::default(), mpsc::channel());
        let (seen, (ready, is_ready)) = (ended.clone(), told);
        thread::Builder::new().name("bench-signals".to_owned()).spawn(move || {
            remote::wait(async {
                let mut signals = Signals::watch()?;
                let _: Result<(), _> = ready.send(());
                signals.next().await;
                seen.0.store(true, Ordering::Relaxed);
                Ok(())
            })
        })?;
        is_ready.recv().context("cannot take signals")?;
        Ok(ended)
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(ended()) } else { Ok(()) }
    }

    /// Waits so long, or until somebody wants it to end.
    pub(super) fn pause(&self, long: Duration) -> anyhow::Result<()> {
        let until = clock::instant() + long;
        loop {
            self.check()?;
            let rest = until.saturating_duration_since(clock::instant());
            if rest.is_zero() {
                return Ok(());
            }
            thread::sleep(rest.min(Duration::from_millis(50)));
        }
    }
}
