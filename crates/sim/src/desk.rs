//! A store whose calls take time: real code that awaits a [`Store`] runs on it, a step at a time.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use sterna_model::{Revision, WriteId};
use sterna_store::{
    About, Commit, Failover, Limits, Outcome, Page, Reading, Scan, Store, StoreError, Watch,
};

use crate::store::{Ask, Told};

/// Work that awaits the store.
pub(crate) type Job<T> = BoxFuture<'static, T>;

/// What one server has asked, and what it was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desk(Arc<Mutex<Papers>>);

#[derive(Debug, Default)]
struct Papers {
    asked: Vec<(u64, Ask)>,
    told: BTreeMap<u64, Told>,
    number: u64,
}

impl Desk {
    /// Goes on with a job as far as it comes.
    pub(crate) fn go_on<T>(job: &mut Job<T>) -> Option<T> {
        match job.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// What was asked since this was called last.
    pub(crate) fn take_asked(&self) -> Vec<(u64, Ask)> {
        std::mem::take(&mut self.0.lock().asked)
    }

    /// An answer has come.
    pub(crate) fn tell(&self, number: u64, told: Told) {
        self.0.lock().told.insert(number, told);
    }

    async fn ask(&self, ask: Ask) -> Told {
        let number = {
            let mut papers = self.0.lock();
            papers.number += 1;
            let number = papers.number;
            papers.asked.push((number, ask));
            number
        };
        poll_fn(|_| self.0.lock().told.remove(&number).map_or(Poll::Pending, Poll::Ready)).await
    }
}

/// The answer was to another question, which cannot be.
fn mixed_up() -> StoreError {
    StoreError::Corrupt { what: "the simulator mixed up its answers".to_owned() }
}

impl Store for Desk {
    fn about(&self) -> About {
        About {
            engine: "simulated".to_owned(),
            settings: Vec::new(),
            is_durable: true,
            is_shared: true,
            failover: Failover::Never,
        }
    }

    fn limits(&self) -> Limits {
        Limits::PORTABLE
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        async move {
            let Told::Commit(answer) = self.ask(Ask::Commit(commit)).await else {
                return Err(mixed_up());
            };
            answer
        }
        .boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        async move {
            let Told::Get(answer) = self.ask(Ask::Get(key.to_owned())).await else {
                return Err(mixed_up());
            };
            answer
        }
        .boxed()
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        async move {
            let Told::Scan(answer) = self.ask(Ask::Scan(scan)).await else {
                return Err(mixed_up());
            };
            answer
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        _prefix: &'a str,
        _after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        // Nothing that runs here watches yet.
        async { Err(mixed_up()) }.boxed()
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        async move {
            let Told::Written(answer) = self.ask(Ask::Written(id)).await else {
                return Err(mixed_up());
            };
            answer
        }
        .boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let Told::Compact(answer) = self.ask(Ask::Compact(up_to)).await else {
                return Err(mixed_up());
            };
            answer
        }
        .boxed()
    }
}
