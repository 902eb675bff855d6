//! What must not be, as people are told. Pure.

use sterna_api::rest::EventKind;
use sterna_engine::control::Alarm;
use sterna_model::Lock;
use sterna_protocol::scheduler;

use crate::events::Told;

/// An alarm as an event.
pub(crate) fn told(alarm: &Alarm) -> Told {
    let about = |key: String, reason: String| Told {
        reason: Some(reason),
        ..Told::new(EventKind::Alarm, key)
    };
    match alarm {
        Alarm::AdoptedPending(key, run) => {
            let reason = "it runs already although its record says that it waits: the leader adopted the run";
            Told { run: Some(*run), ..about(key.to_string(), reason.to_owned()) }
        }
        Alarm::FoundAfterRestore(key, run) => {
            let reason = "the store was restored to a time before this run started; it keeps running; `sterna kill` ends it";
            Told { run: Some(*run), ..about(key.to_string(), reason.to_owned()) }
        }
        Alarm::RunsElsewhere(key, run) => {
            let reason = "the leader found a second run of it and is ending that run";
            Told { run: Some(*run), ..about(key.to_string(), reason.to_owned()) }
        }
        Alarm::Stray(life, run) => {
            let reason = format!("an unknown run has ended on {}", life.lock);
            Told { run: Some(*run), ..about("worker".to_owned(), reason) }
        }
        Alarm::Swept(what) => {
            let reason = "a sweep found work that no event had triggered: report this as a bug";
            about(what.clone(), reason.to_owned())
        }
        Alarm::Worker(life, why) => about("worker".to_owned(), of_worker(life.lock, why)),
        Alarm::CallbackGivenUp(key, tries) => {
            let reason = format!(
                "its callback failed {tries} times, and the leader gave it up: check the address, and read the \
                 outcome of the task from the API"
            );
            about(key.to_string(), reason)
        }
        Alarm::Reverted(key) => {
            let name = format!("{}/service/{}", key.namespace, key.name);
            about(
                name,
                "its new version crashed too often, or was not ready, and was rolled back"
                    .to_owned(),
            )
        }
    }
}

/// What is to be said of a worker that is refused, or has what it should not have.
fn of_worker(lock: Lock, why: &scheduler::Alarm) -> String {
    match why {
        scheduler::Alarm::NameTaken(name) => format!(
            "the worker {name} of {} is refused: another machine has its name; give it another name, or stop \
             that machine's worker and run `sterna declare-dead` for it",
            lock
        ),
        scheduler::Alarm::RosterFull(most) => format!(
            "a new worker of {} is refused: {most} machines are on the roster, which is the limit; `sterna forget` \
             those that are gone, or start the servers with a larger --workers-max",
            lock
        ),
        scheduler::Alarm::Foreign(cluster) => format!(
            "a worker of {} belongs to another cluster than {cluster}; start it with a server of its own cluster, \
             or with an empty data directory",
            lock
        ),
        scheduler::Alarm::RunIsElsewhere(run, other) => format!(
            "{run} is on {} and on {other}: one data directory is a copy of the other; stop one of the two, and restart it with an empty one",
            lock
        ),
        scheduler::Alarm::WentBack(newest) => format!(
            "the data directory of {} was restored or copied: the leader knows its later life {newest}; restart it with an empty one",
            lock
        ),
    }
}
