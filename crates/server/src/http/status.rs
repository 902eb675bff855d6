//! The cluster as a whole.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};

use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};
use serde_json::Value;
use sterna_api::rest::{Awaiting, Counts, Status};
use sterna_engine::control::WorkerSeen;
use sterna_model::{BootTime, Namespace};
use sterna_store::machine::boot_time;

use super::{Answer, Api, described::Refusals, fleet, given::Query, namespace};
use crate::{bounds::Bounds, mirror::Mirror};

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
    responses((status = 200, description = "How the cluster is.", body = Status), Refusals))]
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
        *by_health.entry(fleet::health(worker).to_owned()).or_insert(0) += 1;
    }
    let mirror = shared.mirror();
    let mut tasks = BTreeMap::new();
    for (_, (task, _)) in mirror.tasks.iter().filter(|(key, _)| is_meant(&key.namespace)) {
        *tasks.entry(task.phase().as_str().to_owned()).or_insert(0) += 1;
    }
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
        services: Counts { services: services.count(), wanted, running },
        taken_back: taken_back.collect(),
        waits_for: waits_for.collect(),
        is_recovered,
        warnings: shared.store.warnings().into_iter().chain(unheld(&workers)).collect(),
    }))
}

/// What workers that are there cannot hold runs to, said once of all of whom it is so.
fn unheld(workers: &[WorkerSeen]) -> Vec<String> {
    let mut said: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for worker in workers.iter().filter(|worker| worker.health.is_some()) {
        let facts: Value = serde_json::from_slice(&worker.facts).unwrap_or_default();
        let lacks = facts["unheld"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let lacks: Vec<_> = lacks.collect();
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
    let mut text = "the store was restored, and what it has forgotten may still run".to_owned();
    if seconds > 0 {
        text +=
            &format!(": nothing is started for {seconds} s more, until that has certainly ended");
    }
    text += match (seconds > 0, is_recovered) {
        (true, true) => {
            "; what may be kept waits for `sterna declare-complete` too, when `sterna ls workers` has \
             every worker that there was"
        }
        (true, false) => "",
        (false, true) => {
            ": nothing is started until `sterna declare-complete`; say it when `sterna ls workers` has \
             every worker that there was"
        }
        (false, false) => {
            ": nothing is started until every worker on the list is back, or declared dead"
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

/// Whether this server can be asked for anything: it leads, or knows who does.
#[utoipa::path(get, operation_id = "isReady", path = "/readyz", tag = "cluster", security(()),
    responses((status = 200, description = "It can.", body = String, content_type = "text/plain"),
        (status = 503, description = "It cannot, and why.", body = String, content_type = "text/plain")))]
pub(super) async fn readyz(State(shared): State<Api>) -> impl IntoResponse {
    if let Some(leader) = shared.leader_elsewhere() {
        return (StatusCode::OK, format!("ready: {leader} leads\n"));
    }
    match shared.lead() {
        Ok(_) => (StatusCode::OK, "ready\n".to_owned()),
        Err(refused) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", refused.message)),
    }
}

/// What is under way, and how much of it there may be.
fn under_way(mirror: &Mirror, bounds: &Bounds) -> [(&'static str, &'static str, u64); 4] {
    let specs = "What specs of services and of tasks that are not over take.";
    [
        ("tasks_under_way", "Tasks that are not over.", mirror.under_way as u64),
        ("tasks_under_way_max", "How many there may be.", bounds.tasks as u64),
        ("specs_bytes", specs, mirror.specs_bytes),
        ("specs_bytes_max", "How much there may be.", bounds.specs_bytes),
    ]
}

/// What is counted, in Prometheus' own words.
#[utoipa::path(get, operation_id = "getMetrics", path = "/metrics", tag = "cluster",
    responses((status = 200, description = "What is counted.", body = String, content_type = "text/plain"), Refusals))]
pub(super) async fn metrics(State(shared): State<Api>) -> impl IntoResponse {
    let counters = &shared.counters;
    let mut text = String::new();
    let mut counted = |name: &str, kind: &str, help: &str, value: u64| {
        // Writing to a string does not fail.
        let _: Result<(), std::fmt::Error> = write!(
            text,
            "# HELP sterna_{name} {help}\n# TYPE sterna_{name} {kind}\nsterna_{name} {value}\n"
        );
    };
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let is_leading = u64::from(shared.lead().is_ok());
    counted("leading", "gauge", "Whether this server leads.", is_leading);
    counted("commits_total", "counter", "Commits that stand.", read(&counters.commits));
    counted(
        "commit_microseconds_total",
        "counter",
        "Time until they stood.",
        read(&counters.commit_micros),
    );
    counted("writes_total", "counter", "Records written.", read(&counters.writes));
    counted(
        "decide_microseconds_total",
        "counter",
        "Time the leader took to decide.",
        read(&counters.busy_micros),
    );
    counted("requests", "gauge", "Requests being answered.", read(&counters.requests));
    counted("refused_total", "counter", "Requests refused.", read(&counters.refused));
    counted(
        "forwarded_total",
        "counter",
        "Requests handed on to the server that leads.",
        read(&counters.forwarded),
    );
    counted(
        "forwarding",
        "gauge",
        "Connections to the server that leads.",
        shared.lines.count() as u64,
    );
    counted("forwarding_max", "gauge", "How many there may be.", shared.lines.max as u64);
    counted("too_much_total", "counter", "Requests refused at a bound.", read(&counters.too_much));
    counted("connections", "gauge", "Connections that are open.", read(&counters.connections));
    counted(
        "open_streams",
        "gauge",
        "Streams of events, logs and endpoints.",
        read(&counters.open_streams),
    );
    counted("open_streams_max", "gauge", "How many there may be.", shared.bounds.streams);
    counted("requests_max", "gauge", "How many requests there may be.", shared.bounds.requests);
    counted("event_readers", "gauge", "Readers of events.", read(&counters.readers));
    counted("streams_total", "counter", "Streams opened by workers.", read(&counters.streams));
    counted("alarms_total", "counter", "Alarms.", read(&counters.alarms));
    counted("callbacks_total", "counter", "Callbacks tried.", read(&counters.callbacks));
    let mirror = shared.mirror();
    counted("tasks", "gauge", "Tasks with a record.", mirror.tasks.len() as u64);
    counted("names", "gauge", "Names of tasks whose record went.", read(&counters.names));
    for (name, help, value) in under_way(&mirror, &shared.bounds) {
        counted(name, "gauge", help, value);
    }
    counted("services", "gauge", "Services.", mirror.services.len() as u64);
    counted("instances", "gauge", "Instances with a record.", mirror.instances.len() as u64);
    let running = mirror.services.keys().map(|key| u64::from(mirror.count(key).running)).sum();
    counted("instances_running", "gauge", "Instances that run.", running);
    let wanted = mirror.services.values().map(|it| u64::from(it.spec.instances)).sum();
    counted("instances_wanted", "gauge", "Instances that services want.", wanted);
    counted("workers", "gauge", "Workers on the roster.", mirror.roster.len() as u64);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}
