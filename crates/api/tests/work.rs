//! The same spec gives the same work in every version, byte for byte: an update goes by these bytes, so
//! another way of writing them would start everything anew.

use sterna_api::spec::{Source, Specs, read};

fn specs(text: &str) -> Specs {
    let text = format!("version = 1\n{text}");
    read(&[Source { name: "test.toml", text: &text }])
        .unwrap_or_else(|problems| panic!("{problems}"))
}

fn work(text: &str) -> String {
    let specs = specs(text);
    let spec = specs.services.values().next().expect("one is written");
    String::from_utf8(spec.work.to_vec()).expect("work is text")
}

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../../model/tests/golden/payload/", $name, ".json")).trim_end()
    };
}

#[test]
fn a_spec_that_says_everything_gives_the_sample() {
    let text = r#"[service.x]
        run = ["server", "--port", "${PORT_HTTP}"]
        setup = [["mkdir", "data"]]
        env = { LANG = "C" }
        directory = "/srv"
        user = "www"
        group = "www"
        ports = ["http"]
        cpu = "500m"
        memory = "64MiB"
        disk = "1GiB"
        limits = { pids = 64, rlimits = { nofile = 1024 } }
        signals = { stop = "INT", grace = "never", linger = "2s", to = "all", group = "shared", death = "KILL" }
        logs = { rate = "1MiB", when_over = "drop" }
        when_worker_exits = "keep"
        monitor = { http = "/healthz", start_timeout = "never" }
        readiness = { tcp = "http", interval = "1s", failures = 2 }
    "#;
    assert_eq!(work(text), sample!("work-service"));
}

#[test]
fn what_is_usual_is_left_out_whether_it_is_said_or_not() {
    let usual = r#"
        setup = []
        env = {}
        ports = []
        limits = {}
        signals = { stop = "TERM", grace = "10s", to = "group", group = "own" }
        logs = { when_over = "wait" }
        when_worker_exits = "stop"
    "#;
    for said in ["", usual] {
        assert_eq!(work(&format!("[service.x]\nrun = [\"true\"]\n{said}")), sample!("work"));
    }
}

#[test]
fn an_image_gives_its_sample() {
    let rootfs = r#"[service.x]
        run = ["server"]
        [service.x.image]
        rootfs = "/images/web"
        read_only = true
        network = "none"
        mounts = [{ source = "/srv/www", target = "/www", read_only = true }]
    "#;
    assert_eq!(work(rootfs), sample!("work-rootfs"));
    let bundle = "[service.x]\nimage = { bundle = \"/images/job\", network = \"host\" }\n";
    assert_eq!(work(bundle), sample!("work-bundle"));
}
