//! Finding out what a server is, and making it ready for us.

use std::{io, sync::Arc, time::Duration};

use tokio::time::timeout;
use tokio_postgres::{Client, Error, Row, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    durability::{Confirms, Durability, Standby},
    session::{CONNECT_MAX, Connector, Io, Warning},
    sql,
    target::Target,
    trouble::{is_unencrypted, not_let_in, open_error},
};
use crate::{OpenError, reached::Reached, tls};

/// The oldest server that is known to do what we ask.
const VERSION_MIN: i32 = 13;
/// How long the making of tables may take; another process may be at it.
const MIGRATE_MAX: Duration = Duration::from_secs(30);

/// The making of tables came to no end.
#[derive(Debug, thiserror::Error)]
#[error(
    "the tables in the schema {schema} were not ready within {} s; pg_stat_activity shows whether \
     another session holds them, or a synchronous standby is waited for",
    MIGRATE_MAX.as_secs()
)]
struct NotMade {
    schema: String,
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
    timeout(MIGRATE_MAX, ready).await.map_err(|_| OpenError::NotReady {
        server: target.server.clone(),
        source: NotMade { schema: target.schema.clone() }.into(),
    })?
}

async fn connect(connector: &Connector) -> Result<(Client, Io), OpenError> {
    let target = &connector.target;
    let connected = timeout(CONNECT_MAX, connector.connect(&Warning::default())).await;
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
    let of_server = |error| open_error(target, error);
    let facts = client.query_one(sql::FACTS, &[]).await.map_err(of_server)?;
    let read = || Ok((facts.try_get(0)?, facts.try_get::<_, String>(1)?));
    let (number, version) = read().map_err(of_server)?;
    check_version(&target.server, number, &version)?;
    let read = || {
        let is_read_only = facts.try_get::<_, bool>(2)? || facts.try_get::<_, bool>(3)?;
        let durability = Durability {
            version,
            is_fsync_on: facts.try_get(4)?,
            are_full_pages_written: facts.try_get(5)?,
            synchronous_standbys: facts.try_get(6)?,
            standbys: Vec::new(),
        };
        Ok((is_read_only, durability))
    };
    let (is_read_only, mut durability) = read().map_err(of_server)?;
    if is_read_only {
        return Err(OpenError::ReadOnlyServer { server: target.server.clone() });
    }
    let rows = client.query(sql::STANDBYS, &[]).await.map_err(of_server)?;
    let standby =
        |row: &Row| Ok(Standby { name: row.try_get(0)?, confirms: Confirms::of(row.try_get(1)?) });
    durability.standbys = rows.iter().map(standby).collect::<Result<_, _>>().map_err(of_server)?;
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
    let tls = MakeRustlsConnect::new(tls::config(&target.trust, target.identity.as_ref())?);
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
