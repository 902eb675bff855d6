//! Where what a run wrote is kept, and how its worker is asked for it.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use sterna_api::rest::{Code, LogPage, Refused};
use sterna_model::{InstanceKey, Lock, Name, RunId, TaskKey, WorkKey, record::TwinReason};
use tokio::time::timeout;

use super::OF_PAST;
use crate::shared::Shared;

/// How long a worker may take to answer, beside what it was asked to wait.
pub(super) const WITHIN: Duration = Duration::from_secs(10);

/// Where a log is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) lock: Lock,
    pub(super) of: Value,
}

/// The last run of an instance that is over, and where what it wrote is.
#[derive(Clone, Debug)]
pub(super) struct Over {
    pub(super) run: RunId,
    pub(super) lock: Lock,
    /// What its worker is called, if it is still known.
    pub(super) worker: Option<Name>,
}

impl Over {
    /// Of all runs of the key that its worker has kept something of.
    pub(super) fn all(&self, key: &WorkKey) -> Place {
        Place { lock: self.lock, of: json!({ "key": key.to_string() }) }
    }

    /// Of this one.
    pub(super) fn alone(&self) -> Place {
        Place { lock: self.lock, of: of_run(self.run) }
    }

    pub(super) fn worker(&self) -> String {
        match &self.worker {
            Some(name) => name.to_string(),
            None => format!("a worker that has left, {}", self.lock),
        }
    }

    /// Says who has the lines that could not be had.
    pub(super) fn kept_by(&self, refused: Refused) -> Refused {
        if refused.code != Code::WorkerSilent {
            return refused;
        }
        let (run, worker) = (self.run, self.worker());
        let text = format!("what its last run, {run}, wrote is on {worker}, which does not answer");
        Refused::new(Code::WorkerSilent, text)
    }

    /// Whether a place is in what its worker has kept.
    pub(super) fn holds(&self, after: &str) -> bool {
        after.starts_with(OF_PAST) || after.contains(&self.run.to_string())
    }
}

/// What is known of a key whose log is asked for.
pub(super) struct Look {
    /// Where its newest log is.
    pub(super) place: Option<Place>,
    /// The run that writes it.
    pub(super) run: Option<RunId>,
    /// Whether nothing more will be written: a task that is over.
    pub(super) is_over: bool,
    /// The last run of an instance that is over.
    pub(super) over: Option<Over>,
    /// Who else has a copy of it that will soon be over.
    pub(super) leaving: Option<Lock>,
}

impl Look {
    /// What to read on in: a copy that leaves is read to its end, before that which takes its place.
    pub(super) fn newest(&self, key: &WorkKey, at: Option<&Place>) -> Option<Place> {
        let leaving = at.filter(|at| Some(at.lock) == self.leaving).cloned();
        let over = || self.over.as_ref().map(|over| over.all(key));
        leaving.or_else(|| self.place.clone()).or_else(over)
    }
}

pub(super) fn look(shared: &Shared, key: &WorkKey) -> Option<Look> {
    match key {
        WorkKey::Task(key) => look_at_task(shared, key),
        WorkKey::Instance(key) => look_at_instance(shared, key),
        // Batches are not built yet.
        WorkKey::Node(_) => None,
    }
}

fn look_at_task(shared: &Shared, key: &TaskKey) -> Option<Look> {
    let mirror = shared.mirror();
    let (task, _) = mirror.tasks.get(key)?;
    let place = task.last().map(|(run, on)| Place { lock: on.lock, of: of_run(run) });
    let (run, is_over) = (task.last().map(|(run, _)| run), task.end().is_some());
    Some(Look { place, run, is_over, over: None, leaving: None })
}

fn look_at_instance(shared: &Shared, key: &InstanceKey) -> Option<Look> {
    let mirror = shared.mirror();
    let instance = mirror.instances.get(key)?;
    let copy = instance.copies().next();
    let place =
        copy.map(|copy| Place { lock: copy.placed.on.lock, of: json!({ "key": key.to_string() }) });
    let over = instance.past().map(|past| {
        let lock = past.on.lock;
        Over { run: past.run, lock, worker: mirror.worker(lock).cloned() }
    });
    let leaving = instance.twin().filter(|twin| match twin.reason {
        TwinReason::Evacuating | TwinReason::Surplus => true,
        // Nobody knows how long, nor whether it runs.
        TwinReason::Silent => false,
    });
    let leaving = leaving.map(|twin| twin.copy.placed.on.lock);
    let run = copy.map(|copy| copy.placed.run);
    Some(Look { place, run, is_over: false, over, leaving })
}

pub(super) fn of_run(run: RunId) -> Value {
    json!({ "run": run.to_string() })
}

pub(super) async fn ask(
    shared: &Shared,
    lock: Lock,
    asked: Bytes,
    wait: Duration,
) -> Result<LogPage, Refused> {
    question(shared, lock, asked, wait).await
}

/// Asks a worker something of its logs.
pub(super) async fn question<A: serde::de::DeserializeOwned>(
    shared: &Shared,
    lock: Lock,
    asked: Bytes,
    wait: Duration,
) -> Result<A, Refused> {
    let silent =
        || Refused::new(Code::WorkerSilent, "the worker that keeps the log does not answer");
    let answer = timeout(WITHIN + wait, shared.desk.aside(lock, asked)).await;
    let answer = answer.map_err(|_| silent())??;
    match serde_json::from_slice::<A>(&answer) {
        Ok(answer) => Ok(answer),
        Err(_) => {
            let said: Value = serde_json::from_slice(&answer).unwrap_or_default();
            let why = said["error"].as_str().unwrap_or("the worker's answer cannot be read");
            let code = if said["is_unknown"] == true { Code::NotFound } else { Code::BadRequest };
            Err(Refused::new(code, why))
        }
    }
}
