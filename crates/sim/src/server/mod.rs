//! A server: its process, its calls of the store, its part in the election.
//!
//! ```text
//!   mod.rs       the process; calls and their answers; the election, which is the real one
//!   office.rs    what a leader has: taking office, parcels, settling (the real code)
//!   links.rs     the leader, which is the engine's: frames in, effects out
//!   batches.rs   nodes that are wanted all the time, until the engine has batches
//! ```

mod batches;
mod links;
mod office;

use sterna_engine::control::{Call, Row, RowKey};
use sterna_model::{ClusterId, Marks, Nonce, Position, Revision, Term, WallTime, WriteId};
use sterna_protocol::limits::Limits;
use sterna_store::{
    Commit, Expect, Outcome, StoreError,
    cluster::{self, CLUSTER_KEY, Cluster, Floor, Found, Seen, Stage, Verdict},
    leader::{
        self, Attempt, Election, Ended, LEASE_KEY, Lease, REIGN_KEY, Reign, term_in, term_key,
    },
};

use self::office::{Office, Taking};
use crate::{
    clock::{Clock, Moment},
    desk::Desk,
    plan::Loss,
    record,
    store::{Ask, Told},
    world::{Answer, Event, Message, Pid, Who, World},
};

/// One call of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallId {
    LeaseRead,
    Election(Attempt),
    /// Of the parcel that was sent with this number.
    Parcel(u64),
    /// Of what is done by real code at a desk.
    Desk(u64),
}

pub(crate) struct Server {
    pub(crate) clock: Clock,
    /// What it has written down of the store.
    pub(crate) seen: Option<Seen>,
    /// Until when it does not reach the store.
    pub(crate) alone_until: Moment,
    /// Whether it is started again when it ends.
    pub(crate) is_wanted: bool,
    pub(crate) process: Option<Process>,
    /// The highest revision that any process of it was told.
    told: Revision,
    /// Whether the store was set back, and it was told nothing of what is lost.
    is_unaware: bool,
}

pub(crate) struct Process {
    pid: Pid,
    pub(crate) stopped_until: Moment,
    election: Election,
    desk: Desk,
    taking: Option<Taking>,
    pub(crate) office: Option<Office>,
    tick_at: Option<Moment>,
    /// The highest revision that it was told.
    told: Revision,
}

impl Server {
    pub(crate) const fn new(clock: Clock) -> Self {
        Self {
            clock,
            seen: None,
            alone_until: 0,
            is_wanted: true,
            process: None,
            told: Revision::ZERO,
            is_unaware: false,
        }
    }

    /// The store is at this revision, and may have been further.
    pub(crate) fn lose_from(&mut self, revision: Revision) {
        self.is_unaware = self.told <= revision;
        self.told = self.told.min(revision);
    }

    /// Its process, and until when that is stopped.
    pub(crate) fn process(&self) -> Option<(Pid, Moment)> {
        self.process.as_ref().map(|process| (process.pid, process.stopped_until))
    }

    /// Notes how far the store has come in the reign of this server. What began a reign is not noted
    /// here: a position goes only with the reign that lasted then.
    fn note(&mut self, revision: Revision) {
        let office = self.process.as_ref().and_then(|process| process.office.as_ref());
        let reign = office.map(|office| (office.reign.term, office.reign.nonce));
        if let Some(seen) = &mut self.seen
            && seen.reign == reign
            && reign.is_some()
            && seen.position.revision < revision
        {
            seen.position.revision = revision;
        }
    }
}

pub(crate) fn cluster_id() -> ClusterId {
    ClusterId::from_parts(WallTime::EPOCH, [1; 10])
}

impl World {
    /// What `init` does: makes the store that of a virgin cluster.
    pub(crate) fn found_cluster(&mut self) {
        let epoch = sterna_model::Epoch::new(1);
        let cluster =
            Cluster { id: cluster_id(), epoch, stage: Stage::Virgin, floor: Floor::FIRST };
        let limits = Row::Limits(vec![self.pace.limits]);
        let limits = self.shelf.put(limits);
        let id = WriteId::from_parts(WallTime::EPOCH, [9; 10]);
        let commit = Commit::new(id)
            .expect(CLUSTER_KEY, Expect::Absent)
            .put(CLUSTER_KEY, cluster.to_string())
            .put(record::path(&RowKey::Limits), limits);
        let (_, applied) = self.store.serve(0, &Ask::Commit(commit), None);
        if let Some(applied) = applied {
            self.committed(&applied);
        }
    }

    pub(crate) fn start_server(&mut self, server: usize) {
        if self.servers[server].process.is_some() || !self.servers[server].is_wanted {
            return;
        }
        let pid = self.new_pid();
        let now = self.servers[server].clock.at(self.now);
        let election = Election::new(self.pace.timing, format!("s{server}"), now);
        self.servers[server].process = Some(Process {
            pid,
            stopped_until: 0,
            election,
            desk: Desk::default(),
            taking: None,
            office: None,
            tick_at: None,
            told: Revision::new(0),
        });
        self.say(|| format!("s{server} starts"));
        self.step_election(server, leader::Input::Tick);
    }

    /// Its process is gone; it comes back after so long.
    pub(crate) fn end_server(&mut self, server: usize, after: u64) {
        self.leave_office(server);
        self.servers[server].process = None;
        self.queue.push(self.now + after, Event::Start(Who::Server(server)));
    }

    pub(crate) fn server_gets(&mut self, server: usize, message: Message) {
        match message {
            Message::Tick(at) => self.tick_server(server, at),
            Message::Told(call, told, known) => self.be_told(server, call, told, known),
            Message::Operate => self.operate(server),
            Message::Look => self.start_nodes(server),
            Message::Pump => self.pump(server),
            Message::Called(answer) => {
                self.step_leader(server, sterna_engine::Input::Control(*answer));
                self.arm_server(server);
            }
            Message::FrameUp(stream, frame) => self.hear_worker(server, stream, frame),
            Message::Closed(stream) => self.hear_closed(server, stream),
            Message::Dial
            | Message::Checked(_)
            | Message::Reborn
            | Message::Frame(..)
            | Message::FromGuardian(..)
            | Message::ToGuardian(..)
            | Message::Cloned(..)
            | Message::Exited(..)
            | Message::Empty(_)
            | Message::StartGuardian
            | Message::StarterGone
            | Message::Ward(..)
            | Message::WardTick(_) => {}
        }
    }

    fn tick_server(&mut self, server: usize, at: Moment) {
        let Some(process) = &mut self.servers[server].process else { return };
        if process.tick_at != Some(at) {
            return;
        }
        process.tick_at = None;
        self.step_election(server, leader::Input::Tick);
        self.tick_leader(server);
        self.arm_server(server);
    }

    /// Sees to it that this process is woken when it wants to be.
    pub(crate) fn arm_server(&mut self, server: usize) {
        let (now, clocks) = (self.now, self.now_of(server));
        let one = &mut self.servers[server];
        let Some(process) = &mut one.process else { return };
        let leader = process.office.as_ref().map(|office| office.leader.deadline(clocks));
        let due = process.election.deadline().into_iter().chain(leader).min();
        let Some(at) = due.map(|due| one.clock.when(due).max(now)) else { return };
        if process.tick_at.is_none_or(|before| at < before) {
            process.tick_at = Some(at);
            let pid = process.pid;
            self.queue.push(at, Event::To(Who::Server(server), pid, Message::Tick(at)));
        }
    }

    pub(crate) fn step_election(&mut self, server: usize, input: leader::Input) {
        let nonce = Nonce::new(self.rng.next());
        let one = &mut self.servers[server];
        let now = one.clock.at(self.now);
        let Some(process) = &mut one.process else { return };
        let mut effects = Vec::new();
        process.election.step(now, nonce, input, &mut effects);
        for effect in effects {
            match effect {
                leader::Effect::Read => {
                    self.call(server, CallId::LeaseRead, Ask::Get(LEASE_KEY.to_owned()), None);
                }
                leader::Effect::Commit { attempt, expect, writes } => {
                    let mut commit = Commit::new(self.write_id()).expect(LEASE_KEY, expect);
                    commit.writes.extend(writes);
                    self.call(server, CallId::Election(attempt), Ask::Commit(commit), None);
                }
                leader::Effect::Elected(reign) => self.take_office(server, reign),
                leader::Effect::Deposed(reign) => {
                    self.say(|| format!("s{server} hears that its {:?} is over", reign.term));
                    self.leave_office(server);
                }
            }
        }
        self.note_lease(server);
        let has_retired =
            self.servers[server].process.as_ref().is_some_and(|one| one.election.has_retired());
        if has_retired {
            self.say(|| format!("s{server} has resigned"));
            let after = self.rng.between(100, 4_000);
            self.end_server(server, after);
        }
        self.arm_server(server);
    }

    /// Sends a call: to the store and back, unless something is in the way.
    pub(crate) fn call(&mut self, server: usize, call: CallId, ask: Ask, said: Option<Reign>) {
        let now = self.now;
        let Some(process) = &self.servers[server].process else { return };
        let (pid, known) = (process.pid, process.told);
        let is_alone = now < self.servers[server].alone_until;
        let is_commit = matches!(ask, Ask::Commit(_));
        let timeout = self.rng.between(1_000, 6_000);
        let loss = match (is_commit, is_alone) {
            (true, true) => self.rng.pick(&[Loss::Unavailable, Loss::Commit, Loss::Late]),
            (true, false) => self.store.next_loss(),
            (false, true) => Some(Loss::Unavailable),
            (false, false) => None,
        };
        let slow = if now < self.store.slow_until { self.rng.between(200, 3_000) } else { 0 };
        let there = slow
            + if self.rng.chance(20) && !self.is_calm {
                self.rng.between(50, 1_500)
            } else {
                self.rng.between(1, 8)
            };
        let back = self.rng.between(1, 8);
        let tell = |told| Event::To(Who::Server(server), pid, Message::Told(call, told, known));
        let arrive = |ask, answer| Event::Call { server, pid, call, ask, said, answer, known };
        match loss {
            None => self.queue.push(now + there, arrive(ask, Answer::After(back))),
            Some(Loss::Unavailable) => self.queue.push(now + there + back, tell(ask.refused())),
            Some(Loss::Commit) => self.queue.push(now + timeout, tell(ask.unanswered())),
            Some(Loss::Answer) => {
                self.queue.push(now + timeout, tell(ask.unanswered()));
                self.queue.push(now + there, arrive(ask, Answer::Lost));
            }
            Some(Loss::Late) => {
                let late = timeout + self.rng.between(1, 40_000);
                self.queue.push(now + timeout, tell(ask.unanswered()));
                self.queue.push(now + late, arrive(ask, Answer::Lost));
            }
        }
    }

    fn be_told(&mut self, server: usize, call: CallId, told: Told, known: Revision) {
        if let (Some(revision), Some(process)) =
            (told.revision(), &mut self.servers[server].process)
        {
            // An open store is not believed any more when it has gone back. Answers may overtake each
            // other: each is held against what was known when it was asked for.
            if revision < known {
                self.coverage.turn("went-back");
                self.say(|| format!("s{server} sees that the store has gone back"));
                return self.end_soon(server);
            }
            process.told = process.told.max(revision);
            self.servers[server].told = self.servers[server].told.max(revision);
        }
        match call {
            CallId::LeaseRead => {
                let input = self.lease_seen(server, told);
                self.step_election(server, input);
            }
            CallId::Election(attempt) => {
                let Told::Commit(answer) = told else { return };
                let ended = match answer {
                    Ok(Outcome::Applied(revision)) => {
                        self.servers[server].note(revision);
                        Ended::Applied(revision)
                    }
                    Ok(Outcome::Conflict(_)) => Ended::Conflict,
                    Err(StoreError::Unknown(_)) => Ended::Unknown,
                    Err(_) => Ended::Unavailable,
                };
                self.step_election(server, leader::Input::Answered(attempt, ended));
            }
            CallId::Parcel(number) => {
                let Told::Commit(answer) = told else { return };
                self.parcel_answered(server, number, answer);
            }
            CallId::Desk(number) => {
                if let Some(process) = &self.servers[server].process {
                    process.desk.tell(number, told);
                    self.go_on(server);
                }
            }
        }
        self.arm_server(server);
    }

    fn lease_seen(&mut self, server: usize, told: Told) -> leader::Input {
        let Told::Get(Ok(reading)) = told else { return leader::Input::NotSeen };
        self.look_on(server, reading.revision);
        let Some(item) = reading.item else { return leader::Input::Seen(None) };
        let lease = Lease::from_bytes(&item.value);
        lease.map_or(leader::Input::NotSeen, |lease| {
            leader::Input::Seen(Some((lease, item.revision)))
        })
    }

    /// Who follows notes how far the store has come, too; what goes back is not noted.
    fn look_on(&mut self, server: usize, revision: Revision) {
        let text = |key: &str| {
            let item = self.store.model().get(key).item?;
            Some(String::from_utf8_lossy(&item.value).into_owned())
        };
        let cluster = text(CLUSTER_KEY).and_then(|text| text.parse::<Cluster>().ok());
        let reign = text(REIGN_KEY).and_then(|text| text.parse::<Reign>().ok());
        let (Some(cluster), Some(reign)) = (cluster, reign) else { return };
        let position = Position { epoch: cluster.epoch, revision };
        let seen = self.servers[server].seen;
        // What was lost is not forgotten for what was counted since.
        let is_whole = cluster::judge(&self.store_found(cluster, revision, seen), seen.as_ref());
        if is_whole == Verdict::Whole && seen.is_none_or(|seen| seen.position < position) {
            self.write_down(server, position, (reign.term, reign.nonce));
        }
    }

    /// What the store says of itself to somebody who has seen this of it.
    fn store_found(&self, cluster: Cluster, revision: Revision, seen: Option<Seen>) -> Found {
        let item = |term: Term| self.store.model().get(&term_key(term)).item;
        let followed = seen.and_then(|seen| seen.reign).map(|(term, _)| term);
        let nonce = followed.and_then(item).as_ref().and_then(term_in).map(|(_, (nonce, _))| nonce);
        let next_began = followed.and_then(Term::next).and_then(item).map(|item| item.revision);
        Found { cluster: Some(cluster), revision, nonce, next_began }
    }

    /// What was written down of the store is at least this.
    pub(crate) fn write_down(&mut self, server: usize, position: Position, reign: (Term, Nonce)) {
        let marks = self.office(server).map_or(Marks::NONE, |office| office.leader.fleet().marks());
        let seen = Seen { cluster: cluster_id(), position, reign: Some(reign), marks };
        let before = self.servers[server].seen;
        let marks = seen.after(before.as_ref()).marks;
        self.servers[server].seen = Some(Seen { marks, ..seen });
    }

    /// Somebody resigns.
    pub(crate) fn resign(&mut self, server: usize) -> bool {
        let is_there = self.servers[server].process.is_some();
        self.step_election(server, leader::Input::Resign);
        is_there
    }

    pub(crate) fn change_limits(&mut self) -> bool {
        let Some(server) = self.leading() else { return false };
        let Some(office) = self.office(server) else { return false };
        let version = office.leader.fleet().limits().version + 1;
        let limits: Limits = self.pace.other_limits(&mut self.rng, version);
        self.ask(server, Call::SetLimits(limits));
        true
    }

    /// A server that takes itself for the leader.
    pub(crate) fn leading(&self) -> Option<usize> {
        (0..self.servers.len()).find(|server| {
            let now = self.servers[*server].clock.at(self.now);
            let process = self.servers[*server].process.as_ref();
            process.is_some_and(|process| {
                let is_awake = self.now >= process.stopped_until;
                let office = process.office.as_ref();
                is_awake && office.is_some_and(|office| !office.leader.fleet().is_mute(now))
            })
        })
    }

    /// Whether a server's lease lasts.
    pub(crate) fn is_leading(&self, server: usize) -> bool {
        let now = self.servers[server].clock.at(self.now);
        let process = self.servers[server].process.as_ref();
        process.is_some_and(|process| process.election.is_leading(now).is_some())
    }

    pub(crate) fn office(&self, server: usize) -> Option<&Office> {
        self.servers[server].process.as_ref()?.office.as_ref()
    }

    pub(crate) fn office_mut(&mut self, server: usize) -> Option<&mut Office> {
        self.servers[server].process.as_mut()?.office.as_mut()
    }
}
