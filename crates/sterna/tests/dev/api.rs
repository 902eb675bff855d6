//! The API, as a client speaks it that knows HTTP alone.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    place::{LONG, wait_until},
    storm::Place,
};

/// A server without workers; what is asked of it waits.
pub(crate) struct Api {
    pub(crate) place: Place,
    pub(crate) server: std::process::Child,
}

/// An answer.
pub(crate) struct Said {
    pub(crate) status: u16,
    tag: Option<String>,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Api {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    pub(crate) fn start_with(name: &str, options: &[&str]) -> Self {
        let place = Place::new(name);
        let server = place.server_with(options);
        Self::ready(place, server)
    }

    /// A server that has been started.
    pub(crate) fn ready(place: Place, server: std::process::Child) -> Self {
        let api = Self { place, server };
        let is_ready = || {
            // It may not listen yet.
            TcpStream::connect(&api.place.address).is_ok()
                && api.ask("GET", "/readyz", &[], None).status == 200
        };
        wait_until("the server leads", LONG, is_ready);
        api
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: Option<&Value>,
    ) -> Said {
        self.ask_shown(&format!("Bearer {}", self.place.token()), method, path, headers, body)
    }

    /// Asks, and shows this.
    fn ask_shown(
        &self,
        shown: &str,
        method: &str,
        path: &str,
        headers: &[&str],
        body: Option<&Value>,
    ) -> Said {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: sterna\r\nConnection: close\r\n\
             Authorization: {shown}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        for header in headers {
            request += &format!("{header}\r\n");
        }
        request += &format!("\r\n{body}");
        let mut socket = TcpStream::connect(&self.place.address).expect("the server listens");
        socket.set_read_timeout(Some(LONG)).expect("a socket");
        socket.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("it answers");
        let (head, text) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
        Said {
            status: status.expect("a status"),
            tag: tag.map(str::to_owned),
            body: serde_json::from_str(text).unwrap_or_default(),
            text: text.to_owned(),
        }
    }
}

/// What curl sends if nobody tells it otherwise, and what is cut off.
#[test]
fn a_body_that_is_not_json_is_refused_with_what_to_do() {
    let api = Api::start("api-body");
    let path = "/v1/namespaces/default/tasks";
    let send = |kind: &str| {
        let (token, mut answer) = (api.place.token(), String::new());
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: sterna\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\nContent-Type: {kind}\r\nContent-Length: 1\r\n\r\n{{"
        );
        let mut socket = TcpStream::connect(&api.place.address).expect("the server listens");
        socket.write_all(request.as_bytes()).expect("it reads");
        socket.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let form = send("application/x-www-form-urlencoded");
    assert!(form.contains("-H 'content-type: application/json'"), "{form}");
    let cut = send("application/json");
    assert!(cut.contains("send complete JSON"), "{cut}");
}

/// What was expected is said in words of JSON; a list was taken if its values were in the right order.
#[test]
fn a_body_of_another_kind_is_refused_in_words_of_json() {
    let api = Api::start("api-kind");
    let task = json!(["name", { "run": ["true"] }]);
    let all = [
        ("POST", TASKS, json!([]), "the body is an array, and must be an object"),
        ("POST", TASKS, task, "the body is an array, and must be an object"),
        ("POST", TASKS, json!(null), "the body is null, and must be an object"),
        ("POST", TASKS, json!({ "name": 5 }), "name: it is the number `5`, and must be a text"),
        ("PUT", WEB, json!("spec"), "the body is a text, and must be an object"),
        (
            "POST",
            "/v1/namespaces/default/apply",
            json!({ "files": [7] }),
            "files[0]: it is the number `7`, and must be an object",
        ),
    ];
    for (method, path, body, wanted) in all {
        let said = api.ask(method, path, &[], Some(&body));
        assert_eq!(said.status, 400, "{body}: {}", said.text);
        assert!(said.text.contains(wanted), "{body}: {}", said.text);
        assert!(!said.text.contains("struct"), "{body}: {}", said.text);
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

const WEB: &str = "/v1/namespaces/default/services/web";
pub(crate) const TASKS: &str = "/v1/namespaces/default/tasks";

fn web(instances: u32) -> Value {
    json!({ "spec": { "run": ["sleep", "1000"], "instances": instances } })
}

/// Each would keep a place among those that are answered.
#[test]
fn who_does_not_send_what_was_announced_is_not_waited_for() {
    let api = Api::start("unsent");
    for (announced, status, code) in
        [(99_999_999_999_u64, 413, "too-large"), (100, 400, "bad-request")]
    {
        let mut socket = TcpStream::connect(&api.place.address).expect("the server listens");
        socket.set_read_timeout(Some(LONG)).expect("a socket");
        let request = format!(
            "POST {TASKS} HTTP/1.1\r\nHost: sterna\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {announced}\r\n\r\n{{",
            api.place.token()
        );
        socket.write_all(request.as_bytes()).expect("it reads");
        let mut answer = [0; 1_000];
        let count = socket.read(&mut answer).expect("it answers");
        let said = String::from_utf8_lossy(&answer[..count]).into_owned();
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")) && said.contains(code), "{said}");
    }
}

#[test]
fn a_service_is_changed_only_by_who_has_read_what_it_is() {
    let api = Api::start("tags");
    let is_new = ["If-None-Match: *"];
    let made = api.ask("PUT", WEB, &is_new, Some(&web(1)));
    assert_eq!(made.status, 200, "{}", made.text);
    let first = made.tag.expect("a tag");
    let again = api.ask("PUT", WEB, &is_new, Some(&web(2)));
    assert_eq!((again.status, &again.body["code"]), (412, &json!("has-changed")), "{}", again.text);
    assert_eq!(api.ask("GET", WEB, &[], None).tag.as_ref(), Some(&first), "nothing was changed");
    let read = format!("If-Match: {first}");
    let changed = api.ask("PUT", WEB, &[&read], Some(&web(3)));
    assert_eq!((changed.status, &changed.body["instances"]), (200, &json!(3)), "{}", changed.text);
    let second = changed.tag.expect("a tag");
    assert_ne!(first, second);
    for method in ["PUT", "DELETE"] {
        let late = api.ask(method, WEB, &[&read], Some(&web(4)));
        assert_eq!((late.status, &late.body["code"]), (412, &json!("has-changed")), "{method}");
    }
    let any = api.ask("PUT", WEB, &["If-Match: \"other\", *"], Some(&web(4)));
    assert_eq!(any.status, 200, "{}", any.text);
    let back = api.ask("PUT", WEB, &[], Some(&web(3)));
    assert_eq!(back.tag.as_ref(), Some(&second), "the same spec has the same tag");
    let strange = api.ask("PUT", WEB, &["If-None-Match: \"x\""], Some(&web(3)));
    assert_eq!(strange.status, 400, "{}", strange.text);
    let gone = api.ask("DELETE", WEB, &[&format!("If-Match: {second}")], None);
    assert_eq!(gone.status, 200, "{}", gone.text);
    let none = api.ask("PUT", WEB, &["If-Match: *"], Some(&web(1)));
    assert_eq!(none.status, 412, "there is nothing that it could be");
}

#[test]
fn what_is_read_of_a_service_is_changed_and_put_back() {
    let api = Api::start("read-back");
    let spec = json!({
        "run": ["sh", "-c", "true", "${PORT_HTTP}"], "instances": 2, "ports": ["http"],
        "memory": "64MiB", "env": { "A": "1" }, "monitor": { "http": "/", "interval": "2s" },
        "update": { "max_unavailable": 2 }, "routes": { "http": ["shop.example"] },
        "annotation": "ours", "metadata": { "team": "shop" }, "when_worker_exits": "keep",
    });
    let made = api.ask("PUT", WEB, &[], Some(&json!({ "spec": spec })));
    assert_eq!(made.status, 200, "{}", made.text);
    let read = api.ask("GET", WEB, &[], None);
    let mut again = read.body["spec"].clone();
    let plan = |spec: &Value| {
        let text = json!({ "version": 1, "service": { "web": spec } }).to_string();
        let files = json!({ "files": [{ "name": "a.json", "text": text }] });
        api.ask("POST", "/v1/namespaces/default/plan", &[], Some(&files)).body["services"][0]
            .clone()
    };
    assert_eq!(plan(&again)["changes"], json!([]), "{again}");
    again["instances"] = json!(3);
    let changes = plan(&again)["changes"].clone();
    assert_eq!(changes[0]["kind"], "start", "{changes}");
    let tag = format!("If-Match: {}", read.tag.expect("a tag"));
    let put = json!({ "spec": again });
    let changed = api.ask("PUT", WEB, &[&tag], Some(&put));
    assert_eq!((changed.status, &changed.body["spec"]["instances"]), (200, &json!(3)));
    assert_eq!(api.ask("PUT", WEB, &[&tag], Some(&put)).status, 412);
    // A list would be too long with them.
    let list = api.ask("GET", "/v1/namespaces/default/services", &[], None);
    assert!(list.body["items"][0].get("spec").is_none(), "{}", list.text);
    let task =
        json!({ "name": "t", "spec": { "run": ["true"], "timeout": "1m", "env": { "A": "1" } } });
    assert_eq!(api.ask("POST", TASKS, &[], Some(&task)).body["spec"], task["spec"]);
    assert_eq!(api.ask("GET", &format!("{TASKS}/t"), &[], None).body["spec"], task["spec"]);
}

#[test]
fn a_list_is_narrowed_by_how_names_begin() {
    let api = Api::start("prefix");
    for name in ["a-1", "a-2", "b-1"] {
        let task = json!({ "name": name, "spec": { "run": ["true"] } });
        assert_eq!(api.ask("POST", TASKS, &[], Some(&task)).status, 201);
        let path = format!("/v1/namespaces/default/services/{name}");
        assert_eq!(api.ask("PUT", &path, &[], Some(&web(1))).status, 200);
    }
    for list in [TASKS, "/v1/namespaces/default/services"] {
        let page = api.ask("GET", &format!("{list}?prefix=a-&limit=1"), &[], None);
        assert_eq!(page.body["items"][0]["name"], "a-1", "{}", page.text);
        let next = page.body["next"].as_str().expect("there is more");
        let page = api.ask("GET", &format!("{list}?prefix=a-&after={next}"), &[], None);
        let names: Vec<_> =
            page.body["items"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!((names, page.body.get("next")), (vec![&json!("a-2")], None), "{list}");
    }
}

#[test]
fn a_token_is_shown_under_its_word_in_any_case() {
    let api = Api::start("bearer");
    for (word, status) in [("bearer", 200), ("BEARER", 200), ("Basic", 401)] {
        let shown = format!("{word} {}", api.place.token());
        assert_eq!(api.ask_shown(&shown, "GET", "/v1/status", &[], None).status, status, "{word}");
    }
}

#[test]
fn a_task_is_ended_only_if_it_is_the_one_that_was_read() {
    let api = Api::start("incarnations");
    let asked = json!({ "name": "t", "spec": { "run": ["true"] } });
    let made = api.ask("POST", TASKS, &[], Some(&asked));
    assert_eq!(made.status, 201, "{}", made.text);
    let tag = made.tag.expect("a tag");
    let path = format!("{TASKS}/t");
    assert_eq!(api.ask("GET", &path, &[], None).tag.as_ref(), Some(&tag));
    let cancel = format!("{path}/cancel");
    let other = api.ask("POST", &cancel, &["If-Match: \"task-other\""], None);
    assert_eq!((other.status, &other.body["code"]), (412, &json!("has-changed")));
    let it = format!("If-Match: {tag}");
    assert_eq!(api.ask("POST", &cancel, &[&it], None).body["changed"], true);
    assert_eq!(api.ask("DELETE", &path, &[&it], None).body["changed"], true);
    assert_eq!(api.ask("DELETE", &path, &[&it], None).status, 412);
}

#[test]
fn lists_come_by_pages_and_phases_and_refusals_are_counted() {
    let api = Api::start("pages");
    assert_eq!(api.ask("PUT", WEB, &[], Some(&web(25))).status, 200);
    let (mut after, mut seen) = (String::new(), Vec::new());
    loop {
        let page = api.ask("GET", &format!("{WEB}/instances?limit=7&after={after}"), &[], None);
        let items = page.body["items"].as_array().expect("a page").clone();
        assert!(items.len() <= 7);
        seen.extend(items.iter().filter_map(|item| item["index"].as_u64()));
        match page.body["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => break,
        }
    }
    assert_eq!(seen, (0..25).collect::<Vec<_>>(), "by number, each once");
    let running = api.ask("GET", &format!("{WEB}/instances?phase=running"), &[], None);
    assert_eq!(running.body["items"], json!([]));
    let refused = |api: &Api| {
        let metrics = api.ask("GET", "/metrics", &[], None).text;
        let line = metrics.lines().find_map(|line| line.strip_prefix("sterna_refused_total "));
        line.and_then(|count| count.parse::<u64>().ok()).expect("it is counted")
    };
    let before = refused(&api);
    for query in ["instances?phase=asleep", "instances?after=x", "instances?limit=x"] {
        let answer = api.ask("GET", &format!("{WEB}/{query}"), &[], None);
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("bad-request")), "{query}");
    }
    assert_eq!(refused(&api), before + 3);
}

#[test]
fn what_a_call_does_not_understand_is_refused_and_not_ignored() {
    let api = Api::start("understood");
    let task = json!({ "name": "t", "spec": { "run": ["true"] } });
    assert_eq!(api.ask("POST", TASKS, &[], Some(&task)).status, 201);
    assert_eq!(api.ask("PUT", WEB, &[], Some(&web(2))).status, 200);
    let refused = |method: &str, path: &str, headers: &[&str], word: &str| {
        let said = api.ask(method, path, headers, None);
        let (code, text) = (&said.body["code"], &said.text);
        assert_eq!((said.status, code), (400, &json!("bad-request")), "{method} {path}: {text}");
        assert!(said.body["message"].as_str().is_some_and(|it| it.contains(word)), "{text}");
        assert!(said.body["remedy"].is_string(), "{text}");
    };
    // Paths that are no text.
    refused("GET", &format!("{TASKS}/%ff"), &[], "name");
    refused("POST", &format!("{TASKS}/%ff/cancel"), &[], "name");
    refused("GET", &format!("{WEB}%ff/instances/0/why"), &[], "name");
    refused("DELETE", "/v1/workers/%ff", &[], "UTF-8");
    // Parameters that a call does not have, and words that there are not.
    let services = "/v1/namespaces/default/services";
    refused("GET", &format!("{services}?phase=running"), &[], "limit, after");
    refused("GET", &format!("{TASKS}?limti=3"), &[], "did you mean limit?");
    refused("GET", "/v1/status?verbose=1", &[], "verbose");
    refused("GET", "/v1/workers?phase=running", &[], "healthy");
    for list in [TASKS, services, "/v1/workers", &format!("{TASKS}/t/logs")] {
        refused("GET", &format!("{list}?limit=0"), &[], "limit");
        refused("GET", &format!("{list}?limit=1001"), &[], "limit");
    }
    // Conditions that would not be heeded.
    let it = ["If-Match: \"x\""];
    refused("POST", &format!("{WEB}/instances/0/stop"), &it, "if-match");
    refused("POST", "/v1/roster/declare-complete", &it, "if-match");
    refused("POST", TASKS, &["If-None-Match: *"], "if-none-match");
    refused("DELETE", WEB, &["If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT"], "if-unmod");
    // What is no text, and what is not done.
    refused("GET", "/v1/events", &["Last-Event-ID: é"], "EPOCH.TERM.NUMBER");
    let later = json!({ "name": "later", "spec": { "run": ["true"], "start": false } });
    let said = api.ask("POST", TASKS, &[], Some(&later));
    assert!(said.status == 400 && said.text.contains("spec.start"), "{}", said.text);
    assert_eq!(api.ask("GET", WEB, &["If-None-Match: \"x\""], None).status, 200);
    assert_eq!(api.ask("GET", &format!("{services}?limit=1&after="), &[], None).status, 200);
}

#[test]
fn only_what_was_told_here_is_gone_on_from() {
    let api = Api::start("resumed");
    let events = |after: &str, headers: &[&str]| {
        api.ask("GET", &format!("/v1/events?until_now=true&after={after}"), headers, None)
    };
    // A server may be asked just before its first event stands: that it leads.
    let is_told = || events("0", &[]).text.contains("id: 1.1.1\n");
    wait_until("its first event is told", LONG, is_told);
    let rest = events("1.1.1", &[]);
    assert!(rest.status == 200 && !rest.text.contains("id: 1.1.1\n"), "{}", rest.text);
    for id in ["0.1.1", "1.0.1", "1.2.1", "2.1.1", "1.1.0", "1.1.999"] {
        for gone in [events(id, &[]), events("", &[&format!("Last-Event-ID: {id}")])] {
            let code = &gone.body["code"];
            assert_eq!((gone.status, code), (410, &json!("events-gone")), "{id}: {}", gone.text);
            assert!(gone.text.contains(id) && gone.body["resume"].is_string(), "{}", gone.text);
        }
    }
}

#[test]
fn a_task_is_made_once_for_its_name_and_incarnation() {
    let api = Api::start("once");
    let asked_as = |incarnation: &str, name: &str, run: &str, latest: &str| {
        let spec = json!({ "run": [run], "latest_start_after": latest });
        let asked = json!({ "name": name, "spec": spec, "incarnation": incarnation });
        let said = api.ask("POST", TASKS, &[], Some(&asked));
        (said.status, said.body["code"].as_str().unwrap_or_default().to_owned())
    };
    let id = "ti-0123456789ab7def8123456789abcdef";
    let made = |name: &str, run: &str, latest: &str| asked_as(id, name, run, latest);
    assert_eq!(made("t", "true", "1h"), (201, String::new()));
    assert_eq!(made("t", "true", "1h"), (200, String::new()), "it is the same");
    assert_eq!(made("t", "false", "1h"), (409, "name-taken".to_owned()), "it is another");
    // A client may draw a UUID of any version; how it is written makes no difference.
    let texts = [
        "9b2d7c1e-5f0a-4c3d-b1e2-0123456789ab",
        "9b2d7c1e5f0a4c3db1e20123456789ab",
        "ti-9B2D7C1E5F0A4C3DB1E20123456789AB",
    ];
    for (text, status) in texts.into_iter().zip([201, 200, 200]) {
        assert_eq!(asked_as(text, "u", "true", "1h"), (status, String::new()), "{text}");
    }
    let refused = asked_as("9b2d7c1e", "v", "true", "1h");
    assert_eq!(refused, (400, "bad-request".to_owned()));
}

/// What schemathesis looks at: that nothing is an error of the server, and everything as described.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method,\
    allow_header_conformance,ignored_auth";

#[test]
fn a_domain_is_put_shown_and_removed_and_the_default_one_stays() {
    let api = Api::start("domains");
    let shown = || api.ask("GET", "/v1/domains", &[], None).body["items"].clone();
    let put = |seconds: u64| {
        let body = json!({ "for_s": seconds });
        assert_eq!(api.ask("PUT", "/v1/domains/shop", &[], Some(&body)).status, 200);
        shown()[0]["is_fresh"].clone()
    };
    assert_eq!((put(60), put(0)), (json!(true), json!(false)), "no time at all ends it");
    assert_eq!(api.ask("PUT", "/v1/domains/depot", &[], Some(&json!({}))).status, 200);
    let page = api.ask("GET", "/v1/domains?limit=1", &[], None).body;
    assert_eq!((&page["items"][0]["name"], &page["next"]), (&json!("depot"), &json!("depot")));
    let page = api.ask("GET", "/v1/domains?limit=1&after=depot", &[], None).body;
    assert_eq!((&page["items"][0]["name"], &page["next"]), (&json!("shop"), &json!(null)));
    assert_eq!(api.ask("DELETE", "/v1/domains/depot", &[], None).status, 200);
    let removed = api.ask("DELETE", "/v1/domains/shop", &[], None);
    assert_eq!((removed.status, &removed.body["changed"]), (200, &json!(true)));
    assert_eq!(shown(), json!([]));
    assert_eq!(api.ask("DELETE", "/v1/domains/shop", &[], None).status, 404);
    for (method, body) in [("PUT", Some(json!({ "for_s": 0 }))), ("DELETE", None)] {
        let refused = api.ask(method, "/v1/domains/default", &[], body.as_ref());
        assert_eq!(refused.status, 400);
        assert!(refused.text.contains("it is always fresh"), "{}", refused.text);
    }
}

#[test]
fn to_stop_what_waits_for_a_worker_says_how_to_see_why() {
    let api = Api::start("stop-waiting");
    assert_eq!(api.ask("PUT", WEB, &[], Some(&web(1))).status, 200);
    let refused = api.ask("POST", &format!("{WEB}/instances/0/stop"), &[], None);
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("wrong-phase")));
    let said = (refused.body["message"].as_str(), refused.body["remedy"].as_str());
    let message = Some("instance web/0 is waiting: it has no run to stop");
    assert_eq!(said, (message, Some("see what it waits for with `sterna why web/0`")));
}

/// Schemathesis, in the versions that are pinned beside this file; installed once.
fn schemathesis() -> PathBuf {
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dev/schemathesis");
    let requirements = fs::read(pinned.join("requirements.txt")).expect("the versions are pinned");
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemathesis");
    let (proof, program) = (place.join("installed.txt"), place.join("bin/st"));
    if fs::read(&proof).is_ok_and(|installed| installed == requirements) {
        return program;
    }
    drop(fs::remove_dir_all(&place));
    let run = |command: &mut Command| {
        let output = command.output().expect("python3 is there");
        assert!(
            output.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    run(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&place));
    let pip = ["install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(Command::new(place.join("bin/pip")).args(pip).arg(pinned.join("requirements.txt")));
    fs::write(proof, requirements).expect("what was installed is written down");
    program
}

#[test]
fn everything_is_as_it_is_described_whatever_is_sent() {
    let program = schemathesis();
    let api = Api::start("fuzzed");
    let task = json!({ "name": "t", "spec": { "run": ["true"] } });
    assert_eq!(api.ask("POST", TASKS, &[], Some(&task)).status, 201);
    assert_eq!(api.ask("PUT", WEB, &[], Some(&web(2))).status, 200);
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dev/schemathesis");
    let mut command = Command::new(program);
    command.arg("--config-file").arg(config.join("schemathesis.toml"));
    command.arg("run").arg(format!("http://{}/openapi.json", api.place.address));
    command.args(["--header", &format!("Authorization: Bearer {}", api.place.token())]);
    command.args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing,stateful"]);
    // Events go on for ever; their order and form have a test of their own. One seed, so that a gate
    // that was green does not turn red by itself.
    command.args(["--exclude-path", "/v1/events", "--seed", "1", "--max-examples", "25"]);
    command.args(["--generation-database", "none", "--no-color", "--warnings", "off"]);
    let output = command.current_dir(&api.place.path).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let said: String = said.chars().take(20_000).collect();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(" passed"), "{said}");
}
