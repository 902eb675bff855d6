//! What a leader has: it takes office, commits parcels one at a time, and settles what got no answer.

use bytes::Bytes;
use sterna_engine::{
    Leader,
    auction::Rules,
    control::{self, Now, ParcelId, Row},
};
use sterna_model::{Marks, Position, Revision, WriteId};
use sterna_protocol::{
    limits::{Book, Limits},
    message::Mandate,
    roster::Origin,
    scheduler::{Begin, Bump},
};
use sterna_store::{
    Commit, Item, Key, Outcome, StoreError,
    cluster::{self, CLUSTER_KEY, Cluster, ClusterError, Floor, Seen, Stage, Verdict},
    leader::{self, Reign, Settled, Unanswered},
    scan_all,
};

use super::{CallId, batches::Batches};
use crate::{
    check::Fact,
    desk::{Desk, Job},
    record::{self, PREFIX},
    store::Ask,
    world::{Message, Who, World},
};

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
    pub(crate) leader: Leader,
    pub(crate) batches: Batches,
    under_way: UnderWay,
    /// Commits that were sent, so that an answer is not taken for that of a later one.
    sent: u64,
    revision: Revision,
}

/// The one commit that is under way.
enum UnderWay {
    Nothing,
    /// It was refused, and is sent again.
    Refused(Parcel),
    Sent {
        number: u64,
        unanswered: Unanswered,
        parcel: Parcel,
    },
    /// Its answer was lost.
    Settling {
        parcel: Parcel,
        job: Job<Result<Settled, StoreError>>,
        raise_id: WriteId,
        unanswered: Unanswered,
    },
}

/// A parcel, as the store is told.
struct Parcel {
    id: ParcelId,
    writes: Vec<(Key, Option<Bytes>)>,
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
            let next = Cluster {
                id: super::cluster_id(),
                epoch,
                stage: Stage::Recovered,
                floor: Floor::FIRST,
            };
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
        let settled = process.office.as_mut().and_then(|office| match &mut office.under_way {
            UnderWay::Settling { job, .. } => Desk::go_on(job),
            UnderWay::Nothing | UnderWay::Refused(_) | UnderWay::Sent { .. } => None,
        });
        let said = process.election.until().map(|(reign, _)| reign);
        for (number, ask) in process.desk.take_asked() {
            self.call(server, CallId::Desk(number), ask, said);
        }
        if let Some((reign, taken)) = taken {
            self.begin(server, reign, taken);
        }
        if let Some(settled) = settled {
            self.settled(server, settled);
        }
    }

    fn begin(&mut self, server: usize, reign: Reign, taken: Result<Taken, ClusterError>) {
        let Some(process) = &mut self.servers[server].process else { return };
        process.taking = None;
        let until = process.election.until().filter(|(now, _)| now.term == reign.term);
        let (Ok(taken), Some((_, lease_until))) = (taken, until) else {
            // Somebody else is faster, or the store does not answer: once more, from the beginning.
            self.say(|| format!("s{server} cannot take office"));
            return self.end_soon(server);
        };
        let Taken { cluster, items, revision } = taken;
        let reigns = items.iter().filter_map(leader::term_in).collect();
        let on_shelf = |item: &Item| self.shelf.get(&item.value).cloned();
        let records: Vec<Row> = items.iter().filter_map(on_shelf).collect();
        let (origin, stage) = origin(cluster.stage);
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
        let now = self.now_of(server);
        let fleet = Begin {
            mandate,
            elected: now.boot,
            lease_until,
            revision,
            reigns,
            marks: self.servers[server].seen.map_or(Marks::NONE, |seen| seen.marks),
            book: book(&records, &self.pace.limits),
            roster: records.iter().filter_map(enrolled).collect(),
            claims: Vec::new(),
            origin,
            bump: Bump::Forbidden,
            roster_max: usize::MAX,
        };
        let mut seed = [0; 16];
        seed[..10].copy_from_slice(&self.rng.bytes());
        let rules = Rules::default();
        let begin = control::Begin { epoch: cluster.epoch, stage, records, seed, rules };
        let mut leader = Leader::new(now, fleet, begin);
        let tasks_max = self.pace.tasks_max;
        leader.retain(control::Retention { tasks_max, ..control::Retention::default() });
        let office = Office {
            reign,
            cluster,
            leader,
            batches: Batches::default(),
            under_way: UnderWay::Nothing,
            sent: 0,
            revision,
        };
        let Some(process) = &mut self.servers[server].process else { return };
        process.office = Some(office);
        let pid = process.pid;
        self.say(|| format!("s{server} leads: {mandate:?}, {origin:?}"));
        let is_unaware = self.servers[server].is_unaware && origin == Origin::Continued;
        self.tell(&Fact::TookOffice { is_unaware });
        self.later(1, Who::Server(server), pid, Message::Operate);
        self.pump(server);
        self.arm_server(server);
    }

    /// Now, on both clocks of a server.
    pub(crate) fn now_of(&self, server: usize) -> Now {
        let clock = &self.servers[server].clock;
        Now { boot: clock.at(self.now), wall: clock.wall(self.now) }
    }

    /// This server's process ends, and another begins soon.
    pub(crate) fn end_soon(&mut self, server: usize) {
        let after = self.rng.between(100, 2_000);
        self.end_server(server, after);
    }

    pub(crate) fn leave_office(&mut self, server: usize) {
        let Some(process) = &mut self.servers[server].process else { return };
        process.taking = None;
        if process.office.take().is_some() {
            let pid = process.pid;
            self.clients.give_up();
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
            self.step_leader(server, sterna_engine::Input::Lease(until));
        }
    }

    /// Commits what is decided, if nothing is under way and this server leads.
    pub(crate) fn pump(&mut self, server: usize) {
        let now = self.servers[server].clock.at(self.now);
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(leading) = process.election.is_leading(now) else { return };
        let Some(office) = &mut process.office else { return };
        if leading.term != office.reign.term {
            return;
        }
        let parcel = match std::mem::replace(&mut office.under_way, UnderWay::Nothing) {
            UnderWay::Refused(parcel) => parcel,
            UnderWay::Nothing => {
                let Some((id, writes)) = office.leader.commit() else { return };
                self.coverage.turn("parcel");
                let mut parcel = Parcel { id, writes: Vec::new(), stage: None };
                for row in writes {
                    if let Row::Stage(stage) = row {
                        parcel.stage = Some(record::stage(stage));
                        continue;
                    }
                    let path = record::path(&row.key());
                    let value = (!row.is_gone()).then(|| self.shelf.put(row));
                    parcel.writes.push((path, value));
                }
                parcel
            }
            other @ (UnderWay::Sent { .. } | UnderWay::Settling { .. }) => {
                office.under_way = other;
                return;
            }
        };
        self.send_parcel(server, parcel);
    }

    fn send_parcel(&mut self, server: usize, parcel: Parcel) {
        let write_id = self.write_id();
        let Some(office) = self.office_mut(server) else { return };
        let mut commit = Commit::new(write_id);
        for (key, value) in &parcel.writes {
            commit = match value {
                Some(value) => commit.put(key.clone(), value.clone()),
                None => commit.delete(key.clone()),
            };
        }
        if let Some(stage) = parcel.stage {
            let cluster = Cluster { stage, ..office.cluster };
            commit = commit.put(CLUSTER_KEY, cluster.to_string());
        }
        let commit = office.reign.fenced(commit);
        office.sent += 1;
        let (number, after, reign) = (office.sent, office.revision, office.reign);
        let unanswered = Unanswered { write_id, after };
        office.under_way = UnderWay::Sent { number, unanswered, parcel };
        self.call(server, CallId::Parcel(number), Ask::Commit(commit), Some(reign));
    }

    pub(crate) fn parcel_answered(
        &mut self,
        server: usize,
        number: u64,
        answer: Result<Outcome, StoreError>,
    ) {
        let raise_id = self.write_id();
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(office) = &mut process.office else { return };
        let (unanswered, parcel) = match std::mem::replace(&mut office.under_way, UnderWay::Nothing)
        {
            UnderWay::Sent { number: sent, unanswered, parcel } if sent == number => {
                (unanswered, parcel)
            }
            // Of a commit that is over.
            other @ (UnderWay::Nothing
            | UnderWay::Refused(_)
            | UnderWay::Sent { .. }
            | UnderWay::Settling { .. }) => {
                office.under_way = other;
                return;
            }
        };
        match answer {
            Ok(Outcome::Applied(revision)) => self.parcel_applied(server, revision, parcel),
            Ok(Outcome::Conflict(_)) => {
                // Only the fence was expected: somebody else leads.
                self.say(|| format!("s{server} hears that its commit is fenced off"));
                self.end_soon(server);
            }
            Err(StoreError::Unknown(_)) => {
                self.coverage.turn("settling");
                let job = settle_job(process.desk.clone(), office.reign, raise_id, unanswered);
                office.under_way = UnderWay::Settling { parcel, job, raise_id, unanswered };
                self.go_on(server);
            }
            Err(_) => self.send_again(server, parcel),
        }
    }

    /// Nothing of it was written: it is sent again.
    fn send_again(&mut self, server: usize, parcel: Parcel) {
        let after = self.rng.between(100, 500);
        if let Some(office) = self.office_mut(server) {
            office.under_way = UnderWay::Refused(parcel);
        }
        if let Some((pid, _)) = self.servers[server].process() {
            self.later(after, Who::Server(server), pid, Message::Pump);
        }
    }

    fn settled(&mut self, server: usize, settled: Result<Settled, StoreError>) {
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(office) = &mut process.office else { return };
        let UnderWay::Settling { parcel, raise_id, unanswered, .. } =
            std::mem::replace(&mut office.under_way, UnderWay::Nothing)
        else {
            return;
        };
        let Ok(settled) = settled else {
            // Once more, with the same id.
            let job = settle_job(process.desk.clone(), office.reign, raise_id, unanswered);
            office.under_way = UnderWay::Settling { parcel, raise_id, unanswered, job };
            return self.go_on(server);
        };
        let Some(reign) = settled.reign else { return self.end_soon(server) };
        office.reign = reign;
        process.election.raised(reign);
        match settled.fates.first() {
            Some(leader::Fate::Applied(revision)) => {
                self.coverage.turn("settled-applied");
                let revision = *revision;
                self.parcel_applied(server, revision, parcel);
            }
            Some(leader::Fate::Never) | None => {
                self.coverage.turn("settled-never");
                office.under_way = UnderWay::Refused(parcel);
                self.pump(server);
            }
            Some(leader::Fate::Forgotten) => self.end_soon(server),
        }
    }

    fn parcel_applied(&mut self, server: usize, revision: Revision, parcel: Parcel) {
        self.servers[server].note(revision);
        let Some(office) = self.office_mut(server) else { return };
        office.revision = office.revision.max(revision);
        office.cluster.stage = parcel.stage.unwrap_or(office.cluster.stage);
        self.step_leader(server, sterna_engine::Input::Revision(revision));
        let committed = control::Input::Committed(parcel.id);
        self.step_leader(server, sterna_engine::Input::Control(committed));
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

const fn origin(stage: Stage) -> (Origin, control::Stage) {
    match stage {
        Stage::Virgin => (Origin::Virgin, control::Stage::Virgin),
        Stage::Used | Stage::Moved => (Origin::Continued, control::Stage::Used),
        Stage::Recovered => (Origin::Recovered, control::Stage::Recovered),
    }
}

fn book(records: &[Row], usual: &Limits) -> Book {
    let all = records.iter().find_map(|record| {
        let Row::Limits(all) = record else { return None };
        Some(all)
    });
    let book = match all.and_then(|all| all.split_last()) {
        Some((newest, older)) => Book::new(*newest, older.to_vec()),
        None => Book::new(*usual, Vec::new()),
    };
    book.expect("every pace can be gone by")
}

fn enrolled(row: &Row) -> Option<sterna_protocol::roster::Enrolled> {
    let Row::Roster(_, entry) = row else { return None };
    entry.clone()
}
