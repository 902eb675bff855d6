//! What both sides say.

use sterna_model::{
    ClusterId, Contract, DirectoryId, Epoch, Incarnation, InstanceKey, Lock, MachineId, Name,
    Namespace, NodeKey, NodeName, Nonce, RunId, Span, Term, Work, WorkKey,
};
use sterna_protocol::{
    consensus::{SetHash, SetId, Version},
    limits::Limits,
    message::{Mandate, News, Status},
};

use super::{FieldError, Word, given, id, part, word};
use crate::words::{self, ContractWord, NewsWord, Nothing, WorkWord};

impl Word<Incarnation> for words::Incarnation {
    fn of(message: &Incarnation) -> Self {
        Self {
            directory: message.lock.directory.as_bytes().to_vec(),
            machine: message.lock.machine.as_bytes().to_vec(),
            life: message.life,
        }
    }

    fn read(self) -> Result<Incarnation, FieldError> {
        let directory = id("directory", &self.directory, DirectoryId::from_bytes)?;
        let machine = id("machine", &self.machine, MachineId::from_bytes)?;
        Ok(Incarnation { lock: Lock { directory, machine }, life: self.life })
    }
}

impl Word<Mandate> for words::Mandate {
    fn of(message: &Mandate) -> Self {
        Self {
            epoch: message.epoch.get(),
            term: message.term.get(),
            nonce: message.nonce.get(),
            cluster: message.cluster.as_bytes().to_vec(),
        }
    }

    fn read(self) -> Result<Mandate, FieldError> {
        Ok(Mandate {
            cluster: id("cluster", &self.cluster, ClusterId::from_bytes)?,
            epoch: Epoch::new(self.epoch),
            term: Term::new(self.term),
            nonce: Nonce::new(self.nonce),
        })
    }
}

impl Word<SetId> for words::SetId {
    fn of(message: &SetId) -> Self {
        let [first_lane, second_lane] = message.hash.lanes();
        Self {
            term: message.term.get(),
            nonce: message.nonce.get(),
            version: message.version.get(),
            first_lane,
            second_lane,
            count: message.hash.count(),
        }
    }

    fn read(self) -> Result<SetId, FieldError> {
        Ok(SetId {
            term: Term::new(self.term),
            nonce: Nonce::new(self.nonce),
            version: Version::new(self.version),
            hash: SetHash::from_parts([self.first_lane, self.second_lane], self.count),
        })
    }
}

impl Word<Limits> for words::Limits {
    fn of(message: &Limits) -> Self {
        Self {
            version: message.version,
            heartbeat_every_ms: message.heartbeat_every.as_millis(),
            heartbeat_grace_ms: message.heartbeat_grace.as_millis(),
            check_every_ms: message.check_every.as_millis(),
            check_grace_ms: message.check_grace.as_millis(),
            judge_every_ms: message.judge_every.as_millis(),
            lose_after_ms: message.lose_after.as_millis(),
            kill_wait_ms: message.kill_wait.as_millis(),
            batch_stop_after_max_ms: message.batch_stop_after_max.as_millis(),
            stop_after_max_ms: message.stop_after_max.as_millis(),
            has_kept_batches: message.has_kept_batches,
            has_kept_claims: message.has_kept_claims,
        }
    }

    fn read(self) -> Result<Limits, FieldError> {
        let limits = Limits {
            version: self.version,
            heartbeat_every: Span::from_millis(self.heartbeat_every_ms),
            heartbeat_grace: Span::from_millis(self.heartbeat_grace_ms),
            check_every: Span::from_millis(self.check_every_ms),
            check_grace: Span::from_millis(self.check_grace_ms),
            judge_every: Span::from_millis(self.judge_every_ms),
            lose_after: Span::from_millis(self.lose_after_ms),
            kill_wait: Span::from_millis(self.kill_wait_ms),
            batch_stop_after_max: Span::from_millis(self.batch_stop_after_max_ms),
            stop_after_max: Span::from_millis(self.stop_after_max_ms),
            has_kept_batches: self.has_kept_batches,
            has_kept_claims: self.has_kept_claims,
        };
        limits.check().map_err(FieldError::invalid)?;
        Ok(limits)
    }
}

impl Word<Contract> for words::Contract {
    fn of(message: &Contract) -> Self {
        let word = match message {
            Contract::Replace { after } => ContractWord::ReplaceAfterMs(after.as_millis()),
            Contract::Stop { after } => ContractWord::StopAfterMs(after.as_millis()),
            Contract::Keep => ContractWord::Keep(Nothing {}),
        };
        Self { word: Some(word) }
    }

    fn read(self) -> Result<Contract, FieldError> {
        Ok(match given("word", self.word)? {
            ContractWord::ReplaceAfterMs(ms) => Contract::Replace { after: Span::from_millis(ms) },
            ContractWord::StopAfterMs(ms) => Contract::Stop { after: Span::from_millis(ms) },
            ContractWord::Keep(Nothing {}) => Contract::Keep,
        })
    }
}

impl Word<WorkKey> for words::Key {
    fn of(message: &WorkKey) -> Self {
        let work = match message {
            WorkKey::Instance(InstanceKey { service, index }) => {
                let service = service.name.as_str().to_owned();
                WorkWord::Instance(words::Instance { service, index: *index })
            }
            WorkKey::Task(task) => WorkWord::Task(task.name.as_str().to_owned()),
            WorkKey::Node(NodeKey { batch, node }) => {
                let (batch, node) = (batch.name.as_str().to_owned(), node.as_str().to_owned());
                WorkWord::Node(words::Node { batch, node })
            }
        };
        Self { namespace: message.namespace().as_str().to_owned(), work: Some(work) }
    }

    fn read(self) -> Result<WorkKey, FieldError> {
        let namespace = word("namespace", &self.namespace, Namespace::new)?;
        let work = match given("work", self.work)? {
            WorkWord::Instance(words::Instance { service, index }) => {
                Work::Instance { service: word("service", &service, Name::new)?, index }
            }
            WorkWord::Task(name) => Work::Task(word("task", &name, Name::new)?),
            WorkWord::Node(words::Node { batch, node }) => Work::Node {
                batch: word("batch", &batch, Name::new)?,
                node: word("node", &node, NodeName::new)?,
            },
        };
        Ok(work.within(&namespace))
    }
}

impl Word<Status> for words::Status {
    fn of(message: &Status) -> Self {
        let news = match &message.news {
            News::Progress(what) => NewsWord::Progress(what.to_vec()),
            News::Ended(how) => NewsWord::Ended(how.to_vec()),
            News::WasNotRunning => NewsWord::WasNotRunning(Nothing {}),
        };
        Self { number: message.number, run: message.run.as_bytes().to_vec(), news: Some(news) }
    }

    fn read(self) -> Result<Status, FieldError> {
        let run = id("run", &self.run, RunId::from_bytes)?;
        let news = match given("news", self.news)? {
            NewsWord::Progress(what) => News::Progress(what.into()),
            NewsWord::Ended(how) => News::Ended(how.into()),
            NewsWord::WasNotRunning(Nothing {}) => News::WasNotRunning,
        };
        Ok(Status { number: self.number, run, news })
    }
}

/// A contract and a key, of what must have both.
pub(super) fn key_and_contract(
    key: Option<words::Key>,
    contract: Option<words::Contract>,
) -> Result<(WorkKey, Contract), FieldError> {
    Ok((part("key", key)?, part("contract", contract)?))
}
