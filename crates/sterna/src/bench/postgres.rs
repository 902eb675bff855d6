//! The floor of a store on PostgreSQL: bare conditional updates of the same bytes.

use std::{sync::Arc, time::Duration};

use sterna_store::postgres::{Bare, CONNECTIONS};
use tokio_postgres::Statement;

use super::{
    bare::{self, WRITERS, value},
    store::{KEYS_EACH, key},
};

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
        bare::measure(&self.links, span).await
    }

    /// Removes the table.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        let sql = format!("DROP TABLE {}", self.table);
        Ok(self.links[0].bare.client.batch_execute(&sql).await?)
    }
}

impl bare::Link for Link {
    async fn write(&self, key: &str, revision: i64, value: Vec<u8>) -> anyhow::Result<Option<i64>> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&key.as_bytes(), &revision, &value];
        let updated = self.bare.client.execute(&self.update, &params).await?;
        Ok((updated == 1).then_some(revision + 1))
    }
}

fn keys() -> impl Iterator<Item = (usize, usize)> {
    (0..WRITERS).flat_map(|writer| (0..KEYS_EACH).map(move |index| (writer, index)))
}
