//! What is over goes by retention: not before its time, not without having been told, and so that a server
//! does not grow with what has been.

use std::{collections::BTreeMap, env, sync::Arc, time::Duration};

use jiff::Timestamp;
use sterna_api::rest::{Code, EventKind, EventView, TaskView};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use crate::{
    crowd::{create, memory, until, worker},
    storm::Place,
};

/// How long a server is told to keep tasks, and then their names, in milliseconds.
const TASKS_MS: i64 = 3_000;
const NAMES: &str = "2s";
/// How much later than due something may go; the machine may be busy.
const LATE_MS: i64 = 20_000;
/// How much later than its task an end may be told: an event has the time of its commit.
const TOLD_MS: i64 = 1_000;

/// How many rounds of how many tasks; `STERNA_LONG` does what takes minutes.
fn size() -> (usize, usize) {
    if env::var_os("STERNA_LONG").is_some() { (20, 2_000) } else { (4, 250) }
}

/// Makes tasks, waits until none of them is kept any more, and gives the memory of the server then.
async fn round(place: &Arc<Place>, numbers: std::ops::Range<usize>, server: u32) -> u64 {
    let (mut made, at_once) = (JoinSet::new(), Arc::new(Semaphore::new(32)));
    for number in numbers {
        let (place, at_once) = (Arc::clone(place), Arc::clone(&at_once));
        made.spawn(async move {
            let turn = at_once.acquire().await.expect("it stays open");
            create(&place, number).await;
            drop(turn);
        });
    }
    made.join_all().await;
    until(place, |status| status.tasks.is_empty()).await;
    memory(server)
}

/// All events of tasks, by the name of the task.
async fn told(place: &Place) -> BTreeMap<String, Vec<(EventKind, i64)>> {
    let path = "/v1/events?after=0&until_now=true&key=default/task/";
    let mut lines = place.client().lines(path).await.expect("events come");
    let mut all: BTreeMap<String, Vec<_>> = BTreeMap::new();
    while let Some(line) = lines.next().await.expect("they go on") {
        let Some(data) = line.strip_prefix(b"data: ") else { continue };
        let event: EventView = serde_json::from_slice(data).expect("an event");
        let at: Timestamp = event.at.parse().expect("a moment");
        all.entry(event.key).or_default().push((event.kind, at.as_millisecond()));
    }
    all
}

#[test]
fn tasks_that_are_over_go_in_their_time_and_the_server_does_not_grow() {
    let (rounds, tasks) = size();
    let place = Arc::new(Place::new("history"));
    let options = ["--keep-tasks", "3s", "--caution-keep-names", NAMES];
    let mut server = place.server_with(&options);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        until(&place, |_| true).await;
        let working = tokio::spawn(worker(place.address.clone()));
        until(&place, |status| status.takes_work).await;
        let mut sizes = Vec::new();
        for number in 0..rounds {
            sizes.push(round(&place, number * tasks..(number + 1) * tasks, server.id()).await);
        }
        let all = told(&place).await;
        assert_eq!(all.len(), rounds * tasks, "each that was acknowledged is told of");
        for (key, events) in &all {
            let of = |kind| {
                let all: Vec<_> = events.iter().filter(|(it, _)| *it == kind).collect();
                assert_eq!(all.len(), 1, "{key}: {kind}: {events:?}");
                all[0].1
            };
            let kept = of(EventKind::TaskDeleted) - of(EventKind::TaskCompleted);
            let due = TASKS_MS - TOLD_MS..TASKS_MS + LATE_MS;
            assert!(due.contains(&kept), "{key}: {kept} ms");
        }
        // Events are kept longer, 100,000 of them; nothing else may add up.
        let grown = sizes.last().expect("a round").saturating_sub(sizes[0]);
        let told: usize = all.values().map(Vec::len).sum();
        let bound = (8 << 10) + told as u64;
        assert!(grown < bound, "{grown} KiB more after {told} events: {sizes:?}");
        // A leader that finds them in the store frees their names, too.
        create(&place, usize::MAX).await;
        until(&place, |status| status.tasks.is_empty()).await;
        server.kill().expect("it runs");
        server.wait().expect("it ran");
        server = place.server_with(&options);
        until(&place, |status| status.takes_work).await;
        let again = async {
            loop {
                let asked = sterna_api::rest::CreateTask {
                    name: format!("t-{}", usize::MAX),
                    spec: serde_json::json!({ "run": ["true"] }),
                    incarnation: None,
                };
                let path = "/v1/namespaces/default/tasks";
                let mut client = place.client();
                let made = client.call::<TaskView>(http::Method::POST, path, Some(&asked)).await;
                match made {
                    Ok(_) => return,
                    Err(error) => assert_eq!(error.code(), Some(Code::NameTaken), "{error}"),
                }
                sleep(Duration::from_millis(50)).await; // why: its name is free at a moment that nobody tells
            }
        };
        tokio::time::timeout(Duration::from_secs(30), again).await.expect("its name is free");
        working.abort();
    });
    server.kill().expect("it runs");
    server.wait().expect("it ran");
}
