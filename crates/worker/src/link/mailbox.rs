//! What containers tell the link: the newest of each run, so that it is bounded by their number and
//! the thread of the containers never waits for the link.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sterna_executor::container::State;
use sterna_model::{RunId, payload::RunReport};
use tokio::sync::Notify;

use crate::containers::Event;

/// What is new of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunNews {
    /// Its state, if that is new.
    pub state: Option<State>,
    /// Whether it takes requests, if that is new.
    pub is_ready: Option<bool>,
    /// The ports that it was given, if that is new.
    pub ports: Option<Vec<(String, u16)>>,
    /// Its end.
    pub report: Option<Box<RunReport>>,
}

/// Everything that is new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tidings {
    /// Of runs.
    pub runs: BTreeMap<RunId, RunNews>,
    /// The guardian's newest answer.
    pub answered: Option<u64>,
    /// Why there is another guardian, if there is.
    pub replaced: Option<String>,
    /// Directories of runs that are over and are left, with the reason; each is told once.
    pub unremoved: Vec<(PathBuf, String)>,
    /// Whether everything that must end with this worker has.
    pub is_shut_down: bool,
}

impl Tidings {
    pub(super) fn note(&mut self, event: Event) {
        let run = match &event {
            Event::Became(run, _)
            | Event::Readiness(run, _)
            | Event::Ports(run, _)
            | Event::Completed(run, _) => *run,
            Event::GuardianAnswered(number) => {
                self.answered = Some(*number);
                return;
            }
            Event::GuardianReplaced(why) => {
                self.replaced = Some(why.clone());
                return;
            }
            Event::NotRemoved(directory, why) => {
                self.unremoved.push((directory.clone(), why.clone()));
                return;
            }
            Event::ShutDown => {
                self.is_shut_down = true;
                return;
            }
        };
        let nothing = RunNews { state: None, is_ready: None, ports: None, report: None };
        let news = self.runs.entry(run).or_insert(nothing);
        match event {
            Event::Became(_, state) => news.state = Some(state),
            Event::Readiness(_, is_ready) => news.is_ready = Some(is_ready),
            Event::Ports(_, ports) => news.ports = Some(ports),
            Event::Completed(_, report) => news.report = Some(report),
            Event::GuardianAnswered(_)
            | Event::GuardianReplaced(_)
            | Event::NotRemoved(..)
            | Event::ShutDown => {}
        }
    }
}

/// The two ends of it are clones.
#[derive(Clone, Debug, Default)]
pub(super) struct Mailbox {
    shared: Arc<(Mutex<Tidings>, Notify)>,
}

impl Mailbox {
    pub(super) fn put(&self, event: Event) {
        self.lock().note(event);
        self.shared.1.notify_one();
    }

    /// Everything that is new, which is then not any more.
    pub(super) fn take(&self) -> Tidings {
        std::mem::take(&mut *self.lock())
    }

    /// Waits until something is new.
    pub(super) async fn changed(&self) {
        self.shared.1.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Tidings> {
        // Nothing here can fail half way.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::WallTime;

    use super::*;

    #[test]
    fn only_the_newest_of_each_run_waits() {
        let mailbox = Mailbox::default();
        let run = RunId::from_parts(WallTime::EPOCH, [1; 10]);
        for round in 0..1_000 {
            mailbox.put(Event::Readiness(run, round % 2 == 0));
            mailbox.put(Event::GuardianAnswered(round));
        }
        mailbox.put(Event::Became(run, State::Running));
        let tidings = mailbox.take();
        assert_eq!(tidings.answered, Some(999));
        let news = RunNews {
            state: Some(State::Running),
            is_ready: Some(false),
            ports: None,
            report: None,
        };
        assert_eq!(tidings.runs, BTreeMap::from([(run, news)]));
        assert_eq!(mailbox.take(), Tidings::default());
    }
}
