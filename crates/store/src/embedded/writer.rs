//! The one that appends to the log.

use std::{io, sync::Arc};

use super::{
    engine::{Backlog, Engine},
    log::{Append, Segment},
    view::Judged,
};
use crate::{Commit, Outcome, StoreError};

/// Judges commits, writes them to the log, and publishes what is durable.
#[derive(Debug)]
pub(super) struct Writer {
    engine: Arc<Engine>,
    /// `None` between closing a segment and beginning the next.
    segment: Option<Segment>,
}

type Answer = Result<Outcome, StoreError>;

impl Writer {
    /// Begins a new segment after everything that `engine` holds.
    pub(super) fn new(engine: Arc<Engine>) -> io::Result<Self> {
        let segment = Segment::create(&*engine.files, engine.revision())?;
        Ok(Self { engine, segment: Some(segment) })
    }

    /// Judges each commit by itself, in order, and makes all that apply durable with one sync.
    pub(super) fn commit_group(&mut self, group: &[Commit]) -> Vec<Answer> {
        let answers = match self.try_commit_group(group) {
            Ok(answers) => answers,
            Err(Refused::Poisoned) => group.iter().map(|_| Err(StoreError::Poisoned)).collect(),
            Err(Refused::Unwritten(reason)) => {
                let answer = || StoreError::Unavailable(reason.clone().into());
                group.iter().map(|_| Err(answer())).collect()
            }
            Err(Refused::Unknown(reason)) => {
                self.engine.poison();
                let answer = || StoreError::Unknown(reason.clone().into());
                group.iter().map(|_| Err(answer())).collect()
            }
        };
        self.close_if_full();
        answers
    }

    /// Ends the log as a whole, so that nothing is left open.
    pub(super) fn close(&mut self) {
        if self.engine.check().is_ok() {
            self.close_segment();
        }
    }

    fn try_commit_group(&mut self, group: &[Commit]) -> Result<Vec<Answer>, Refused> {
        self.engine.check().map_err(|_| Refused::Poisoned)?;
        let before = self.engine.revision();
        let segment = match &mut self.segment {
            Some(segment) => segment,
            none @ None => {
                none.insert(Segment::create(&*self.engine.files, before).map_err(unwritten)?)
            }
        };
        if let Backlog::Stuck(reason) = self.engine.backlog() {
            return Err(Refused::Unwritten(reason));
        }
        let (answers, is_idle) = {
            let mut view = self.engine.view.write();
            let answers = group
                .iter()
                .map(|commit| {
                    Ok(match view.judge(commit)? {
                        Judged::Idle(outcome) => outcome,
                        Judged::Staged(record) => {
                            segment.push(&record);
                            let revision = record.revision;
                            view.recent.stage(record);
                            Outcome::Applied(revision)
                        }
                    })
                })
                .collect();
            (answers, view.recent.last() == before)
        };
        if is_idle {
            return Ok(answers);
        }
        // Even a conflict is answered only now: it may be one with a commit of this very group.
        match segment.flush() {
            Append::Done => {
                self.engine.view.write().recent.publish();
                Ok(answers)
            }
            Append::Nothing(error) => {
                segment.rewind(before);
                self.engine.view.write().recent.withdraw();
                Err(unwritten(error))
            }
            Append::Unknown(error) => Err(Refused::Unknown(error.to_string())),
        }
    }

    /// Closes the segment if it has grown enough; the next one begins with the next group.
    fn close_if_full(&mut self) {
        let full = self.engine.sizes.segment_bytes;
        let is_full = self.segment.as_ref().is_some_and(|segment| segment.bytes() >= full);
        if is_full && self.engine.check().is_ok() {
            self.close_segment();
        }
    }

    fn close_segment(&mut self) {
        let Some(segment) = &mut self.segment else { return };
        match segment.close() {
            Ok(closed) => {
                self.segment = None;
                if !closed.is_empty() {
                    self.engine.closed.lock().push_back(closed);
                }
            }
            // It stays in use, larger than meant; closing is tried again after the next group.
            Err(Append::Nothing(_) | Append::Done) => {}
            Err(Append::Unknown(_)) => self.engine.poison(),
        }
    }
}

/// Why a whole group was not taken.
enum Refused {
    Poisoned,
    Unwritten(String),
    Unknown(String),
}

fn unwritten(error: io::Error) -> Refused {
    let is_full = error.kind() == io::ErrorKind::StorageFull;
    Refused::Unwritten(if is_full {
        "the disk is full; free some space".to_owned()
    } else {
        error.to_string()
    })
}
