//! The cluster as a whole.

use std::collections::BTreeMap;

use axum::{Json, extract::State, response::IntoResponse};
use http::StatusCode;
use sterna_api::rest::{Awaiting, Counts, Status};
use sterna_engine::control::WorkerSeen;
use sterna_model::{BootTime, Namespace, payload::Facts};
use sterna_store::machine::boot_time;

use super::{Answer, Api, described::Refusals, fleet, given::Query, namespace};
use crate::counts::health;

/// So many workers are named; the others are counted.
const NAMED: usize = 3;

/// What is counted.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Only {
    /// Only services and tasks of this namespace; those of all of them if none is named.
    namespace: Option<String>,
}

/// The cluster as a whole.
#[utoipa::path(get, operation_id = "getStatus", path = "/v1/status", tag = "cluster", params(Only),
    responses((status = 200, description = "The state of the cluster.", body = Status), Refusals))]
pub(super) async fn status(
    State(shared): State<Api>,
    Query(only): Query<Only>,
) -> Answer<Json<Status>> {
    let only = only.namespace.as_deref().map(namespace).transpose()?;
    let is_meant = |of: &Namespace| only.as_ref().is_none_or(|only| only == of);
    let lead = shared.lead()?;
    let workers = fleet::workers(&shared).await?;
    let asked = shared.desk.ask(|leader, now| {
        let (fleet, is_recovered) = (leader.fleet(), leader.control().is_recovered());
        let doors = fleet.doors();
        // Beside these only batches wait, and there are none yet.
        let is_open = doors.unclaimed && doors.unclaimed_kept;
        let awaited = if is_open { Vec::new() } else { fleet.awaited(now.boot) };
        (awaited, is_recovered, (!doors.unclaimed).then(|| fleet.safe_at()))
    });
    let (waits_for, is_recovered, shut_until) = asked.await?;
    let now = boot_time();
    let starts_nothing = shut_until
        .map(|until| starts_nothing(until.since(now).as_millis().div_ceil(1_000), is_recovered));
    let is_awaited = |until: BootTime| until > now;
    let waits_for = waits_for.into_iter().filter(|it| it.until.is_none_or(is_awaited));
    let waits_for = waits_for.map(|awaited| Awaiting {
        worker: awaited.name.to_string(),
        seconds: awaited.until.map(|until| until.since(now).as_millis().div_ceil(1_000)),
    });
    let mut by_health = BTreeMap::new();
    for worker in &workers {
        *by_health.entry(health(worker.health).to_owned()).or_insert(0) += 1;
    }
    let mirror = shared.mirror();
    let phases = mirror.totals.phases(only.as_ref());
    let tasks = phases.words().map(|(phase, count)| (phase.to_owned(), count)).collect();
    let outcomes = phases.outcomes();
    let outcomes = outcomes.map(|(outcome, count)| (outcome.to_owned(), count)).collect();
    let services = mirror.services.iter().filter(|(key, _)| is_meant(&key.namespace));
    let wanted = services.clone().map(|(_, service)| service.spec.instances as usize).sum();
    let running = services.clone().map(|(key, _)| mirror.count(key).running as usize).sum();
    let taken_back = services.clone().filter(|(_, service)| service.taken_back.is_some());
    let taken_back = taken_back.map(|(key, _)| format!("{}/service/{}", key.namespace, key.name));
    Ok(Json(Status {
        cluster: lead.cluster,
        epoch: lead.epoch.get(),
        term: lead.term.get(),
        leader: shared.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: mirror.revision.get(),
        store: shared.store.about().engine,
        takes_work: starts_nothing.is_none() && workers.iter().any(|worker| worker.takes_work),
        starts_nothing,
        workers: by_health,
        tasks,
        outcomes,
        services: Counts { services: services.count(), wanted, running },
        taken_back: taken_back.collect(),
        waits_for: waits_for.collect(),
        is_recovered,
        warnings: warnings(&shared).chain(unheld(&workers)).collect(),
    }))
}

/// What is wrong with the store.
fn warnings(shared: &Api) -> impl Iterator<Item = String> {
    shared.stuck().into_iter().chain(shared.store.warnings())
}

/// What workers that are there cannot hold runs to, said once of all of whom it is so.
fn unheld(workers: &[WorkerSeen]) -> Vec<String> {
    let mut said: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for worker in workers.iter().filter(|worker| worker.health.is_some()) {
        let lacks = Facts::read(&worker.facts).unheld;
        if !lacks.is_empty() {
            said.entry(lacks.join("; ")).or_default().push(worker.name.as_str());
        }
    }
    let warning = |(lacks, who): (String, Vec<&str>)| {
        let named = who.get(..NAMED.min(who.len())).unwrap_or_default().join(", ");
        let more = who.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{named}{more}: {lacks}; start it as root, or give it cgroups (Delegate=yes)")
    };
    said.into_iter().map(warning).collect()
}

/// Why nothing is started after a restore, and what ends that.
fn starts_nothing(seconds: u64, is_recovered: bool) -> String {
    let mut text =
        "the store was restored, and work that it has forgotten may still run".to_owned();
    if seconds > 0 {
        text += &format!(
            ": the leader starts nothing for {seconds} s more, until that work has certainly ended"
        );
    }
    text += match (seconds > 0, is_recovered) {
        (true, true) => {
            "; work that a missing worker may still run also waits for `sterna declare-complete`; use it when `sterna \
             ls workers` lists every worker"
        }
        (true, false) => "",
        (false, true) => {
            ": the leader starts nothing until `sterna declare-complete`; use it when `sterna ls workers` lists every \
             worker"
        }
        (false, false) => {
            ": the leader starts nothing until every worker on the list is back or declared dead"
        }
    };
    text
}

/// Whether this process is alive.
#[utoipa::path(get, operation_id = "isAlive", path = "/healthz", tag = "cluster", security(()),
    responses((status = 200, description = "It is.", body = String, content_type = "text/plain")))]
pub(super) async fn healthz() -> &'static str {
    "alive\n"
}

/// Whether this server can answer requests: it leads, or knows the leader.
#[utoipa::path(get, operation_id = "isReady", path = "/readyz", tag = "cluster", security(()),
    responses((status = 200, description = "It can.", body = String, content_type = "text/plain"),
        (status = 503, description = "It cannot, and why.", body = String, content_type = "text/plain")))]
pub(super) async fn readyz(State(shared): State<Api>) -> impl IntoResponse {
    if let Some(leader) = shared.leader_elsewhere() {
        return (StatusCode::OK, format!("ready: {leader} leads\n"));
    }
    let hindrance = shared.lead().err().map(|refused| refused.message.into_string());
    match hindrance.or_else(|| shared.stuck()) {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
