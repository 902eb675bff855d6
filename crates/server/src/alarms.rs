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
            let reason = "it runs already, though its record says that it waits: it was taken over";
            Told { run: Some(*run), ..about(key.to_string(), reason.to_owned()) }
        }
        Alarm::FoundAfterRestore(key, run) => {
            let reason = "it runs, and the store was restored to a time when it did not: it runs on; \
                          `sterna kill` ends it";
            Told { run: Some(*run), ..about(key.to_string(), reason.to_owned()) }
        }
        Alarm::RunsElsewhere(key, run) => {
            let reason = "a second run of it was found, and is being ended";
            Told { run: Some(*run), ..about(key.to_string(), reason.to_owned()) }
        }
        Alarm::Stray(life, run) => {
            let reason = format!("a run of which nothing is known has ended on {}", life.lock);
            Told { run: Some(*run), ..about("worker".to_owned(), reason) }
        }
        Alarm::Swept(what) => {
            let reason = "a sweep found something to do that no event had led to: tell us";
            about(what.clone(), reason.to_owned())
        }
        Alarm::Worker(life, why) => about("worker".to_owned(), of_worker(life.lock, why)),
        Alarm::CallbackGivenUp(key, tries) => {
            let reason = format!(
                "nobody took its callback, which was tried {tries} times, and is not tried again: see \
                 to the address, and read its end"
            );
            about(key.to_string(), reason)
        }
        Alarm::Reverted(key) => {
            let name = format!("{}/service/{}", key.namespace, key.name);
            about(
                name,
                "its new version crashed too often, or was not ready, and was taken back"
                    .to_owned(),
            )
        }
    }
}

/// What is to be said of a worker that is refused, or has what it should not have.
fn of_worker(lock: Lock, why: &scheduler::Alarm) -> String {
    match why {
        scheduler::Alarm::NameTaken(name) => format!(
            "the worker {name} of {} is refused: another machine has its name; give it another \
             one, or end the other and `sterna declare-dead` that",
            lock
        ),
        scheduler::Alarm::RosterFull(most) => format!(
            "a new worker of {} is refused: {most} machines are on the roster, and no more may \
             be; `sterna forget` those that are gone, or start the servers with a larger \
             --workers-max",
            lock
        ),
        scheduler::Alarm::Foreign(cluster) => format!(
            "a worker of {} belongs to another cluster than {cluster}; give it this one's \
             server, or an empty data directory",
            lock
        ),
        scheduler::Alarm::RunIsElsewhere(run, other) => format!(
            "{run} is on {} and on {other}: one data directory is a copy of the other; end one \
             of the two, and let it begin with an empty one",
            lock
        ),
        scheduler::Alarm::WentBack(newest) => format!(
            "the data directory of {} was restored or copied: life {newest} is known of it; \
             begin with an empty one",
            lock
        ),
    }
}
