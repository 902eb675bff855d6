//! What a leader says.

use sterna_model::{BootTime, NotifySequence, Revision, RunId, RunSequence, TaskIncarnation};
use sterna_protocol::{
    health::Health,
    message::{
        Confirmation, FromLeader, HeartbeatAnswer, Kill, Order, Ordinal, Refusal, Run, StatusAnswer,
    },
};

use super::{
    At, FieldError, Problem, Word, given, id, known, list, part, perhaps, said,
    shared::key_and_contract, small,
};
use crate::words::{self, KillHow, Nothing, OrderWord, RefusedHow, StatusHow, Verdict};

impl Word<FromLeader> for words::FromLeader {
    fn of(message: &FromLeader) -> Self {
        let order = match &message.order {
            Order::Heartbeat(HeartbeatAnswer::Welcome) => OrderWord::Welcome(Nothing {}),
            Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmation)) => {
                OrderWord::Confirmed(Box::new(Word::of(&**confirmation)))
            }
            Order::Heartbeat(HeartbeatAnswer::Refused(why)) => OrderWord::Refused(Word::of(why)),
            Order::Statuses(revision, answers) => {
                let revision = revision.get();
                OrderWord::Statuses(words::StatusAnswers { answers: said(answers), revision })
            }
            Order::GetRunning => OrderWord::GetRunning(Nothing {}),
            Order::Run(runs) => OrderWord::Run(words::Runs { runs: said(runs) }),
            Order::NotifyIfNotRunning(number, runs) => {
                let runs = runs.iter().map(|run| run.as_bytes().to_vec()).collect();
                OrderWord::NotifyIfNotRunning(words::Notify { number: number.get(), runs })
            }
            Order::Kill(run, kill) => {
                let how = match kill {
                    Kill::Gracefully => KillHow::Gracefully,
                    Kill::Now => KillHow::Now,
                };
                let run = run.as_bytes().to_vec();
                OrderWord::Kill(words::KillOrder { run, how: how.into() })
            }
            Order::Die => OrderWord::Die(Nothing {}),
        };
        Self {
            version: message.version.into(),
            mandate: Some(Word::of(&message.mandate)),
            incarnation: Some(Word::of(&message.incarnation)),
            order: Some(order),
        }
    }

    fn read(self) -> Result<FromLeader, FieldError> {
        let answer = Order::Heartbeat;
        let order = match given("order", self.order)? {
            OrderWord::Welcome(Nothing {}) => answer(HeartbeatAnswer::Welcome),
            OrderWord::Confirmed(confirmation) => {
                answer(HeartbeatAnswer::Confirmed(Box::new(confirmation.read().at("confirmed")?)))
            }
            OrderWord::Refused(why) => answer(HeartbeatAnswer::Refused(why.read().at("refused")?)),
            OrderWord::Statuses(words::StatusAnswers { answers, revision }) => {
                Order::Statuses(Revision::new(revision), list("statuses", answers)?)
            }
            OrderWord::GetRunning(Nothing {}) => Order::GetRunning,
            OrderWord::Run(words::Runs { runs }) => Order::Run(list("runs", runs)?),
            OrderWord::NotifyIfNotRunning(words::Notify { number, runs }) => {
                let read = |(at, run): (usize, &Vec<u8>)| {
                    id(&format!("notify[{at}]"), run, RunId::from_bytes)
                };
                let runs = runs.iter().enumerate().map(read).collect::<Result<_, _>>()?;
                Order::NotifyIfNotRunning(NotifySequence::new(number), runs)
            }
            OrderWord::Kill(kill) => kill.order().at("kill")?,
            OrderWord::Die(Nothing {}) => Order::Die,
        };
        Ok(FromLeader {
            version: small("version", self.version)?,
            mandate: part("mandate", self.mandate)?,
            incarnation: part("incarnation", self.incarnation)?,
            order,
        })
    }
}

impl words::KillOrder {
    fn order(self) -> Result<Order, FieldError> {
        let run = id("run", &self.run, RunId::from_bytes)?;
        let kill = match known("how", self.how)? {
            KillHow::Unsaid => return Err(FieldError::new(Problem::Missing)).at("how"),
            KillHow::Gracefully => Kill::Gracefully,
            KillHow::Now => Kill::Now,
        };
        Ok(Order::Kill(run, kill))
    }
}

impl Word<Confirmation> for words::Confirmation {
    fn of(message: &Confirmation) -> Self {
        let verdict = match message.verdict {
            Health::New => Verdict::New,
            Health::Unhealthy => Verdict::Unhealthy,
            Health::Healthy => Verdict::Healthy,
            Health::MustDie => Verdict::MustDie,
        };
        Self {
            stamp_ms: message.stamp.as_millis(),
            limits: Some(Word::of(&message.limits)),
            verdict: verdict.into(),
            set: message.set.as_ref().map(Word::of),
            revision: message.revision.get(),
            is_draining: message.is_draining,
        }
    }

    fn read(self) -> Result<Confirmation, FieldError> {
        let verdict = match known("verdict", self.verdict)? {
            Verdict::Unsaid => return Err(FieldError::new(Problem::Missing)).at("verdict"),
            Verdict::New => Health::New,
            Verdict::Unhealthy => Health::Unhealthy,
            Verdict::Healthy => Health::Healthy,
            Verdict::MustDie => Health::MustDie,
        };
        Ok(Confirmation {
            stamp: BootTime::from_millis(self.stamp_ms),
            limits: part("limits", self.limits)?,
            verdict,
            set: perhaps("set", self.set)?,
            revision: Revision::new(self.revision),
            is_draining: self.is_draining,
        })
    }
}

impl Word<Refusal> for words::Refused {
    fn of(message: &Refusal) -> Self {
        let why = match message {
            Refusal::Die => RefusedHow::Die(Nothing {}),
            Refusal::NameTaken => RefusedHow::NameTaken(Nothing {}),
            Refusal::WrongVersion(theirs) => RefusedHow::WrongVersion((*theirs).into()),
            Refusal::WrongCluster => RefusedHow::WrongCluster(Nothing {}),
            Refusal::WentBack(newest) => RefusedHow::WentBack(*newest),
            Refusal::RosterFull => RefusedHow::RosterFull(Nothing {}),
        };
        Self { why: Some(why) }
    }

    fn read(self) -> Result<Refusal, FieldError> {
        Ok(match given("why", self.why)? {
            RefusedHow::Die(Nothing {}) => Refusal::Die,
            RefusedHow::NameTaken(Nothing {}) => Refusal::NameTaken,
            RefusedHow::WrongVersion(theirs) => {
                Refusal::WrongVersion(small("wrong_version", theirs)?)
            }
            RefusedHow::WrongCluster(Nothing {}) => Refusal::WrongCluster,
            RefusedHow::WentBack(newest) => Refusal::WentBack(newest),
            RefusedHow::RosterFull(Nothing {}) => Refusal::RosterFull,
        })
    }
}

impl Word<(RunId, u64, StatusAnswer)> for words::StatusReply {
    fn of((run, number, answer): &(RunId, u64, StatusAnswer)) -> Self {
        let answer = match answer {
            StatusAnswer::Recorded => StatusHow::Recorded,
            StatusAnswer::Ignored => StatusHow::Ignored,
            StatusAnswer::Retry => StatusHow::Retry,
        };
        Self { run: run.as_bytes().to_vec(), number: *number, answer: answer.into() }
    }

    fn read(self) -> Result<(RunId, u64, StatusAnswer), FieldError> {
        let run = id("run", &self.run, RunId::from_bytes)?;
        let answer = match known("answer", self.answer)? {
            StatusHow::Unsaid => return Err(FieldError::new(Problem::Missing)).at("answer"),
            StatusHow::Recorded => StatusAnswer::Recorded,
            StatusHow::Ignored => StatusAnswer::Ignored,
            StatusHow::Retry => StatusAnswer::Retry,
        };
        Ok((run, self.number, answer))
    }
}

impl Word<Run> for words::Run {
    fn of(message: &Run) -> Self {
        Self {
            sequence: message.sequence.get(),
            notify: message.notify.get(),
            run: message.run.as_bytes().to_vec(),
            key: Some(Word::of(&message.key)),
            task: message.task.map(|task| task.as_bytes().to_vec()),
            contract: Some(Word::of(&message.contract)),
            work: message.work.to_vec(),
            number: message.ordinal.number,
            attempt: message.ordinal.attempt,
        }
    }

    fn read(self) -> Result<Run, FieldError> {
        let (key, contract) = key_and_contract(self.key, self.contract)?;
        let task = self.task.map(|task| id("task", &task, TaskIncarnation::from_bytes));
        Ok(Run {
            sequence: RunSequence::new(self.sequence),
            notify: NotifySequence::new(self.notify),
            run: id("run", &self.run, RunId::from_bytes)?,
            key,
            task: task.transpose()?,
            contract,
            ordinal: Ordinal { number: self.number, attempt: self.attempt },
            work: self.work.into(),
        })
    }
}
