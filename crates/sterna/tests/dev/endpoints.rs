//! Endpoints of a service as they change: whole lists, one at each change.

use std::sync::mpsc::{self, Receiver};

use sterna_api::rest::{Code, EndpointView, Page};

use crate::{
    place::{Cluster, LONG, wait_until},
    storm::block_on,
};

const PATH: &str = "/v1/namespaces/default/services/web/endpoints";

/// An instance says that it is ready as long as there is a file of its index.
fn spec(cluster: &Cluster, instances: u32) -> String {
    let ready = cluster.path.join("ready").display().to_string();
    format!(
        "version = 1\n[service.web]\nrun = [\"sleep\", \"1000\"]\nports = [\"http\"]\n\
         instances = {instances}\n\
         readiness = {{ run = [\"sh\", \"-c\", \"test -e {ready}-$STERNA_INSTANCE_INDEX\"], interval = \"100ms\", \
         failures = 1 }}\n"
    )
}

/// Whoever follows, and what it has heard.
struct Follower(Receiver<Vec<EndpointView>>);

impl Follower {
    fn begin(cluster: &Cluster) -> Self {
        let (sender, heard) = mpsc::channel();
        let mut client = cluster.client();
        std::thread::spawn(move || {
            block_on(async {
                let lines = client.lines(&format!("{PATH}?follow=true")).await;
                let mut lines = lines.expect("it is told");
                while let Ok(Some(line)) = lines.next().await {
                    let Some(data) = line.strip_prefix(b"data: ") else { continue };
                    let page: Page<EndpointView> = serde_json::from_slice(data).expect("a list");
                    if sender.send(page.items).is_err() {
                        return;
                    }
                }
            });
        });
        Self(heard)
    }

    /// Hears lists until one is so; gives all of them.
    fn until(
        &self,
        what: &str,
        is_so: impl Fn(&[(u32, String)]) -> bool,
    ) -> Vec<Vec<(u32, String)>> {
        let mut all = Vec::new();
        loop {
            let list = self.0.recv_timeout(LONG);
            let list = list.unwrap_or_else(|_| panic!("not heard: {what}; heard: {all:?}"));
            let list: Vec<_> = list.into_iter().map(|it| (it.index, it.worker)).collect();
            all.push(list);
            if all.last().is_some_and(|list| is_so(list)) {
                return all;
            }
        }
    }

    fn indices(&self, wanted: &[u32]) -> Vec<Vec<(u32, String)>> {
        self.until(&format!("{wanted:?}"), |list| {
            list.iter().map(|(index, _)| *index).collect::<Vec<_>>() == wanted
        })
    }
}

#[test]
fn endpoints_are_told_as_they_change_until_the_service_is_deleted() {
    let cluster = Cluster::start("endpoints", &["--workers", "2"]);
    let apply = |instances| {
        cluster.write("web.toml", &spec(&cluster, instances));
        cluster.answer(&["apply", "web.toml"]);
    };
    cluster.write("ready-0", "");
    apply(1);
    let follower = Follower::begin(&cluster);
    follower.indices(&[0]);
    // One more is there as soon as it is ready, and not before.
    apply(2);
    wait_until("both run", LONG, || cluster.answer(&["ls", "services"]).contains("2/2"));
    cluster.write("ready-1", "");
    follower.indices(&[0, 1]);
    // One is not ready any more.
    std::fs::remove_file(cluster.path.join("ready-0")).expect("it was ready");
    follower.indices(&[1]);
    cluster.write("ready-0", "");
    let both = follower.indices(&[0, 1]);
    let on = |index: usize| both.last().map(|list| list[index].1.clone()).expect("a list");
    // What is drained is listed until it runs elsewhere.
    let (drained, other) = (on(0), if on(0) == "worker-1" { "worker-2" } else { "worker-1" });
    cluster.answer(&["drain", &drained]);
    let moved = follower.until("all are elsewhere", |list| {
        list.len() == 2 && list.iter().all(|(_, worker)| worker == other)
    });
    assert!(moved.iter().all(|list| !list.is_empty()), "never without one: {moved:?}");
    let differs = moved.windows(2).all(|two| two[0] != two[1] || two[0].is_empty());
    assert!(differs, "a list is told once: {moved:?}");
    // A second reader begins with what holds now.
    let late = Follower::begin(&cluster);
    assert_eq!(late.indices(&[0, 1]).len(), 1);
    cluster.answer(&["delete", "service/web"]);
    follower.indices(&[]);
    let ended = follower.0.recv_timeout(LONG);
    assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected), "that was the last word");
    let gone = block_on(cluster.client().lines(&format!("{PATH}?follow=true")));
    assert_eq!(gone.expect_err("it is gone").code(), Some(Code::NotFound));
}

#[test]
fn a_follower_of_endpoints_is_hung_up_on_when_its_server_goes() {
    let cluster = Cluster::start("endpoints-server", &[]);
    cluster.write("ready-0", "");
    cluster.write("web.toml", &spec(&cluster, 1));
    cluster.answer(&["apply", "web.toml"]);
    let follower = Follower::begin(&cluster);
    follower.indices(&[0]);
    crate::place::signal(cluster.child("server"), "KILL");
    while let Ok(list) = follower.0.recv_timeout(LONG) {
        assert!(list.len() <= 1);
    }
    // Whoever asks again is told what holds, by the next one.
    cluster.ready();
    Follower::begin(&cluster).indices(&[0]);
}
