//! One auction: a batch of asks, in the order of work, each to the best bidder.

use std::{collections::BTreeMap, sync::Arc};

use sterna_model::{Amounts, Name, ServiceKey, Wants, WorkKey, Zones};

use super::{
    bidder::{BidderId, Stage},
    class::{Class, Room},
    order::Turn,
    reason::Reason,
    registry::Registry,
    score::Score,
    service::Service,
};

/// Work that asks for a worker.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What it is. Only one ask of a key counts in a batch: the last.
    pub key: WorkKey,
    /// What it asks for. Asks of the same spec share it.
    pub wants: Arc<Wants>,
}

/// What came of a batch. Asks are named by their place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What was placed, in the order of work. It is taken from the registry already, as starting.
    pub placed: Vec<Placement>,
    /// What was not, in the order of work.
    pub left: Vec<Left>,
}

/// An ask and the worker that got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its place in the batch.
    pub ask: usize,
    /// Who got it.
    pub bidder: BidderId,
    /// For how much.
    pub score: Score,
}

/// An ask that nobody got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its place in the batch.
    pub ask: usize,
    /// Why.
    pub reason: Arc<Reason>,
}

/// An ask as the registry knows it.
#[derive(Clone, Copy)]
struct Job {
    turn: Turn,
    ask: usize,
    service: Option<u32>,
    profile: u32,
}

/// One ask while its bidder is looked for.
pub(super) struct Search<'a> {
    pub(super) ask: &'a Ask,
    pub(super) demand: &'a Amounts,
    pub(super) service: Option<u32>,
    pub(super) profile: u32,
    /// No bidder that holds an instance of one of these comes into question.
    pub(super) avoid: Vec<u32>,
}

impl Registry {
    /// Places what can be placed.
    pub fn auction(&mut self, asks: &[Ask]) -> Outcome {
        self.bound_profiles();
        let mut jobs = self.jobs(asks);
        jobs.sort_unstable_by_key(|job| job.turn);
        let mut outcome = Outcome::default();
        // What was refused once in a batch is refused again: there is only less.
        let mut refused: BTreeMap<Option<u32>, Vec<Refusal<'_>>> = BTreeMap::new();
        for job in &jobs {
            let ask = &asks[job.ask];
            let known = refused
                .get(&job.service)
                .and_then(|all| all.iter().find(|refusal| refusal.is_of(ask, self.zone_count())));
            if let Some(known) = known {
                outcome.left.push(Left { ask: job.ask, reason: Arc::clone(&known.reason) });
                continue;
            }
            let search = self.search(job, ask);
            match self.winner(&search) {
                Ok((score, id)) => {
                    self.hold(id, job.service, search.demand, Stage::Starting);
                    let bidder = BidderId::new(id);
                    outcome.placed.push(Placement { ask: job.ask, bidder, score });
                }
                Err(reason) => {
                    let reason = Arc::new(reason);
                    outcome.left.push(Left { ask: job.ask, reason: Arc::clone(&reason) });
                    let refusals = refused.entry(job.service).or_default();
                    refusals.truncate(Refusal::KEPT - 1);
                    refusals.insert(0, Refusal { ask, reason });
                }
            }
        }
        self.maybe_idle.extend(jobs.iter().filter_map(|job| job.service));
        self.drop_idle();
        outcome
    }

    /// One job for each key, in no order yet.
    fn jobs(&mut self, asks: &[Ask]) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::with_capacity(asks.len());
        let mut others: BTreeMap<&WorkKey, usize> = BTreeMap::new();
        let mut last: Option<(&Ask, Job)> = None;
        for (place, ask) in asks.iter().enumerate() {
            // Asks of one service come together, usually.
            let same = last.filter(|(other, _)| is_same_spec(other, ask)).map(|(_, job)| job);
            let (service, profile) = match same {
                Some(job) => (job.service, job.profile),
                None => (
                    self.service_of_key(&ask.key, &ask.wants.constraints),
                    self.profile(&ask.wants.constraints),
                ),
            };
            let memory = ask.wants.demand.amounts().memory.get();
            let turn = Turn::new(&ask.key, memory, place as u64);
            let job = Job { turn, ask: place, service, profile };
            last = Some((ask, job));
            if service.is_none()
                && let Some(earlier) = others.insert(&ask.key, jobs.len())
            {
                jobs[earlier] = job;
                others.insert(&ask.key, earlier);
                continue;
            }
            jobs.push(job);
        }
        // Of one index of a service, the last ask counts.
        let index = |job: &Job| asks[job.ask].key.instance().map_or(0, |key| key.index);
        let is_ordered = |a: &Job, b: &Job| (a.service, index(a)) < (b.service, index(b));
        let (tasks, mut instances): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.service.is_none());
        if !instances.is_sorted_by(is_ordered) {
            instances
                .sort_unstable_by_key(|job| (job.service, index(job), std::cmp::Reverse(job.ask)));
            instances.dedup_by_key(|job| (job.service, index(job)));
        }
        instances.extend(tasks);
        instances
    }

    fn search<'a>(&self, job: &Job, ask: &'a Ask) -> Search<'a> {
        let demand = ask.wants.demand.amounts();
        let avoid = match job.service {
            Some(service) => {
                let Service { apart_from, shunned_by, .. } = &self.services[service];
                apart_from.iter().chain(shunned_by).copied().collect()
            }
            None => {
                let names = ask.wants.constraints.apart_from.iter();
                names.filter_map(|name| self.find_service(ask.key.namespace(), name)).collect()
            }
        };
        Search { ask, demand, service: job.service, profile: job.profile, avoid }
    }

    fn winner(&self, search: &Search<'_>) -> Result<(Score, u32), Reason> {
        let is_limited = self.rules.start_limit.is_some_and(|limit| self.starting >= limit);
        let winner = if is_limited { None } else { self.best(search) };
        winner.ok_or_else(|| self.diagnose(search))
    }

    /// The best bidder, and its score.
    pub(super) fn best(&self, search: &Search<'_>) -> Option<(Score, u32)> {
        let Some(service) = search.service else {
            let mut best = None;
            for zone in &self.zone_order {
                self.best_in(search, *zone, &mut best);
            }
            return best;
        };
        match search.ask.wants.constraints.zones {
            Zones::Spread => self.best_spread(search, service),
            Zones::Pinned => {
                let mut best = None;
                for zone in self.pinned_zones(search.ask) {
                    self.best_in(search, zone, &mut best);
                    if best.is_some() {
                        break;
                    }
                }
                best
            }
        }
    }

    /// The zones with the fewest instances first, those with as many together.
    fn best_spread(&self, search: &Search<'_>, service: u32) -> Option<(Score, u32)> {
        let known = &self.services[service];
        let mut after = None;
        loop {
            let counts = self.zone_order.iter().map(|zone| known.in_zone(*zone));
            let tier = counts.filter(|count| after.is_none_or(|after| *count > after)).min()?;
            let mut best = None;
            for zone in self.zone_order.iter().filter(|zone| known.in_zone(**zone) == tier) {
                self.best_in(search, *zone, &mut best);
            }
            if best.is_some() {
                return best;
            }
            after = Some(tier);
        }
    }

    /// The zones in which an instance that is pinned may be, in the order of its preference.
    ///
    /// Index 0 prefers the home of its service, each further index the next zone. The first two
    /// indices go on along the ranking when a zone has no room; the others do not, so that what
    /// was in a zone that fails does not flood the others.
    pub(super) fn pinned_zones(&self, ask: &Ask) -> impl Iterator<Item = u32> {
        let zones = &self.zone_order;
        let (home, index) = ask.key.instance().map_or((0, 0), |key| {
            let ServiceKey { namespace, name } = &key.service;
            (Service::home(namespace, name), key.index)
        });
        let count = zones.len().max(1) as u64;
        let first = (home % count + u64::from(index) % count) % count;
        let first = usize::try_from(first).unwrap_or(0);
        let ways = if index <= 1 { zones.len() } else { zones.len().min(1) };
        zones.iter().cycle().skip(first).take(ways).copied()
    }

    /// The one zone in which this may be, where there are others: its name, if it has one.
    pub(crate) fn only_zone(&self, ask: &Ask) -> Option<Option<&Name>> {
        ranking(ask, self.zone_count())?;
        let mut zones = self.pinned_zones(ask);
        let (first, next) = (zones.next()?, zones.next());
        let is_only = next.is_none() && self.zone_order.len() > 1;
        is_only.then(|| self.zones[first].name.as_ref())
    }

    /// The best bidder of a zone, if it is better than `best`.
    pub(super) fn best_in(&self, search: &Search<'_>, zone: u32, best: &mut Option<(Score, u32)>) {
        let takers = self.zones[zone].takers;
        let least =
            search.service.map_or(0, |service| self.services[service].least_in(zone, takers));
        let same = Score::SAME.times(least);
        for class in self.classes_in(search.profile, zone) {
            self.best_of(search, &self.classes[*class], same, best);
        }
    }

    fn best_of(
        &self,
        search: &Search<'_>,
        class: &Class,
        same: Score,
        best: &mut Option<(Score, u32)>,
    ) {
        let need = class.flat(search.demand);
        let added = class.added(search.demand);
        match search.service {
            Some(service) => {
                let least = added.plus(same);
                let bound = |room: &Room| room.holds(&need).then(|| room.load.plus(least));
                let mut judge = |id, room: &Room| {
                    let bidder = self.bidder(id)?;
                    let count = bidder.count(service);
                    let score = room.load.plus(added).plus(Score::SAME.times(count));
                    self.may_hold(search, id).then_some(score)
                };
                class.tree.best(&bound, &mut judge, best);
            }
            None => {
                let bound = |room: &Room| room.holds(&need).then(|| room.task_load.plus(added));
                let mut judge =
                    |id, room: &Room| self.may_hold(search, id).then(|| room.task_load.plus(added));
                class.tree.best(&bound, &mut judge, best);
            }
        }
    }

    /// What a room does not know: countables beyond the first two, and who is there already.
    fn may_hold(&self, search: &Search<'_>, id: u32) -> bool {
        let Some(bidder) = self.bidder(id) else { return false };
        let counted = search.demand.countables.iter().next().is_some();
        let fits = !counted || search.demand.fits(bidder.pool().free());
        fits && !search.avoid.iter().any(|service| bidder.count(*service) > 0)
    }
}

/// Whether two asks differ in nothing but their index.
fn is_same_spec(a: &Ask, b: &Ask) -> bool {
    let (Some(one), Some(other)) = (a.key.instance(), b.key.instance()) else { return false };
    Arc::ptr_eq(&a.wants, &b.wants) && one.service == other.service
}

/// Which zones an ask may have, and in which order, told from those of other indices of its service;
/// `None` if it is not pinned. Indices that are as many zones apart have the same one, but for the first
/// two, which go on to other zones.
pub(super) fn ranking(ask: &Ask, zones: u32) -> Option<u32> {
    let is_pinned = ask.wants.constraints.zones == Zones::Pinned;
    let index = ask.key.instance().filter(|_| is_pinned)?.index;
    Some(if index <= 1 { index } else { 2 + index % zones.max(1) })
}

/// An ask that was left over in this batch.
struct Refusal<'a> {
    ask: &'a Ask,
    reason: Arc<Reason>,
}

impl Refusal<'_> {
    /// How many are remembered of a service, and of tasks.
    const KEPT: usize = 8;

    /// Whether the ask would be refused for the same reason, with so many zones.
    fn is_of(&self, ask: &Ask, zones: u32) -> bool {
        let (ours, theirs) = (&self.ask.wants, &ask.wants);
        let is_same = Arc::ptr_eq(ours, theirs) || ours == theirs;
        let has_its_zones = ranking(self.ask, zones) == ranking(ask, zones);
        is_same && has_its_zones && self.ask.key.namespace() == ask.key.namespace()
    }
}
