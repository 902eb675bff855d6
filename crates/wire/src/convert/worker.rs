//! What a worker says.

use sterna_model::{BootTime, Name, NotifySequence, Revision, RunId, Span, TaskIncarnation};
use sterna_protocol::message::{
    FromWorker, Heartbeat, Held, Mandate, RunAnswer, RunRefusal, Saying,
};

use super::{
    At, FieldError, Problem, Word, given, id, known, list, part, perhaps, said,
    shared::key_and_contract, small, word,
};
use crate::words::{self, Nothing, RefusalHow, SayingWord, Started};

impl Word<FromWorker> for words::FromWorker {
    fn of(message: &FromWorker) -> Self {
        let saying = match &message.saying {
            Saying::Heartbeat(heartbeat) => SayingWord::Heartbeat(Box::new(Word::of(heartbeat))),
            Saying::Statuses(statuses) => {
                SayingWord::Statuses(words::Statuses { statuses: said(statuses) })
            }
            Saying::Running(held) => SayingWord::Running(words::Running { held: said(held) }),
            Saying::Answers(answers) => {
                SayingWord::Answers(words::Answers { answers: said(answers) })
            }
            Saying::Noted(number) => SayingWord::Noted(words::Noted { number: number.get() }),
        };
        Self {
            version: message.version.into(),
            incarnation: Some(Word::of(&message.incarnation)),
            mandate: message.mandate.as_ref().map(Word::of),
            saying: Some(saying),
        }
    }

    fn read(self) -> Result<FromWorker, FieldError> {
        let saying = match given("saying", self.saying)? {
            SayingWord::Heartbeat(heartbeat) => {
                Saying::Heartbeat(heartbeat.read().at("heartbeat")?)
            }
            SayingWord::Statuses(words::Statuses { statuses }) => {
                Saying::Statuses(list("statuses", statuses)?)
            }
            SayingWord::Running(words::Running { held }) => Saying::Running(list("running", held)?),
            SayingWord::Answers(words::Answers { answers }) => {
                Saying::Answers(list("answers", answers)?)
            }
            SayingWord::Noted(words::Noted { number }) => {
                Saying::Noted(NotifySequence::new(number))
            }
        };
        Ok(FromWorker {
            version: small("version", self.version)?,
            incarnation: part("incarnation", self.incarnation)?,
            mandate: perhaps("mandate", self.mandate)?,
            saying,
        })
    }
}

impl Word<Heartbeat> for words::Heartbeat {
    fn of(message: &Heartbeat) -> Self {
        Self {
            name: message.name.as_str().to_owned(),
            stamp_ms: message.stamp.as_millis(),
            checked_ms: message.checked.map(Span::as_millis),
            boot: message.boot.to_be_bytes().to_vec(),
            seen: message.seen.as_ref().map(Word::of),
            limits: message.limits,
            set: message.set.as_ref().map(Word::of),
            wants_drain: message.wants_drain,
            facts: message.facts.to_vec(),
            birth: message.birth,
            is_leaving: message.is_leaving,
        }
    }

    fn read(self) -> Result<Heartbeat, FieldError> {
        let boot = |bytes| Ok::<_, std::convert::Infallible>(u128::from_be_bytes(bytes));
        Ok(Heartbeat {
            name: word("name", &self.name, Name::new)?,
            stamp: BootTime::from_millis(self.stamp_ms),
            checked: self.checked_ms.map(Span::from_millis),
            boot: id("boot", &self.boot, boot)?,
            birth: self.birth,
            seen: perhaps("seen", self.seen)?,
            limits: self.limits,
            set: perhaps("set", self.set)?,
            wants_drain: self.wants_drain,
            is_leaving: self.is_leaving,
            facts: self.facts.into(),
        })
    }
}

impl Word<(Mandate, Revision)> for words::Seen {
    fn of((mandate, revision): &(Mandate, Revision)) -> Self {
        Self { mandate: Some(Word::of(mandate)), revision: revision.get() }
    }

    fn read(self) -> Result<(Mandate, Revision), FieldError> {
        Ok((part("mandate", self.mandate)?, Revision::new(self.revision)))
    }
}

impl Word<Held> for words::Held {
    fn of(message: &Held) -> Self {
        Self {
            run: message.run.as_bytes().to_vec(),
            key: Some(Word::of(&message.key)),
            task: message.task.map(|task| task.as_bytes().to_vec()),
            contract: Some(Word::of(&message.contract)),
            status: message.status.as_ref().map(Word::of),
        }
    }

    fn read(self) -> Result<Held, FieldError> {
        let (key, contract) = key_and_contract(self.key, self.contract)?;
        let task = self.task.map(|task| id("task", &task, TaskIncarnation::from_bytes));
        Ok(Held {
            run: id("run", &self.run, RunId::from_bytes)?,
            key,
            task: task.transpose()?,
            contract,
            status: perhaps("status", self.status)?,
        })
    }
}

impl Word<(RunId, RunAnswer)> for words::Answer {
    fn of((run, answer): &(RunId, RunAnswer)) -> Self {
        let answer = match answer {
            RunAnswer::Started => Started::Started(Nothing {}),
            RunAnswer::Refused(why) => Started::Refused(Word::of(why)),
        };
        Self { run: run.as_bytes().to_vec(), answer: Some(answer) }
    }

    fn read(self) -> Result<(RunId, RunAnswer), FieldError> {
        let run = id("run", &self.run, RunId::from_bytes)?;
        let answer = match given("answer", self.answer)? {
            Started::Started(Nothing {}) => RunAnswer::Started,
            Started::Refused(why) => RunAnswer::Refused(why.read().at("refused")?),
        };
        Ok((run, answer))
    }
}

impl Word<RunRefusal> for words::RunRefused {
    fn of(message: &RunRefusal) -> Self {
        let (why, here) = match message {
            RunRefusal::NotHealthy => (RefusalHow::NotHealthy, Vec::new()),
            RunRefusal::Draining => (RefusalHow::Draining, Vec::new()),
            RunRefusal::Overtaken => (RefusalHow::Overtaken, Vec::new()),
            RunRefusal::KeyIsHere(run) => (RefusalHow::KeyIsHere, run.as_bytes().to_vec()),
            RunRefusal::TooLate => (RefusalHow::TooLate, Vec::new()),
        };
        Self { why: why.into(), here }
    }

    fn read(self) -> Result<RunRefusal, FieldError> {
        Ok(match known("why", self.why)? {
            RefusalHow::Unsaid => return Err(FieldError::new(Problem::Missing)).at("why"),
            RefusalHow::NotHealthy => RunRefusal::NotHealthy,
            RefusalHow::Draining => RunRefusal::Draining,
            RefusalHow::Overtaken => RunRefusal::Overtaken,
            RefusalHow::KeyIsHere => {
                RunRefusal::KeyIsHere(id("here", &self.here, RunId::from_bytes)?)
            }
            RefusalHow::TooLate => RunRefusal::TooLate,
        })
    }
}
