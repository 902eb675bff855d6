//! The loop of a reign: waits, lets the leader decide, and does what it says.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use sterna_api::rest::{Code, EventKind, Refused};
use sterna_engine::{
    Effect, Input, Leader,
    control::{self, Answer, CallId, Called, ParcelId, Row},
};
use sterna_model::{
    BootTime, Epoch, Incarnation, Lock, Position, Revision, TaskIncarnation, TaskKey, Term,
};
use sterna_protocol::{
    message::{FromLeader, Mandate, StreamId},
    scheduler::Reach,
};
use sterna_store::{
    cluster::{Cluster, Seen},
    leader::{Candidate, Follow, Reign},
    machine::boot_time,
};
use sterna_wire::Sender;
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

mod shown;

use self::shown::STUCK_AFTER;
use super::{
    Begun,
    asides::Asides,
    commit::{Over, Refusals, Stands, Writes, commit},
    now, put,
    room::{Room, There},
    words,
};
use crate::{
    callbacks::Calls,
    counts::Workers,
    desk::{Inbox, News, Post},
    events::{self, Block, Told},
    server::Say,
    shared::{Counters, Lead, Shared, Standing},
    weight,
};

/// So much is taken from a queue before anything else has its turn.
const TURN: usize = 256;
/// So much of what no record tells goes with one commit.
const TOLD_AT_ONCE: usize = 200;
/// What a commit may hold beside its fence and a block of events.
const OTHERS_MAX: usize = sterna_store::Limits::PORTABLE.operations_max - 2;
/// How long after a look at everything, which must find nothing, the leader begins the next one.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How long after a part of one it goes on with the next part: everybody else has a turn between.
const SLICE_EVERY: Duration = Duration::from_millis(10);

/// How often workers are counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// How a reign ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Another server leads, or this one's lease ran out unrenewed.
    Deposed(String),
    /// A worker has seen more of the store than there is: the next reign must recover.
    Lags(Mandate, Revision),
    /// Somebody wants this server to end.
    Told,
}

type Committing = Pin<Box<dyn Future<Output = Result<Stands, Over>> + Send>>;

/// A commit on its way, and what follows from it.
struct UnderWay {
    answer: Committing,
    parcel: Option<ParcelId>,
    writes: Vec<Row>,
    /// The cluster's record once it stands.
    cluster: Cluster,
    block: Block,
    replies: Vec<oneshot::Sender<Result<bool, Refused>>>,
    sent: std::time::Instant,
    refusals: Refusals,
}

/// A stream that is open.
struct Stream {
    sender: Sender<FromLeader>,
    /// The machine that it is of, once that was heard.
    of: Option<Lock>,
}

struct Reigning<'a> {
    shared: &'a Arc<Shared>,
    candidate: &'a Candidate,
    /// What clients are told while the lease lasts.
    lead: Lead,
    /// The end of the lease, unless it is renewed.
    until: BootTime,
    /// Whether clients are told that this server leads.
    is_shown: bool,
    /// Why clients were told that it does not lead, if its lease was over, and nobody was told since that
    /// it leads again.
    late: Option<String>,
    /// What the store says that takes no commit.
    stuck: Option<String>,
    reign: Reign,
    cluster: Cluster,
    leader: Leader,
    revision: Revision,
    streams: BTreeMap<StreamId, Stream>,
    /// Where each machine was heard last: no more of them than there are streams.
    heard: BTreeMap<Lock, (StreamId, Incarnation)>,
    calls: BTreeMap<CallId, oneshot::Sender<Result<Answer, Refused>>>,
    calls_made: u64,
    room: Room,
    callbacks: Calls,
    asides: Asides,
    /// What is to be told with the next commit, and who is answered when it stands.
    told: Vec<Told>,
    replies: Vec<oneshot::Sender<Result<bool, Refused>>>,
    under_way: Option<UnderWay>,
    effects: Vec<Effect>,
    /// When workers were counted last.
    counted: Option<std::time::Instant>,
    ended: Option<Ended>,
    outlets: Outlets<'a>,
}

/// Where a reign says what is no answer to anybody.
pub(crate) struct Outlets<'a> {
    /// What it has seen of the store.
    pub(crate) seen: &'a mut (dyn FnMut(Seen) + Send),
    /// The log.
    pub(crate) say: &'a Say,
}

/// Leads until the reign is over. `stop` is answered when somebody wants this server to end.
pub(crate) async fn drive<'a>(
    shared: &'a Arc<Shared>,
    candidate: &'a Candidate,
    inbox: &mut Inbox,
    begun: Begun,
    stop: &mut mpsc::Receiver<()>,
    outlets: Outlets<'a>,
) -> Ended {
    let Begun { reign, cluster, leader, mirror, events, revision } = begun;
    // Put there by who took this server for the leader just after its reign before had ended.
    empty(inbox);
    shared.log.load(events.into_iter());
    shared.reset(mirror);
    let lead = Lead { cluster: cluster.id.to_string(), epoch: cluster.epoch, term: reign.term };
    let mut follows = candidate.follow();
    let mut reigning = Reigning {
        shared,
        candidate,
        lead,
        until: candidate.until().map_or_else(boot_time, |(_, until)| until),
        is_shown: false,
        late: None,
        stuck: None,
        reign,
        cluster,
        leader,
        revision,
        streams: BTreeMap::new(),
        heard: BTreeMap::new(),
        calls: BTreeMap::new(),
        calls_made: 0,
        room: Room::new(shared.bounds),
        callbacks: Calls::default(),
        asides: Asides::new(Mandate {
            cluster: cluster.id,
            epoch: cluster.epoch,
            term: reign.term,
            nonce: reign.nonce,
        }),
        told: vec![elected(&shared.name, cluster.epoch, reign.term)],
        replies: Vec::new(),
        under_way: None,
        effects: Vec::new(),
        counted: None,
        ended: None,
        outlets,
    };
    let ended = reigning.work(inbox, stop, &mut follows).await;
    shared.stand(Standing::NotReady("the reign of this server has just ended".to_owned()));
    shared.set_stuck(None);
    shared.count_workers(Workers::default());
    // What still waits is of this reign: it gets no answer, and asks again.
    empty(inbox);
    ended
}

fn empty(inbox: &mut Inbox) {
    while inbox.posts.try_recv().is_ok() {}
    while inbox.news.try_recv().is_ok() {}
}

fn elected(name: &str, epoch: Epoch, term: Term) -> Told {
    let mut told = Told::new(EventKind::LeaderChanged, "leader");
    told.data.insert("leader".to_owned(), name.into());
    told.data.insert("epoch".to_owned(), epoch.get().into());
    told.data.insert("term".to_owned(), term.get().into());
    told
}

impl Reigning<'_> {
    async fn work(
        &mut self,
        inbox: &mut Inbox,
        stop: &mut mpsc::Receiver<()>,
        follows: &mut Follow,
    ) -> Ended {
        let (mut posts, mut news) = (Vec::with_capacity(TURN), Vec::with_capacity(TURN));
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        loop {
            // Not left to the timer below: it begins anew each time, and where something else comes every
            // moment its turn would never come.
            if self.due().is_zero() {
                self.step(Input::Tick);
            }
            // Nor are those who were told: where somebody always asks, theirs would never come either.
            for called in self.callbacks.ended() {
                self.called(called);
            }
            self.send_commit();
            if let Some(ended) = self.ended.take() {
                return ended;
            }
            self.show();
            self.mind_store();
            self.count();
            let due = self.due();
            tokio::select! {
                biased;
                _ = stop.recv() => return Ended::Told,
                can_change = follows.changed() => {
                    if !can_change {
                        return Ended::Deposed("the election has ended".to_owned());
                    }
                    self.renew();
                }
                answer = answered(&mut self.under_way) => self.committed(answer).await,
                count = inbox.news.recv_many(&mut news, TURN) => {
                    if count == 0 {
                        return Ended::Told;
                    }
                    news.drain(..).for_each(|news| self.hear(news));
                    // Whoever asks has a turn, too, however much workers say.
                    let asked = std::iter::from_fn(|| inbox.posts.try_recv().ok());
                    asked.take(TURN).for_each(|post| self.take(post));
                }
                count = inbox.posts.recv_many(&mut posts, TURN) => {
                    if count == 0 {
                        return Ended::Told;
                    }
                    posts.drain(..).for_each(|post| self.take(post));
                }
                called = self.callbacks.next() => self.called(called),
                _ = sweep.tick() => {
                    let is_over = self.sweep();
                    sweep.reset_after(if is_over { SWEEP_EVERY } else { SLICE_EVERY });
                }
                // A millisecond more, so that it is over and not just before.
                () = sleep(due + Duration::from_millis(1)) => self.step(Input::Tick),
            }
        }
    }

    /// How long nothing is to be done, if nothing happens.
    fn due(&self) -> Duration {
        let due = self.leader.deadline(now());
        let due = if self.is_shown { due.min(self.until) } else { due };
        let due = due.since(boot_time()).as_duration();
        match &self.under_way {
            Some(under_way) if self.stuck.is_none() => {
                due.min(STUCK_AFTER.saturating_sub(under_way.sent.elapsed()))
            }
            Some(_) | None => due,
        }
    }

    /// Counts the workers, now and then: some thousand are soon looked at, and who asks for metrics is to
    /// wait for nobody.
    fn count(&mut self) {
        let at = crate::clock::instant();
        if self.counted.is_some_and(|counted| at.duration_since(counted) < COUNT_EVERY) {
            return;
        }
        self.counted = Some(at);
        let (mut workers, now) = (Workers::default(), now().boot);
        for (lock, health, is_taking) in self.leader.control().healths() {
            let is_silent = matches!(self.leader.fleet().reach(now, lock), Reach::Silent { .. });
            workers.add(health, is_silent, is_taking);
        }
        self.shared.count_workers(workers);
    }

    /// The lease was renewed, or lost.
    fn renew(&mut self) {
        match self.candidate.until() {
            Some((reign, until))
                if (reign.term, reign.nonce) == (self.reign.term, self.reign.nonce) =>
            {
                self.until = until;
                self.step(Input::Lease(until));
            }
            Some(_) | None => {
                let why = "another server leads, or the lease was lost".to_owned();
                self.ended = Some(Ended::Deposed(why));
            }
        }
    }

    fn step(&mut self, input: Input) {
        let began = crate::clock::instant();
        let mut effects = std::mem::take(&mut self.effects);
        self.leader.step(now(), input, &mut effects);
        for effect in effects.drain(..) {
            self.perform(effect);
        }
        self.effects = effects;
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        Counters::add(&self.shared.counters.busy_micros, micros);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send(stream, frame) => {
                let broken =
                    self.streams.get(&stream).is_some_and(|it| it.sender.send(frame).is_err());
                // It takes nothing any more: its reader notices, and says so.
                if broken {
                    self.streams.remove(&stream);
                }
            }
            Effect::Close(stream) => drop(self.streams.remove(&stream)),
            Effect::Answer(id, answer) => {
                self.room.answered(id);
                if let Some(reply) = self.calls.remove(&id) {
                    // Who no longer waits needs no answer.
                    drop(reply.send(Ok(answer)));
                }
            }
            Effect::Callback(callback) => {
                Counters::add(&self.shared.counters.callbacks, 1);
                self.callbacks.add(callback);
            }
            Effect::Alarm(alarm) => self.alarm(&alarm),
            Effect::Why(line) => {
                let words = words::line(&line);
                (self.outlets.say)(&words);
            }
            // There are no batches yet: nobody asks for them, and nothing comes of them.
            Effect::Batch(_) => {}
            Effect::StoreLags(mandate, revision) => {
                self.ended = Some(Ended::Lags(mandate, revision));
            }
        }
    }

    fn alarm(&mut self, alarm: &control::Alarm) {
        Counters::add(&self.shared.counters.alarms, 1);
        self.told.push(crate::alarms::told(alarm));
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Opened(stream, sender) => {
                Counters::add(&self.shared.counters.streams, 1);
                self.streams.insert(stream, Stream { sender, of: None });
            }
            News::Frame(stream, frame) => {
                // What still comes from a stream that was closed is not heard (safety rule 4).
                let Some(Stream { of, .. }) = self.streams.get_mut(&stream) else { return };
                let life = frame.incarnation;
                // A worker has one machine for as long as it lives. Who names more has no token, and
                // would fill the memory with them.
                if *of.get_or_insert(life.lock) != life.lock {
                    return self.close(stream);
                }
                self.heard.insert(life.lock, (stream, life));
                self.step(Input::Frame(stream, frame));
            }
            News::Aside(answer) => self.asides.answer(answer),
            News::Closed(stream) => self.close(stream),
        }
    }

    /// A stream is over.
    fn close(&mut self, stream: StreamId) {
        if self.streams.remove(&stream).is_some() {
            self.step(Input::Closed(stream));
        }
        self.heard.retain(|_, (at, _)| *at != stream);
    }

    fn take(&mut self, post: Post) {
        match post {
            Post::Call(call, only_if, reply) => {
                if let Some(why) = self.hindrance() {
                    // Who no longer waits needs no answer.
                    drop(reply.send(Err(Refused::new(Code::NotReady, why))));
                    return;
                }
                if only_if.is_some_and(|holds| !holds(&self.leader)) {
                    let why = "it is not what If-Match or If-None-Match asks for";
                    // Who no longer waits needs no answer.
                    drop(reply.send(Err(Refused::new(Code::HasChanged, why))));
                    return;
                }
                self.calls_made += 1;
                let id = CallId(self.calls_made);
                let there = self.there(&call);
                if let Err(refused) = self.room.take(id, &call, there) {
                    // Who no longer waits needs no answer.
                    drop(reply.send(Err(refused)));
                    return;
                }
                self.calls.insert(id, reply);
                self.step(Input::Control(control::Input::Call(id, call)));
            }
            Post::RosterIsComplete(reply) => self.complete(reply),
            Post::Ask(ask) => ask(&mut self.leader, now()),
            Post::Aside(lock, payload, reply) => {
                let Some((at, asked)) = self.heard.get(&lock).copied() else { return };
                let Some(stream) = self.streams.get(&at) else { return };
                let question = self.asides.ask(asked, payload, reply);
                if stream.sender.aside(&question).is_err() {
                    self.asides.give_up(&question);
                }
            }
        }
    }

    /// Somebody was told that a task is over, or could not be.
    fn called(&mut self, (key, incarnation, called): (TaskKey, TaskIncarnation, Called)) {
        self.step(Input::Control(control::Input::Called(key, incarnation, called)));
    }

    /// What there is when a call comes.
    fn there(&self, call: &control::Call) -> There {
        let control = self.leader.control();
        let is_known = matches!(call, control::Call::CreateTask(key, ..) if control.is_taken(key));
        let adds_bytes = if let control::Call::PutService(key, spec) = call {
            weight::added(control.service(key), spec)
        } else if let control::Call::PutDefinition(key, definition) = call {
            let known = control.definition(key).map(|(_, known)| known);
            weight::added_to_definition(known, definition)
        } else if let control::Call::CreateTask(_, _, spec) = call
            && !is_known
        {
            weight::of_task(spec)
        } else {
            0
        };
        let (tasks, telling, specs_bytes) = {
            let mirror = self.shared.mirror();
            (mirror.totals.under_way, mirror.totals.telling, mirror.totals.specs_bytes)
        };
        There {
            tasks,
            telling,
            specs_bytes,
            adds_bytes,
            is_known,
            has_room_for_names: control.has_room_for_names(now()),
            has_room_for_kept_names: control.has_room_for_kept_names(),
            made: control.made(),
            adds: control.adds(call),
        }
    }

    fn complete(&mut self, reply: oneshot::Sender<Result<bool, Refused>>) {
        // Who no longer waits needs no answer.
        if let Some(why) = self.hindrance() {
            drop(reply.send(Err(Refused::new(Code::NotReady, why))));
            return;
        }
        if !self.leader.control().is_recovered() {
            drop(reply.send(Ok(false)));
            return;
        }
        self.step(Input::Control(control::Input::RosterIsComplete));
        self.told.push(Told::new(EventKind::RosterDeclaredComplete, "roster"));
        self.replies.push(reply);
    }

    /// Looks at the next part of everything; gives whether that was the last.
    fn sweep(&mut self) -> bool {
        let mut effects = std::mem::take(&mut self.effects);
        let is_over = self.leader.sweep(now(), &mut effects);
        for effect in effects.drain(..) {
            self.perform(effect);
        }
        self.effects = effects;
        is_over
    }

    /// Sends the next commit, if there is something to write and nothing is on its way.
    fn send_commit(&mut self) {
        if self.under_way.is_some() || self.ended.is_some() {
            return;
        }
        let parcel = self.leader.commit();
        if parcel.is_none() && self.told.is_empty() && !self.shared.log.is_over() {
            return;
        }
        let (parcel, writes) = parcel.map_or((None, Vec::new()), |(id, all)| (Some(id), all));
        // The others go with the next: what happened must fit into a commit with what was written.
        let most = self.told.len().min(TOLD_AT_ONCE);
        let mut told: Vec<_> = self.told.drain(..most).collect();
        // Who is answered when what was told stands waits for all of it.
        let is_all = self.told.is_empty();
        let replies = if is_all { std::mem::take(&mut self.replies) } else { Vec::new() };
        told.extend(events::told(&self.shared.mirror(), &writes));
        let when = (self.cluster.epoch, self.reign.term, now().wall);
        let block = self.shared.log.block(when, told, OTHERS_MAX.saturating_sub(writes.len()));
        let mut all = Writes::default();
        let cluster = put(&mut all, &writes, &self.cluster);
        if let Some(first) = block.first() {
            all.puts.push((events::block_key(first).into(), block.bytes()));
        }
        all.removes.extend(block.out.iter().map(|first| events::block_key(*first).into()));
        let store = Arc::clone(&self.shared.store);
        let refusals = Refusals::default();
        let answer = Box::pin(commit(store, self.reign, self.revision, all, refusals.clone()));
        let sent = crate::clock::instant();
        self.under_way =
            Some(UnderWay { answer, parcel, writes, cluster, block, replies, sent, refusals });
    }

    async fn committed(&mut self, answer: Result<Stands, Over>) {
        let Some(UnderWay { parcel, writes, cluster, block, replies, sent, .. }) =
            self.under_way.take()
        else {
            return;
        };
        let Stands { revision, reign } = match answer {
            Ok(stands) => stands,
            Err(over) => {
                self.ended = Some(Ended::Deposed(crate::because(&over)));
                return;
            }
        };
        let counters = &self.shared.counters;
        Counters::add(&counters.commits, 1);
        Counters::add(&counters.writes, writes.len() as u64);
        let micros = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX);
        Counters::add(&counters.commit_micros, micros);
        if reign != self.reign {
            self.reign = reign;
            self.candidate.raised(reign).await;
        }
        (self.revision, self.cluster) = (revision, cluster);
        let position = Position { epoch: self.cluster.epoch, revision };
        let followed = Some((reign.term, reign.nonce));
        let (cluster, marks) = (self.cluster.id, self.leader.fleet().marks());
        (self.outlets.seen)(Seen { cluster, position, reign: followed, marks });
        counters.names.store(self.leader.control().names() as u64, Ordering::Relaxed);
        self.shared.apply(revision, writes);
        self.shared.log.publish(block);
        // Who no longer waits needs no answer.
        for reply in replies {
            drop(reply.send(Ok(true)));
        }
        self.step(Input::Revision(revision));
        if let Some(parcel) = parcel {
            self.step(Input::Control(control::Input::Committed(parcel)));
        }
    }
}

async fn answered(under_way: &mut Option<UnderWay>) -> Result<Stands, Over> {
    match under_way {
        Some(under_way) => under_way.answer.as_mut().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
