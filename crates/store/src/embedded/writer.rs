//! The one that appends to the log.

use std::{io, sync::Arc};

use sterna_model::Bytes;

use super::{
    engine::{Backlog, Engine, Sizes},
    log::{Append, Closed, Segment},
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
    /// Begins a new segment.
    pub(super) fn new(engine: Arc<Engine>) -> io::Result<Self> {
        let segment = engine.next_segment()?;
        Ok(Self { engine, segment: Some(segment) })
    }

    /// Judges each commit by itself, in order, and makes all that apply durable with one sync.
    pub(super) fn commit_group(&mut self, group: &[Commit]) -> Vec<Answer> {
        match self.try_commit_group(group) {
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
        }
    }

    /// Ends the log as a whole, so that nothing is left open.
    pub(super) fn close(&mut self) {
        let Some(segment) = &mut self.segment else { return };
        let closed = segment.end();
        if self.engine.check().is_ok() && matches!(segment.flush(), Append::Done) {
            self.retire(closed);
        }
    }

    fn try_commit_group(&mut self, group: &[Commit]) -> Result<Vec<Answer>, Refused> {
        self.engine.check().map_err(|_| Refused::Poisoned)?;
        let before = self.engine.revision();
        let segment = match &mut self.segment {
            Some(segment) => segment,
            none @ None => {
                let next = self.engine.next_segment();
                none.insert(next.map_err(|error| unwritten(error, &self.engine.sizes))?)
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
        let is_full = segment.bytes() >= self.engine.sizes.segment_bytes;
        let closed = if is_full { segment.end() } else { None };
        // Even a conflict is answered only now: it may be one with a commit of this very group.
        match segment.flush() {
            Append::Done => {
                self.engine.view.write().recent.publish();
                self.retire(closed);
                Ok(answers)
            }
            Append::Nothing(error) => {
                segment.rewind(before);
                self.engine.view.write().recent.withdraw();
                Err(unwritten(error, &self.engine.sizes))
            }
            Append::Unknown(error) => Err(Refused::Unknown(error.to_string())),
        }
    }

    /// Hands a closed segment over to the merger; the next one begins with the next group.
    fn retire(&mut self, closed: Option<Closed>) {
        if let Some(closed) = closed {
            self.engine.closed.lock().push_back(closed);
            self.segment = None;
        }
    }
}

/// Why a whole group was not taken.
enum Refused {
    Poisoned,
    Unwritten(String),
    Unknown(String),
}

fn unwritten(error: io::Error, sizes: &Sizes) -> Refused {
    let is_full = error.kind() == io::ErrorKind::StorageFull;
    Refused::Unwritten(if is_full {
        let step = Bytes::new(sizes.segment_bytes);
        format!("the disk is full; free some space: the log grows by {step} at a time")
    } else {
        error.to_string()
    })
}
