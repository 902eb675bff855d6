//! Finding out what a server is, and making it ready for us.

use std::{io, sync::Arc, time::Duration};

use tokio::time::timeout;
use tokio_postgres::{Client, Error, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    session::{CONNECT_MAX, Connector, Io},
    sql,
    target::Target,
    trouble::{is_unencrypted, not_let_in, open_error},
};
use crate::{About, OpenError, reached::Reached, tls};

/// The oldest server that is known to do what we ask.
const VERSION_MIN: i32 = 13;
/// How long the making of tables may take; another process may be at it.
const MIGRATE_MAX: Duration = Duration::from_secs(30);

/// How the server keeps what it acknowledges, as it said when the store was opened.
///
/// ```
/// use sterna_store::postgres::Durability;
///
/// let careless = Durability {
///     version: "15.8".into(),
///     is_fsync_on: false,
///     are_full_pages_written: true,
///     synchronous_standbys: String::new(),
/// };
/// assert!(careless.warnings()[0].contains("set fsync = on"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// What it calls itself.
    pub version: String,
    /// Whether it waits for its disk.
    pub is_fsync_on: bool,
    /// Whether it can mend a torn page.
    pub are_full_pages_written: bool,
    /// Its setting `synchronous_standby_names`; empty when no standby confirms commits.
    pub synchronous_standbys: String,
}

impl Durability {
    /// What the store stands on.
    pub(super) fn about(&self) -> About {
        let switch = |is_on| if is_on { "on" } else { "off" }.to_owned();
        let standbys = match &*self.synchronous_standbys {
            "" => "none; needed if a standby may take over",
            standbys => standbys,
        };
        About {
            engine: format!("PostgreSQL {}", self.version),
            settings: vec![
                ("fsync", switch(self.is_fsync_on)),
                ("full_page_writes", switch(self.are_full_pages_written)),
                // Set so for our own connections, whatever the server's default is.
                ("synchronous_commit", switch(true)),
                ("synchronous_standby_names", standbys.to_owned()),
            ],
            is_durable: self.warnings().is_empty(),
            is_shared: true,
        }
    }

    /// Which promises the server's settings void, and what to do about each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.is_fsync_on {
            warnings.push(
                "PostgreSQL runs with fsync = off: a crash of its machine loses or damages what \
                 it acknowledged; set fsync = on"
                    .to_owned(),
            );
        }
        if !self.are_full_pages_written {
            warnings.push(
                "PostgreSQL runs with full_page_writes = off: a crash of its machine may damage \
                 what it acknowledged; set full_page_writes = on"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// A bare connection, made as a store makes its own, for measuring beside one.
#[derive(Debug)]
pub struct Bare {
    /// The connection.
    pub client: Client,
    /// The schema that the URL names.
    pub schema: String,
    _io: Io,
}

impl Bare {
    /// Connects to the server that a store's URL names, and makes nothing there.
    ///
    /// # Errors
    /// Each says what is in the way and what to do about it.
    ///
    /// ```no_run
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let bare = sterna_store::postgres::Bare::connect("postgres://me@db/work").await?;
    /// assert_eq!(bare.schema, "sterna");
    /// # Ok::<(), sterna_store::OpenError>(()) }).unwrap();
    /// ```
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        let connector = connector(url)?;
        let (client, io) = connect(&connector).await?;
        Ok(Self { client, schema: connector.target.schema.clone(), _io: io })
    }
}

/// Connects, looks at the server and makes or migrates the schema.
pub(super) async fn prepare(connector: &Connector) -> Result<Durability, OpenError> {
    let target = &connector.target;
    let (mut client, _io) = connect(connector).await?;
    let ready = async {
        let durability = look(&client, target).await?;
        migrate(&mut client, target).await?;
        Ok(durability)
    };
    timeout(MIGRATE_MAX, ready).await.map_err(|_| timed_out(target))?
}

async fn connect(connector: &Connector) -> Result<(Client, Io), OpenError> {
    let target = &connector.target;
    let connected = timeout(CONNECT_MAX, connector.connect()).await;
    match connected.map_err(|_| timed_out(target))? {
        Ok(connected) => Ok(connected),
        Err(error) if is_unencrypted(&error) && !offers_tls(connector).await => {
            Err(not_let_in(target, error))
        }
        Err(error) => Err(open_error(target, error)),
    }
}

/// Whether the server speaks TLS, whomever it then lets in.
async fn offers_tls(connector: &Connector) -> bool {
    let mut config = connector.target.config.clone();
    config.ssl_mode(SslMode::Require);
    match timeout(CONNECT_MAX, config.connect(connector.tls.clone())).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => !matches!(
            open_error(&connector.target, error),
            OpenError::NoTls { .. } | OpenError::Unreachable { .. }
        ),
        Err(_) => false,
    }
}

fn timed_out(target: &Target) -> OpenError {
    let source = io::Error::from(io::ErrorKind::TimedOut).into();
    OpenError::Unreachable { server: target.server.clone(), source }
}

async fn look(client: &Client, target: &Target) -> Result<Durability, OpenError> {
    let read = async {
        let row = client.query_one(sql::FACTS, &[]).await?;
        let durability = Durability {
            version: row.try_get(1)?,
            is_fsync_on: row.try_get(4)?,
            are_full_pages_written: row.try_get(5)?,
            synchronous_standbys: row.try_get(6)?,
        };
        let is_read_only = row.try_get::<_, bool>(2)? || row.try_get::<_, bool>(3)?;
        Ok((row.try_get::<_, i32>(0)?, is_read_only, durability))
    };
    let (version, is_read_only, durability) =
        read.await.map_err(|error| open_error(target, error))?;
    check_version(&target.server, version, &durability.version)?;
    if is_read_only {
        return Err(OpenError::ReadOnlyServer { server: target.server.clone() });
    }
    Ok(durability)
}

fn check_version(server: &str, number: i32, found: &str) -> Result<(), OpenError> {
    if number / 10_000 >= VERSION_MIN {
        return Ok(());
    }
    let (server, found) = (server.to_owned(), found.to_owned());
    Err(OpenError::TooOld { server, found, needed: "13" })
}

/// Makes the schema or brings it up to date, under a lock that keeps other processes from it.
async fn migrate(client: &mut Client, target: &Target) -> Result<(), OpenError> {
    let known = sql::MIGRATIONS.len();
    let migrated = async {
        let transaction = client.transaction().await?;
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('sterna store ' || $1, 0))";
        transaction.execute(lock, &[&target.schema]).await?;
        let found = version(&transaction, target).await?;
        for migration in sql::MIGRATIONS.iter().skip(found) {
            transaction.batch_execute(&target.sql(migration)).await?;
        }
        if found < known {
            let set = target.sql("UPDATE {s}.meta SET version = $1");
            transaction.execute(&set, &[&i32::try_from(known).unwrap_or(i32::MAX)]).await?;
        }
        transaction.commit().await?;
        Ok(found)
    };
    let found = migrated.await.map_err(|error| open_error(target, error))?;
    if found > known {
        let (server, schema) = (target.server.clone(), target.schema.clone());
        return Err(OpenError::NewerSchema { server, schema, found, known });
    }
    Ok(())
}

/// The version of the schema that is there; makes an empty one if there is none.
async fn version(
    transaction: &tokio_postgres::Transaction<'_>,
    target: &Target,
) -> Result<usize, Error> {
    // Asked first: making what is there already needs a right that we then have no need of.
    let is_there = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text),
        to_regclass($1::text || '.meta') IS NOT NULL";
    let row = transaction.query_one(is_there, &[&target.schema]).await?;
    if !row.try_get::<_, bool>(0)? {
        transaction.batch_execute(&target.sql("CREATE SCHEMA {s}")).await?;
    }
    if !row.try_get::<_, bool>(1)? {
        return Ok(0);
    }
    let row = transaction.query_one(&target.sql("SELECT version FROM {s}.meta"), &[]).await?;
    Ok(usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0))
}

/// A connector to the server that a URL names.
pub(super) fn connector(url: &str) -> Result<Connector, OpenError> {
    let target = Target::read(url)?;
    let tls = MakeRustlsConnect::new(tls::config(&target.trust)?);
    let (hints, _) = tokio::sync::watch::channel(sterna_model::Revision::ZERO);
    let reached = Arc::new(Reached::new());
    Ok(Connector { target: Arc::new(target), tls, hints: Arc::new(hints), reached })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_refused() {
        assert_eq!(
            check_version("postgres://db:5432/x", 120_019, "12.19").unwrap_err().to_string(),
            "postgres://db:5432/x runs version 12.19, and 13 or later is needed; upgrade the server"
        );
        assert!(check_version("postgres://db:5432/x", 130_000, "13.0").is_ok());
    }
}
