//! The floor of a store on etcd: bare conditional puts of the same bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail};
use sterna_store::etcd::{Bare, CONNECTIONS};

use super::store::{KEYS_EACH, VALUE_BYTES, key};
use crate::clock;

/// How many put at the same time.
const PUTTERS: usize = 64;

/// Keys of its own beside the store's, and as many connections as the store keeps.
pub(super) struct Puts {
    links: Vec<Arc<Bare>>,
}

impl Puts {
    /// Connects, and removes what an earlier run may have left.
    pub(super) async fn prepare(url: &str) -> anyhow::Result<Self> {
        let mut links = Vec::new();
        for _ in 0..CONNECTIONS {
            links.push(Arc::new(Bare::connect(url).await?));
        }
        let puts = Self { links };
        puts.clean_up().await?;
        Ok(puts)
    }

    /// Puts for so long; gives how often in a second.
    pub(super) async fn measure(&self, span: Duration) -> anyhow::Result<f64> {
        // Each measurement begins with no keys, and so knows their revisions.
        self.clean_up().await?;
        let start = clock::instant();
        let count = Arc::new(AtomicU64::new(0));
        let putters: Vec<_> = (0..PUTTERS)
            .map(|putter| {
                let link = Arc::clone(&self.links[putter % self.links.len()]);
                tokio::spawn(put_loop(link, putter, start, span, Arc::clone(&count)))
            })
            .collect();
        for putter in putters {
            putter.await??;
        }
        Ok(count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
    }

    /// Removes the keys.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        self.links[0].clean_up().await.map_err(|error| anyhow!(error))
    }
}

async fn put_loop(
    link: Arc<Bare>,
    putter: usize,
    start: Instant,
    span: Duration,
    count: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let mut revisions = [0_i64; KEYS_EACH];
    for index in 0.. {
        if start.elapsed() >= span {
            break;
        }
        let revision = &mut revisions[index % KEYS_EACH];
        let key = key("/bench/", putter, index % KEYS_EACH);
        let put = link.put_if_at(&key, *revision, vec![b'x'; VALUE_BYTES].into()).await;
        match put.map_err(|error| anyhow!(error))? {
            Some(now) => *revision = now,
            None => bail!("{key} is put by somebody else too"),
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
