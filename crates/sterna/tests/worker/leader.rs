//! A leader for tests: the scheduler's core on a real port. What it is to commit is done at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::{Value, json};
use sterna_model::{
    BootTime, ClusterId, Contract, Epoch, Incarnation, Lock, Nonce, Revision, RunId, Span, Term,
    WallTime,
};
use sterna_protocol::{
    health::Health,
    limits::{Book, Limits},
    message::{
        FromLeader, FromWorker, HeartbeatAnswer, Kill, Mandate, News, Order, Ordinal, Payload,
        Saying, StatusAnswer, StreamId, VERSION,
    },
    roster::{Enrolled, Origin},
    scheduler::{Alarm, Begin, Bump, Claim, Dispatch, Effect, Fleet, Input, Report, Settlement},
};
use sterna_wire::{Leadership, Links, Opened, Sender, serve};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet};

use crate::place::{LONG, Place, instant, wait_until};

/// Short, so that tests are; but not so short that a busy machine is taken for a sick one.
pub(crate) const LIMITS: Limits = Limits {
    version: 2,
    heartbeat_every: Span::from_millis(200),
    heartbeat_grace: Span::from_millis(1_800),
    check_every: Span::from_millis(500),
    check_grace: Span::from_millis(1_500),
    judge_every: Span::from_millis(50),
    lose_after: Span::from_millis(2_000),
    kill_wait: Span::from_millis(500),
    batch_stop_after_max: Span::from_secs(120),
    stop_after_max: Span::from_secs(600),
    has_kept_batches: false,
    has_kept_claims: true,
};

/// A contract under which nothing is stopped while a test lasts.
pub(crate) const LONG_STOP: Contract = Contract::Stop { after: Span::from_secs(300) };

/// What happened, as tests look at it.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Frame(Box<FromWorker>),
    Health(Incarnation, Health),
    /// A worker was refused.
    Refused(Alarm),
    /// The worker was told how it is judged; who was told that it is healthy takes work.
    Told(Incarnation, Health),
    Facts(Value),
    Reported(Report),
    Settled(RunId, Settlement),
    Closed,
}

enum Command {
    Dispatch(Vec<Dispatch>),
    Kill(RunId, Kill),
    Drain(Lock, bool),
    Order(Order),
    /// Whether statuses are acknowledged.
    Record(bool),
    Stop,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    changed: Condvar,
    /// The same, of all reigns.
    history: Mutex<Vec<Seen>>,
    /// What a store would hold: who is on the roster, and what was claimed.
    roster: Mutex<BTreeMap<Lock, Enrolled>>,
    claims: Mutex<BTreeMap<RunId, Claim>>,
}

/// How a leader behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it should.
    Leader,
    /// It speaks this version, and says so to every heartbeat.
    OfVersion(u16),
    /// It leads another cluster.
    OfAnotherCluster,
}

pub(crate) struct Leader {
    pub(crate) port: u16,
    term: u64,
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
}

/// The machine's clock, as the worker reads it.
pub(crate) fn boot_time() -> BootTime {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
    BootTime::from_millis(Duration::from_secs_f64(seconds).as_millis().try_into().unwrap())
}

pub(crate) fn run_id(number: u8) -> RunId {
    RunId::from_parts(WallTime::EPOCH, [number; 10])
}

impl Leader {
    pub(crate) fn start() -> Self {
        Self::begin(0, 1, Arc::default(), Kind::Leader)
    }

    pub(crate) fn of(kind: Kind) -> Self {
        Self::begin(0, 1, Arc::default(), kind)
    }

    /// At this port, from the first moment.
    pub(crate) fn at(port: u16, kind: Kind) -> Self {
        Self::begin(port, 1, Arc::default(), kind)
    }

    fn begin(port: u16, term: u64, shared: Arc<Shared>, kind: Kind) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (commands, orders) = mpsc::unbounded_channel();
        let state = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                Serving::new(term, state, kind).work(listener, orders).await;
            });
        });
        Self { port, term, shared, commands, thread: Some(thread) }
    }

    /// Ends it, and begins the next reign at the same port, with what a store would have kept.
    pub(crate) fn restart(mut self) -> Self {
        self.stop();
        self.shared.seen.lock().unwrap().clear();
        Self::begin(self.port, self.term + 1, Arc::clone(&self.shared), Kind::Leader)
    }

    pub(crate) fn stop(&mut self) {
        drop(self.commands.send(Command::Stop));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    fn tell(&self, command: Command) {
        assert!(self.commands.send(command).is_ok(), "the leader is gone");
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// What was seen in all reigns, but for frames.
    pub(crate) fn history(&self) -> Vec<Seen> {
        self.shared.history.lock().unwrap().clone()
    }

    /// The newest life on the roster.
    pub(crate) fn newest(&self) -> Option<Incarnation> {
        self.shared.roster.lock().unwrap().values().map(|enrolled| enrolled.incarnation).next()
    }

    /// Waits for something, from the beginning of this reign on.
    pub(crate) fn wait<T>(&self, what: &str, find: impl Fn(&Seen) -> Option<T>) -> T {
        let begun = instant();
        let mut seen = self.shared.seen.lock().unwrap();
        loop {
            if let Some(found) = seen.iter().find_map(&find) {
                return found;
            }
            let left = LONG.saturating_sub(begun.elapsed());
            if left.is_zero() {
                let said: Vec<String> = seen
                    .iter()
                    .filter(|seen| !matches!(seen, Seen::Frame(_) | Seen::Told(..)))
                    .map(|seen| format!("{seen:?}"))
                    .collect();
                drop(seen);
                panic!("not seen: {what}, but: {said:#?}");
            }
            seen = self.shared.changed.wait_timeout(seen, left).unwrap().0;
        }
    }

    /// Waits until a worker may be given work.
    pub(crate) fn wait_for_healthy(&self) -> Incarnation {
        self.wait("a healthy worker", |seen| {
            if let Seen::Told(who, Health::Healthy) = seen { Some(*who) } else { None }
        })
    }

    /// Waits until a worker was told once more, from now on, that it is healthy.
    pub(crate) fn wait_for_contact(&self) {
        let told = || {
            let is_it = |seen: &&Seen| matches!(seen, Seen::Told(_, Health::Healthy));
            self.shared.seen.lock().unwrap().iter().filter(is_it).count()
        };
        let before = told();
        wait_until("it is heard again", LONG, || told() > before);
    }

    /// Waits for a life after this one to be healthy.
    pub(crate) fn wait_for_later(&self, life: u64) -> Incarnation {
        self.wait("a later life", |seen| {
            if let Seen::Told(who, Health::Healthy) = seen
                && who.life > life
            {
                Some(*who)
            } else {
                None
            }
        })
    }

    /// Sends a run of `task` to the worker.
    pub(crate) fn dispatch(
        &self,
        to: Incarnation,
        number: u8,
        contract: Contract,
        work: &Value,
    ) -> RunId {
        let run = run_id(number);
        let key = format!("default/task/t{number}").parse().unwrap();
        let work: Payload = work.to_string().into_bytes().into();
        let ordinal = Ordinal { number: number.into(), attempt: 1 };
        let dispatch = Dispatch { to, run, key, task: None, contract, ordinal, work };
        self.tell(Command::Dispatch(vec![dispatch]));
        run
    }

    pub(crate) fn kill(&self, run: RunId, kill: Kill) {
        self.tell(Command::Kill(run, kill));
    }

    pub(crate) fn drain(&self, lock: Lock, is_draining: bool) {
        self.tell(Command::Drain(lock, is_draining));
    }

    /// Says something that the core would not say, on the newest stream.
    pub(crate) fn order(&self, order: Order) {
        self.tell(Command::Order(order));
    }

    pub(crate) fn record(&self, records: bool) {
        self.tell(Command::Record(records));
    }

    /// Waits for the end of a run, as its worker tells it.
    pub(crate) fn end(&self, run: RunId) -> Value {
        self.wait("an end", |seen| {
            if let Seen::Reported(Report { run: of, news: News::Ended(how), .. }) = seen
                && *of == run
            {
                Some(serde_json::from_slice(how).unwrap())
            } else {
                None
            }
        })
    }

    pub(crate) fn wait_for_running(&self, run: RunId) {
        self.wait("that it runs", |seen| {
            if let Seen::Reported(Report { run: of, news: News::Progress(_), .. }) = seen
                && *of == run
            {
                Some(())
            } else {
                None
            }
        });
    }

    pub(crate) fn settled(&self, run: RunId) -> Settlement {
        self.wait("how a run was settled", |seen| {
            if let Seen::Settled(of, how) = seen
                && *of == run
            {
                Some(*how)
            } else {
                None
            }
        })
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A command that writes its process number into `file` of the place, once for each start.
pub(crate) fn sleeper(place: &Place, file: &str) -> Value {
    let (name, value) = place.mark();
    let at = place.path.join(file);
    json!({
        "run": ["sh", "-c", format!("echo $$ >> {}; exec sleep 1000", at.display())],
        "env": { name: value },
    })
}

pub(crate) fn shell(place: &Place, script: &str) -> Value {
    let (name, value) = place.mark();
    json!({ "run": ["sh", "-c", script], "env": { name: value } })
}

struct Serving {
    fleet: Fleet,
    mandate: Mandate,
    kind: Kind,
    shared: Arc<Shared>,
    streams: BTreeMap<StreamId, Sender<FromLeader>>,
    newest: Option<(StreamId, Incarnation)>,
    readers: JoinSet<()>,
    records: bool,
}

/// Whether the leader goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Goes,
    End,
}

enum Event {
    Frame(StreamId, Box<FromWorker>),
    Closed(StreamId),
}

impl Serving {
    fn new(term: u64, shared: Arc<Shared>, kind: Kind) -> Self {
        let now = boot_time();
        let cluster = match kind {
            Kind::Leader | Kind::OfVersion(_) => 1,
            Kind::OfAnotherCluster => 2,
        };
        let mandate = Mandate {
            cluster: ClusterId::from_parts(WallTime::EPOCH, [cluster; 10]),
            epoch: Epoch::new(1),
            term: Term::new(term),
            nonce: Nonce::new(term * 7),
        };
        let roster: Vec<Enrolled> = shared.roster.lock().unwrap().values().cloned().collect();
        let claims = shared.claims.lock().unwrap().values().cloned().collect();
        let origin = if term == 1 { Origin::Virgin } else { Origin::Continued };
        let begin = Begin {
            mandate,
            elected: now,
            lease_until: now.plus(Span::from_secs(3_600)),
            revision: Revision::new(term * 100),
            reigns: BTreeMap::new(),
            marks: sterna_model::Marks::NONE,
            book: Book::new(LIMITS, Vec::new()).unwrap(),
            roster,
            claims,
            origin,
            bump: Bump::Forbidden,
            roster_max: usize::MAX,
        };
        let fleet = Fleet::new(now, begin);
        Self {
            fleet,
            mandate,
            kind,
            shared,
            streams: BTreeMap::new(),
            newest: None,
            readers: JoinSet::new(),
            records: true,
        }
    }

    async fn work(mut self, listener: TcpListener, mut orders: mpsc::UnboundedReceiver<Command>) {
        let (opening, mut opened) = mpsc::channel(8);
        let (events, mut happened) = mpsc::channel(1_024);
        let links = Links::new(|| Leadership::Here, opening);
        let mut served = JoinSet::new();
        let mut next = 0;
        loop {
            let wait = self.fleet.deadline().since(boot_time()).plus(Span::from_millis(1));
            tokio::select! {
                Ok((socket, _)) = listener.accept() => {
                    let links = links.clone();
                    served.spawn(async move { drop(serve(socket, links).await) });
                }
                Some(stream) = opened.recv() => {
                    next += 1;
                    self.open(StreamId::new(next), stream, events.clone());
                }
                Some(event) = happened.recv() => match event {
                    Event::Frame(stream, frame) => self.hear(stream, *frame),
                    Event::Closed(stream) => {
                        self.streams.remove(&stream);
                        self.see(Seen::Closed);
                        self.step(Input::Closed(stream));
                    }
                },
                Some(command) = orders.recv() => {
                    if self.obey(command) == Next::End {
                        return;
                    }
                }
                () = tokio::time::sleep(wait.as_duration()) => self.step(Input::Tick), // why: it is the core's clock
            }
        }
    }

    fn open(&mut self, stream: StreamId, opened: Opened, events: mpsc::Sender<Event>) {
        let Opened { sender, mut receiver } = opened;
        self.streams.insert(stream, sender);
        self.readers.spawn(async move {
            while let Ok(Some(frame)) = receiver.next().await {
                if events.send(Event::Frame(stream, Box::new(frame))).await.is_err() {
                    return;
                }
            }
            drop(events.send(Event::Closed(stream)).await);
        });
    }

    fn see(&self, seen: Seen) {
        if !matches!(seen, Seen::Frame(_) | Seen::Told(..)) {
            self.shared.history.lock().unwrap().push(seen.clone());
        }
        self.shared.seen.lock().unwrap().push(seen);
        self.shared.changed.notify_all();
    }

    fn hear(&mut self, stream: StreamId, frame: FromWorker) {
        self.newest = Some((stream, frame.incarnation));
        self.see(Seen::Frame(Box::new(frame.clone())));
        match self.kind {
            Kind::Leader | Kind::OfAnotherCluster => self.step(Input::Frame(stream, frame)),
            Kind::OfVersion(theirs) => {
                if let Saying::Heartbeat(_) = frame.saying {
                    self.order(theirs, Order::GetRunning);
                }
            }
        }
    }

    fn obey(&mut self, command: Command) -> Next {
        match command {
            Command::Dispatch(runs) => {
                let mut claims = self.shared.claims.lock().unwrap();
                for Dispatch { to, run, key, task, contract, .. } in runs.iter().cloned() {
                    claims.insert(run, Claim { holder: to, run, key, task, contract });
                }
                drop(claims);
                self.step(Input::Dispatch(runs));
            }
            Command::Kill(run, kill) => self.step(Input::Kill(run, kill)),
            Command::Drain(lock, is_draining) => self.step(Input::Draining(lock, is_draining)),
            Command::Order(order) => self.order(VERSION, order),
            Command::Record(records) => self.records = records,
            Command::Stop => return Next::End,
        }
        Next::Goes
    }

    fn order(&self, version: u16, order: Order) {
        let Some((stream, incarnation)) = self.newest else { return };
        let frame = FromLeader { version, mandate: self.mandate, incarnation, order };
        if let Some(sender) = self.streams.get(&stream) {
            drop(sender.send(frame));
        }
    }

    fn step(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            self.fleet.step(boot_time(), input, &mut effects);
            for effect in effects {
                self.perform(effect, &mut inputs);
            }
        }
    }

    fn perform(&mut self, effect: Effect, inputs: &mut Vec<Input>) {
        match effect {
            Effect::Send(stream, frame) => {
                if let Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmation)) = &frame.order {
                    self.see(Seen::Told(frame.incarnation, confirmation.verdict));
                }
                if let Some(sender) = self.streams.get(&stream) {
                    drop(sender.send(frame));
                }
            }
            Effect::Close(stream) => drop(self.streams.remove(&stream)),
            Effect::Enroll(enrolled) => {
                let incarnation = enrolled.incarnation;
                self.shared.roster.lock().unwrap().insert(incarnation.lock, enrolled);
                inputs.push(Input::Enrolled(incarnation));
            }
            Effect::Revive(incarnation) => inputs.push(Input::Enrolled(incarnation)),
            Effect::Strike(life) => {
                self.shared.roster.lock().unwrap().remove(&life.lock);
                inputs.push(Input::Struck(life));
            }
            Effect::Settled(run, how) => {
                self.shared.claims.lock().unwrap().remove(&run);
                self.see(Seen::Settled(run, how));
            }
            Effect::Reported(report) => {
                if self.records {
                    if report.news.is_end() {
                        self.shared.claims.lock().unwrap().remove(&report.run);
                    }
                    let Report { from, run, number, .. } = report;
                    inputs.push(Input::Recorded(from, run, number, StatusAnswer::Recorded));
                }
                self.see(Seen::Reported(report));
            }
            Effect::Health(who, health) => self.see(Seen::Health(who, health)),
            Effect::Alarm(_, alarm) => self.see(Seen::Refused(alarm)),
            Effect::Facts(_, _, facts) => {
                self.see(Seen::Facts(serde_json::from_slice(&facts).unwrap()));
            }
            Effect::WantsDrain(lock, wants) => inputs.push(Input::Draining(lock, wants)),
            Effect::Found(..)
            | Effect::Silent(_)
            | Effect::Heard(_)
            | Effect::Opened(_)
            | Effect::Retired(_)
            | Effect::Raise(_)
            | Effect::Healed
            | Effect::StoreLags(..) => {}
        }
    }
}
