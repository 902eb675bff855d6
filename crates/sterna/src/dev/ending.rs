//! How `dev` ends what it has started: all workers at the same time, so that what they run is recorded,
//! then the server.
//!
//! | it is told to end | what becomes of the children |
//! | --- | --- |
//! | once | they are asked to end, and have so much time for it; then they are killed |
//! | again | what still runs on the workers is killed, and they have a moment to tell it |
//! | a third time | they are killed; guardians end what is left |

use std::{fs, io::PipeWriter, path::Path, time::Duration};

use sterna_api::{
    client::Client,
    rest::{Done, ForecastView},
};
use sterna_model::{InstanceKey, TaskKey, WorkKey};
use tokio::{
    process::Child,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep, timeout},
};

use super::{LATE, Role};
use crate::out;

/// How long a child may take to end by itself.
const END_WITHIN: Duration = Duration::from_secs(15);
/// How long it may take when what it runs was killed.
const HURRIED: Duration = Duration::from_secs(3);
/// How long a guardian may take to end what a worker that died has left.
const GUARDIANS_WITHIN: Duration = Duration::from_secs(10);
/// How long the server may take to say what still runs: it may be what hangs.
const ASK_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// So many runs are named; the others are counted.
const NAMED: usize = 3;

/// The signals by which somebody wants this process to end.
pub(super) struct Signals {
    interrupted: Signal,
    ended: Signal,
}

impl Signals {
    pub(super) fn watch() -> std::io::Result<Self> {
        let interrupted = signal(SignalKind::interrupt())?;
        Ok(Self { interrupted, ended: signal(SignalKind::terminate())? })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.ended.recv() => {}
        }
    }
}

/// What it takes to end everything.
pub(super) struct Ending<'a> {
    pub(super) data: &'a Path,
    pub(super) client: Client,
    pub(super) signals: &'a mut Signals,
}

impl Ending<'_> {
    /// Ends the children. Workers end when their leash is let go of, and so do the guardians of all that
    /// there were: one that has just died may have left something that it keeps.
    pub(super) async fn run(
        mut self,
        children: Vec<(Role, Child)>,
        leash: Option<PipeWriter>,
        all: Vec<Role>,
    ) {
        let (servers, workers): (Vec<_>, Vec<_>) =
            children.into_iter().partition(|(role, _)| *role == Role::Server);
        drop(leash);
        self.end(workers).await;
        self.guardians(&all).await;
        self.end(servers).await;
    }

    /// Ends these at the same time.
    async fn end(&mut self, mut children: Vec<(Role, Child)>) {
        for (_, child) in &mut children {
            drop(child.stdin.take());
        }
        let began = Instant::now();
        let (mut until, mut is_told, mut is_hurried) = (began + END_WITHIN, false, false);
        let progress = out::Progress::new();
        loop {
            children.retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
            if children.is_empty() || Instant::now() >= until {
                break;
            }
            if began.elapsed() >= LATE {
                if !is_told {
                    is_told = true;
                    let again = "; Ctrl-C again kills it at once";
                    out::note(&format!("waits for {}{again}", self.waited_for(&children).await));
                }
                progress.spin(&format!("waits for {}", names(&children)));
            }
            tokio::select! {
                () = self.signals.next() => {
                    progress.clear();
                    let has_runs = children.iter().any(|(role, _)| *role != Role::Server);
                    until = Instant::now();
                    // Who cannot wait until their ends are told says so again.
                    if has_runs && !std::mem::replace(&mut is_hurried, true) {
                        self.kill_runs(&children).await;
                        until = Instant::now() + HURRIED;
                    }
                }
                () = sleep(LOOK_EVERY) => {}
            }
        }
        drop(progress);
        for (role, child) in &mut children {
            out::warning(&format!("{role} does not end by itself, and is killed"));
            drop(child.kill().await);
        }
    }

    /// Children, and what still runs on them.
    async fn waited_for(&mut self, children: &[(Role, Child)]) -> String {
        let mut all = Vec::new();
        for (role, _) in children {
            let runs: Vec<_> = self.runs(*role).await.iter().map(WorkKey::to_string).collect();
            let named = runs.get(..NAMED.min(runs.len())).unwrap_or_default().join(", ");
            all.push(match runs.len() {
                0 => role.to_string(),
                count if count > NAMED => {
                    format!("{role}, which still has {named} and {} more", count - NAMED)
                }
                _ => format!("{role}, which still has {named}"),
            });
        }
        all.join("; ")
    }

    /// What a child still runs, if the server can be asked.
    async fn runs(&mut self, role: Role) -> Vec<WorkKey> {
        if role == Role::Server {
            return Vec::new();
        }
        let path = format!("/v1/workers/{role}/forecast");
        let asked = timeout(ASK_WITHIN, self.client.get::<ForecastView>(&path)).await;
        let Ok(Ok(said)) = asked else { return Vec::new() };
        said.runs.iter().filter_map(|run| run.key.parse().ok()).collect()
    }

    /// Kills what still runs on them: they end when it is over.
    async fn kill_runs(&mut self, children: &[(Role, Child)]) {
        for (role, _) in children {
            for key in self.runs(*role).await {
                let path = match &key {
                    WorkKey::Task(TaskKey { name, .. }) => format!("tasks/{name}"),
                    WorkKey::Instance(InstanceKey { service, index }) => {
                        format!("services/{}/instances/{index}", service.name)
                    }
                    // There are no batches yet.
                    WorkKey::Node(_) => continue,
                };
                let path = format!("/v1/namespaces/{}/{path}/kill", key.namespace());
                let killed = self.client.call::<Done>(http::Method::POST, &path, None::<&()>);
                // What cannot be killed so ends with its worker.
                drop(timeout(ASK_WITHIN, killed).await);
            }
        }
    }

    /// Waits until the guardians of these workers have ended what was left.
    async fn guardians(&mut self, workers: &[Role]) {
        let is_held = |role: &Role| {
            let lock = self.data.join(role.to_string()).join("guardian.lock");
            fs::File::open(lock).is_ok_and(|lock| lock.try_lock().is_err())
        };
        let began = Instant::now();
        let until = began + GUARDIANS_WITHIN;
        let progress = out::Progress::new();
        while workers.iter().any(is_held) && Instant::now() < until {
            if began.elapsed() >= LATE {
                progress.spin("waits for the guardians, which end what is left");
            }
            tokio::select! {
                () = self.signals.next() => return,
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }
}

fn names(children: &[(Role, Child)]) -> String {
    children.iter().map(|(role, _)| role.to_string()).collect::<Vec<_>>().join(", ")
}
