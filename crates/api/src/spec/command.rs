//! The command and what it finds around it, as its worker reads it: JSON, in which only that stands
//! which differs from what the worker takes for granted.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use sterna_model::{Bytes, Span, quoted};

use super::{
    fields::{Fields, Said},
    image,
    placement::Asked,
    problem::Found,
    schema::{LIMITS, LOGS, SIGNALS},
    tree::Value,
};

/// The store takes a record of a megabyte; this and the notes leave it room.
const WORK_BYTES_MAX: usize = 256 * 1024;
const PORTS_MAX: usize = 64;
/// Limits of each process, as the kernel and the worker call them.
const RLIMITS: [&str; 9] =
    ["as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "stack"];
const SIGNAL_WORDS: &[&str] = &["TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "KILL"];
/// What can be said about signals: the words for it, and the one that is taken for granted.
const SIGNAL_CHOICES: [(&str, &[&str], &str); 4] = [
    ("stop", SIGNAL_WORDS, "TERM"),
    ("death", SIGNAL_WORDS, ""),
    ("to", &["group", "process", "all"], "group"),
    ("group", &["own", "shared"], "own"),
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
    work: Map<String, Json>,
    pub(super) known: Variables,
}

impl Command {
    pub(super) fn read(fields: &Fields<'_>, asked: &Asked, found: &mut Found<'_>) -> Self {
        let ports = ports(fields, found);
        let env = env(fields, &ports, found);
        let own = env.keys().cloned().collect();
        let mut command = Self { work: Map::new(), known: Variables { ports, own } };
        let image = image::read(fields, found);
        let brings_its_own = image.as_ref().is_some_and(|image| image.has_command);
        let run = if brings_its_own { fields.get("run") } else { fields.need("run", found) };
        if let Some(said) = run {
            let run = words(&said, &command.known, found);
            command.set("run", json!(run));
        }
        let steps = fields.get("setup").map(|said| said.items(found)).unwrap_or_default();
        let steps: Vec<_> = steps.iter().map(|step| words(step, &command.known, found)).collect();
        command.set_if(!steps.is_empty(), "setup", json!(steps));
        command.set_if(!env.is_empty(), "env", Json::Object(env));
        let ports = json!(command.known.ports);
        command.set_if(!command.known.ports.is_empty(), "ports", ports);
        if let Some(directory) = fields.get("directory").and_then(|said| directory(&said, found)) {
            command.set("directory", json!(directory));
        }
        for name in ["user", "group"] {
            if let Some(who) = fields.get(name).and_then(|said| who(&said, found)) {
                command.set(name, json!(who));
            }
        }
        command.read_limits(fields, asked, found);
        let signals = signals(fields, found);
        if let Some(image) = image {
            image.check(fields, &signals, found);
            command.set("image", image.work);
        }
        command.set_if(!signals.is_empty(), "signals", Json::Object(signals));
        let logs = logs(fields, found);
        command.set_if(!logs.is_empty(), "logs", Json::Object(logs));
        let exits = fields.get("when_worker_exits");
        let exits = exits.and_then(|said| said.choice(&[("stop", false), ("keep", true)], found));
        command.set_if(exits == Some(true), "when_worker_exits", json!("keep"));
        command
    }

    fn read_limits(&mut self, fields: &Fields<'_>, asked: &Asked, found: &mut Found<'_>) {
        let (mut limits, mut rlimits) = (Map::new(), Map::new());
        let Asked { cpu, memory, disk, wants: _ } = asked;
        let amounts = [("cpu", json!(cpu)), ("memory", json!(memory)), ("disk", json!(disk))];
        for (name, amount) in amounts.into_iter().filter(|(_, amount)| !amount.is_null()) {
            limits.insert(name.to_owned(), amount);
        }
        if let Some(fields) = fields.get("limits").and_then(|said| said.form(&LIMITS, found)) {
            if let Some(pids) = fields.get("pids").and_then(|said| said.count(found)) {
                limits.insert("pids".to_owned(), json!(pids));
            }
            let named = fields.get("rlimits").map(|said| said.pairs(found)).unwrap_or_default();
            for (entry, said) in named {
                if !RLIMITS.contains(&entry.key.as_str()) {
                    let reason = "the kernel has no such limit for processes";
                    let remedy = super::fields::meant(&entry.key, RLIMITS.into_iter());
                    found.add(&entry.spot, &said.place, reason, remedy);
                } else if let Some(limit) = said.whole(&(0..=i64::MAX.unsigned_abs()), found) {
                    rlimits.insert(entry.key.clone(), json!(limit));
                }
            }
        }
        self.set_if(!limits.is_empty(), "limits", Json::Object(limits));
        self.set_if(!rlimits.is_empty(), "rlimits", Json::Object(rlimits));
    }

    pub(super) fn set(&mut self, name: &str, value: Json) {
        self.work.insert(name.to_owned(), value);
    }

    fn set_if(&mut self, is_said: bool, name: &str, value: Json) {
        if is_said {
            self.set(name, value);
        }
    }

    /// As the worker reads it. Keys are in their order, so that the same work has the same bytes.
    pub(super) fn into_work(self, fields: &Fields<'_>, found: &mut Found<'_>) -> Arc<[u8]> {
        let work = Json::Object(self.work).to_string();
        if work.len() > WORK_BYTES_MAX {
            let reason = format!("what its workers must know of it takes {} bytes", work.len());
            let remedy = format!("keep it below {WORK_BYTES_MAX}: put what is long into files");
            found.add(&fields.spot, &fields.place, reason, remedy);
        }
        work.into_bytes().into()
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

fn env(fields: &Fields<'_>, ports: &[String], found: &mut Found<'_>) -> Map<String, Json> {
    let mut env = Map::new();
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
        env.insert(name.to_owned(), json!(value));
    }
    env
}

fn directory(said: &Said<'_>, found: &mut Found<'_>) -> Option<String> {
    let text = said.text(found)?;
    if !text.starts_with('/') || text.contains('\0') {
        let reason = format!("{} is not an absolute path", quoted(text));
        said.refuse(reason, "begin it with '/': it is looked for on the worker's machine", found);
        return None;
    }
    Some(text.to_owned())
}

/// A user or a group: a name or a number.
fn who(said: &Said<'_>, found: &mut Found<'_>) -> Option<String> {
    if let Value::Number(_) = said.node.value {
        return said.whole(&(0..=u64::from(u32::MAX - 1)), found).map(|number| number.to_string());
    }
    let text = said.text(found)?;
    if text.is_empty() || text.contains([':', '\0', '\n']) {
        let reason = format!("{} is nobody's name", quoted(text));
        said.refuse(reason, "write a name or a number, such as \"www-data\"", found);
        return None;
    }
    Some(text.to_owned())
}

fn signals(fields: &Fields<'_>, found: &mut Found<'_>) -> Map<String, Json> {
    let mut signals = Map::new();
    let Some(fields) = fields.get("signals").and_then(|said| said.form(&SIGNALS, found)) else {
        return signals;
    };
    for (name, words, usual) in SIGNAL_CHOICES {
        let words: Vec<_> = words.iter().map(|word| (*word, *word)).collect();
        let chosen = fields.get(name).and_then(|said| said.choice(&words, found));
        if let Some(word) = chosen.filter(|word| *word != usual) {
            signals.insert(name.to_owned(), json!(word));
        }
    }
    if let Some(said) = fields.get("grace") {
        let grace =
            if said.is_never() { Some(None) } else { said.span(Span::ZERO, found).map(Some) };
        if let Some(grace) = grace.filter(|grace| *grace != Some(Span::from_secs(10))) {
            signals.insert("grace".to_owned(), json!(grace));
        }
    }
    if let Some(linger) = fields.get("linger").and_then(|said| said.span(Span::ZERO, found)) {
        signals.insert("linger".to_owned(), json!(linger));
    }
    let is_shared = signals.get("group").is_some_and(|group| group == "shared");
    let to = fields.get("to").filter(|_| is_shared && !signals.contains_key("to"));
    if let Some(said) = to {
        let reason = "a shared group is the guardian's, which must not be asked to end";
        said.refuse(reason, "write \"process\" or \"all\"", found);
    }
    signals
}

fn logs(fields: &Fields<'_>, found: &mut Found<'_>) -> Map<String, Json> {
    let mut logs = Map::new();
    let Some(fields) = fields.get("logs").and_then(|said| said.form(&LOGS, found)) else {
        return logs;
    };
    if let Some(said) = fields.get("rate") {
        let rate = said.amount::<Bytes>(found);
        if rate == Some(Bytes::new(0)) {
            said.refuse("nothing could ever be written", "write 1kB or more", found);
        }
        logs.insert("rate".to_owned(), json!(rate));
    }
    let over = fields.get("when_over");
    let over = over.and_then(|said| said.choice(&[("wait", false), ("drop", true)], found));
    if over == Some(true) {
        logs.insert("when_over".to_owned(), json!("drop"));
    }
    logs
}
