//! Why a store could not do what was asked, by what the caller may do next.

use std::{
    io,
    path::{Path, PathBuf},
};

use sterna_model::Revision;

use crate::Refusal;

/// Any cause, kept whole so that its chain can be printed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call to an open store brought no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing was written; trying again is safe.
    #[error("store unavailable, nothing was written")]
    Unavailable(#[source] BoxError),
    /// The commit may or may not have applied, or may yet: settle it before deciding anything.
    #[error("store did not answer, the commit may have applied")]
    Unknown(#[source] BoxError),
    /// The call can never succeed as it is.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The history between the revision asked for and now is gone: read the state anew and go on
    /// from the revision that it carries.
    #[error("history up to {floor} is compacted; scan again and go on from the scan's revision")]
    Compacted {
        /// The oldest revision that can still be read or watched from.
        floor: Revision,
    },
    /// A write did not reach the disk for certain. Nothing more is read or written until the store
    /// is opened again, which finds out what is there.
    #[error("store stopped after a failed write; open it again, what it acknowledged is there")]
    Poisoned,
    /// The store lacks what it had acknowledged (safety rule 25). Nothing more is read or written
    /// until it is opened again; who does so asks [`cluster::judge`](crate::cluster::judge) first.
    #[error(transparent)]
    WentBack(#[from] WentBack),
    /// What is stored is not what was written.
    #[error("the store is corrupt: {what}; restore it from a backup")]
    Corrupt {
        /// What was found.
        what: String,
    },
}

/// A store that lacks what it had acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store has gone back from {seen} to {found}: an older backup was restored, or a standby took \
     over that lagged; open it again, and what follows is decided by what was seen of it"
)]
pub struct WentBack {
    /// The highest revision that was told before.
    pub seen: Revision,
    /// What it says now.
    pub found: Revision,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no backend of this build.
    #[error("{url} is not the URL of a store; {remedy}")]
    Url {
        /// What was given.
        url: String,
        /// What to write instead.
        remedy: &'static str,
    },
    /// The path is there and is no directory.
    #[error("{} is not a directory; give the store a directory of its own", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error(
        "{} holds {found}, which is no part of a store; give the store a directory of its own",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// What was found there.
        found: String,
    },
    /// Reading or writing there is not allowed.
    #[error(
        "no permission to read and write {}; change its owner or mode, or choose another directory",
        path.display()
    )]
    Permission {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file system is mounted read-only.
    #[error("{} is on a read-only file system; remount it, or choose another directory", path.display())]
    ReadOnly {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No room.
    #[error("the disk of {} is full; free some space, or choose another directory", path.display())]
    Full {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another process has it open.
    #[error(
        "{} is in use by {holder}; a store serves one process: stop that one, or choose another directory",
        path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who, as far as it said.
        holder: String,
    },
    /// Written by a newer build.
    #[error(
        "{} has format {found}, this build reads up to {known}; use the newer sterna that wrote it",
        path.display()
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// What is stored is not what was written.
    #[error("{} is corrupt: {what}; restore the directory from a backup", path.display())]
    Corrupt {
        /// The directory or file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Nothing answers there.
    #[error("cannot reach {server}; start the server, or correct host and port in the URL")]
    Unreachable {
        /// The server, without user and password.
        server: String,
        /// What was met on the way.
        #[source]
        source: BoxError,
    },
    /// The server does not know the user, or not with this password.
    #[error("{server} does not let {user} in; correct user and password in the URL")]
    Login {
        /// The server.
        server: String,
        /// Who asked.
        user: String,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// The server has no such database.
    #[error("{server}: there is no database {database}; create it, or correct its name in the URL")]
    NoDatabase {
        /// The server.
        server: String,
        /// What was asked for.
        database: String,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// The user may not make or use the store's schema.
    #[error(
        "{server}: {user} may not make or use the schema {schema}; as an administrator: CREATE SCHEMA \
         IF NOT EXISTS {schema} AUTHORIZATION {user}"
    )]
    NotAllowed {
        /// The server.
        server: String,
        /// Who asked.
        user: String,
        /// The schema.
        schema: String,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// The user may not read and write the store's keys.
    #[error(
        "{server}: {user} may not read and write keys that begin with {prefix}/; as root: etcdctl role \
         add sterna, etcdctl role grant-permission sterna --prefix=true readwrite {prefix}/, etcdctl \
         user grant-role {user} sterna"
    )]
    NoKeys {
        /// The server.
        server: String,
        /// Who asked.
        user: String,
        /// What the keys begin with.
        prefix: String,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// The members of a cluster have not agreed on a leader.
    #[error(
        "{server} has no leader; start more than half of its members, and let them reach each other"
    )]
    NoLeader {
        /// The server.
        server: String,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// The server takes only encrypted connections.
    #[error("{server} takes only TLS; write sslmode=verify-full or sslmode=require in the URL")]
    TlsRequired {
        /// The server.
        server: String,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// The URL asks for TLS and the server has none.
    #[error("{server} offers no TLS; switch it on there, or write sslmode=disable in the URL")]
    NoTls {
        /// The server.
        server: String,
    },
    /// The server's certificate was not believed.
    #[error(
        "the certificate of {server} is not trusted; name its root with sslrootcert=FILE, and the host as the certificate does"
    )]
    Untrusted {
        /// The server.
        server: String,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// There are no root certificates to believe in.
    #[error("the root certificates {file} cannot be used; name a PEM file with sslrootcert=FILE")]
    Roots {
        /// Which.
        file: String,
        /// What is wrong with them.
        #[source]
        source: BoxError,
    },
    /// What is to be shown to the server cannot be.
    #[error(
        "{file} cannot be shown to the server; name PEM files with sslcert=FILE and sslkey=FILE, the \
         key without a password"
    )]
    Identity {
        /// Which file.
        file: String,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// The server asks for a certificate, and did not get one that it trusts.
    #[error(
        "{server} asks for a certificate that it trusts; name one with sslcert=FILE, and its key with \
         sslkey=FILE"
    )]
    Unidentified {
        /// The server.
        server: String,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// The server's version is too old.
    #[error("{server} runs version {found}, and {needed} or later is needed; upgrade the server")]
    TooOld {
        /// The server.
        server: String,
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: &'static str,
    },
    /// The server takes no writes.
    #[error("{server} is read-only; connect to the primary, or end its read-only mode")]
    ReadOnlyServer {
        /// The server.
        server: String,
    },
    /// The schema was made by a newer build.
    #[error(
        "{server}: the schema {schema} has version {found}, this build reads up to {known}; use the \
         newer sterna that wrote it"
    )]
    NewerSchema {
        /// The server.
        server: String,
        /// The schema.
        schema: String,
        /// Its version.
        found: usize,
        /// Ours.
        known: usize,
    },
    /// The server is there and cannot serve now.
    #[error("{server} cannot serve now; see the cause, and try again")]
    NotReady {
        /// The server.
        server: String,
        /// Why not.
        #[source]
        source: BoxError,
    },
    /// Anything else that a server said.
    #[error("cannot open the store on {server}; see the cause")]
    Server {
        /// The server.
        server: String,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// Anything else that the system said.
    #[error("cannot open {}; see the cause and try again", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    /// The error that says what to do about `error`, met at `path`.
    pub(crate) fn of_io(path: &Path, source: io::Error) -> Self {
        use io::ErrorKind as Kind;
        let (path, kind) = (path.to_owned(), source.kind());
        if matches!(kind, Kind::NotADirectory | Kind::AlreadyExists) {
            Self::NotADirectory { path }
        } else if kind == Kind::PermissionDenied {
            Self::Permission { path, source }
        } else if kind == Kind::ReadOnlyFilesystem {
            Self::ReadOnly { path, source }
        } else if matches!(kind, Kind::StorageFull | Kind::QuotaExceeded) {
            Self::Full { path, source }
        } else {
            Self::Io { path, source }
        }
    }
}
