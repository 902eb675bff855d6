//! Workers and domains.

use std::{fmt, str::FromStr};

use axum::{Json, extract::State};
use serde_json::Value;
use sterna_api::rest::{
    Code, DomainView, Done, DrainAsk, ForecastRun, ForecastView, Page, Refused, SetDomain,
    WorkerView,
};
use sterna_engine::{
    Leader,
    control::{self, Call, Fate, Forecast, WorkerSeen},
};
use sterna_model::{
    Lock, Name, Span, WallTime, nearest_word, payload::Facts, spec::DEFAULT_DOMAIN,
};
use sterna_protocol::{health::Health, scheduler::Reach};
use sterna_store::machine::wall_time;

use super::{
    Answer, Api, Listing, Paging,
    described::Refusals,
    given::{Body, Path, Query},
    name, page,
    refusal::{Refusal, done},
};
use crate::counts::{HEALTHS, health};

/// How long a drain may take if nobody says otherwise.
const DRAIN: u64 = 600;
/// And how long at most.
const DRAIN_MAX: u64 = 30 * 86_400;

/// A worker, and what is wrong with it.
#[derive(Clone, Debug)]
struct Looked {
    seen: WorkerSeen,
    trouble: Option<String>,
}

impl Looked {
    fn at(leader: &Leader, now: control::Now, seen: WorkerSeen) -> Self {
        let reach = leader.fleet().reach(now.boot, seen.life.lock);
        let trouble = if seen.is_declared_dead { None } else { trouble(&seen, reach, now) };
        Self { seen, trouble }
    }
}

fn trouble(seen: &WorkerSeen, reach: Reach, now: control::Now) -> Option<String> {
    let check = Facts::read(&seen.facts).failed_check;
    let failed = check.map(|check| format!("its health check failed: {check}"));
    match reach {
        Reach::Silent { heard: Some(heard), .. } => {
            Some(format!("it is silent; it was last heard at {}", now.wall_at(heard)))
        }
        Reach::Silent { heard: None, .. } => Some("this leader has never heard it".to_owned()),
        Reach::Sick { .. } => {
            let unsaid = || "its health checks fail; its log says which".to_owned();
            Some(failed.unwrap_or_else(unsaid))
        }
        // Once is not enough to be unhealthy.
        Reach::Near => failed,
    }
}

fn view(Looked { seen, trouble }: Looked) -> WorkerView {
    // As they came: a newer worker says what this server does not know.
    let mut facts: Value = serde_json::from_slice(&seen.facts).unwrap_or_default();
    // Said once, and not again in the facts.
    facts.as_object_mut().and_then(|facts| facts.remove("failed_check"));
    WorkerView {
        name: seen.name.to_string(),
        lock: seen.life.lock.to_string(),
        life: seen.life.life,
        health: health(seen.health).to_owned(),
        takes_work: seen.takes_work,
        draining_until: seen.drain.as_ref().map(|drain| drain.deadline.to_string()),
        is_declared_dead: seen.is_declared_dead,
        trouble,
        runs: seen.runs,
        facts,
    }
}

pub(super) async fn workers(shared: &Api) -> Answer<Vec<WorkerSeen>> {
    shared.lead()?;
    let mut workers = shared.desk.ask(|leader, _| leader.control().workers()).await?;
    workers.sort_by(|one, two| (&one.name, one.life.lock).cmp(&(&two.name, two.life.lock)));
    Ok(workers)
}

/// Where a page of workers ends: several machines may have one name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct At(Name, Lock);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.0, self.1)
    }
}

impl FromStr for At {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, lock) = text.split_once(',').ok_or(())?;
        Ok(Self(name.parse().map_err(|_| ())?, lock.parse().map_err(|_| ())?))
    }
}

/// The worker of this name, or of this machine.
async fn find(shared: &Api, given: &str) -> Answer<WorkerSeen> {
    let lock = given.parse::<Lock>().ok();
    shared.lead()?;
    let name = given.to_owned();
    let is_it = move |known: Lock, called: &Name| {
        lock.map_or_else(|| called.as_str() == name, |lock| known == lock)
    };
    let found = shared.desk.ask(move |leader, _| leader.control().workers_where(is_it));
    let mut found = found.await?;
    // tidy: not a table
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(last), false) => {
            found.push(last);
            let message = format!("several machines have the name {given}");
            let named = |seen: &WorkerSeen| format!("{} ({})", seen.life.lock, health(seen.health));
            let all: Vec<_> = found.iter().map(named).collect();
            let remedy = format!("name one by its lock: {}", all.join(", ")).into();
            Err(Refusal(Refused { remedy, ..Refused::new(Code::BadRequest, message) }))
        }
        (None, _) => {
            let all = workers(shared).await?;
            let near = nearest_word(given, all.iter().map(|seen| seen.name.as_str()));
            let near = near.map(|near| format!(": did you mean {near}?")).unwrap_or_default();
            let message = format!("there is no worker {given}{near}");
            let remedy = "list the workers with `sterna ls workers`".into();
            Err(Refusal(Refused { remedy, ..Refused::new(Code::NotFound, message) }))
        }
    }
}

/// All workers, ordered by name, and by lock where names are equal.
#[utoipa::path(get, operation_id = "listWorkers", path = "/v1/workers", tag = "workers", params(Listing),
    responses((status = 200, description = "A page of workers.", body = Page<WorkerView>), Refusals))]
pub(super) async fn list(
    State(shared): State<Api>,
    Query(listing): Query<Listing>,
) -> Answer<Json<Page<WorkerView>>> {
    listing.check_phase(&HEALTHS)?;
    shared.lead()?;
    let asked = shared.desk.ask(|leader, now| {
        let all = leader.control().workers().into_iter();
        all.map(|seen| Looked::at(leader, now, seen)).collect::<Vec<_>>()
    });
    let mut workers = asked.await?;
    let at = |worker: &Looked| At(worker.seen.name.clone(), worker.seen.life.lock);
    workers.sort_by_cached_key(at);
    let is_in = |worker: &Looked| listing.is_in(health(worker.seen.health));
    let all = workers.into_iter().filter(is_in);
    let all = all.map(|worker| (at(&worker), worker));
    page(&listing.paging(), all, view).map(Json)
}

/// A worker.
#[utoipa::path(get, operation_id = "getWorker", path = "/v1/workers/{name}", tag = "workers", params(("name" = String, Path)),
    responses((status = 200, description = "The worker.", body = WorkerView), Refusals))]
pub(super) async fn get(
    State(shared): State<Api>,
    Path(name): Path<String>,
) -> Answer<Json<WorkerView>> {
    let seen = find(&shared, &name).await?;
    let looked = shared.desk.ask(move |leader, now| Looked::at(leader, now, seen)).await?;
    Ok(Json(view(looked)))
}

fn forecast_of(forecast: &Forecast) -> ForecastRun {
    let Forecast { key, run, fate } = forecast;
    let (word, to, ends_first) = match fate {
        Fate::Moves { to, ends_first } => ("moves", Some(to.to_string()), *ends_first),
        Fate::Nowhere { ends_first, .. } => ("nowhere", None, *ends_first),
        Fate::Blocked { .. } => ("blocked", None, false),
        Fate::RunsOn { .. } => ("runs-on", None, false),
        Fate::Ends => ("ends", None, true),
        Fate::Ending => ("ending", None, false),
    };
    let (key, run, text) = (key.to_string(), run.to_string(), fate.to_string());
    ForecastRun { key, run, fate: word.to_owned(), to, ends_first, text }
}

/// How long a drain is to take, whose forecast is asked for.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Within {
    /// Within how many seconds; ten minutes if nothing is said.
    within_s: Option<u64>,
}

/// When a drain is over that is to take so many seconds.
fn deadline(within_s: Option<u64>) -> Answer<WallTime> {
    let within = within_s.unwrap_or(DRAIN);
    if within > DRAIN_MAX {
        let message =
            format!("a drain within {within} s: it may take {DRAIN_MAX} s (30 days) at most");
        let remedy =
            "give it less time; the worker stays without work until it is undrained".into();
        return Err(Refusal(Refused { remedy, ..Refused::new(Code::BadRequest, message) }));
    }
    Ok(wall_time().plus(Span::from_secs(within)))
}

/// Shows what a drain would do with each run of a worker, and changes nothing.
#[utoipa::path(get, operation_id = "forecastDrain", path = "/v1/workers/{name}/forecast", tag = "workers", params(("name" = String, Path), Within),
    responses((status = 200, description = "What a drain would do.", body = ForecastView), Refusals))]
pub(super) async fn forecast(
    State(shared): State<Api>,
    Path(name): Path<String>,
    Query(Within { within_s }): Query<Within>,
) -> Answer<Json<ForecastView>> {
    let deadline = deadline(within_s)?;
    let seen = find(&shared, &name).await?;
    let lock = seen.life.lock;
    let runs = shared.desk.ask(move |leader, now| leader.forecast(now, lock, deadline)).await?;
    let runs = runs.iter().map(forecast_of).collect();
    Ok(Json(ForecastView { worker: seen.name.to_string(), runs }))
}

/// Drains a worker: sends it no more work, and moves what it runs.
#[utoipa::path(post, operation_id = "drainWorker", path = "/v1/workers/{name}/drain", tag = "workers", params(("name" = String, Path)),
    request_body = DrainAsk,
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn drain(
    State(shared): State<Api>,
    Path(name): Path<String>,
    Body(DrainAsk { within_s }): Body<DrainAsk>,
) -> Answer<Json<Done>> {
    let deadline = deadline(within_s)?;
    let lock = find(&shared, &name).await?.life.lock;
    let answer = shared.desk.call(Call::Drain(lock, deadline)).await?;
    done(answer, &format!("worker {name}"))
}

/// Ends the drain of a worker, so that it takes work again.
#[utoipa::path(post, operation_id = "undrainWorker", path = "/v1/workers/{name}/undrain", tag = "workers", params(("name" = String, Path)),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn undrain(
    State(shared): State<Api>,
    Path(name): Path<String>,
) -> Answer<Json<Done>> {
    let lock = find(&shared, &name).await?.life.lock;
    let answer = shared.desk.call(Call::Undrain(lock)).await?;
    done(answer, &format!("worker {name}"))
}

/// Whether to declare dead who is heard.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Consent {
    /// Also a worker that is heard. What it runs goes on, and is begun a second time elsewhere.
    caution_though_heard: Option<bool>,
}

/// Why a worker that was named so is not simply declared dead: it is heard, so what it runs does run.
fn alive(seen: &WorkerSeen, given: &str) -> Option<Refused> {
    let said = match seen.health {
        Some(Health::New | Health::Healthy) if !seen.is_declared_dead => health(seen.health),
        // It may well be gone.
        Some(Health::New | Health::Healthy | Health::Unhealthy | Health::MustDie) | None => {
            return None;
        }
    };
    let name = &seen.name;
    let runs = match seen.runs {
        0 => "nothing".to_owned(),
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    };
    let message =
        format!("worker {name} is not dead: the server hears it ({said}), and it has {runs}");
    let remedy = format!(
        "move what it has with `sterna drain {given}`, or end the worker first; if it is dead all the \
         same: --caution-though-heard, or caution_though_heard=true"
    );
    Some(Refused { remedy: remedy.into(), ..Refused::new(Code::WrongPhase, message) })
}

/// Declares that nothing runs any more on the machine of a worker. If that is wrong, work may run twice. The
/// server refuses it while it hears the worker.
#[utoipa::path(post, operation_id = "declareWorkerDead", path = "/v1/workers/{name}/declare-dead", tag = "workers", params(("name" = String, Path), Consent),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn declare_dead(
    State(shared): State<Api>,
    Path(name): Path<String>,
    Query(consent): Query<Consent>,
) -> Answer<Json<Done>> {
    let seen = find(&shared, &name).await?;
    if !consent.caution_though_heard.unwrap_or(false)
        && let Some(refused) = alive(&seen, &name)
    {
        return Err(Refusal(refused));
    }
    let answer = shared.desk.call(Call::DeclareDead(seen.life.lock)).await?;
    done(answer, &format!("worker {name}"))
}

/// Declares, after a restore of the store, that the list of workers is complete: no other machine runs
/// anything. It holds while this server leads. If that is wrong, work may run twice.
#[utoipa::path(post, operation_id = "declareRosterComplete", path = "/v1/roster/declare-complete", tag = "workers",
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn declare_complete(State(shared): State<Api>) -> Answer<Json<Done>> {
    shared.lead()?;
    let changed = shared.desk.roster_is_complete().await?;
    Ok(Json(Done { changed, begins_again: false }))
}

/// Removes from the list a worker that is gone and can run nothing any more.
#[utoipa::path(delete, operation_id = "forgetWorker", path = "/v1/workers/{name}", tag = "workers", params(("name" = String, Path)),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn forget(
    State(shared): State<Api>,
    Path(name): Path<String>,
) -> Answer<Json<Done>> {
    let seen = find(&shared, &name).await?;
    let answer = shared.desk.call(Call::Forget(seen.life.lock)).await?;
    if let control::Answer::Conflict(_) = answer {
        return Err(Refusal(not_forgotten(&seen, &name)));
    }
    done(answer, &format!("worker {name}"))
}

/// Why a worker that was named so stays on the list, and what takes it off.
fn not_forgotten(seen: &WorkerSeen, given: &str) -> Refused {
    let name = &seen.name;
    let (message, remedy) = match seen.health {
        Some(Health::New | Health::Healthy) => (
            format!(
                "worker {name} is connected ({}), so the server does not forget it",
                health(seen.health)
            ),
            format!("`sterna drain {given}`, end the worker, then `sterna forget {given}`"),
        ),
        Some(Health::Unhealthy | Health::MustDie) | None => (
            format!("worker {name} is absent, and its work may still run there"),
            format!(
                "wait until that has certainly ended; if the machine is gone for good, \
                 `sterna declare-dead {given}`, then `sterna forget {given}`"
            ),
        ),
    };
    Refused { remedy: remedy.into(), ..Refused::new(Code::WrongPhase, message) }
}

/// All domains, ordered by name.
#[utoipa::path(get, operation_id = "listDomains", path = "/v1/domains", tag = "domains", params(Paging),
    responses((status = 200, description = "A page of domains.", body = Page<DomainView>), Refusals))]
pub(super) async fn domains(
    State(shared): State<Api>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<DomainView>>> {
    shared.lead()?;
    let (mirror, now) = (shared.mirror(), wall_time());
    let all = mirror.domains.iter().map(|(name, until)| (name.clone(), (name, until)));
    let view = |(name, until): (&Name, &Option<WallTime>)| DomainView {
        name: name.to_string(),
        is_fresh: until.is_none_or(|until| until > now),
        until: until.map(|until| until.to_string()),
    };
    page(&paging, all, view).map(Json)
}

/// Declares a domain fresh: the leader may end what its specs no longer ask for. The server deletes the
/// domain a day after its time is over.
#[utoipa::path(put, operation_id = "setDomain", path = "/v1/domains/{name}", tag = "domains", params(("name" = String, Path)),
    request_body = SetDomain,
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn set_domain(
    State(shared): State<Api>,
    Path(domain): Path<String>,
    Body(SetDomain { for_s }): Body<SetDomain>,
) -> Answer<Json<Done>> {
    let domain = name(&domain)?;
    if domain.as_str() == DEFAULT_DOMAIN {
        return Err(always_fresh());
    }
    let until = for_s.map(|seconds| wall_time().plus(Span::from_secs(seconds)));
    let answer = shared.desk.call(Call::SetDomain(domain.clone(), until)).await?;
    done(answer, &format!("domain {domain}"))
}

fn always_fresh() -> Refusal {
    let message = format!("domain {DEFAULT_DOMAIN}: it is always fresh");
    let remedy = "put the services into another domain, and name that".into();
    Refusal(Refused { remedy, ..Refused::new(Code::BadRequest, message) })
}

/// Deletes a domain, which is then stale: what its specs no longer ask for keeps running until a client ends
/// it.
#[utoipa::path(delete, operation_id = "removeDomain", path = "/v1/domains/{name}", tag = "domains", params(("name" = String, Path)),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn remove_domain(
    State(shared): State<Api>,
    Path(domain): Path<String>,
) -> Answer<Json<Done>> {
    let domain = name(&domain)?;
    if domain.as_str() == DEFAULT_DOMAIN {
        return Err(always_fresh());
    }
    let answer = shared.desk.call(Call::RemoveDomain(domain.clone())).await?;
    done(answer, &format!("domain {domain}"))
}
