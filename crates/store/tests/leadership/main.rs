//! Three real processes compete for leadership on a real engine, while they are killed, stopped and
//! continued at random. At no instant do two of them hold a lease by their own clocks, and nothing
//! that was fenced by a lost reign applies.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod contender;
#[path = "../support/etcd.rs"]
#[expect(dead_code, reason = "other tests break it in more ways")]
mod etcd;
#[path = "../support/postgres.rs"]
#[expect(dead_code, reason = "other tests break it in more ways")]
mod postgres;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use contender::{Contender, Holding};
use sterna_model::Revision;
use sterna_store::{
    Store,
    conformance::Rng,
    leader::{LEASE_KEY, Lease, REIGN_KEY, Reign},
};

/// Short, so that much happens; the margin of two seconds is the same for every lease.
const LEASE_MS: u64 = 3_000;
/// So many reigns make a run worth something.
const TERMS_MIN: usize = 4;
/// How long the first election may take, and the store to tell of what is there.
const DONE_BY: Duration = Duration::from_secs(60);

/// What must have happened for the run to mean something.
#[derive(Debug, Default)]
struct Counts {
    kills: u32,
    stops: u32,
    resignations: u32,
    terms: usize,
    writes: usize,
    stale: usize,
}

fn span() -> Duration {
    Duration::from_secs(if std::env::var_os("STERNA_LONG").is_some() { 120 } else { 25 })
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    let server = postgres::Server::start(&[]);
    let url = server.url("leaders");
    compete(&url, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_etcd() {
    let cluster = etcd::Cluster::start(3, &[]);
    compete(&cluster.url("leaders"), 2).await;
}

async fn compete(url: &str, seed: u64) {
    let store = sterna_store::open(url).await.unwrap();
    let begin = store.get(REIGN_KEY).await.unwrap().revision;
    let mut rng = Rng::new(seed);
    let mut counts = Counts::default();
    let mut contenders: Vec<Contender> =
        (0..3).map(|number| Contender::start(url, number, LEASE_MS)).collect();
    let mut said = Vec::new();
    let start = now();
    let mut stopped: [Option<Duration>; 3] = [None; 3];
    // One that is surely deposed while it sleeps, and finds out when it wakes.
    let what = || "somebody to be elected".to_owned();
    let first = until(DONE_BY, what, async || holder(&*store).await).await;
    pause(500).await;
    contenders[first].stop();
    stopped[first] = Some(start.elapsed() + Duration::from_millis(2 * LEASE_MS));
    pause(2 * LEASE_MS).await;
    contenders[first].wake();
    pause(500).await;
    // On a busy machine takeovers take their time: go on until there were enough, within bounds.
    while start.elapsed() < span()
        || (terms(&*store).await < TERMS_MIN && start.elapsed() < 4 * span())
    {
        pause(rng.below(800)).await;
        for (contender, until) in contenders.iter().zip(&mut stopped) {
            // It goes on in the middle of whatever it was doing.
            if until.take_if(|until| start.elapsed() >= *until).is_some() {
                contender.wake();
            }
        }
        // Mostly the one that leads, and for longer than its lease or not.
        let index = match holder(&*store).await {
            Some(holder) if !rng.one_in(3) => holder,
            Some(_) | None => rng.index(3),
        };
        // Let it be found deposed when it wakes, most of the time.
        if stopped[index].is_some() && !rng.one_in(6) {
            continue;
        }
        match rng.below(6) {
            0 => {
                counts.kills += 1;
                said.extend(contenders[index].kill().await);
            }
            1 => {
                counts.resignations += 1;
                contenders[index].wake();
                said.extend(contenders[index].ask_to_go().await);
            }
            _ => {
                counts.stops += 1;
                contenders[index].stop();
                let until = start.elapsed() + Duration::from_millis(rng.below(2 * LEASE_MS));
                stopped[index] = Some(until);
                continue;
            }
        }
        stopped[index] = None;
        contenders[index] = Contender::start(url, index, LEASE_MS);
    }
    for mut contender in contenders {
        contender.wake();
        said.extend(contender.ask_to_go().await);
    }
    check_leases(&said);
    let is_refused = |line: &&String| line.starts_with("stale") && line.ends_with("conflict");
    counts.stale = said.iter().filter(is_refused).count();
    check_writes(&*store, begin, &mut counts).await;
    let enough = counts.terms >= TERMS_MIN && counts.writes >= 20 && counts.stale >= 5;
    assert!(enough, "too little happened to mean anything: {counts:?}");
    tell(&counts);
}

#[expect(clippy::print_stderr, reason = "the figures of a run are what it shows")]
fn tell(counts: &Counts) {
    eprintln!("{counts:?}");
}

/// How many reigns there were so far.
async fn terms(store: &dyn Store) -> usize {
    let lease = lease(store).await;
    lease.map_or(0, |lease| usize::try_from(lease.term.get()).unwrap())
}

/// Who holds the lease, by its number.
async fn holder(store: &dyn Store) -> Option<usize> {
    lease(store).await?.holder.strip_prefix("contender-")?.parse().ok()
}

async fn lease(store: &dyn Store) -> Option<Lease> {
    let item = store.get(LEASE_KEY).await.unwrap().item?;
    Some(Lease::from_bytes(&item.value).unwrap())
}

/// All processes are on one machine, so their clocks are one clock, and holdings can be compared.
fn check_leases(said: &[String]) {
    let mut holdings = BTreeMap::<u64, Holding>::new();
    for line in said {
        contender::note(line, &mut holdings);
    }
    let mut before: Option<(u64, Holding)> = None;
    for (term, holding) in holdings {
        if let Some((earlier, last)) = before {
            assert!(
                last.until <= holding.from,
                "term {earlier} was held until {}, term {term} from {}",
                last.until,
                holding.from
            );
        }
        before = Some((term, holding));
    }
}

/// Reads the whole history: every write was made in the reign that it was fenced by.
async fn check_writes(store: &dyn Store, begin: Revision, counts: &mut Counts) {
    let end = store.get(REIGN_KEY).await.unwrap().revision;
    let mut watch = store.watch("/v1/", begin).await.unwrap();
    let mut reign: Option<Reign> = None;
    loop {
        let told = tokio::time::timeout(DONE_BY, watch.next()).await;
        let changes =
            told.unwrap_or_else(|_| panic!("the watch tells no more before {end}")).unwrap();
        for change in changes.changes {
            let value = String::from_utf8(change.value.unwrap().to_vec()).unwrap();
            if *change.key == *REIGN_KEY {
                let next: Reign = value.parse().unwrap();
                assert!(reign.is_none_or(|reign| reign.term < next.term), "{reign:?}, {next:?}");
                reign = Some(next);
                counts.terms += 1;
            } else if change.key.ends_with("/written") {
                let term: u64 = value.split(' ').next().unwrap().parse().unwrap();
                let current = reign.map(|reign| reign.term.get());
                assert_eq!(current, Some(term), "a deposed leader wrote at {}", changes.revision);
                counts.writes += 1;
            }
        }
        if changes.revision >= end {
            return;
        }
    }
}

/// Waits until `look` finds something, but not for ever.
pub(crate) async fn until<T>(
    limit: Duration,
    what: impl Fn() -> String,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} for {}", what());
        pause(20).await;
    }
}

async fn pause(ms: u64) {
    let span = Duration::from_millis(ms);
    tokio::time::sleep(span).await; // why: leases of real processes run out on the real clock
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the test's own clock")]
    Instant::now()
}
