use std::sync::Mutex;

use futures_util::future::BoxFuture;
use sterna_api::spec::{Source, read};
use sterna_engine::{auction::Rules, control::Call};
use sterna_model::{ClusterId, DirectoryId, MachineId, Span, WallTime, WriteId};
use sterna_protocol::message::{FromWorker, Saying, VERSION};
use sterna_store::{
    About, Commit, Memory, Outcome, Page, Reading, Scan, Store, StoreError, Watch, Write, cluster,
    leader::Timing,
    machine::{random, wall_time, write_id},
};
use tokio::sync::watch;

use super::*;
use crate::{bounds::Bounds, desk::desk, reign::begin};

/// More than a lease has.
const LARGE: usize = 4_096;

/// A store that says nothing, or takes nothing large, while it is told so.
struct Stalling {
    memory: Memory,
    is_stalled: watch::Sender<bool>,
    /// What is small fits, as leases do.
    is_full: watch::Sender<bool>,
}

impl Stalling {
    async fn answers(&self) {
        self.is_stalled.subscribe().wait_for(|is_stalled| !is_stalled).await.unwrap();
    }
}

impl Store for Stalling {
    fn limits(&self) -> sterna_store::Limits {
        self.memory.limits()
    }

    fn about(&self) -> About {
        self.memory.about()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        Box::pin(async move {
            self.answers().await;
            let is_large = |(_, write): &(_, Write)| match write {
                Write::Put(value) => value.len() > LARGE,
                Write::Delete => false,
            };
            if *self.is_full.borrow() && commit.writes.iter().any(is_large) {
                return Err(StoreError::Unavailable("the disk is full".into()));
            }
            self.memory.commit(commit).await
        })
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            self.answers().await;
            self.memory.get(key).await
        })
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async move {
            self.answers().await;
            self.memory.scan(scan).await
        })
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        self.memory.watch(prefix, after)
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        self.memory.written(id)
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.memory.compact(up_to)
    }
}

/// A server that leads, and what it takes to disturb it.
struct Leading {
    stalls: Arc<Stalling>,
    shared: Arc<Shared>,
    inbox: Inbox,
    candidate: Candidate,
    begun: Begun,
}

/// The shortest lease that the margin allows.
const SHORT: Span = Span::from_millis(3_000);
/// A lease that no busy machine lets run out in a test.
const LONG: Span = Span::from_secs(60);

/// Elected under such a lease, and not driven yet.
async fn elected_here(lease: Span) -> Leading {
    let (is_stalled, is_full) = (watch::Sender::new(false), watch::Sender::new(false));
    let stalls = Stalling { memory: Memory::new(), is_stalled, is_full };
    let stalls = Arc::new(stalls);
    let store: Arc<dyn Store> = stalls.clone();
    let id = ClusterId::from_parts(wall_time(), random());
    cluster::make(&*store, id, write_id()).await.unwrap();
    let (desk, inbox) = desk();
    let name = "here".to_owned();
    let shared =
        Shared::new(Arc::clone(&store), desk, Bounds::default(), String::new(), name.clone());
    let timing = Timing {
        lease,
        renew_every: Span::from_millis(100),
        retry_every: Span::from_millis(50),
        is_alone: true,
    };
    let mut candidate = Candidate::start(Arc::clone(&store), timing, name);
    candidate.elected().await;
    let begun =
        begin(&store, candidate.until().unwrap(), boot_time(), None, (Rules::default(), 100))
            .await
            .unwrap();
    Leading { stalls, shared: Arc::new(shared), inbox, candidate, begun }
}

impl Leading {
    /// Leads while `meanwhile` goes on, and then ends.
    async fn while_driven(self, meanwhile: impl AsyncFnOnce(&Shared, &Stalling)) {
        Box::pin(self.while_driven_saying(Arc::new(|_: &str| {}), meanwhile)).await;
    }

    async fn while_driven_saying(self, say: Say, meanwhile: impl AsyncFnOnce(&Shared, &Stalling)) {
        let (stop, mut stopped) = mpsc::channel(1);
        let mut seen = |_| {};
        let outlets = Outlets { seen: &mut seen, say: &say };
        let Self { stalls, shared, mut inbox, candidate, begun } = self;
        let driven = drive(&shared, &candidate, &mut inbox, begun, &mut stopped, outlets);
        let meanwhile = async {
            meanwhile(&shared, &stalls).await;
            stop.send(()).await.unwrap();
        };
        let (ended, ()) = tokio::join!(driven, meanwhile);
        assert!(matches!(ended, Ended::Told), "{ended:?}");
        candidate.resign().await;
    }
}

/// It said that it is ready, and showed what may long be otherwise, until the store answered again.
#[tokio::test]
async fn a_leader_cut_off_from_its_store_is_not_ready_after_its_lease() {
    let leading = elected_here(SHORT).await;
    let check = async |shared: &Shared, stalls: &Stalling| {
        let mut standings = shared.standings();
        let leads = |standing: &Standing| matches!(standing, Standing::Leads(_));
        standings.wait_for(leads).await.unwrap();
        stalls.is_stalled.send_replace(true);
        let over = tokio::time::timeout(
            Duration::from_secs(20),
            standings.wait_for(|standing| !leads(standing)),
        );
        let over = over.await.expect("its lease ends").unwrap().clone();
        let Standing::NotReady(why) = over else { panic!("{over:?}") };
        assert!(why.contains("lease of this server has expired"), "{why}");
        // Nobody else took over: it goes on.
        stalls.is_stalled.send_replace(false);
        standings.wait_for(leads).await.unwrap();
    };
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let say: Say = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned()));
    Box::pin(leading.while_driven_saying(say, check)).await;
    // Whether the store or this process stood still is not known here.
    let lines = lines.lock().unwrap();
    let said = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!((said("not renewed in time"), said("leads again, in term")), (1, 1), "{lines:?}");
}

/// Leases still fitted into the store, and one commit did not: every change waited for that, without end
/// and without a word, and the leader said that it is ready.
#[tokio::test]
async fn a_leader_whose_store_takes_no_commit_says_so_to_all_who_wait() {
    let leading = elected_here(LONG).await;
    let check = async |shared: &Shared, stalls: &Stalling| {
        let mut standings = shared.standings();
        let leads = |standing: &Standing| matches!(standing, Standing::Leads(_));
        standings.wait_for(leads).await.unwrap();
        stalls.is_full.send_replace(true);
        let large = |number: u8| {
            let text = "a".repeat(LARGE);
            let text = format!("version = 1\n[task.t]\nrun = [\"true\", \"{text}\"]\n");
            let specs = read(&[Source { name: "t.toml", text: &text }]).unwrap();
            let task = specs.tasks.into_values().next().unwrap();
            let key = format!("default/task/t{number}").parse().unwrap();
            let incarnation = TaskIncarnation::from_parts(WallTime::EPOCH, [number; 10]);
            Call::CreateTask(key, incarnation, Arc::new(task.made_at(WallTime::EPOCH)))
        };
        let (one, other) = tokio::join!(shared.desk.call(large(1)), shared.desk.call(large(2)));
        for refused in [one.unwrap_err(), other.unwrap_err()] {
            assert_eq!(refused.code, Code::NotReady);
            let said = "the disk is full; what was asked for may yet be done";
            assert!(refused.message.contains(said), "{}", refused.message);
        }
        let why = shared.stuck().expect("it is said");
        assert!(leads(&shared.standing()), "what it shows stands, and workers find it");
        assert!(why.starts_with("the store accepts no commits"), "{why}");
        let next = shared.desk.call(large(3)).await.unwrap_err();
        assert_eq!(*next.message, why, "nobody else waits");
        let refused = shared.desk.roster_is_complete().await.unwrap_err();
        assert_eq!(*refused.message, why);
        stalls.is_full.send_replace(false);
        while shared.stuck().is_some() {
            sleep(Duration::from_millis(10)).await; // why: nothing tells of it
        }
        let again = shared.desk.call(large(1)).await.unwrap();
        assert_eq!(again, Answer::Already, "it was done");
    };
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let say: Say = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned()));
    Box::pin(leading.while_driven_saying(say, check)).await;
    let lines = lines.lock().unwrap();
    let said = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(
        (said("the disk is full"), said("the store accepts commits again")),
        (1, 1),
        "{lines:?}"
    );
}

/// Its caller has long been told that nobody answered, or asked another server.
#[tokio::test]
async fn a_call_that_waits_since_an_earlier_reign_is_not_carried_out() {
    let leading = elected_here(LONG).await;
    let desk = leading.shared.desk.clone();
    let mut waits = Box::pin(desk.ask(|_, _| ()));
    assert!(futures_util::poll!(&mut waits).is_pending(), "nobody leads yet");
    let check = async |_: &Shared, _: &Stalling| {
        let refused = waits.await.unwrap_err();
        assert_eq!(refused.code, Code::NotReady);
    };
    leading.while_driven(check).await;
}

/// Nothing is asked of who opens a stream: one that names ever new machines was remembered with each of
/// them.
#[tokio::test]
async fn a_stream_that_names_a_second_machine_is_over() {
    let leading = elected_here(LONG).await;
    let links = crate::links::serve(&leading.shared);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let serving = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        drop(sterna_wire::serve(socket, links).await);
    });
    let frame = |machine: u8| {
        let directory = DirectoryId::from_parts(WallTime::EPOCH, [machine; 10]);
        let machine = MachineId::from_bytes([machine; 16]).unwrap();
        let incarnation = Incarnation { lock: Lock { directory, machine }, life: 1 };
        FromWorker {
            version: VERSION,
            incarnation,
            mandate: None,
            saying: Saying::Running(Vec::new()),
        }
    };
    let check = async |shared: &Shared, _: &Stalling| {
        let leads = |standing: &Standing| matches!(standing, Standing::Leads(_));
        shared.standings().wait_for(leads).await.unwrap();
        let (sender, mut receiver) =
            sterna_wire::dial(&address, Duration::from_secs(10)).await.unwrap();
        sender.send(frame(1)).unwrap();
        sender.send(frame(1)).unwrap();
        let asked = shared.desk.ask(|_, _| ()).await;
        assert!(asked.is_ok() && futures_util::poll!(Box::pin(receiver.next())).is_pending());
        sender.send(frame(2)).unwrap();
        let over = tokio::time::timeout(Duration::from_secs(10), receiver.next()).await;
        assert!(matches!(over, Ok(Ok(None) | Err(_))), "{over:?}");
    };
    leading.while_driven(check).await;
    serving.abort();
}
