//! By what a command finds its server and its token, and names what is meant.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Output},
    sync::{Arc, Mutex},
    thread::{self, sleep},
    time::Duration,
};

use crate::{
    api::{Api, TASKS},
    place::{Cluster, program, signal},
};

/// A user with a file of their own, in a directory in which no `dev` runs.
fn user(place: &Path, text: &str) -> Command {
    let folder = place.join("config/sterna");
    fs::create_dir_all(&folder).expect("a directory of the test");
    fs::write(folder.join("sterna.toml"), text).expect("a file of the test");
    let mut command = program();
    command.env("XDG_CONFIG_HOME", place.join("config")).current_dir(place.join("config"));
    command
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_file_names_the_server_and_the_token_for_it() {
    let cluster = Cluster::start("config", &[]);
    let address = cluster.read(".sterna/address").trim().to_owned();
    let token = cluster.path.join(".sterna/admin.token");
    let text = format!("server = \"{address}\"\ntoken_file = \"{}\"\n", token.display());
    // The test's directory lies in that of a `dev`; a user is elsewhere.
    let place = std::env::temp_dir().join(format!("sterna-config-{}", std::process::id()));
    let asks = |args: &[&str], set: &[(&str, &str)]| {
        let mut command = user(&place, &text);
        command.args(args).envs(set.iter().copied()).output().expect("sterna runs")
    };
    let status = asks(&["status"], &[]);
    let text_said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.success(), "{:?}", said(&status));
    let file = place.join("config/sterna/sterna.toml").display().to_string();
    let line = format!("asked     {address}, named by {file}, and the token");
    assert!(text_said.contains(&line), "{text_said}");
    let json = asks(&["status", "--json"], &[]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(
        (&json["asked"]["server_by"], &json["asked"]["token_by"]),
        (&file.clone().into(), &file.into())
    );
    // The command line and the environment come first.
    assert_eq!(said(&asks(&["status", "--server", "127.0.0.1:1"], &[])).0, Some(69));
    assert_eq!(said(&asks(&["status"], &[("STERNA_SERVER", "127.0.0.1:1")])).0, Some(69));
    assert_eq!(said(&asks(&["status"], &[("STERNA_TOKEN", "x")])).0, Some(77));
    // A variable that is empty says nothing.
    for name in ["STERNA_SERVER", "STERNA_TOKEN", "STERNA_TOKEN_FILE"] {
        let (code, text) = said(&asks(&["status"], &[(name, "")]));
        assert_eq!(code, Some(0), "{name}: {text}");
    }
    // The same server, named otherwise, is still the one that the file's token is for.
    assert!(asks(&["status", "--server", &address], &[]).status.success());
    assert!(asks(&["status"], &[("STERNA_SERVER", &address)]).status.success());
    drop(fs::remove_dir_all(&place));
}

/// Listens, and gives what somebody who asks has shown.
fn shown(ask: impl FnOnce(&str) -> Output) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let heard = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("somebody asks");
        let (mut heard, mut some) = (Vec::new(), [0; 1_024]);
        while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
            let count = socket.read(&mut some).expect("it is sent");
            heard.extend_from_slice(&some[..count]);
        }
        String::from_utf8_lossy(&heard).into_owned()
    });
    ask(&address);
    heard.join().expect("it was heard")
}

#[test]
fn a_token_is_shown_to_no_other_server_than_its_source_names() {
    let place = std::env::temp_dir().join(format!("sterna-shown-{}", std::process::id()));
    fs::create_dir_all(place.join("config/sterna")).expect("a directory of the test");
    fs::write(place.join("config/sterna/token"), "of-the-file\n").expect("a token");
    let text = "server = \"127.0.0.1:1\"\ntoken_file = \"token\"\n";
    let asks = |args: &[&str], set: &[(&str, &str)]| {
        user(&place, text).args(args).envs(set.iter().copied()).output().expect("sterna runs")
    };
    let heard = shown(|other| asks(&["status", "--server", other], &[]));
    assert!(heard.contains("authorization: Bearer") && !heard.contains("of-the-file"), "{heard}");
    let heard = shown(|other| asks(&["status"], &[("STERNA_SERVER", other)]));
    assert!(!heard.contains("of-the-file"), "{heard}");
    // A token beside STERNA_SERVER is for that one; one without is for whoever is asked.
    let variables = [("STERNA_SERVER", "127.0.0.1:1"), ("STERNA_TOKEN", "of-the-shell")];
    let heard = shown(|other| asks(&["status", "--server", other], &variables));
    assert!(!heard.contains("of-the-shell") && !heard.contains("of-the-file"), "{heard}");
    let heard = shown(|other| asks(&["status", "--server", other], &variables[1..]));
    assert!(heard.contains("authorization: Bearer of-the-shell"), "{heard}");
    let heard = shown(|other| {
        asks(&["status"], &[("STERNA_SERVER", other), ("STERNA_TOKEN", "of-the-shell")])
    });
    assert!(heard.contains("authorization: Bearer of-the-shell"), "{heard}");
    drop(fs::remove_dir_all(&place));
}

/// Where one listened that was killed, anybody may listen.
#[test]
fn the_token_of_a_dev_that_was_killed_is_shown_to_nobody() {
    let mut cluster = Cluster::start("killed-dev", &[]);
    let address = cluster.read(".sterna/address").trim().to_owned();
    let token = cluster.read(".sterna/admin.token").trim().to_owned();
    signal(cluster.pid(), "KILL");
    cluster.ended();
    cluster.assert_gone();
    assert_eq!(cluster.read(".sterna/address").trim(), address, "nobody took it away");
    let gone = said(&cluster.sterna(&["ls"]));
    assert_eq!(gone.0, Some(69), "{}", gone.1);
    assert!(gone.1.contains("no `sterna dev` runs here: ") && gone.1.contains("start it again"));
    let heard = shown(|other| {
        cluster.write(".sterna/address", other);
        assert_eq!(said(&cluster.sterna(&["ls"])).0, Some(69));
        cluster.sterna(&["ls", "--server", other])
    });
    assert!(heard.contains("authorization: Bearer") && !heard.contains(&token), "{heard}");
    // The next one begins where nothing is said of the last.
    cluster.restart(&[]);
    assert_eq!(cluster.answer(&["run", "--", "echo", "hello"]), "hello\n");
}

#[test]
fn who_is_not_let_in_is_told_whom_was_asked_and_whose_token_was_shown() {
    let cluster = Cluster::start("not-let-in", &[]);
    let address = cluster.read(".sterna/address").trim().to_owned();
    let asks = |set: &[(&str, &str)]| {
        let mut command = program();
        command.arg("ls").envs(set.iter().copied()).current_dir(&cluster.path);
        said(&command.output().expect("sterna runs"))
    };
    let (code, text) = asks(&[("STERNA_TOKEN", "x")]);
    let path = cluster.path.join(".sterna");
    let named = format!("; {address} was asked, named by the dev in {}, ", path.display());
    assert_eq!(code, Some(77), "{text}");
    assert!(text.contains(&(named + "the token by STERNA_TOKEN\n")), "{text}");
    let (_, text) = asks(&[("STERNA_TOKEN", "x"), ("STERNA_SERVER", &address)]);
    assert!(text.contains("named by STERNA_SERVER, the token by STERNA_TOKEN\n"), "{text}");
}

#[test]
fn a_file_that_is_wrong_is_refused_with_its_line_and_column() {
    let place = std::env::temp_dir().join(format!("sterna-wrong-{}", std::process::id()));
    let file = place.join("config/sterna/sterna.toml").display().to_string();
    for (text, code, wanted) in [
        ("server = \"127.0.0.1:1\"\n  sever = 1\n", 65, ":2:3: there is no field \"sever\""),
        ("server = \"127.0.0.1:1\"\ntoken_file = [1]\n", 65, ":2:14: token_file: "),
        ("token_file = \"x\"\n", 65, ":1:1: token_file: it is shown to the server"),
        ("server =\n", 65, ":1:"),
        ("server = \"127.0.0.1:1\"\ntoken_file = \"none\"\n", 77, ": token_file: cannot read "),
    ] {
        let (got, said) = said(&user(&place, text).arg("status").output().expect("sterna runs"));
        assert_eq!(got, Some(code), "{text}: {said}");
        assert!(said.contains(&format!("{file}{wanted}")), "{text}: {said}");
    }
    drop(fs::remove_dir_all(&place));
}

/// What is wrong with a file concerns whoever needs it.
#[test]
fn a_file_that_is_wrong_stops_no_command_that_can_do_without_it() {
    let cluster = Cluster::start("wrong-unneeded", &[]);
    let address = cluster.read(".sterna/address").trim().to_owned();
    let token = cluster.read(".sterna/admin.token").trim().to_owned();
    let place = std::env::temp_dir().join(format!("sterna-unneeded-{}", std::process::id()));
    let file = place.join("config/sterna/sterna.toml").display().to_string();
    let wrong = format!("{file}:2:1: there is no field \"sever\"");
    let asks = |folder: &Path, args: &[&str], set: &[(&str, &str)]| {
        let mut command = user(&place, "server = \"127.0.0.1:1\"\nsever = 1\n");
        command.args(args).envs(set.iter().copied()).current_dir(folder);
        said(&command.output().expect("sterna runs"))
    };
    let (here, elsewhere) = (cluster.path.as_path(), std::env::temp_dir());
    let named = ["status", "--server", &address];
    // The server is named, and its token is that of the `dev` here.
    for (args, set) in
        [(&named[..], None), (&named[..1], Some(("STERNA_SERVER", address.as_str())))]
    {
        let (code, said) = asks(here, args, set.as_slice());
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(said.matches("warning: ").count(), 1, "{said}");
        assert!(said.contains(&wrong) && said.contains("it is passed over"), "{said}");
    }
    // With a token beside it nobody asks the file.
    assert_eq!(asks(&elsewhere, &named, &[("STERNA_TOKEN", &token)]), (Some(0), String::new()));
    // Where it may hold what is needed, it is needed: to guess might be to ask another cluster.
    for (folder, args, remedy) in [
        (elsewhere.as_path(), &named[..], "STERNA_TOKEN"),
        (here, &named[..1], "--server"),
        (elsewhere.as_path(), &named[..1], "--server"),
    ] {
        let (code, said) = asks(folder, args, &[]);
        assert_eq!(code, Some(65), "{said}");
        assert!(said.contains(&wrong) && said.contains(remedy), "{said}");
    }
    drop(fs::remove_dir_all(&place));
}

fn copy(socket: &TcpStream) -> TcpStream {
    socket.try_clone().expect("another one of it")
}

/// Hands on what it is sent, and keeps what was asked for.
struct Between {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Between {
    fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (server, heard) = (server.to_owned(), Arc::clone(&asked));
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut server = TcpStream::connect(&server).expect("the server listens");
                let (mut back, mut to) = (copy(&server), copy(&client));
                thread::spawn(move || drop(std::io::copy(&mut back, &mut to)));
                let heard = Arc::clone(&heard);
                thread::spawn(move || {
                    let mut some = [0; 4_096];
                    // Every request of a command comes whole.
                    while let Ok(count @ 1..) = client.read(&mut some) {
                        let text = String::from_utf8_lossy(&some[..count]).into_owned();
                        let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                        heard.lock().expect("no thread panicked").push(path);
                        if server.write_all(&some[..count]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, asked }
    }

    /// Of what was asked since, the lists.
    fn lists(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().expect("no thread panicked"));
        assert!(!asked.is_empty(), "it was asked through this");
        let is_list = |path: &String| {
            let end = path.split('?').next().and_then(|path| path.rsplit('/').next());
            matches!(end, Some("tasks" | "services")) && !path.contains("last=true")
        };
        asked.into_iter().filter(is_list).collect()
    }
}

/// However much there is, a name is asked for directly; only for what comes near a list is read, once.
#[test]
fn a_name_is_found_without_reading_lists() {
    let api = Api::start_with("found", &[]);
    for name in ["web", "other", "build"] {
        sleep(Duration::from_millis(2)); // why: of two that are made in one millisecond none is the newest
        let task = serde_json::json!({ "name": name, "spec": { "run": ["true"] } });
        assert_eq!(api.ask("POST", TASKS, &[], Some(&task)).status, 201);
    }
    let service = serde_json::json!({ "spec": { "run": ["true"] } });
    let path = "/v1/namespaces/default/services/";
    for name in ["web", "shop"] {
        assert_eq!(api.ask("PUT", &format!("{path}{name}"), &[], Some(&service)).status, 200);
    }
    let between = Between::start(&api.place.address);
    let ask = |args: &[&str]| {
        let mut command = program();
        command.args(args).args(["--server", &between.address]).current_dir(&api.place.path);
        let output = command.env("STERNA_TOKEN", api.place.token()).output().expect("it runs");
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        (answer, said(&output))
    };
    let (why, failed) = ask(&["why", "build", "--json"]);
    assert!(why.contains("default/task/build"), "{failed:?}");
    let (why, failed) = ask(&["why", "last", "--json"]);
    assert!(why.contains("default/task/build"), "{failed:?}");
    let (why, failed) = ask(&["why", "shop/0", "--json"]);
    assert!(why.contains("default/service/shop/0"), "{failed:?}");
    let (why, failed) = ask(&["why", "service/web", "--json"]);
    assert!(why.contains("default/service/web"), "{failed:?}");
    ask(&["cancel", "other"]);
    ask(&["logs", "other"]);
    ask(&["why", "web"]);
    assert_eq!(between.lists(), Vec::<String>::new());
    ask(&["why", "nothing-like-that"]);
    assert_eq!(between.lists().len(), 2, "one page of each");
    for (typed, code, wanted) in [
        ("web", 1, "write task/web or service/web"),
        ("buidl", 1, "did you mean task/build"),
        ("task/shop", 1, "service/shop"),
        ("build/3", 1, "a task has none"),
        ("a/b/c", 64, "no kind"),
    ] {
        let (_, (got, said)) = ask(&["why", typed]);
        assert_eq!(got, Some(code), "{typed}: {said}");
        assert!(said.contains(wanted), "{typed}: {said}");
    }
}
