//! What is asked to see whether work is well, as its worker reads it.

use serde_json::json;
use sterna_executor::monitor::Limits;
use sterna_model::{
    Span, nearest_word,
    payload::{Monitor, Probe},
    quoted,
};

use super::{
    command::{self, Variables},
    fields::{Fields, Said},
    problem::Found,
    schema::MONITOR,
};

const INTERVAL_MIN: Span = Span::from_millis(100);
const TIMEOUT_MIN: Span = Span::from_millis(10);
const FAILURES_MAX: u32 = 1_000;

/// Reads a monitor of work that has these variables.
pub(super) fn read(said: &Said<'_>, known: &Variables, found: &mut Found<'_>) -> Option<Monitor> {
    let fields = said.form(&MONITOR, found)?;
    let mut limits = Limits::default();
    if let Some(interval) = fields.get("interval").and_then(|said| said.span(INTERVAL_MIN, found)) {
        limits.healthy_every = interval;
        limits.starting_every = limits.starting_every.min(interval);
    }
    if let Some(timeout) = fields.get("timeout").and_then(|said| said.span(TIMEOUT_MIN, found)) {
        limits.timeout = timeout;
    }
    if let Some(said) = fields.get("start_timeout") {
        limits.start_timeout = if said.is_never() { None } else { said.span(TIMEOUT_MIN, found) };
    }
    if let Some(failures) =
        fields.get("failures").and_then(|said| said.whole(&(1..=u64::from(FAILURES_MAX)), found))
    {
        limits.failures_max = u32::try_from(failures).unwrap_or(FAILURES_MAX);
    }
    let probe = probe(said, &fields, known, found)?;
    let Limits { starting_every, healthy_every, timeout, failures_max, start_timeout } = limits;
    Some(Monitor { probe, starting_every, healthy_every, timeout, failures_max, start_timeout })
}

fn probe(
    said: &Said<'_>,
    fields: &Fields<'_>,
    known: &Variables,
    found: &mut Found<'_>,
) -> Option<Probe> {
    let ports = known.ports.as_slice();
    let port = fields.get("port");
    // tidy: not a table
    match (fields.get("http"), fields.get("tcp"), fields.get("run")) {
        (Some(path), None, None) => {
            let port = match &port {
                Some(said) => asked(said, ports, found),
                None => only(&path, ports, found),
            };
            let path = checked_path(&path, found);
            Some(Probe::Http(port?, path?))
        }
        (None, Some(tcp), None) => {
            refuse_port(port.as_ref(), found);
            asked(&tcp, ports, found).map(Probe::Tcp)
        }
        (None, None, Some(run)) => {
            refuse_port(port.as_ref(), found);
            Some(Probe::Command(command::words(&run, known, found)))
        }
        _ => {
            let reason = "this must have exactly one of http, tcp and run";
            said.refuse(reason, said.example(found), found);
            None
        }
    }
}

fn refuse_port(port: Option<&Said<'_>>, found: &mut Found<'_>) {
    if let Some(said) = port {
        said.refuse("only http has a port beside it", "leave it out; tcp names its own", found);
    }
}

/// The port that is said, if the work has it.
fn asked(said: &Said<'_>, ports: &[String], found: &mut Found<'_>) -> Option<String> {
    let text = said.text(found)?;
    if ports.iter().any(|port| port == text) {
        return Some(text.to_owned());
    }
    let reason = format!("no port is called {}", quoted(text));
    let remedy = match ports {
        [] => format!("add {}", found.line("ports", &json!([text]))),
        ports => match nearest_word(text, ports.iter().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("write one of: {}", ports.join(", ")),
        },
    };
    said.refuse(reason, remedy, found);
    None
}

/// The only port that there is.
fn only(said: &Said<'_>, ports: &[String], found: &mut Found<'_>) -> Option<String> {
    match ports {
        [port] => Some(port.clone()),
        [] => {
            let remedy = format!("add {}", found.line("ports", &json!(["http"])));
            said.refuse("there is no port to ask", remedy, found);
            None
        }
        [first, ..] => {
            let reason = format!("the port to ask is not named, and there are {}", ports.len());
            let remedy = format!("add {}, or another of them", found.line("port", &json!(first)));
            said.refuse(reason, remedy, found);
            None
        }
    }
}

fn checked_path(said: &Said<'_>, found: &mut Found<'_>) -> Option<String> {
    let text = said.text(found)?;
    // It goes into a request as it is.
    if !text.starts_with('/') || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let reason = format!("{} is not a path", quoted(text));
        said.refuse(reason, "begin it with '/', and write spaces as %20", found);
        return None;
    }
    Some(text.to_owned())
}
