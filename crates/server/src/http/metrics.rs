//! What is counted, for Prometheus. Nothing is waited for, and no more than the lists of services and
//! workers are looked through: it is answered when everything else is refused.

use std::{
    fmt::{Display, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

use axum::{extract::State, response::IntoResponse};
use http::header;

use super::{Api, described::Refusals};
use crate::{desk::CALLS_WAITING, shared::Shared};

/// Metrics in the text format of Prometheus.
#[utoipa::path(get, operation_id = "getMetrics", path = "/metrics", tag = "cluster",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"), Refusals))]
pub(super) async fn metrics(State(shared): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], all(&shared))
}

fn all(shared: &Shared) -> String {
    let mut text = Text::default();
    of_server(shared, &mut text);
    of_work(shared, &mut text);
    of_workers(shared, &mut text);
    text.0
}

/// What is written so far.
#[derive(Default)]
struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "gauge", help);
        self.line(format_args!("sterna_{name} {value}"));
    }

    fn counter(&mut self, name: &str, help: &str, value: &AtomicU64) {
        self.head(name, "counter", help);
        self.line(format_args!("sterna_{name} {}", read(value)));
    }

    /// One value for each word of a label.
    fn gauges(
        &mut self,
        (name, label): (&str, &str),
        help: &str,
        values: impl Iterator<Item = (&'static str, u64)>,
    ) {
        self.head(name, "gauge", help);
        for (word, value) in values {
            self.line(format_args!("sterna_{name}{{{label}=\"{word}\"}} {value}"));
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP sterna_{name} {help}"));
        self.line(format_args!("# TYPE sterna_{name} {kind}"));
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a string does not fail.
        let _: Result<(), std::fmt::Error> = writeln!(self.0, "{line}");
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn of_server(shared: &Shared, text: &mut Text) {
    let (counters, bounds) = (&shared.counters, &shared.bounds);
    text.gauge("leading", "Whether this server leads.", shared.lead().is_ok().into());
    text.counter("commits_total", "Commits that stand.", &counters.commits);
    text.counter("commit_microseconds_total", "Time until they stood.", &counters.commit_micros);
    text.counter("writes_total", "Records written.", &counters.writes);
    let help = "Time the leader took to decide.";
    text.counter("decide_microseconds_total", help, &counters.busy_micros);
    text.gauge("requests", "Requests whose answer is not written yet.", read(&counters.requests));
    text.gauge("requests_max", "How many requests there may be.", bounds.requests);
    let help = "Bytes of bodies that are on their way in.";
    text.gauge("arriving_bytes", help, shared.arriving.bytes());
    text.gauge("arriving_bytes_max", "How many there may be.", shared.arriving.max);
    let help = "Bytes of answers that are not read yet.";
    text.gauge("leaving_bytes", help, shared.leaving.bytes());
    text.gauge("leaving_bytes_max", "How many there may be.", shared.leaving.max);
    text.counter("refused_total", "Requests refused.", &counters.refused);
    let help = "Requests handed on to the server that leads.";
    text.counter("forwarded_total", help, &counters.forwarded);
    let lines = shared.lines.count() as u64;
    text.gauge("forwarding", "Connections to the server that leads.", lines);
    text.gauge("forwarding_max", "How many there may be.", shared.lines.max as u64);
    text.counter("too_much_total", "Requests refused at a bound.", &counters.too_much);
    text.gauge("connections", "Connections that are open.", read(&counters.connections));
    let most = shared.files.connections as u64;
    text.gauge("connections_max", "How many there may be.", most);
    let waiting = shared.desk.waiting() as u64;
    text.gauge("calls_waiting", "Calls that wait for the leader.", waiting);
    text.gauge("calls_waiting_max", "How many there may be.", CALLS_WAITING as u64);
    let help = "Streams of events, logs and endpoints.";
    text.gauge("open_streams", help, read(&counters.open_streams));
    text.gauge("open_streams_max", "How many there may be.", bounds.streams);
    text.gauge("event_readers", "Readers of events.", read(&counters.readers));
    text.counter("streams_total", "Streams opened by workers.", &counters.streams);
    text.counter("alarms_total", "Alarms.", &counters.alarms);
    text.counter("callbacks_total", "Callbacks tried.", &counters.callbacks);
}

fn of_work(shared: &Shared, text: &mut Text) {
    let (mirror, bounds) = (shared.mirror(), &shared.bounds);
    let phases = mirror.totals.phases(None);
    text.gauge("tasks", "Tasks with a record.", mirror.tasks.len() as u64);
    let by_phase = phases.all().map(|(phase, count)| (phase.as_str(), count as u64));
    text.gauges(("tasks_by_phase", "phase"), "Tasks with a record, by phase.", by_phase);
    let names = read(&shared.counters.names);
    text.gauge("names", "Names of tasks whose record went.", names);
    text.gauge("tasks_under_way", "Tasks that are not over.", mirror.totals.under_way as u64);
    text.gauge("tasks_under_way_max", "How many there may be.", bounds.tasks as u64);
    let telling = "Tasks that are over, and whose callback is still tried.";
    text.gauge("tasks_telling", telling, mirror.totals.telling as u64);
    text.gauge("tasks_telling_max", "How many there may be.", bounds.tasks as u64);
    let specs = "What specs of services, of definitions and of tasks that are not over take.";
    text.gauge("specs_bytes", specs, mirror.totals.specs_bytes);
    text.gauge("specs_bytes_max", "How much there may be.", bounds.specs_bytes);
    text.gauge("services", "Services.", mirror.services.len() as u64);
    text.gauge("services_max", "How many there may be.", bounds.services as u64);
    text.gauge("instances", "Instances with a record.", mirror.instances.len() as u64);
    text.gauge("instances_max", "How many there may be.", bounds.instances as u64);
    let running = mirror.services.keys().map(|key| u64::from(mirror.count(key).running)).sum();
    text.gauge("instances_running", "Instances that run.", running);
    let wanted = mirror.services.values().map(|it| u64::from(it.spec.instances)).sum();
    text.gauge("instances_wanted", "Instances that services want.", wanted);
    text.gauge("definitions", "Definitions.", mirror.definitions.len() as u64);
    text.gauge("definitions_max", "How many there may be.", bounds.definitions as u64);
    text.gauge("domains", "Domains.", mirror.domains.len() as u64);
    text.gauge("domains_max", "How many there may be.", bounds.domains as u64);
}

fn of_workers(shared: &Shared, text: &mut Text) {
    let (on_roster, dead, draining) = {
        let mirror = shared.mirror();
        let dead = mirror.roster.values().filter(|entry| entry.is_declared_dead).count();
        (mirror.roster.len() as u64, dead as u64, mirror.drains.len() as u64)
    };
    let workers = shared.workers();
    text.gauge("workers", "Workers on the roster.", on_roster);
    let most = shared.bounds.workers as u64;
    let help = "How many there may be, beside those that were declared dead.";
    text.gauge("workers_max", help, most);
    let help = "Those of them that were declared dead.";
    text.gauge("workers_declared_dead", help, dead);
    let help = "Workers that the leader knows, by health.";
    text.gauges(("workers_by_health", "health"), help, workers.by_health());
    text.gauge("workers_silent", "Workers that are not heard now.", workers.silent);
    text.gauge("workers_taking_work", "Workers that are given work.", workers.taking);
    text.gauge("workers_draining", "Workers that are drained.", draining);
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;
    use crate::shared::leading;

    /// What is said, by its name.
    fn said() -> BTreeSet<String> {
        let (shared, ..) = leading();
        let text = all(&shared);
        let heads = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        heads.filter_map(|head| Some(head.split_once(' ')?.0.to_owned())).collect()
    }

    #[test]
    fn every_metric_is_documented_and_none_that_is_not_said() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
        let page = fs::read_to_string(path).unwrap();
        let part = page.split("\n## ").find(|part| part.starts_with("Metrics\n")).unwrap();
        let rows = part.lines().filter_map(|line| line.strip_prefix("| `sterna_"));
        let cells = rows.filter_map(|row| row.split_once(" |")).map(|(names, _)| names);
        let mut documented = BTreeSet::new();
        for name in cells.flat_map(|names| names.split("`, `sterna_")) {
            let name = name.trim_end_matches('`').split('{').next().unwrap_or_default();
            assert!(documented.insert(format!("sterna_{name}")), "{name} is there twice");
        }
        assert_eq!(documented, said());
    }

    #[test]
    fn beside_each_most_is_what_there_is() {
        let said = said();
        let bounds: Vec<_> = said.iter().filter_map(|name| name.strip_suffix("_max")).collect();
        assert!(bounds.len() >= 14 && bounds.iter().all(|name| said.contains(*name)), "{bounds:?}");
    }
}
