//! What a life begins with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sterna_executor::container::{Cause, How, State};
use sterna_model::{BootTime, Incarnation, Name, RunId, payload::Facts};
use sterna_protocol::{
    message::{Held, News, Payload, Status},
    worker::{self, Start, Worker},
};
use sterna_wire::Address;

use super::{
    Effect, Keeper, Life, Told,
    ending::{Farewell, Phase},
};
use crate::link::{
    dial::Dialer,
    mailbox::{RunNews, Tidings},
    payload::never_began,
    remark::{Muffle, Remark},
    table::{Kept, Memory},
};

/// What is known when a worker starts.
#[derive(Clone, Debug)]
pub struct Begin {
    /// Whom to dial.
    pub servers: Vec<Address>,
    /// What the worker is called.
    pub name: Name,
    /// This life; its counter was raised and synced before.
    pub incarnation: Incarnation,
    /// Names this boot of the machine.
    pub boot: String,
    /// The same as a number.
    pub boot_number: u128,
    /// Drawn for this start.
    pub birth: u64,
    /// What goes with every heartbeat.
    pub facts: Facts,
    /// What earlier lives have seen.
    pub memory: Memory,
    /// The last confirmed stamp of this boot, as the guardian has it.
    pub confirmed: Option<BootTime>,
    /// The runs that earlier lives have accepted.
    pub kept: Vec<Kept>,
    /// What the containers have told while they were adopted.
    pub tidings: Tidings,
    /// Whether the operator wants it drained, or no longer.
    pub wants_drain: Option<bool>,
}

/// What is found of a run that stands in the table.
enum Found {
    Ended(Payload),
    Alive,
    Nothing,
}

impl Found {
    fn of(news: Option<&RunNews>) -> Self {
        match news.map(|news| &news.report) {
            Some(Some(report)) => Self::Ended(report.to_bytes().into()),
            Some(None) => Self::Alive,
            None => Self::Nothing,
        }
    }
}

/// What becomes of a run of the table in this life.
enum Fate {
    Alive,
    Ended(Payload),
    /// The machine was rebooted since: that it is gone is plain from the boot.
    Dropped,
}

impl Fate {
    fn of(is_this_boot: bool, found: Found) -> Self {
        match (is_this_boot, found) {
            (true | false, Found::Ended(how)) => Self::Ended(how),
            (true | false, Found::Alive) => Self::Alive,
            // The guardian holds nothing of it, and nobody can ask it for it any more.
            (true, Found::Nothing) => {
                let why = "its worker ended before it began".to_owned();
                Self::Ended(never_began(why).to_bytes().into())
            }
            (false, Found::Nothing) => Self::Dropped,
        }
    }
}

impl Keeper {
    /// A worker that has just started.
    pub fn new(now: BootTime, begin: Begin, effects: &mut Vec<Effect>) -> Self {
        let Begin { tidings, kept, memory, boot, .. } = begin;
        let (mut held, mut lives, mut ends) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        let mut known = BTreeSet::new();
        for Kept { boot: of, held: one } in kept {
            let run = one.run;
            known.insert(run);
            match Fate::of(of == boot, Found::of(tidings.runs.get(&run))) {
                Fate::Alive => {
                    effects.push(Effect::Say(Remark::Adopted(run, one.key.clone())));
                    lives.insert(run, Life::new(State::Created));
                    held.push(one);
                }
                Fate::Ended(how) => {
                    ends.insert(run);
                    let number = u64::try_from(ends.len()).unwrap_or(u64::MAX);
                    let status = Some(Status { number, run, news: News::Ended(how) });
                    held.push(Held { status, ..one });
                }
                Fate::Dropped => effects.push(Effect::Forget(run)),
            }
        }
        let limits = memory.limits.unwrap_or_default();
        let start = Start {
            incarnation: begin.incarnation,
            name: begin.name.clone(),
            boot: begin.boot_number,
            birth: begin.birth,
            facts: begin.facts.to_bytes().into(),
            seen: memory.seen,
            confirmed: begin.confirmed,
            held,
            limits,
        };
        let wish = begin.wants_drain.map(worker::Input::WantsDrain);
        let mut keeper = Self {
            core: Worker::new(now, start),
            name: begin.name,
            dialer: Dialer::new(now, begin.servers),
            memory,
            phase: Phase::Working,
            farewell: Farewell::NotSaid,
            strays: strays(&tidings, &known),
            lives,
            ends,
            inputs: VecDeque::from_iter(wish),
            taken: Vec::new(),
            rebirth_at: None,
            remember_at: None,
            told: Told::default(),
            muffle: Muffle::default(),
            facts: begin.facts,
        };
        let is_over = |run: &RunId| tidings.runs.get(run).is_some_and(|news| news.report.is_some());
        for run in keeper.strays.iter().filter(|run| !is_over(run)) {
            end_stray(*run, effects);
        }
        // Told of what goes on, and of strays that are over already.
        keeper.hear_containers(now, tidings, effects);
        keeper
    }
}

/// What nobody knows any more must be over before anybody is told what runs here.
fn end_stray(run: RunId, effects: &mut Vec<Effect>) {
    effects.push(Effect::Say(Remark::Stray(run)));
    effects.push(Effect::Stop(run, Cause::WorkerExit, How::Now));
}

/// What the containers have that does not stand in the table.
fn strays(tidings: &Tidings, known: &BTreeSet<RunId>) -> BTreeSet<RunId> {
    tidings.runs.keys().copied().filter(|run| !known.contains(run)).collect()
}
