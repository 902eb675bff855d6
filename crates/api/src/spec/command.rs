//! The command and what it finds around it, as its worker reads it.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde_json::json;
use sterna_model::{
    Bytes, Span,
    payload::{
        Limits, Logging, ProcessGroup, Signal, Signals, To, WORK_BYTES_MAX, WhenOver,
        WhenWorkerExits, Work,
    },
    quoted,
};

use super::{
    fields::{Fields, Said},
    image::{self, Image},
    placement::Asked,
    problem::Found,
    schema::{LIMITS, LOGS, SIGNALS},
    tree::Value,
};

const PORTS_MAX: usize = 64;
/// Limits of each process, as the kernel and the worker call them.
const RLIMITS: [&str; 9] =
    ["as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "stack"];
const SIGNALS_SENT: [(&str, Signal); 7] = [
    ("TERM", Signal::Term),
    ("INT", Signal::Int),
    ("QUIT", Signal::Quit),
    ("HUP", Signal::Hup),
    ("USR1", Signal::Usr1),
    ("USR2", Signal::Usr2),
    ("KILL", Signal::Kill),
];

/// What words of a command may speak of.
pub(super) struct Variables {
    /// The names of the ports that the worker gives.
    pub(super) ports: Vec<String>,
    /// What the work brings itself.
    own: Vec<String>,
}

impl Variables {
    fn has(&self, variable: &str) -> bool {
        let is_port = self.ports.iter().any(|port| self::variable(port) == variable);
        is_port || self.own.iter().any(|own| own == variable)
    }
}

/// The work, as far as it is read.
pub(super) struct Command {
    pub(super) work: Work,
    pub(super) known: Variables,
}

impl Command {
    pub(super) fn read(fields: &Fields<'_>, asked: &Asked, found: &mut Found<'_>) -> Self {
        let ports = ports(fields, found);
        let env = env(fields, &ports, found);
        let own = env.keys().cloned().collect();
        let mut command = Self { work: Work::default(), known: Variables { ports, own } };
        let image = image::read(fields, found);
        let brings_its_own = image.as_ref().is_some_and(Image::has_command);
        let run = if brings_its_own { fields.get("run") } else { fields.need("run", found) };
        let work = &mut command.work;
        if let Some(said) = run {
            work.run = words(&said, &command.known, found);
        }
        let steps = fields.get("setup").map(|said| said.items(found)).unwrap_or_default();
        work.setup = steps.iter().map(|step| words(step, &command.known, found)).collect();
        work.env = env;
        work.ports = command.known.ports.clone();
        work.directory = fields.get("directory").and_then(|said| directory(&said, found));
        work.user = fields.get("user").and_then(|said| who(&said, found));
        work.group = fields.get("group").and_then(|said| who(&said, found));
        read_limits(work, fields, asked, found);
        work.signals = signals(fields, found);
        if let Some(image) = image {
            image.check(fields, &work.signals, found);
            work.image = image.work;
        }
        work.logs = logs(fields, found);
        let exits = [("stop", WhenWorkerExits::Stop), ("keep", WhenWorkerExits::Keep)];
        let said = fields.get("when_worker_exits").and_then(|said| said.choice(&exits, found));
        work.when_worker_exits = said.unwrap_or_default();
        command
    }

    /// As the worker reads it.
    pub(super) fn into_work(self, fields: &Fields<'_>, found: &mut Found<'_>) -> Arc<[u8]> {
        let work = self.work.to_bytes();
        if work.len() > WORK_BYTES_MAX {
            let reason = format!("what its workers must know of it takes {} bytes", work.len());
            let remedy = format!("keep it below {WORK_BYTES_MAX}: put what is long into files");
            found.add(&fields.spot, &fields.place, reason, remedy);
        }
        work.into()
    }
}

fn read_limits(work: &mut Work, fields: &Fields<'_>, asked: &Asked, found: &mut Found<'_>) {
    let Asked { cpu, memory, disk, wants: _ } = *asked;
    work.limits = Limits { cpu, memory, disk, pids: None };
    let Some(fields) = fields.get("limits").and_then(|said| said.form(&LIMITS, found)) else {
        return;
    };
    work.limits.pids = fields.get("pids").and_then(|said| said.count(found)).map(u64::from);
    let named = fields.get("rlimits").map(|said| said.pairs(found)).unwrap_or_default();
    for (entry, said) in named {
        if !RLIMITS.contains(&entry.key.as_str()) {
            let reason = "the kernel has no such limit for processes";
            let remedy = super::fields::meant(&entry.key, RLIMITS.into_iter());
            found.add(&entry.spot, &said.place, reason, remedy);
        } else if let Some(limit) = said.whole(&(0..=i64::MAX.unsigned_abs()), found) {
            work.rlimits.insert(entry.key.clone(), limit);
        }
    }
}

/// A command and its arguments.
pub(super) fn words(said: &Said<'_>, known: &Variables, found: &mut Found<'_>) -> Vec<String> {
    if let Value::Text(_) = said.node.value {
        let reason = "a command must be a list of words, and this is a text";
        let remedy = "write each word by itself, such as [\"make\", \"release\"], or [\"sh\", \"-c\", \"...\"]";
        said.refuse(reason, remedy, found);
        return Vec::new();
    }
    let items = said.items(found);
    if items.is_empty() && matches!(said.node.value, Value::List(_)) {
        said.refuse("the command is empty", "say what to run, such as [\"make\"]", found);
    }
    let mut words = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(word) = item.text(found) else { continue };
        if word.contains('\0') {
            item.refuse("a word of a command holds a NUL", "leave it out", found);
        }
        if index == 0 && word.is_empty() {
            item.refuse("the name of the command is empty", "say what to run", found);
        }
        for variable in port_variables(word) {
            if !known.has(variable) {
                let port = variable.trim_start_matches("PORT_").to_lowercase().replace('_', "-");
                let reason = format!("no port is given as ${{{variable}}}");
                let add = found.line("ports", &json!([port]));
                let remedy = format!("add {add}, or write $${{{variable}}} for the text itself");
                item.refuse(reason, remedy, found);
            }
        }
        words.push(word.to_owned());
    }
    words
}

/// The `PORT_…` that a worker is to put into a word.
fn port_variables(word: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in word.match_indices("${PORT_") {
        let is_escaped = word.get(..at).is_some_and(|before| before.ends_with('$'));
        let name = word.get(at + 2..).and_then(|rest| rest.split_once('}')).map(|(name, _)| name);
        let is_plain = |name: &&str| {
            name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        found.extend(name.filter(is_plain).filter(|_| !is_escaped));
    }
    found
}

/// How a worker calls a port in the environment.
fn variable(port: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("PORT_{}", port.chars().map(upper).collect::<String>())
}

fn ports(fields: &Fields<'_>, found: &mut Found<'_>) -> Vec<String> {
    let mut ports: Vec<String> = Vec::new();
    let items = fields.get("ports").map(|said| said.items(found)).unwrap_or_default();
    if let Some(said) = items.get(PORTS_MAX) {
        let reason = format!("there are {} ports", items.len());
        said.refuse(reason, format!("ask for at most {PORTS_MAX}"), found);
        return ports;
    }
    for said in items {
        let Some(port) = said.word::<sterna_model::Name>(found) else { continue };
        let port = port.to_string();
        if let Some(first) = ports.iter().find(|known| variable(known) == variable(&port)) {
            let reason = if *first == port {
                format!("the port '{port}' is named twice")
            } else {
                format!("'{first}' and '{port}' would both be given as {}", variable(&port))
            };
            said.refuse(reason, "leave one of them out, or give it another name", found);
        }
        ports.push(port);
    }
    ports
}

fn env(fields: &Fields<'_>, ports: &[String], found: &mut Found<'_>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for (entry, said) in fields.get("env").map(|said| said.pairs(found)).unwrap_or_default() {
        let name = entry.key.as_str();
        let wrong = if name.is_empty() || name.contains(['=', '\0']) {
            Some(("no variable can have this name", "write one without '=', such as LANG"))
        } else if name.starts_with("STERNA_") {
            Some((
                "the worker sets this variable itself, to say something of the run",
                "give it a name without STERNA_ in front",
            ))
        } else if ports.iter().any(|port| variable(port) == name) {
            Some((
                "the worker sets this variable itself, to the port that it gives",
                "leave it out, or rename the port",
            ))
        } else {
            None
        };
        if let Some((reason, remedy)) = wrong {
            found.add(&entry.spot, &said.place, reason, remedy);
        }
        let Some(value) = said.text(found) else { continue };
        if value.contains('\0') {
            said.refuse("the value of a variable holds a NUL", "leave it out", found);
        }
        env.insert(name.to_owned(), value.to_owned());
    }
    env
}

fn directory(said: &Said<'_>, found: &mut Found<'_>) -> Option<PathBuf> {
    let text = said.text(found)?;
    if !text.starts_with('/') || text.contains('\0') {
        let reason = format!("{} is not an absolute path", quoted(text));
        said.refuse(reason, "begin it with '/': it is looked for on the worker's machine", found);
        return None;
    }
    Some(text.into())
}

/// A user or a group: a name or a number.
fn who(said: &Said<'_>, found: &mut Found<'_>) -> Option<String> {
    if let Value::Number(_) = said.node.value {
        return said.whole(&(0..=u64::from(u32::MAX - 1)), found).map(|number| number.to_string());
    }
    let text = said.text(found)?;
    if text.is_empty() || text.contains([':', '\0', '\n']) {
        let reason = format!("{} is not a valid name", quoted(text));
        said.refuse(reason, "write a name or a number, such as \"www-data\"", found);
        return None;
    }
    Some(text.to_owned())
}

fn signals(fields: &Fields<'_>, found: &mut Found<'_>) -> Signals {
    let mut signals = Signals::default();
    let Some(fields) = fields.get("signals").and_then(|said| said.form(&SIGNALS, found)) else {
        return signals;
    };
    let sent = |said: Said<'_>, found: &mut Found<'_>| said.choice(&SIGNALS_SENT, found);
    signals.stop = fields.get("stop").and_then(|said| sent(said, found)).unwrap_or_default();
    signals.death = fields.get("death").and_then(|said| sent(said, found));
    let to = [("group", To::Group), ("process", To::Process), ("all", To::All)];
    signals.to = fields.get("to").and_then(|said| said.choice(&to, found)).unwrap_or_default();
    let group = [("own", ProcessGroup::Own), ("shared", ProcessGroup::Shared)];
    let group = fields.get("group").and_then(|said| said.choice(&group, found));
    signals.group = group.unwrap_or_default();
    if let Some(said) = fields.get("grace") {
        let grace =
            if said.is_never() { Some(None) } else { said.span(Span::ZERO, found).map(Some) };
        signals.grace = grace.unwrap_or(signals.grace);
    }
    signals.linger = fields.get("linger").and_then(|said| said.span(Span::ZERO, found));
    let is_shared = signals.group == ProcessGroup::Shared;
    let to = fields.get("to").filter(|_| is_shared && signals.to == To::Group);
    if let Some(said) = to {
        let reason = "a shared group is the guardian's, which must not be asked to end";
        said.refuse(reason, "write \"process\" or \"all\"", found);
    }
    signals
}

fn logs(fields: &Fields<'_>, found: &mut Found<'_>) -> Logging {
    let mut logs = Logging::default();
    let Some(fields) = fields.get("logs").and_then(|said| said.form(&LOGS, found)) else {
        return logs;
    };
    if let Some(said) = fields.get("rate") {
        logs.rate = said.amount::<Bytes>(found);
        if logs.rate == Some(Bytes::new(0)) {
            said.refuse("nothing could ever be written", "write 1kB or more", found);
        }
    }
    let over = [("wait", WhenOver::Wait), ("drop", WhenOver::Drop)];
    let over = fields.get("when_over").and_then(|said| said.choice(&over, found));
    logs.when_over = over.unwrap_or_default();
    logs
}
