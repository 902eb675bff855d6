//! What went wrong between us and etcd, and what may be done about it.

use std::{error::Error, sync::Arc, time::Duration};

use tonic::{Code, Status};

/// Why a call to etcd brought nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// It said nothing at all.
    #[error("etcd did not answer within {} ms; look at its load and at the network", limit.as_millis())]
    Silent {
        /// How long we waited.
        limit: Duration,
    },
    /// There was no connection for so long that nothing was sent.
    #[error("no member of etcd could be used for {} ms; see to etcd and to the network", limit.as_millis())]
    NoTime {
        /// How long we waited.
        limit: Duration,
    },
    /// There is no connection.
    #[error("no connection to {endpoint}; start etcd there, or see to the network")]
    NotConnected {
        /// Where to.
        endpoint: String,
        /// What was met on the way.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// It said no, or the connection broke.
    #[error("{}", said.remedy)]
    Said {
        /// What that means.
        said: Said,
        /// What it said.
        #[source]
        source: Arc<Status>,
    },
    /// Nobody keeps connections any more.
    #[error("the store was closed")]
    Closed,
    /// So many waited that this one was not sent.
    #[error(
        "{waiting} commits wait for etcd and it is too slow for them; commit less, or give it faster disks"
    )]
    Crowded {
        /// How many.
        waiting: usize,
    },
    /// An earlier copy may have applied, and history no longer tells.
    #[error("the history that would tell was compacted meanwhile")]
    Forgotten,
    /// An earlier copy may yet apply: this one lost, but what it lost against may change back.
    #[error("the commit was sent again and lost a race, but its first copy may still arrive")]
    Outstanding,
    /// A commit lost a race, and what it lost against was compacted before it could be read.
    #[error("history is compacted faster than it can be read; compact less often")]
    Outrun,
    /// An answer that etcd never gives.
    #[error("etcd answered what makes no sense; see whether the URL leads to etcd itself")]
    Nonsense,
}

/// What may be done with a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send it again, a little later.
    Again,
    /// Send it again over another connection; this one is gone, silent or leads nowhere.
    Elsewhere,
    /// Nothing: it would be refused again.
    Nothing,
}

/// Whether a call that failed may have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Certainly not, and it never will be.
    NotDone,
    /// It may have been, or may yet be.
    Open,
}

/// What an answer of etcd means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) next: Next,
    pub(super) fate: Fate,
    pub(super) topic: Topic,
    /// What the user may do.
    pub(super) remedy: &'static str,
}

/// What an answer is about, for those who have more to say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Compacted,
    Future,
    Leader,
    Login,
    Permission,
    NoAuthentication,
    TooLarge,
    /// No room is left, or none is left behind what was applied.
    Full,
    Other,
}

/// Marks a request that never left us.
#[derive(Debug, thiserror::Error)]
#[error("the connection was closed before the request was sent")]
pub(super) struct NotSent;

impl Trouble {
    pub(super) const fn next(&self) -> Next {
        match self {
            Self::Silent { .. } => Next::Elsewhere,
            Self::Said { said, .. } => said.next,
            // Whoever keeps the connection tries by itself; callers hear soon.
            Self::NotConnected { .. } | Self::Outrun => Next::Again,
            Self::NoTime { .. }
            | Self::Closed
            | Self::Crowded { .. }
            | Self::Forgotten
            | Self::Outstanding
            | Self::Nonsense => Next::Nothing,
        }
    }

    pub(super) const fn fate(&self) -> Fate {
        match self {
            Self::Said { said, .. } => said.fate,
            Self::NoTime { .. }
            | Self::NotConnected { .. }
            | Self::Closed
            | Self::Crowded { .. }
            | Self::Outrun => Fate::NotDone,
            Self::Silent { .. } | Self::Forgotten | Self::Outstanding | Self::Nonsense => {
                Fate::Open
            }
        }
    }

    pub(super) const fn topic(&self) -> Topic {
        match self {
            Self::Said { said, .. } => said.topic,
            Self::Silent { .. }
            | Self::NoTime { .. }
            | Self::NotConnected { .. }
            | Self::Closed
            | Self::Crowded { .. }
            | Self::Forgotten
            | Self::Outstanding
            | Self::Outrun
            | Self::Nonsense => Topic::Other,
        }
    }
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        let said =
            if was_sent(&status) { judge(status.code(), status.message()) } else { NOT_SENT };
        Self::Said { said, source: Arc::new(status) }
    }
}

fn was_sent(status: &Status) -> bool {
    let first = status.source();
    !std::iter::successors(first, |error| (*error).source()).any(|error| error.is::<NotSent>())
}

const NOT_SENT: Said = refused(Next::Elsewhere, Topic::Other, "the connection to etcd was lost");

/// What etcd says it says by its own words; its codes tell too little.
#[rustfmt::skip]
const WORDS: &[(&str, Said)] = &[
    ("mvcc: required revision has been compacted",
        refused(Next::Nothing, Topic::Compacted, "the history asked for is compacted")),
    ("mvcc: required revision is a future revision",
        refused(Next::Nothing, Topic::Future, "the revision asked for lies in the future")),
    // Said before anything is proposed.
    ("no leader",
        refused(Next::Elsewhere, Topic::Leader, "etcd has no leader; start more than half of its members, and let them reach each other")),
    ("too many requests",
        refused(Next::Again, Topic::Other, "etcd is too slow for what it is asked; ask less, or give it faster disks")),
    // Said before anything is proposed, but also of what was just applied: a member that finds its
    // database full by applying a transaction answers with this in place of the transaction's own
    // answer. Either way its fate is decided when this is said.
    ("mvcc: database space exceeded",
        open(Next::Nothing, Topic::Full, "the database of etcd is full; defragment it, raise its --quota-backend-bytes, then `etcdctl alarm disarm`")),
    ("request is too large",
        refused(Next::Nothing, Topic::Other, SMALL_REQUESTS)),
    ("too many operations in txn request",
        refused(Next::Nothing, Topic::Other, "etcd takes only small transactions; set its --max-txn-ops to 128 or more")),
    ("permission denied",
        refused(Next::Nothing, Topic::Permission, "etcd does not permit it; grant the user the store's prefix again")),
    // A token that is forgotten or outdated: another connection logs in anew.
    ("invalid auth token", refused(Next::Elsewhere, Topic::Login, LOG_IN)),
    ("revision of auth store is old", refused(Next::Elsewhere, Topic::Login, LOG_IN)),
    ("user name is empty", refused(Next::Elsewhere, Topic::Login, LOG_IN)),
    ("authentication failed, invalid user ID or password",
        refused(Next::Nothing, Topic::Login, LOG_IN)),
    ("authentication is not enabled",
        refused(Next::Nothing, Topic::NoAuthentication, "etcd has no users; leave user and password out of the URL")),
];

const SMALL_REQUESTS: &str =
    "etcd takes only small requests; set its --max-request-bytes to 1572864 or more";
const LOG_IN: &str = "etcd does not let the user in; correct user and password in the URL";

const fn refused(next: Next, topic: Topic, remedy: &'static str) -> Said {
    Said { next, fate: Fate::NotDone, topic, remedy }
}

fn judge(code: Code, message: &str) -> Said {
    match message.strip_prefix("etcdserver: ") {
        Some(own) => match WORDS.iter().find(|(words, _)| *words == own) {
            Some((_, said)) => *said,
            None if is_refusal(code) => {
                refused(Next::Nothing, Topic::Other, "etcd refused the call; see the cause")
            }
            // Its timeouts and changes of leader, after which a proposal may yet be applied.
            None => open(
                Next::Elsewhere,
                Topic::Other,
                "etcd could not say how it ended; see to its members and its disks",
            ),
        },
        None if code == Code::OutOfRange && message.contains("message length too large") => {
            open(Next::Nothing, Topic::TooLarge, "the answer of etcd is too large")
        }
        // Said by what hands etcd its requests, which lets none pass that is over its own bound, some
        // more than etcd's: etcd never saw it. The connection is as good as before.
        None if is_over_bound(code, message, "received") => {
            refused(Next::Nothing, Topic::Other, SMALL_REQUESTS)
        }
        None if is_over_bound(code, message, "trying to send") => {
            open(Next::Nothing, Topic::TooLarge, "the answer of etcd is too large")
        }
        // The connection broke, or something between us and etcd spoke.
        None => open(Next::Elsewhere, Topic::Other, "the connection to etcd was lost"),
    }
}

/// Whether a message that was dealt with so was over the bound of etcd's side of the connection.
fn is_over_bound(code: Code, message: &str, dealt_with: &str) -> bool {
    let rest = message.strip_prefix("grpc: ").and_then(|rest| rest.strip_prefix(dealt_with));
    code == Code::ResourceExhausted && rest.is_some_and(|rest| rest.contains("larger than max"))
}

const fn open(next: Next, topic: Topic, remedy: &'static str) -> Said {
    Said { next, fate: Fate::Open, topic, remedy }
}

/// Whether etcd says by this code that it looked at a call and will not do it.
const fn is_refusal(code: Code) -> bool {
    match code {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => true,
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: Code, message: &str) -> (Next, Fate) {
        let trouble = Trouble::from(Status::new(code, message));
        (trouble.next(), trouble.fate())
    }

    #[test]
    fn what_may_have_been_proposed_is_open() {
        for message in [
            "etcdserver: request timed out",
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcdserver: leader changed",
            "etcdserver: server stopped",
            "transport is closing",
        ] {
            assert_eq!(of(Code::Unavailable, message), (Next::Elsewhere, Fate::Open), "{message}");
        }
    }

    #[test]
    fn what_met_a_full_database_may_have_been_done_and_is_not_sent_again() {
        let full = "etcdserver: mvcc: database space exceeded";
        assert_eq!(of(Code::ResourceExhausted, full), (Next::Nothing, Fate::Open));
    }

    #[test]
    fn what_etcd_refuses_was_not_done() {
        let large = "etcdserver: request is too large";
        assert_eq!(of(Code::InvalidArgument, large), (Next::Nothing, Fate::NotDone));
        assert_eq!(
            of(Code::Unavailable, "etcdserver: no leader"),
            (Next::Elsewhere, Fate::NotDone)
        );
        let crowded = "etcdserver: too many requests";
        assert_eq!(of(Code::ResourceExhausted, crowded), (Next::Again, Fate::NotDone));
    }

    #[test]
    fn what_is_too_large_for_the_way_to_etcd_was_not_done() {
        let of = |message: &str| {
            let trouble = Trouble::from(Status::resource_exhausted(message));
            (trouble.next(), trouble.fate(), trouble.topic())
        };
        let request = of("grpc: received message larger than max (999090 vs. 624288)");
        assert_eq!(request, (Next::Nothing, Fate::NotDone, Topic::Other));
        let answer = of("grpc: trying to send message larger than max (9 vs. 8)");
        assert_eq!(answer, (Next::Nothing, Fate::Open, Topic::TooLarge));
        let other = of("some proxy is tired");
        assert_eq!(other, (Next::Elsewhere, Fate::Open, Topic::Other));
    }

    #[test]
    fn what_never_left_was_not_done() {
        let status = Status::from_error(Box::new(NotSent));
        assert_eq!(Trouble::from(status).fate(), Fate::NotDone);
    }
}
