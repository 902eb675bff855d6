//! One connection, ready to be used: settings made, statements prepared.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use sterna_model::Revision;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Notify, watch},
    task::AbortHandle,
    time::timeout,
};
use tokio_postgres::{AsyncMessage, Client, Connection, Statement, error::Severity};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{sql, target::Target, trouble::Trouble};
use crate::reached::Reached;

/// How long it may take until a connection is ready.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Wakes the watches. A hint says only that reading on may be worth it; one that is lost, or
/// doubled, or out of order costs a little time and nothing else.
pub(super) type Hints = Arc<watch::Sender<Revision>>;

/// Passes a hint on that the store got so far. Notices come late: one that is behind the last
/// hint is no news.
pub(super) fn hint(hints: &Hints, revision: Revision) {
    hints.send_if_modified(|last| {
        let is_news = revision > *last;
        *last = revision.max(*last);
        is_news
    });
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Commits, one group after another.
    Write,
    /// Readings, and the removal of old history.
    Read,
    /// Listening for what is committed, and reading on behind it.
    Listen,
}

/// How to get another connection.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) target: Arc<Target>,
    pub(super) tls: MakeRustlsConnect,
    pub(super) hints: Hints,
    pub(super) reached: Arc<Reached>,
}

/// A connection. It is over when the server says so, or when a caller discards it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) statements: Statements,
    io: Io,
    warning: Warning,
    /// Set by whoever discards it. The client itself notices its end only a little later, and
    /// must not be given out meanwhile.
    is_discarded: AtomicBool,
}

/// The last warning that a server sent along with an answer.
pub(super) type Warning = Arc<Mutex<Option<String>>>;

/// The task that moves the bytes; it ends with its session.
#[derive(Debug)]
pub(super) struct Io {
    task: AbortHandle,
    over: Arc<Notify>,
}

impl Drop for Io {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connector {
    /// Connects and makes everything ready, within [`CONNECT_MAX`].
    pub(super) async fn session(&self, duty: Duty) -> Result<Session, Trouble> {
        let ready = async {
            let warning = Warning::default();
            let (client, io) = self.connect(&warning).await?;
            let listen = match duty {
                Duty::Listen => format!("; LISTEN {}", self.target.schema),
                Duty::Write | Duty::Read => String::new(),
            };
            client.batch_execute(&format!("{}{listen}", sql::SETTINGS)).await?;
            let statements = Statements::prepare(&client, &self.target).await?;
            let is_discarded = AtomicBool::new(false);
            Ok(Session { client, statements, io, warning, is_discarded })
        };
        let silent = |_| Trouble::Silent { limit: CONNECT_MAX };
        timeout(CONNECT_MAX, ready).await.map_err(silent)?
    }

    /// Connects, and no more.
    pub(super) async fn connect(
        &self,
        warning: &Warning,
    ) -> Result<(Client, Io), tokio_postgres::Error> {
        let (client, connection) = self.target.config.connect(self.tls.clone()).await?;
        let over = Arc::new(Notify::new());
        let (told, hints) = (Arc::clone(&over), Arc::clone(&self.hints));
        let warning = Arc::clone(warning);
        // Its session owns it, and aborts it at the latest.
        let task = tokio::spawn(async move {
            carry(connection, &hints, &warning).await;
            told.notify_one();
        });
        Ok((client, Io { task: task.abort_handle(), over }))
    }
}

impl Session {
    /// Ends it: whoever still waits on it gets an error, and the next caller another session.
    pub(super) fn discard(&self) {
        self.is_discarded.store(true, Ordering::Release);
        self.io.task.abort();
        self.io.over.notify_one();
    }

    /// What the server has warned of since this was asked last.
    pub(super) fn take_warning(&self) -> Option<String> {
        self.warning.lock().take()
    }

    /// Whether it can still be used, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.is_discarded.load(Ordering::Acquire) && !self.client.is_closed()
    }

    /// Waits until it is over.
    pub(super) async fn over(&self) {
        self.io.over.notified().await;
    }
}

/// Moves bytes until the connection ends, passes hints on, and notes warnings: each comes before the
/// answer that it was sent with.
async fn carry<S, T>(mut connection: Connection<S, T>, hints: &Hints, warning: &Warning)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    // An error here also reaches those who wait for an answer, and they report it.
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            AsyncMessage::Notification(notice) => {
                if let Ok(revision) = notice.payload().parse() {
                    hint(hints, Revision::new(revision));
                }
            }
            AsyncMessage::Notice(notice) if notice.parsed_severity() == Some(Severity::Warning) => {
                *warning.lock() = Some(notice.message().to_owned());
            }
            // And whatever later versions of the driver may pass on.
            AsyncMessage::Notice(_) | _ => {}
        }
    }
}

/// Everything that we ever say, prepared.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) lock: Statement,
    pub(super) seek: Statement,
    pub(super) seen: Statement,
    pub(super) store: Statement,
    pub(super) get: Statement,
    pub(super) scan: Statement,
    pub(super) written: Statement,
    pub(super) touch: Statement,
    pub(super) changes: Statement,
    pub(super) poll: Statement,
    pub(super) oldest: Statement,
    pub(super) raise: Statement,
    pub(super) forget_changes: Statement,
    pub(super) forget_commits: Statement,
}

impl Statements {
    async fn prepare(client: &Client, target: &Target) -> Result<Self, tokio_postgres::Error> {
        let texts = [
            sql::LOCK,
            sql::SEEK,
            sql::SEEN,
            sql::STORE,
            sql::GET,
            sql::SCAN,
            sql::WRITTEN,
            sql::TOUCH,
            sql::CHANGES,
            sql::POLL,
            sql::OLDEST,
            sql::RAISE,
            sql::FORGET_CHANGES,
            sql::FORGET_COMMITS,
        ]
        .map(|text| target.sql(text));
        let prepared = try_join_all(texts.iter().map(|text| client.prepare(text))).await?;
        let [
            lock,
            seek,
            seen,
            store,
            get,
            scan,
            written,
            touch,
            changes,
            poll,
            oldest,
            raise,
            forget_changes,
            forget_commits,
        ] = <[Statement; 14]>::try_from(prepared).expect("as many are prepared as there are texts");
        Ok(Self {
            lock,
            seek,
            seen,
            store,
            get,
            scan,
            written,
            touch,
            changes,
            poll,
            oldest,
            raise,
            forget_changes,
            forget_commits,
        })
    }
}
