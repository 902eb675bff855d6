//! What a leader has: it takes office, commits in groups, and settles what got no answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sterna_model::{Incarnation, Lock, Marks, Position, Revision, RunId, WorkKey, WriteId};
use sterna_protocol::{
    limits::Book,
    message::Mandate,
    roster::Origin,
    scheduler::{Begin, Bump, Claim, Fleet, Input},
};
use sterna_store::{
    Commit, Item, Key, Outcome, StoreError,
    cluster::{self, CLUSTER_KEY, Cluster, ClusterError, Seen, Stage, Verdict},
    leader::{self, Reign, Settled, Unanswered},
    scan_all,
};

use super::{CallId, Op, ops};
use crate::{
    desk::{Desk, Job},
    planted::{Mistake, is_planted},
    record::{PREFIX, Record, Records, TaskEnd, TaskState},
    store::Ask,
    world::{Message, Who, World},
};

/// Operations in one commit at most.
const GROUP_MAX: usize = 24;

/// On the way into office.
pub(crate) struct Taking {
    reign: Reign,
    job: Job<Result<Taken, ClusterError>>,
}

/// What was read.
pub(crate) struct Taken {
    cluster: Cluster,
    items: Vec<Item>,
    revision: Revision,
}

/// In office.
pub(crate) struct Office {
    pub(crate) reign: Reign,
    pub(crate) cluster: Cluster,
    pub(crate) fleet: Fleet,
    pub(crate) records: Records,
    pub(crate) ops: VecDeque<Op>,
    group: Group,
    groups: u64,
    revision: Revision,
    pub(crate) workers: BTreeMap<Lock, Incarnation>,
    /// What each run is a run of.
    pub(crate) keys: BTreeMap<RunId, WorkKey>,
    /// The runs of batches that may be running, as far as this leader knows.
    pub(crate) batches: BTreeMap<RunId, WorkKey>,
    /// Keys whose claim is being committed, and on which machine.
    pub(crate) busy: BTreeMap<WorkKey, Lock>,
    pub(crate) silent: BTreeSet<RunId>,
    /// What is being declared dead.
    pub(crate) declared: BTreeSet<Lock>,
}

/// The one commit that is under way.
enum Group {
    None,
    Sent {
        number: u64,
        unanswered: Unanswered,
        change: Change,
    },
    /// Its answer was lost.
    Settling {
        change: Change,
        job: Job<Result<Settled, StoreError>>,
        raise_id: WriteId,
        unanswered: Unanswered,
    },
}

/// What one commit does.
struct Change {
    ops: Vec<Op>,
    new: Records,
    removed: Vec<Key>,
    stage: Option<Stage>,
}

async fn take(
    desk: Desk,
    reign: Reign,
    seen: Option<Seen>,
    write_id: WriteId,
) -> Result<Taken, ClusterError> {
    let found = cluster::read(&desk, seen.as_ref()).await?;
    let cluster = match cluster::judge(&found, seen.as_ref()) {
        Verdict::Whole => found.cluster.ok_or(ClusterError::Overtaken)?,
        Verdict::Lags(epoch) => {
            let next = Cluster { id: super::cluster_id(), epoch, stage: Stage::Recovered };
            cluster::recover(&desk, reign, found.cluster.as_ref(), next, write_id).await?
        }
        Verdict::Blank | Verdict::Moved | Verdict::Foreign(_) | Verdict::Exhausted => {
            return Err(ClusterError::Overtaken);
        }
    };
    let (items, revision) = scan_all(&desk, PREFIX).await?;
    Ok(Taken { cluster, items, revision })
}

impl World {
    pub(crate) fn take_office(&mut self, server: usize, reign: Reign) {
        let write_id = self.write_id();
        self.say(|| format!("s{server} is elected: {:?}", reign.term));
        self.coverage.turn("elected");
        let seen = self.servers[server].seen;
        let Some(process) = &mut self.servers[server].process else { return };
        process.office = None;
        let job = Box::pin(take(process.desk.clone(), reign, seen, write_id));
        process.taking = Some(Taking { reign, job });
        self.go_on(server);
    }

    /// Goes on with what real code does at this server's desk.
    pub(crate) fn go_on(&mut self, server: usize) {
        let Some(process) = &mut self.servers[server].process else { return };
        let taken = process
            .taking
            .as_mut()
            .and_then(|taking| Desk::go_on(&mut taking.job).map(|taken| (taking.reign, taken)));
        let settled = process.office.as_mut().and_then(|office| match &mut office.group {
            Group::Settling { job, .. } => Desk::go_on(job),
            Group::None | Group::Sent { .. } => None,
        });
        let term = process.election.until().map(|(reign, _)| reign.term);
        for (number, ask) in process.desk.take_asked() {
            self.call(server, CallId::Desk(number), ask, term);
        }
        if let Some((reign, taken)) = taken {
            self.begin(server, reign, taken);
        }
        if let Some(settled) = settled {
            self.settled_group(server, settled);
        }
    }

    fn begin(&mut self, server: usize, reign: Reign, taken: Result<Taken, ClusterError>) {
        let clock = self.servers[server].clock;
        let Some(process) = &mut self.servers[server].process else { return };
        process.taking = None;
        let until = process.election.until().filter(|(now, _)| now.term == reign.term);
        let (Ok(taken), Some((_, lease_until))) = (taken, until) else {
            // Somebody else is faster, or the store does not answer: once more, from the beginning.
            self.say(|| format!("s{server} cannot take office"));
            let after = self.rng.between(100, 2_000);
            return self.end_server(server, after);
        };
        let Taken { cluster, items, revision } = taken;
        let records: Records = items
            .iter()
            .filter_map(|item| Some((item.key.clone(), self.shelf.get(&item.value)?.clone())))
            .collect();
        let origin = origin(cluster.stage);
        self.coverage.turn(match origin {
            Origin::Virgin => "began-virgin",
            Origin::Continued => "began-continued",
            Origin::Recovered | Origin::Rebuilt => "began-recovered",
        });
        let mandate = Mandate {
            cluster: cluster.id,
            epoch: cluster.epoch,
            term: reign.term,
            nonce: reign.nonce,
        };
        let position = Position { epoch: cluster.epoch, revision };
        self.write_down(server, position, (reign.term, reign.nonce));
        let now = clock.at(self.now);
        let elected = if is_planted(Mistake::CountsFromStart) {
            sterna_model::BootTime::from_millis(now.as_millis().saturating_sub(60_000))
        } else {
            now
        };
        let begin = Begin {
            mandate,
            elected,
            lease_until,
            revision,
            marks: self.servers[server].seen.map_or(Marks::NONE, |seen| seen.marks),
            book: book(&records, &self.pace.limits),
            roster: records.values().filter_map(enrolled).collect(),
            claims: records.values().flat_map(claims).collect(),
            origin,
            bump: Bump::Forbidden,
        };
        let keys = begin.claims.iter().map(|claim| (claim.run, claim.key.clone())).collect();
        let office = Office {
            reign,
            cluster,
            fleet: Fleet::new(now, begin),
            records,
            ops: VecDeque::new(),
            group: Group::None,
            groups: 0,
            revision,
            workers: BTreeMap::new(),
            keys,
            batches: BTreeMap::new(),
            busy: BTreeMap::new(),
            silent: BTreeSet::new(),
            declared: BTreeSet::new(),
        };
        let Some(process) = &mut self.servers[server].process else { return };
        process.office = Some(office);
        let pid = process.pid;
        self.say(|| format!("s{server} leads: {:?}, {origin:?}", mandate));
        self.end_pending(server);
        self.later(1, Who::Server(server), pid, Message::Dispatch);
        self.arm_server(server);
    }

    /// A task that was pending when the store was set back may have been started since (safety rule
    /// 25). Whoever takes office ends it, for the one who opened the epoch may not have come to.
    fn end_pending(&mut self, server: usize) {
        let Some(office) = self.office_mut(server) else { return };
        for record in office.records.values() {
            match record {
                Record::Task(task)
                    if task.state == TaskState::Pending && task.epoch < office.cluster.epoch =>
                {
                    office.ops.push_back(Op::End(task.key.clone(), TaskEnd::UnknownAfterRestore));
                }
                Record::Task(_) | Record::Enrolled(_) | Record::Limits(_) | Record::Instance(_) => {
                }
            }
        }
    }

    pub(crate) fn leave_office(&mut self, server: usize) {
        let Some(process) = &mut self.servers[server].process else { return };
        process.taking = None;
        if process.office.take().is_some() {
            let pid = process.pid;
            for stream in self.net.of(|stream| stream.leader == pid) {
                self.hang_up_above(stream);
            }
        }
    }

    /// The lease was renewed, perhaps.
    pub(crate) fn note_lease(&mut self, server: usize) {
        let Some(process) = &self.servers[server].process else { return };
        let Some((reign, until)) = process.election.until() else { return };
        let is_ours = process.office.as_ref().is_some_and(|one| one.reign.term == reign.term);
        if is_ours {
            self.step_fleet(server, Input::Lease(until));
            self.pump(server);
        }
    }

    /// Wants something committed.
    pub(crate) fn submit(&mut self, server: usize, op: Op) {
        if let Some(office) = self.office_mut(server) {
            office.ops.push_back(op);
            self.pump(server);
        }
    }

    /// Commits what waits, if nothing is under way and this server leads.
    pub(crate) fn pump(&mut self, server: usize) {
        let now = self.servers[server].clock.at(self.now);
        let write_id = self.write_id();
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(leading) = process.election.is_leading(now) else { return };
        let Some(office) = &mut process.office else { return };
        if !matches!(office.group, Group::None)
            || office.ops.is_empty()
            || leading.term != office.reign.term
        {
            return;
        }
        let count = office.ops.len().min(GROUP_MAX);
        let ops: Vec<Op> = office.ops.drain(..count).collect();
        let mut view = ops::View::new(&office.records, office.cluster, self.pace.limits);
        for op in &ops {
            ops::apply(op, &mut view);
        }
        let (new, removed, stage) = view.finish();
        let mut commit = Commit::new(write_id);
        for (key, record) in &new {
            commit = commit.put(key.clone(), self.shelf.put(record.clone()));
        }
        for key in &removed {
            commit = commit.delete(key.clone());
        }
        if let Some(stage) = stage {
            let cluster = Cluster { stage, ..office.cluster };
            commit = commit.put(CLUSTER_KEY, cluster.to_string());
        }
        let commit =
            if is_planted(Mistake::CommitsUnfenced) { commit } else { office.reign.fenced(commit) };
        office.groups += 1;
        let (number, after, term) = (office.groups, office.revision, office.reign.term);
        let change = Change { ops, new, removed, stage };
        office.group = Group::Sent { number, unanswered: Unanswered { write_id, after }, change };
        self.call(server, CallId::Group(number), Ask::Commit(commit), Some(term));
    }

    pub(crate) fn group_answered(
        &mut self,
        server: usize,
        number: u64,
        answer: Result<Outcome, StoreError>,
    ) {
        let raise_id = self.write_id();
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(office) = &mut process.office else { return };
        let (unanswered, change) = match std::mem::replace(&mut office.group, Group::None) {
            Group::Sent { number: sent, unanswered, change } if sent == number => {
                (unanswered, change)
            }
            // Of a group that is over.
            other @ (Group::None | Group::Sent { .. } | Group::Settling { .. }) => {
                office.group = other;
                return;
            }
        };
        match answer {
            Ok(Outcome::Applied(revision)) => self.group_applied(server, revision, change),
            Ok(Outcome::Conflict(_)) => {
                // Only the fence was expected: somebody else leads.
                self.say(|| format!("s{server} hears that its commit is fenced off"));
                let after = self.rng.between(100, 2_000);
                self.end_server(server, after);
            }
            Err(StoreError::Unknown(_)) if !is_planted(Mistake::TakesUnknownForFailed) => {
                self.coverage.turn("settling");
                let job = settle_job(process.desk.clone(), office.reign, raise_id, unanswered);
                office.group = Group::Settling { change, job, raise_id, unanswered };
                self.go_on(server);
            }
            Err(_) => {
                for op in change.ops.into_iter().rev() {
                    office.ops.push_front(op);
                }
                // The dispatcher pumps again soon.
            }
        }
    }

    fn settled_group(&mut self, server: usize, settled: Result<Settled, StoreError>) {
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(office) = &mut process.office else { return };
        let Group::Settling { change, raise_id, unanswered, .. } =
            std::mem::replace(&mut office.group, Group::None)
        else {
            return;
        };
        let Ok(settled) = settled else {
            // Once more, with the same id.
            let job = settle_job(process.desk.clone(), office.reign, raise_id, unanswered);
            office.group = Group::Settling { change, raise_id, unanswered, job };
            return self.go_on(server);
        };
        let Some(reign) = settled.reign else {
            let after = self.rng.between(100, 2_000);
            return self.end_server(server, after);
        };
        office.reign = reign;
        process.election.raised(reign);
        match settled.fates.first() {
            Some(leader::Fate::Applied(revision)) => {
                self.coverage.turn("settled-applied");
                let revision = *revision;
                self.group_applied(server, revision, change);
            }
            Some(leader::Fate::Never) | None => {
                self.coverage.turn("settled-never");
                for op in change.ops.into_iter().rev() {
                    office.ops.push_front(op);
                }
                self.pump(server);
            }
            Some(leader::Fate::Forgotten) => {
                let after = self.rng.between(100, 2_000);
                self.end_server(server, after);
            }
        }
    }

    fn group_applied(&mut self, server: usize, revision: Revision, change: Change) {
        let Change { ops, new, removed, stage } = change;
        self.servers[server].note(revision);
        let Some(office) = self.office_mut(server) else { return };
        office.revision = office.revision.max(revision);
        for key in removed {
            office.records.remove(&key);
        }
        office.records.extend(new);
        office.cluster.stage = stage.unwrap_or(office.cluster.stage);
        self.step_fleet(server, Input::Revision(revision));
        for op in ops {
            self.op_committed(server, op);
        }
        self.pump(server);
        self.arm_server(server);
    }
}

fn settle_job(
    desk: Desk,
    reign: Reign,
    raise_id: WriteId,
    unanswered: Unanswered,
) -> Job<Result<Settled, StoreError>> {
    Box::pin(async move { leader::settle(&desk, reign, raise_id, &[unanswered]).await })
}

const fn origin(stage: Stage) -> Origin {
    match stage {
        Stage::Virgin => Origin::Virgin,
        Stage::Used | Stage::Moved => Origin::Continued,
        Stage::Recovered => Origin::Recovered,
    }
}

fn book(records: &Records, usual: &sterna_protocol::limits::Limits) -> Book {
    let all = records.values().find_map(|record| match record {
        Record::Limits(all) => Some(all),
        Record::Enrolled(_) | Record::Task(_) | Record::Instance(_) => None,
    });
    let book = match all.and_then(|all| all.split_last()) {
        Some((newest, older)) => Book::new(*newest, older.to_vec()),
        None => Book::new(*usual, Vec::new()),
    };
    book.expect("every pace can be gone by")
}

fn enrolled(record: &Record) -> Option<sterna_protocol::roster::Enrolled> {
    match record {
        Record::Enrolled(entry) => Some(entry.clone()),
        Record::Limits(_) | Record::Task(_) | Record::Instance(_) => None,
    }
}

fn claims(record: &Record) -> Vec<Claim> {
    match record {
        Record::Instance(slots) => slots.clone(),
        Record::Task(task) => match &task.state {
            TaskState::Claimed(claim) => vec![claim.clone()],
            TaskState::Pending | TaskState::Ended(_) => Vec::new(),
        },
        Record::Enrolled(_) | Record::Limits(_) => Vec::new(),
    }
}
