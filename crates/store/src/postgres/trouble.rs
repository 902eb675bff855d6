//! What went wrong between us and the server, and what the user can do about it.

use std::{io, sync::Arc, time::Duration};

use tokio_postgres::error::SqlState;

use super::target::Target;
use crate::{BoxError, OpenError, tls};

/// Why a call to the server brought nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// It said nothing at all.
    #[error("PostgreSQL did not answer within {} ms; look at its load and at the network", limit.as_millis())]
    Silent {
        /// How long we waited.
        limit: Duration,
    },
    /// It said no, or the connection broke.
    #[error("{remedy}")]
    Server {
        /// What may be done with the call.
        kind: Kind,
        /// What the user may do.
        remedy: &'static str,
        /// What it said.
        #[source]
        source: Arc<tokio_postgres::Error>,
    },
    /// It committed, and could not say that every standby has it.
    #[error("PostgreSQL committed and warned: {said}; see to its synchronous standbys")]
    Warned {
        /// What it said.
        said: String,
    },
    /// Nobody keeps connections any more.
    #[error("the store was closed")]
    Closed,
    /// So many waited that this one was not sent.
    #[error(
        "{waiting} commits wait for PostgreSQL and it is too slow for them; commit less, or give it a faster disk"
    )]
    Crowded {
        /// How many.
        waiting: usize,
    },
}

/// What may be done with a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It lost against another transaction: send it again.
    Again,
    /// The connection is gone or silent: send it again over another one.
    Lost,
    /// The server refused it, and would again.
    Refused,
}

impl Trouble {
    /// What may be done with the call.
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Silent { .. } | Self::Warned { .. } => Kind::Lost,
            Self::Server { kind, .. } => *kind,
            Self::Closed | Self::Crowded { .. } => Kind::Refused,
        }
    }

    /// Whether the server itself said so, by which it also said that the transaction is over.
    pub(super) fn is_said_by_server(&self) -> bool {
        match self {
            Self::Server { source, .. } => source.as_db_error().is_some(),
            Self::Silent { .. } | Self::Warned { .. } | Self::Closed | Self::Crowded { .. } => {
                false
            }
        }
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        let (kind, remedy) = judge(error.code());
        Self::Server { kind, remedy, source: Arc::new(error) }
    }
}

fn judge(code: Option<&SqlState>) -> (Kind, &'static str) {
    let Some(code) = code else { return (Kind::Lost, "the connection to PostgreSQL was lost") };
    // tidy: not a table
    match code.code() {
        "40001" | "40P01" => (Kind::Again, "another transaction was in the way"),
        "25P03" | "57P01" | "57P02" | "57P05" => {
            (Kind::Lost, "PostgreSQL ended the connection; see its log for the reason")
        }
        "55P03" => (
            Kind::Refused,
            "another session holds the lock of the store's counter; see pg_locks for it",
        ),
        "53100" => (Kind::Refused, "the disk of PostgreSQL is full; free some space there"),
        "53200" => (Kind::Refused, "PostgreSQL is out of memory; see its log for what uses it"),
        "53300" => (
            Kind::Refused,
            "PostgreSQL has no connection left; raise max_connections, or close other ones",
        ),
        "25006" => (
            Kind::Refused,
            "PostgreSQL is read-only; connect to the primary, or end its read-only mode",
        ),
        "57P03" => (
            Kind::Refused,
            "PostgreSQL is starting, stopping or in recovery; wait until it is done",
        ),
        "42P01" | "3F000" => {
            (Kind::Refused, "the store's tables are gone; restore the database from a backup")
        }
        "42501" => (Kind::Refused, "PostgreSQL does not permit it; grant the user its schema back"),
        "28P01" | "28000" => {
            (Kind::Refused, "PostgreSQL does not let the user in any more; correct the password")
        }
        _ => (Kind::Refused, "PostgreSQL refused the call; see the cause"),
    }
}

/// The error that says what to do about what was met on opening a store.
pub(super) fn open_error(target: &Target, source: tokio_postgres::Error) -> OpenError {
    let server = target.server.clone();
    let user = target.config.get_user().unwrap_or_default().to_owned();
    let Some(code) = source.code().cloned() else { return broken(server, user, source) };
    let is_unencrypted = is_unencrypted(&source);
    let database = target.database().to_owned();
    let schema = target.schema.clone();
    if matches!(code.code(), "28P01" | "28000") && !is_unencrypted {
        return not_let_in(target, source);
    }
    let source = BoxError::from(source);
    // tidy: not a table
    match code.code() {
        "28000" => OpenError::TlsRequired { server, source },
        "3D000" => OpenError::NoDatabase { server, database, source },
        "42501" => OpenError::NotAllowed { server, user, schema, source },
        "25006" => OpenError::ReadOnlyServer { server },
        "53300" | "57P03" => OpenError::NotReady { server, source },
        _ => OpenError::Server { server, source },
    }
}

/// Whether the server does not let in whoever comes without TLS as we did, as it says. It says so
/// too if it has no TLS to offer and knows no line for the user.
pub(super) fn is_unencrypted(error: &tokio_postgres::Error) -> bool {
    // Only the text tells a refused password from a refused lack of encryption.
    let said = error.as_db_error().map_or("", |error| error.message());
    let is_about_tls = said.contains("no encryption") || said.contains("SSL off");
    is_about_tls && error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// The error for a user who is not let in, whatever else the server could offer.
pub(super) fn not_let_in(target: &Target, source: tokio_postgres::Error) -> OpenError {
    let server = target.server.clone();
    let user = target.config.get_user().unwrap_or_default().to_owned();
    let said = source.as_db_error().map_or("", |error| error.message());
    if said.contains("requires a valid client certificate") {
        return OpenError::Unidentified { server, source: source.into() };
    }
    let is_about_lines = said.contains("pg_hba.conf");
    let source = if is_about_lines { NoLine { source }.into() } else { source.into() };
    OpenError::Login { server, user, source }
}

/// No line of the server's own list lets the user in.
#[derive(Debug, thiserror::Error)]
#[error(
    "or add a line for this user, database and host to the server's pg_hba.conf, and let it read \
     that with SELECT pg_reload_conf()"
)]
struct NoLine {
    source: tokio_postgres::Error,
}

/// What has no code did not come from PostgreSQL itself.
fn broken(server: String, user: String, source: tokio_postgres::Error) -> OpenError {
    let causes = || {
        let first = std::error::Error::source(&source);
        std::iter::successors(first, |error| error.source())
    };
    let has_io = causes().any(|cause| cause.is::<io::Error>());
    let is_untrusted = causes().any(|cause| {
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>())
    });
    let is_unidentified = causes().any(tls::is_identity_refused);
    let said = causes().last().map(ToString::to_string).unwrap_or_default();
    let source = source.into();
    // The library keeps these two kinds of its errors to itself, so their words must do.
    if said.contains("server does not support TLS") {
        OpenError::NoTls { server }
    } else if said.contains("password missing") {
        OpenError::Login { server, user, source }
    } else if is_unidentified {
        OpenError::Unidentified { server, source }
    } else if is_untrusted {
        OpenError::Untrusted { server, source }
    } else if has_io {
        OpenError::Unreachable { server, source }
    } else {
        OpenError::Server { server, source }
    }
}
