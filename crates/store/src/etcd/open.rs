//! Finding out what a cluster is, and making it ready for us.

use std::{error::Error, io, sync::Arc};

use bytes::Bytes;
use tokio_rustls::TlsConnector;

use super::{
    keys::{Bounds, Keys},
    link::Opened,
    plan::Floor,
    session::{Connector, Session},
    target::{Endpoint, Target},
    trouble::{Next, Topic, Trouble},
    wire::{
        Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, Request, RequestOp,
        TxnRequest, TxnResponse, path,
    },
    writer,
};
use crate::{About, BoxError, Failover, OpenError, tls};

/// The version of the layout of keys.
const FORMAT: usize = 2;
/// The oldest version that is known to do what we ask.
const VERSION_MIN: [u32; 2] = [3, 4];

/// The store was made by a build before the first release.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store under {prefix}/ has layout {found}, and this build reads only {FORMAT}; name another \
     prefix in the URL, or remove that store with the build that made it"
)]
struct OlderFormat {
    prefix: String,
    found: usize,
}

/// A bare connection, made as a store makes its own, for measuring beside one.
#[derive(Debug)]
pub struct Bare {
    session: Session,
    keys: Keys,
}

impl Bare {
    /// Connects to the cluster that a store's URL names, and puts nothing there.
    ///
    /// # Errors
    /// Each says what is in the way and what to do about it.
    ///
    /// ```no_run
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let bare = sterna_store::etcd::Bare::connect("etcd://one,two,three").await?;
    /// let revision = bare.put_if_at("a", 0, "1".into()).await.unwrap();
    /// assert!(revision.is_some(), "a was there already");
    /// # Ok::<(), sterna_store::OpenError>(()) }).unwrap();
    /// ```
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        let connector = connector(url)?;
        let opened = any(&connector).await?;
        Ok(Self { session: opened.session, keys: Keys::under(&connector.target.prefix) })
    }

    /// Puts a key beside the store's own if it was last put at this revision, 0 for never, by one
    /// transaction; gives its new revision, or `None` if it was not so.
    ///
    /// # Errors
    /// etcd did not answer, or refused.
    pub async fn put_if_at(
        &self,
        key: &str,
        at: i64,
        value: Bytes,
    ) -> Result<Option<i64>, BoxError> {
        Ok(writer::put_if_at(&self.session, self.keys.beside(key), at, value).await?)
    }

    /// Removes everything that was put so.
    ///
    /// # Errors
    /// etcd did not answer, or refused.
    pub async fn clean_up(&self) -> Result<(), BoxError> {
        let Bounds { first: key, end: range_end } = self.keys.all_beside();
        let remove = Request::DeleteRange(DeleteRangeRequest { key, range_end }).into();
        let request = TxnRequest { success: vec![remove], ..TxnRequest::default() };
        self.session.ask::<_, TxnResponse>(path::TXN, request).await?;
        Ok(())
    }

    /// How many keys the store has, its own records included but for that of the format.
    ///
    /// # Errors
    /// etcd did not answer, or refused.
    pub async fn count(&self) -> Result<i64, BoxError> {
        let Bounds { first: key, end: range_end } = self.keys.all();
        let request = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
        Ok(self.session.ask::<_, RangeResponse>(path::RANGE, request).await?.count)
    }
}

/// What was found on opening.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) floor: Floor,
    pub(super) about: About,
    pub(super) warnings: Vec<String>,
}

/// A connector to the cluster that a URL names.
pub(super) fn connector(url: &str) -> Result<Connector, OpenError> {
    let target = Target::read(url)?;
    let tls = match &target.trust {
        Some(trust) => {
            let mut config = tls::config(trust, target.identity.as_ref())?;
            config.alpn_protocols = vec![b"h2".to_vec()];
            Some(TlsConnector::from(Arc::new(config)))
        }
        None => None,
    };
    Ok(Connector { target: Arc::new(target), tls })
}

/// Connects to the member that leads, which saves each commit a hop, or else to any. If there is
/// none, says what is nearest to a remedy.
pub(super) async fn any(connector: &Connector) -> Result<Opened, OpenError> {
    let (mut found, mut worst): (Option<Opened>, Option<OpenError>) = (None, None);
    for (member, endpoint) in connector.target.endpoints.iter().enumerate() {
        match asked_again(connector, endpoint).await {
            Ok(session) => {
                check_version(&connector.target.server, &session.status.version)?;
                let opened = Opened { session, member };
                if opened.session.leads() {
                    return Ok(opened);
                }
                found = found.or(Some(opened));
            }
            Err(error) => {
                // That one member is down says less than what another one said.
                let is_news = !matches!(error, OpenError::Unreachable { .. });
                if is_news || worst.is_none() {
                    worst = Some(error);
                }
            }
        }
    }
    if let Some(opened) = found {
        return Ok(opened);
    }
    Err(worst.unwrap_or_else(|| OpenError::Url {
        url: connector.target.server.clone(),
        remedy: "name at least one host",
    }))
}

/// How often a member is asked again that ended a TLS connection without a word.
const ASKED_AGAIN: u32 = 4;

/// Asks a member for a session. One that does not believe us says so after the handshake, and may
/// end the connection before its word was read: the next time it may be.
async fn asked_again(connector: &Connector, endpoint: &Endpoint) -> Result<Session, OpenError> {
    let mut tries = 0;
    loop {
        let trouble = match connector.session(endpoint).await {
            Ok(session) => return Ok(session),
            Err(trouble) => trouble,
        };
        let is_silent = matches!(trouble, Trouble::Silent { .. });
        let error = open_error(connector, endpoint, trouble).await;
        let is_mute = matches!(error, OpenError::Unreachable { .. }) && !is_silent;
        tries += 1;
        let may_say_more = connector.tls.is_some() && is_mute && tries <= ASKED_AGAIN;
        if !may_say_more || !connector.speaks_tls(endpoint).await {
            return Err(error);
        }
    }
}

/// Makes the store's records if they are not there, and reads them.
pub(super) async fn prepare(connector: &Connector, opened: &Opened) -> Result<Facts, OpenError> {
    let (target, session) = (&connector.target, &opened.session);
    let keys = Keys::under(&target.prefix);
    let format = Bytes::from(FORMAT.to_string());
    let make = Request::Put(PutRequest { key: keys.format(), value: format }).into();
    let readings = match records(session, &keys, make).await {
        Ok(readings) => readings,
        Err(trouble) => {
            return Err(open_error(connector, &target.endpoints[opened.member], trouble).await);
        }
    };
    let unreadable = |source: &str| OpenError::Server {
        server: target.server.clone(),
        source: format!("{source} under {}/ is not of our making", target.prefix).into(),
    };
    let mut readings = readings.iter();
    let format = readings.next().and_then(|reading| reading.kvs.first());
    let format = format.and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok());
    let found = format.ok_or_else(|| unreadable("the format's record"))?;
    if found > FORMAT {
        let (server, schema) = (target.server.clone(), format!("{}/", target.prefix));
        return Err(OpenError::NewerSchema { server, schema, found, known: FORMAT });
    }
    if found < FORMAT {
        let source = OlderFormat { prefix: target.prefix.clone(), found }.into();
        return Err(OpenError::Server { server: target.server.clone(), source });
    }
    let floor = readings.next().and_then(Floor::read);
    let floor = floor.ok_or_else(|| unreadable("the floor's record"))?;
    let mut warnings = Vec::new();
    if session.is_login_ignored {
        warnings.push(
            "etcd has no users: everybody who reaches it may change the store; make users and \
             `etcdctl auth enable`, or leave user and password out of the URL"
                .to_owned(),
        );
    }
    let megabytes = session.status.db_size_in_use >> 20;
    let about = About {
        engine: format!("etcd {}", session.status.version),
        settings: vec![
            ("members named", target.endpoints.len().to_string()),
            ("database in use", format!("{megabytes} MiB, of 2048 unless it is told otherwise")),
        ],
        // etcd acknowledges what a majority of its members has synced; it has no other way.
        is_durable: true,
        is_shared: true,
        failover: Failover::Keeps(
            "more than half of the members have every commit; fewer than half may be lost"
                .to_owned(),
        ),
    };
    Ok(Facts { floor, about, warnings })
}

/// Reads the records of the format and of the floor, and makes the first if it is not there.
async fn records(
    session: &Session,
    keys: &Keys,
    make: RequestOp,
) -> Result<Vec<RangeResponse>, Trouble> {
    let range = |key| RangeRequest { key, ..RangeRequest::default() };
    let read = |key| Request::Range(range(key)).into();
    let request = TxnRequest {
        compare: vec![Compare::is_absent(keys.format())],
        success: vec![make, read(keys.format()), read(keys.floor())],
        failure: vec![read(keys.format()), read(keys.floor())],
    };
    let full = match session.ask::<_, TxnResponse>(path::TXN, request).await {
        Ok(answer) => return Ok(answer.responses.into_iter().filter_map(|it| it.range).collect()),
        Err(trouble) if trouble.topic() == Topic::Full => trouble,
        Err(trouble) => return Err(trouble),
    };
    // A full database takes nothing that might write, even if it would not. What is there can be
    // read, and so can the store.
    let format: RangeResponse = session.ask(path::RANGE, range(keys.format())).await?;
    if format.kvs.is_empty() {
        return Err(full);
    }
    Ok(vec![format, session.ask(path::RANGE, range(keys.floor())).await?])
}

fn check_version(server: &str, found: &str) -> Result<(), OpenError> {
    let numbers: Vec<u32> = found.split('.').map_while(|part| part.parse().ok()).collect();
    if numbers.get(..2).is_some_and(|version| version >= &VERSION_MIN[..]) {
        return Ok(());
    }
    let (server, found) = (server.to_owned(), found.to_owned());
    Err(OpenError::TooOld { server, found, needed: "3.4" })
}

/// The error that says what to do about what was met on opening a store.
async fn open_error(connector: &Connector, endpoint: &Endpoint, trouble: Trouble) -> OpenError {
    let target = &connector.target;
    let (server, user) = (target.server.clone(), target.user());
    match trouble.topic() {
        Topic::Login => OpenError::Login { server, user, source: trouble.into() },
        Topic::Permission => OpenError::NoKeys {
            server,
            user,
            prefix: target.prefix.clone(),
            source: trouble.into(),
        },
        Topic::Leader => OpenError::NoLeader { server, source: trouble.into() },
        Topic::Compacted
        | Topic::Future
        | Topic::NoAuthentication
        | Topic::TooLarge
        | Topic::Full
        | Topic::Other => not_connected(connector, endpoint, trouble).await,
    }
}

/// What did not come from etcd itself.
async fn not_connected(connector: &Connector, endpoint: &Endpoint, trouble: Trouble) -> OpenError {
    let server = connector.target.server.clone();
    let met = Met::of(&trouble);
    let is_refused = matches!(trouble, Trouble::Said { .. }) && trouble.next() == Next::Nothing;
    let is_silent = matches!(trouble, Trouble::Silent { .. });
    let source = trouble.into();
    if met == Met::Unidentified {
        OpenError::Unidentified { server, source }
    } else if met == Met::Certificate {
        OpenError::Untrusted { server, source }
    } else if met == Met::NoTls && connector.tls.is_some() {
        OpenError::NoTls { server }
    } else if is_refused {
        OpenError::Server { server, source }
    } else if connector.tls.is_none() && !is_silent && connector.speaks_tls(endpoint).await {
        OpenError::TlsRequired { server, source }
    } else {
        OpenError::Unreachable { server, source }
    }
}

/// What was met on the way to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// A certificate that is not believed.
    Certificate,
    /// A member that does not believe ours, or misses it.
    Unidentified,
    /// Something that does not speak TLS, if that is what it was asked.
    NoTls,
    Other,
}

impl Met {
    fn of(trouble: &Trouble) -> Self {
        let Trouble::NotConnected { source, .. } = trouble else { return Self::Other };
        let first: &(dyn Error + 'static) = &**source;
        for cause in std::iter::successors(Some(first), |error| (*error).source()) {
            if tls::is_identity_refused(cause) {
                return Self::Unidentified;
            }
            let io = cause.downcast_ref::<io::Error>();
            let inner = io.and_then(io::Error::get_ref).and_then(|inner| inner.downcast_ref());
            match cause.downcast_ref::<rustls::Error>().or(inner) {
                Some(rustls::Error::InvalidCertificate(_)) => return Self::Certificate,
                Some(rustls::Error::InvalidMessage(_)) => return Self::NoTls,
                Some(_) | None => {}
            }
            let is_ended = |kind| {
                matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
            };
            if io.is_some_and(|io| is_ended(io.kind())) {
                return Self::NoTls;
            }
        }
        Self::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_too_old_is_refused() {
        assert_eq!(
            check_version("etcd://db:2379/sterna", "3.3.25").unwrap_err().to_string(),
            "etcd://db:2379/sterna runs version 3.3.25, and 3.4 or later is needed; upgrade the \
             server"
        );
        for found in ["2.3", "3", "", "three"] {
            assert!(check_version("etcd://db:2379/sterna", found).is_err(), "{found}");
        }
        for found in ["3.4.0", "3.5.21", "3.10.0-rc.1", "4.0.0"] {
            assert!(check_version("etcd://db:2379/sterna", found).is_ok(), "{found}");
        }
    }
}
