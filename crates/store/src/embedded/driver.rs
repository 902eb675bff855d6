//! The two threads: one writes, one merges. They decide nothing.

use std::{io, sync::Arc, thread::JoinHandle};

use sterna_model::Revision;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    engine::{Backlog, Engine},
    writer::Writer,
};
use crate::{Commit, Outcome, StoreError};

/// Commits that wait for the writer. When full, committers wait, which is the back-pressure.
const COMMITS_WAITING: usize = 4_096;
/// Commits that share one sync at most; bounds how long the first of them waits for the others.
const GROUP_MAX: usize = 1_024;
/// Requests that wait for the merger. A hint that finds it full is not needed: it is at work.
const MERGES_WAITING: usize = 16;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked.
pub(super) type Write = (Commit, Answer<Outcome>);

/// What the merger is asked.
#[derive(Debug)]
pub(super) enum Merge {
    /// See whether there is more history than is kept, and say when that is done.
    Due(Option<Answer<()>>),
    /// Forget the history up to a revision.
    UpTo(Revision, Answer<()>),
}

/// The threads, and the ways to reach them. Dropping it lets them finish, and waits for that.
#[derive(Debug)]
pub(super) struct Driver {
    // In the order in which they must go: first the writer hears that nothing more comes.
    pub(super) writes: Option<mpsc::Sender<Write>>,
    pub(super) merges: Option<mpsc::Sender<Merge>>,
    pub(super) revisions: watch::Receiver<Revision>,
    threads: Vec<JoinHandle<()>>,
}

impl Driver {
    pub(super) fn start(engine: &Arc<Engine>, writer: Writer) -> io::Result<Self> {
        let (writes, write_queue) = mpsc::channel(COMMITS_WAITING);
        let (merges, merge_queue) = mpsc::channel(MERGES_WAITING);
        let (revision, revisions) = watch::channel(engine.revision());
        let writing = {
            let (engine, merges) = (Arc::clone(engine), merges.clone());
            move || write(&engine, writer, write_queue, &merges, &revision)
        };
        let merging = {
            let engine = Arc::clone(engine);
            move || merge(&engine, merge_queue)
        };
        let threads = vec![
            std::thread::Builder::new().name("store-write".into()).spawn(writing)?,
            std::thread::Builder::new().name("store-merge".into()).spawn(merging)?,
        ];
        Ok(Self { writes: Some(writes), merges: Some(merges), revisions, threads })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.writes = None;
        self.merges = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            drop(thread.join());
        }
    }
}

fn write(
    engine: &Engine,
    mut writer: Writer,
    mut queue: mpsc::Receiver<Write>,
    merges: &mpsc::Sender<Merge>,
    revision: &watch::Sender<Revision>,
) {
    let mut requests = Vec::new();
    let mut group = Vec::new();
    let mut callers = Vec::new();
    while queue.blocking_recv_many(&mut requests, GROUP_MAX) > 0 {
        for (commit, caller) in requests.drain(..) {
            group.push(commit);
            callers.push(caller);
        }
        let answers = writer.commit_group(&group);
        group.clear();
        revision.send_if_modified(|seen| {
            let before = std::mem::replace(seen, engine.revision());
            before != *seen
        });
        for (caller, answer) in callers.drain(..).zip(answers) {
            // A caller that has gone needs no answer; its commit stands.
            drop(caller.send(answer));
        }
        if engine.is_merge_due() {
            request_merge(engine, merges);
        }
    }
    writer.close();
}

/// Wakes the merger, and waits for it if it is far behind.
fn request_merge(engine: &Engine, merges: &mpsc::Sender<Merge>) {
    match engine.backlog() {
        Backlog::Small | Backlog::Stuck(_) => drop(merges.try_send(Merge::Due(None))),
        Backlog::Large => {
            let (done, wait) = oneshot::channel();
            if merges.blocking_send(Merge::Due(Some(done))).is_ok() {
                drop(wait.blocking_recv());
            }
        }
    }
}

fn merge(engine: &Engine, mut queue: mpsc::Receiver<Merge>) {
    while let Some(request) = queue.blocking_recv() {
        match request {
            Merge::Due(done) => {
                // A failure is kept by the engine, which refuses commits if it lasts.
                let result = engine.merge_due();
                if let Some(done) = done {
                    drop(done.send(result));
                }
            }
            Merge::UpTo(revision, done) => drop(done.send(engine.compact(revision))),
        }
    }
}
