//! What a server that follows is asked: it asks the one that leads, and hands the answer on.
//!
//! So a client may ask any server, and what it is shown is what the leader shows: one mirror, read where
//! it is made ([ADR 18](../../../../adr/0018-who-follows-forwards.md)).
//!
//! Invariant: nothing is forwarded twice, neither on to a third server nor a second time to the same one.
//!
//! Invariant: each call has a connection of its own, and of these there are so many that a file is left for
//! everything else; beyond that the answer is 429.

use std::{io, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::{
    body::{Frame, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use sterna_api::rest::{Code, Refused};
use tokio::{net::TcpStream, sync::Semaphore, time::timeout};

use super::{Api, refusal::Refusal, seat::Seat, tasks::WAIT_MAX};
use crate::shared::{Counters, Shared};

/// Says by whom a call was forwarded, so that it is not forwarded again.
const FORWARDED_BY: HeaderName = HeaderName::from_static("sterna-forwarded-by");
/// Of one connection, and not of what is asked or answered over it.
const OF_A_CONNECTION: [HeaderName; 5] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// How long a leader may take until it has taken a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long it may take until it answers, beside what it is asked to wait; a stream may then go on for
/// ever.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// So many calls are under way at a time. A stream is one until it begins; then it has a seat, as every
/// stream of this server.
const AT_A_TIME: usize = 1_024;
static FORWARDS: Semaphore = Semaphore::const_new(AT_A_TIME);

/// Whom to ask in place of this server; `None` if it answers by itself.
pub(super) fn whom(shared: &Shared, request: &Request) -> Option<String> {
    // Calls are the same everywhere.
    let is_own = request.uri().path() == "/openapi.json";
    if is_own || request.headers().contains_key(FORWARDED_BY) {
        return None;
    }
    shared.leader_elsewhere()
}

/// Asks the leader, for as long as it is that.
pub(super) async fn ask(shared: &Api, leader: &str, request: Request) -> Response {
    let Ok(turn) = FORWARDS.try_acquire() else {
        let message = format!("{AT_A_TIME} calls are being forwarded to {leader} already");
        return Refusal(Refused::new(Code::TooMuch, message)).into_response();
    };
    Counters::add(&shared.counters.forwarded, 1);
    let answer = tokio::select! {
        biased;
        answer = exchange(shared, leader, request) => answer,
        // One that stands still is not waited for when another leads.
        () = shared.follows_no_more(leader) => Err(Trouble::Deposed),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(trouble) => return Refusal(trouble.refused(leader)).into_response(),
    };
    if answer.status() == StatusCode::UNAUTHORIZED {
        let message = format!(
            "{leader}, which leads, has another token than {}: start all servers with one --token-file",
            shared.name
        );
        return Refusal(Refused::new(Code::Unauthorized, message)).into_response();
    }
    if answer.headers().contains_key(header::CONTENT_LENGTH) {
        // The turn is over with the last of the answer.
        return answer.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let _of_this = &turn;
                frame
            }))
        });
    }
    let seat = match Seat::take(shared) {
        Ok(seat) => seat,
        Err(refused) => return Refusal(refused).into_response(),
    };
    let (shared, leader) = (Arc::clone(shared), leader.to_owned());
    answer.map(|body| Body::from_stream(handed_on(HandedOn { shared, leader, body, _seat: seat })))
}

/// A stream of the leader's.
struct HandedOn {
    shared: Api,
    leader: String,
    body: Incoming,
    /// Given back with it.
    _seat: Seat,
}

/// What comes of a stream, until its leader leads no more: then it breaks off, for to end would say that
/// this was all.
fn handed_on(of: HandedOn) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::unfold(of, |mut of| async move {
        loop {
            let frame = tokio::select! {
                biased;
                frame = of.body.frame() => frame?,
                () = of.shared.follows_no_more(&of.leader) => {
                    let error = io::Error::new(io::ErrorKind::ConnectionReset, "it leads no more");
                    return Some((Err(error), of));
                }
            };
            match frame.map(Frame::into_data) {
                Ok(Ok(bytes)) => return Some((Ok(bytes), of)),
                // No stream of ours has trailers.
                Ok(Err(_)) => {}
                Err(error) => return Some((Err(io::Error::other(error)), of)),
            }
        }
    })
}

/// Why a leader has not answered.
#[derive(Debug)]
enum Trouble {
    /// There are as many connections to it as may be.
    NoLine(usize),
    /// There is no file for one more: others of this machine, or the store, have more than was thought.
    NoFile(io::Error),
    /// Nothing reached it.
    Unreached(io::Error),
    /// It may have done what it was asked for.
    Broken,
    /// It may still do it; it had so long.
    Silent(Duration),
    /// Another one leads; it may have done it before.
    Deposed,
}

impl Trouble {
    /// Nothing reached the leader.
    fn unreached(error: io::Error) -> Self {
        let of_files = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        match error.raw_os_error() {
            Some(number) if of_files.contains(&number) => Self::NoFile(error),
            Some(_) | None => Self::Unreached(error),
        }
    }

    fn refused(&self, leader: &str) -> Refused {
        let too_much = |message: String| {
            let remedy = format!(
                "wait a moment, or ask {leader}, which leads; give this server more open files (`ulimit -n`) \
                 for more"
            );
            Refused { remedy: remedy.into(), ..Refused::new(Code::TooMuch, message) }
        };
        let message = match self {
            Self::NoLine(max) => {
                return too_much(format!(
                    "{max} connections to {leader}, which leads, are open already to hand on calls"
                ));
            }
            Self::NoFile(why) => {
                let text = "no connection can be opened to hand on the call";
                return too_much(format!("{text} to {leader}, which leads ({why})"));
            }
            Self::Unreached(why) => {
                format!("{leader}, which leads, is not reached ({why}); nothing was done")
            }
            Self::Broken => format!(
                "the connection to {leader}, which leads, broke before its answer; what was asked for \
                 may have been done"
            ),
            Self::Deposed => format!(
                "{leader} leads no more, and has not answered before; what was asked for may have been done"
            ),
            Self::Silent(within) => format!(
                "{leader}, which leads, has not answered within {within:?}; what was asked for may have \
                 been done"
            ),
        };
        Refused::new(Code::NotReady, message)
    }
}

async fn exchange(
    shared: &Shared,
    leader: &str,
    request: Request,
) -> Result<Response<Incoming>, Trouble> {
    let line = shared.lines.take().ok_or(Trouble::NoLine(shared.lines.max))?;
    let socket = match timeout(CONNECT_WITHIN, TcpStream::connect(leader)).await {
        Ok(socket) => socket.map_err(Trouble::unreached)?,
        Err(_) => return Err(Trouble::Unreached(io::ErrorKind::TimedOut.into())),
    };
    socket.set_nodelay(true).map_err(Trouble::Unreached)?;
    let handshake = http1::handshake(TokioIo::new(socket)).await;
    let (mut send, connection) = handshake.map_err(|_| Trouble::Broken)?;
    // It ends with its one answer, and so with whoever reads that. Its place is free when its file is.
    tokio::spawn(async move {
        drop(connection.await);
        drop(line);
    });
    let within = answer_within(request.uri());
    let request = addressed(&shared.name, leader, request)?;
    let answer = timeout(within, send.send_request(request)).await;
    let mut answer = answer.map_err(|_| Trouble::Silent(within))?.map_err(|_| Trouble::Broken)?;
    let_go_of_connection(answer.headers_mut());
    Ok(answer)
}

/// How long the leader may take to answer this: it may be asked to wait.
fn answer_within(asked: &Uri) -> Duration {
    let fields = asked.query().into_iter().flat_map(|query| query.split('&'));
    let waits = fields.filter_map(|field| field.strip_prefix("wait_s="));
    let waits = waits.filter_map(|seconds| seconds.parse::<u64>().ok()).max().unwrap_or(0);
    ANSWER_WITHIN + Duration::from_secs(waits.min(WAIT_MAX))
}

/// The same call, as the leader is to hear it.
fn addressed(own: &str, leader: &str, request: Request) -> Result<Request, Trouble> {
    let unsaid = || Trouble::Unreached(io::ErrorKind::InvalidInput.into());
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    // One that came over HTTP/2 names a host, which is this one.
    head.uri = path.parse::<Uri>().map_err(|_| unsaid())?;
    head.version = http::Version::HTTP_11;
    let_go_of_connection(&mut head.headers);
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| unsaid());
    head.headers.insert(header::HOST, value(leader)?);
    head.headers.insert(FORWARDED_BY, value(own)?);
    Ok(Request::from_parts(head, body))
}

fn let_go_of_connection(headers: &mut HeaderMap) {
    for name in &OF_A_CONNECTION {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What waited for longer than any other answer may take always ended in a refusal.
    #[test]
    fn a_leader_that_is_asked_to_wait_has_that_time_too() {
        let within = |query: &str| {
            let path = format!("/v1/namespaces/default/tasks/t{query}");
            answer_within(&path.parse().unwrap()).as_secs()
        };
        assert_eq!(within(""), 30);
        assert_eq!(within("?wait_s=60"), 90);
        assert_eq!(within("?a=b&wait_s=5"), 35);
        assert_eq!(within("?wait_s=100000"), 90, "no longer than it waits");
        assert_eq!(within("?wait_s=soon"), 30);
    }
}
