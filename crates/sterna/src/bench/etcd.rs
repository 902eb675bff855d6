//! The floor of a store on etcd: bare conditional puts of the same bytes.

use std::{sync::Arc, time::Duration};

use anyhow::anyhow;
use sterna_store::etcd::{Bare, CONNECTIONS};

use super::bare::{self, Link};

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
        bare::measure(&self.links, span).await
    }

    /// Removes the keys.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        self.links[0].clean_up().await.map_err(|error| anyhow!(error))
    }
}

impl Link for Bare {
    async fn write(&self, key: &str, revision: i64, value: Vec<u8>) -> anyhow::Result<Option<i64>> {
        self.put_if_at(key, revision, value.into()).await.map_err(|error| anyhow!(error))
    }
}
