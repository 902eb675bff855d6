//! The floor of a store on PostgreSQL: bare conditional updates of the same bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::bail;
use sterna_store::postgres::{Bare, CONNECTIONS};
use tokio_postgres::Statement;

use super::store::{KEYS_EACH, VALUE_BYTES, key};
use crate::clock;

/// How many update at the same time.
const UPDATERS: usize = 64;

/// A table of its own beside the store's, and as many connections as the store keeps.
pub(super) struct Updates {
    links: Vec<Arc<Link>>,
    table: String,
}

struct Link {
    bare: Bare,
    update: Statement,
}

impl Updates {
    /// Makes the table, with a row for each key that a committer has.
    pub(super) async fn prepare(url: &str) -> anyhow::Result<Self> {
        let first = Bare::connect(url).await?;
        let table = format!("{}.bench_floor_{}", first.schema, std::process::id());
        first
            .client
            .batch_execute(&format!(
                "CREATE TABLE {table} (key bytea PRIMARY KEY, revision bigint, value bytea)"
            ))
            .await?;
        let insert = format!("INSERT INTO {table} VALUES ($1, 0, $2)");
        for (updater, index) in keys() {
            let key = key("/bench/", updater, index);
            first.client.execute(&insert, &[&key.as_bytes(), &value()]).await?;
        }
        let update = format!(
            "UPDATE {table} SET revision = revision + 1, value = $3 WHERE key = $1 AND revision = $2"
        );
        let mut links = Vec::new();
        let mut next = Some(first);
        for _ in 0..CONNECTIONS {
            let bare = match next.take() {
                Some(bare) => bare,
                None => Bare::connect(url).await?,
            };
            let update = bare.client.prepare(&update).await?;
            links.push(Arc::new(Link { bare, update }));
        }
        Ok(Self { links, table })
    }

    /// Updates for so long; gives how often in a second.
    pub(super) async fn measure(&self, span: Duration) -> anyhow::Result<f64> {
        // Each measurement leaves the rows as it found them to the next one, by their revision.
        let sql = format!("UPDATE {} SET revision = 0", self.table);
        self.links[0].bare.client.batch_execute(&sql).await?;
        let start = clock::instant();
        let count = Arc::new(AtomicU64::new(0));
        let updaters: Vec<_> = (0..UPDATERS)
            .map(|updater| {
                let link = Arc::clone(&self.links[updater % self.links.len()]);
                tokio::spawn(update_loop(link, updater, start, span, Arc::clone(&count)))
            })
            .collect();
        for updater in updaters {
            updater.await??;
        }
        Ok(count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
    }

    /// Removes the table.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        let sql = format!("DROP TABLE {}", self.table);
        Ok(self.links[0].bare.client.batch_execute(&sql).await?)
    }
}

async fn update_loop(
    link: Arc<Link>,
    updater: usize,
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
        let key = key("/bench/", updater, index % KEYS_EACH);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&key.as_bytes(), &*revision, &value()];
        if link.bare.client.execute(&link.update, &params).await? != 1 {
            bail!("{key} is updated by somebody else too");
        }
        *revision += 1;
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn keys() -> impl Iterator<Item = (usize, usize)> {
    (0..UPDATERS).flat_map(|updater| (0..KEYS_EACH).map(move |index| (updater, index)))
}

fn value() -> Vec<u8> {
    vec![b'x'; VALUE_BYTES]
}
