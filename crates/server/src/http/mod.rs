//! REST and events over HTTP, and the links of workers, on one port.
//!
//! | file | calls |
//! | --- | --- |
//! | `tasks` | create, get, list, result, cancel, kill, delete |
//! | `services` | get, list, put, delete; instances |
//! | `definitions` | get, list, delete |
//! | `endpoints` | where instances take requests, now or as it changes |
//! | `change` | plan, apply |
//! | `why` | of tasks, instances and whole services |
//! | `logs` | what runs wrote, by pages or as it comes |
//! | `fleet` | workers, domains |
//! | `status` | the cluster as a whole, health |
//! | `metrics` | what is counted, for Prometheus |
//! | `namespaces` | list |
//! | `stream` | events as they come |
//! | `tag` | `ETag` and `If-Match` |
//! | `chunks` | answers that are written as they are read |
//! | `seat` | a place for a stream, of which there are so many |
//! | `given` | what paths, queries and bodies hold |
//! | `described` | what the description says of all of them |
//! | `unread` | answers, until they are written |
//! | `understood` | refuses what a call does not describe |
//! | `forward` | asks the server that leads, where this one does not |
//!
//! Invariant: every answer that refuses is of one catalogue, [`Code`], and says what to do.
//!
//! Invariant: what was acknowledged stands in the store; what is shown does too.

mod change;
mod chunks;
mod definitions;
mod described;
mod endpoints;
mod fleet;
mod forward;
mod given;
mod logs;
mod metrics;
mod namespaces;
mod refusal;
mod seat;
mod services;
mod status;
mod stream;
mod tag;
mod tasks;
mod understood;
mod unread;
mod why;

use std::{
    str::FromStr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{Body, HttpBody},
    extract::{DefaultBodyLimit, Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use sterna_api::rest::{Code, Refused};
use sterna_model::{Name, Namespace, TaskKey};
use sterna_wire::Links;
use tokio::time::timeout;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    described::{Described, Said},
    refusal::Refusal,
    understood::Understood,
};
use crate::{
    connection::TAKEN_WITHIN,
    load::{Load, Weight},
    shared::{Counters, Shared},
};

pub(crate) use self::unread::Unread;

/// What one request may carry at most.
const BODY_MAX: usize = 4 << 20;
/// Within this it must have come.
const BODY_WITHIN: Duration = Duration::from_secs(10);

type Api = Arc<Shared>;
type Answer<T> = Result<T, Refusal>;

fn calls() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(status::status))
        .routes(routes!(metrics::metrics))
        .routes(routes!(stream::events))
        .routes(routes!(namespaces::list))
        .routes(routes!(tasks::list, tasks::create))
        .routes(routes!(tasks::get, tasks::delete))
        .routes(routes!(tasks::result))
        .routes(routes!(tasks::cancel))
        .routes(routes!(tasks::kill))
        .routes(routes!(why::why_task))
        .routes(routes!(logs::of_task))
        .routes(routes!(services::list))
        .routes(routes!(services::get, services::put, services::delete))
        .routes(routes!(services::instances))
        .routes(routes!(services::all_instances))
        .routes(routes!(services::instance))
        .routes(routes!(services::stop))
        .routes(routes!(services::kill))
        .routes(routes!(definitions::list))
        .routes(routes!(definitions::get, definitions::delete))
        .routes(routes!(endpoints::endpoints))
        .routes(routes!(why::why_service))
        .routes(routes!(why::why_instance))
        .routes(routes!(logs::of_instance))
        .routes(routes!(logs::kept::of_run_id))
        .routes(routes!(logs::kept::list))
        .routes(routes!(change::plan))
        .routes(routes!(change::apply))
        .routes(routes!(fleet::list))
        .routes(routes!(fleet::get, fleet::forget))
        .routes(routes!(fleet::forecast))
        .routes(routes!(fleet::drain))
        .routes(routes!(fleet::undrain))
        .routes(routes!(fleet::declare_dead))
        .routes(routes!(fleet::declare_complete))
        .routes(routes!(fleet::domains))
        .routes(routes!(fleet::set_domain, fleet::remove_domain))
}

/// The description of all calls, as JSON.
pub fn description() -> String {
    let (_, described) = calls().split_for_parts();
    described.to_pretty_json().unwrap_or_default() + "\n"
}

/// Everything that is served on the port.
pub(crate) fn router(shared: &Api, links: Links) -> Router {
    let (calls, described) = calls().split_for_parts();
    let understood = Understood::new(&described);
    let said = Said(described.to_json().unwrap_or_default().into());
    calls
        .route("/openapi.json", get(described::read).layer(Extension(said)))
        .layer(from_fn_with_state(understood, understood::heed))
        .layer(from_fn_with_state(Arc::clone(shared), admit))
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .route_service("/sterna.link.v1.Link/{call}", links)
        .fallback(no_such_call)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(Arc::clone(shared))
}

async fn no_such_call(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal(Refused::new(Code::NoSuchCall, format!("there is no call {method} {path}")))
}

async fn wrong_method(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal(Refused::new(Code::WrongMethod, format!("{path} is not for {method}")))
}

/// What is asked by who looks after a server, with the token. It is answered at every bound, for it says
/// why others are refused; it waits for nothing, and no body is read, so it takes no room itself.
const LOOKED_AT: &str = "/metrics";

/// Lets in who has the token, as long as there is room.
async fn admit(State(shared): State<Api>, request: Request, next: Next) -> Response {
    let given = request.headers().get(http::header::AUTHORIZATION);
    let given = given.and_then(|given| given.to_str().ok()).and_then(token);
    if !given.is_some_and(|given| is_same(given.trim().as_bytes(), shared.token.as_bytes())) {
        let what = if given.is_some() { "this token is not the right one" } else { "no token" };
        Counters::add(&shared.counters.refused, 1);
        return Refusal(Refused::new(Code::Unauthorized, what)).into_response();
    }
    let unread = request.extensions().get::<Arc<Unread>>().cloned();
    let is_asking = request.method().is_safe();
    let (place, mut answer) = if request.uri().path() == LOOKED_AT {
        (None, next.run(request).await)
    } else {
        let Some(place) = Place::take(&shared) else {
            Counters::add(&shared.counters.refused, 1);
            Counters::add(&shared.counters.too_much, 1);
            return too_many(&shared).into_response();
        };
        (Some(place), answered(&shared, request, next).await)
    };
    let exact = |answer: &Response| answer.body().size_hint().exact();
    // A stream has a seat, and no place.
    let Some(bytes) = exact(&answer) else {
        count(&shared.counters, answer.status());
        return answer;
    };
    let mut weight = Weight::none(&shared.leaving);
    if !weight.add(bytes) {
        // Only what has changed nothing is refused when it is done.
        if is_asking && place.is_some() {
            answer = unreadable(&shared.leaving).into_response();
        }
        weight.add_anyway(exact(&answer).unwrap_or(0));
    }
    count(&shared.counters, answer.status());
    answer.map(|body| unread::kept(body, place, weight, unread.as_ref()))
}

/// The answer of who leads.
async fn answered(shared: &Api, request: Request, next: Next) -> Response {
    if shared.leaving.is_full() {
        return unreadable(&shared.leaving).into_response();
    }
    // What was sent is in memory until it is answered.
    let (request, _weight) = match whole(request, &shared.arriving).await {
        Ok(request) => request,
        Err(refusal) => return refusal.into_response(),
    };
    match forward::whom(shared, &request) {
        Some(leader) => forward::ask(shared, &leader, request).await,
        None => next.run(request).await,
    }
}

fn count(counters: &Counters, status: StatusCode) {
    if status.is_client_error() || status.is_server_error() {
        Counters::add(&counters.refused, 1);
    }
    if status == StatusCode::TOO_MANY_REQUESTS {
        Counters::add(&counters.too_much, 1);
    }
}

fn unreadable(leaving: &Load) -> Refusal {
    let message = format!("answers of {} MiB wait to be read already", leaving.max >> 20);
    let seconds = TAKEN_WITHIN.as_secs();
    let remedy = format!(
        "read what was asked for, or ask for shorter pages; who takes nothing of an answer for {seconds} s \
         is hung up on"
    );
    Refusal(Refused { remedy: remedy.into(), ..Refused::new(Code::TooMuch, message) })
}

/// What is shown as a token; the word before it is the same in any case (RFC 9110).
fn token(given: &str) -> Option<&str> {
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// What everybody is told who comes when there are as many connections as there may be; who looks after the
/// server is answered. How many may come so is bounded by who takes their connections.
pub(crate) fn full(shared: &Api, connections: usize) -> Router {
    let refuse = async move |State(shared): State<Api>| {
        Counters::add(&shared.counters.refused, 1);
        Counters::add(&shared.counters.too_much, 1);
        let message = format!("{connections} connections are open already");
        let remedy = "close one, or retry later; to allow more, raise the server's limit of open files (`ulimit -n`)";
        Refusal(Refused { remedy: remedy.into(), ..Refused::new(Code::TooMuch, message) })
    };
    Router::new()
        .route(LOOKED_AT, get(metrics::metrics))
        .layer(from_fn_with_state(Arc::clone(shared), admit))
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .fallback(refuse)
        .with_state(Arc::clone(shared))
}

fn too_many(shared: &Shared) -> Refusal {
    let message = format!("{} requests are being answered already", shared.bounds.requests);
    let remedy = "wait a moment, then retry; `sterna server --requests-max` sets the limit";
    Refusal(Refused { remedy: remedy.into(), ..Refused::new(Code::TooMuch, message) })
}

/// A request with its whole body: who sends a part of it and then nothing must not keep a place.
async fn whole(request: Request, arriving: &Arc<Load>) -> Answer<(Request, Weight)> {
    let (head, body) = request.into_parts();
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    let mut weight = Weight::none(arriving);
    let body =
        timeout(BODY_WITHIN, collect(Limited::new(body, BODY_MAX), arriving, &mut weight)).await;
    let body = body.unwrap_or_else(|_| {
        let seconds = BODY_WITHIN.as_secs();
        Err(bad(format!("the request was not complete after {seconds} s")))
    });
    Ok((Request::from_parts(head, body?.into()), weight))
}

/// All of a body. It is copied as it comes: small pieces would hold much more than they are.
async fn collect(mut body: Limited<Body>, arriving: &Load, weight: &mut Weight) -> Answer<Bytes> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() { too_large() } else { bad("the request broke off") }
        })?;
        // No request of ours has trailers.
        let Ok(bytes) = frame.into_data() else { continue };
        if !weight.add(bytes.len() as u64) {
            return Err(overloaded(arriving));
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all.freeze())
}

fn too_large() -> Refusal {
    let message = format!("the request body has more than {BODY_MAX} bytes");
    Refusal(Refused::new(Code::TooLarge, message))
}

fn overloaded(arriving: &Load) -> Refusal {
    let message = format!("bodies of {} MiB are on their way in already", arriving.max >> 20);
    let remedy = "wait a moment, then retry; send less at once";
    Refusal(Refused { remedy: remedy.into(), ..Refused::new(Code::TooMuch, message) })
}

/// A request that is being answered, until its answer is written.
struct Place(Api);

impl Place {
    fn take(shared: &Api) -> Option<Self> {
        let place = Self(Arc::clone(shared));
        let before = shared.counters.requests.fetch_add(1, Ordering::Relaxed);
        (before < shared.bounds.requests).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.counters.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Compares without telling by time how much of it is right.
fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    let differences = given.iter().zip(wanted).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == wanted.len() && differences == 0
}

/// A namespace that was given in a path.
fn namespace(text: &str) -> Answer<Namespace> {
    Namespace::new(text).map_err(|error| bad(crate::because(&error)))
}

/// A name that was given in a path.
fn name(text: &str) -> Answer<Name> {
    Name::new(text).map_err(|error| bad(crate::because(&error)))
}

fn task_key(namespace: &str, task: &str) -> Answer<TaskKey> {
    let (namespace, task) = (self::namespace(namespace)?, name(task)?);
    Ok(TaskKey { namespace, name: task })
}

fn bad(message: impl Into<Box<str>>) -> Refusal {
    Refusal(Refused::new(Code::BadRequest, message))
}

fn not_found(what: &str) -> Refusal {
    Refusal(Refused::new(Code::NotFound, format!("there is no {what}")))
}

/// How a list is read.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct Paging {
    /// So many at most; 100 if nothing is said, and 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only those after this one: what the page before gave as `next`.
    after: Option<String>,
}

impl Paging {
    /// So many at most.
    fn limit(&self) -> Answer<usize> {
        let limit = self.limit.map_or(Ok(100), usize::try_from).unwrap_or(usize::MAX);
        check_limit(limit)?;
        Ok(limit)
    }
}

/// A page that would hold less than was asked for would be taken for the last.
fn check_limit(limit: usize) -> Answer<()> {
    match limit {
        0 => Err(bad("limit: 0 is an empty page; ask for 1 to 1,000")),
        1..=1_000 => Ok(()),
        more => Err(bad(format!("limit: {more} is more than one page; ask for 1 to 1,000"))),
    }
}

/// How a list is read of what has phases.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// So many at most; 100 if nothing is said, and 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only those after this one: what the page before gave as `next`.
    after: Option<String>,
    /// Only those in this phase; of workers, only those of this health.
    phase: Option<String>,
}

impl Listing {
    fn paging(&self) -> Paging {
        Paging { limit: self.limit, after: self.after.clone() }
    }

    /// Whether what is in this phase is asked for.
    fn is_in(&self, phase: &str) -> bool {
        self.phase.as_deref().is_none_or(|wanted| wanted == phase)
    }

    /// A phase that there is not is a mistake, not an empty list.
    fn check_phase(&self, words: &[&str]) -> Answer<()> {
        match &self.phase {
            Some(phase) if !words.contains(&phase.as_str()) => {
                Err(bad(format!("phase: {phase:?} is none of {}", words.join(", "))))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// How a list is narrowed of what has names.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct Named {
    /// Only those whose names begin so.
    prefix: Option<String>,
}

impl Named {
    /// Whether a name is one of those that are asked for.
    fn is_asked(&self, name: &Name) -> bool {
        self.prefix.as_deref().is_none_or(|prefix| name.as_str().starts_with(prefix))
    }
}

/// One page of what is there, in its order.
fn page<K: Ord + FromStr + ToString, S, T>(
    paging: &Paging,
    all: impl Iterator<Item = (K, S)>,
    view: impl Fn(S) -> T,
) -> Answer<sterna_api::rest::Page<T>> {
    let limit = paging.limit()?;
    let after = paging.after.as_deref().filter(|after| !after.is_empty());
    let after = after.map(K::from_str).transpose();
    let after = after.map_err(|_| bad("after: it is not what a page gave as `next`"))?;
    let is_left = |(key, _): &(K, S)| after.as_ref().is_none_or(|after| key > after);
    let mut rest = all.filter(is_left).peekable();
    let (mut items, mut last) = (Vec::new(), None);
    while items.len() < limit
        && let Some((key, item)) = rest.next()
    {
        items.push(view(item));
        last = Some(key);
    }
    let next = if rest.peek().is_some() { last.map(|last| last.to_string()) } else { None };
    Ok(sterna_api::rest::Page { items, next })
}
