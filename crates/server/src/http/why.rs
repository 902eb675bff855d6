//! Why something is not as its spec wants it.

use axum::{Json, extract::State};
use sterna_api::rest::{Explained, ServiceExplained};
use sterna_engine::control::Why;
use sterna_model::{InstanceKey, ServiceKey, WorkKey};

use super::{
    Answer, Api, Paging, bad,
    described::Refusals,
    given::{Path, Query},
    not_found,
    services::{instance_key, service_key},
    task_key,
};
use crate::views;

/// So many instances are asked about in one step of the leader: it has other things to do meanwhile.
const AT_A_TIME: usize = 16;

async fn why(shared: &Api, key: WorkKey, what: &str) -> Answer<Json<Explained>> {
    shared.lead()?;
    let is_there = {
        let mirror = shared.mirror();
        match &key {
            WorkKey::Task(key) => mirror.tasks.contains_key(key),
            WorkKey::Instance(key) => mirror.instances.contains_key(key),
            WorkKey::Node(_) => false,
        }
    };
    if !is_there {
        return Err(not_found(what));
    }
    let asked = key.clone();
    let why = shared.desk.ask(move |leader, now| leader.why(now, &asked)).await?;
    Ok(Json(views::explained(&key, why.as_ref())))
}

/// Why a task is not as its spec wants it.
#[utoipa::path(get, operation_id = "explainTask", path = "/v1/namespaces/{namespace}/tasks/{name}/why", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "The explanation.", body = Explained), Refusals))]
pub(super) async fn why_task(
    State(shared): State<Api>,
    Path((space, name)): Path<(String, String)>,
) -> Answer<Json<Explained>> {
    why(&shared, task_key(&space, &name)?.into(), &format!("task {name}")).await
}

/// Why an instance is not as its spec wants it.
#[utoipa::path(get, operation_id = "explainInstance", path = "/v1/namespaces/{namespace}/services/{name}/instances/{index}/why", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), ("index" = u32, Path)),
    responses((status = 200, description = "The explanation.", body = Explained), Refusals))]
pub(super) async fn why_instance(
    State(shared): State<Api>,
    Path((space, service, index)): Path<(String, String, String)>,
) -> Answer<Json<Explained>> {
    let key = instance_key(&space, &service, &index)?;
    why(&shared, key.into(), &format!("instance {service}/{index}")).await
}

/// Why a service is not as its spec wants it: each instance that is not, ordered by index, and a count of the
/// others.
#[utoipa::path(get, operation_id = "explainService", path = "/v1/namespaces/{namespace}/services/{name}/why", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), Paging),
    responses((status = 200, description = "A page of instances that are not as their spec wants them.", body = ServiceExplained), Refusals))]
pub(super) async fn why_service(
    State(shared): State<Api>,
    Path((space, service)): Path<(String, String)>,
    Query(paging): Query<Paging>,
) -> Answer<Json<ServiceExplained>> {
    let key = service_key(&space, &service)?;
    let limit = paging.limit()?;
    let after = paging.after.as_deref().filter(|after| !after.is_empty());
    let after = after.map(str::parse::<u32>).transpose();
    let after = after.map_err(|_| bad("after: it is not what a page gave as `next`"))?;
    shared.lead()?;
    let (mut answer, asked) =
        begun(&shared, &key, after).ok_or_else(|| not_found(&format!("service {service}")))?;
    let mut page = Found::new(limit);
    for some in asked.chunks(AT_A_TIME) {
        let keys = some.to_vec();
        let whys = shared.desk.ask(move |leader, now| {
            let why = |key: InstanceKey| (leader.why(now, &key.to_work()), key);
            keys.into_iter().map(why).collect::<Vec<_>>()
        });
        for (why, key) in whys.await? {
            page.take(&key, why.as_ref());
        }
        if page.next.is_some() {
            break;
        }
    }
    page.into(&mut answer);
    Ok(Json(answer))
}

/// What is said of the service as a whole, and which of its instances are to be asked about.
fn begun(
    shared: &Api,
    key: &ServiceKey,
    after: Option<u32>,
) -> Option<(ServiceExplained, Vec<InstanceKey>)> {
    let mirror = shared.mirror();
    let service = views::service(&mirror, key);
    let all: Vec<_> = views::instances(&mirror, key).collect();
    if service.is_none() && all.is_empty() {
        return None;
    }
    let answer = ServiceExplained {
        key: key.to_string(),
        // One that was deleted wants none of what is still there.
        wanted: service.as_ref().map_or(0, |service| service.instances),
        running: service.as_ref().map_or(0, |service| service.running),
        is_updating: service.as_ref().is_some_and(|service| service.is_updating),
        is_deleted: service.is_none(),
        is_well: false,
        well: 0,
        instances: Vec::new(),
        next: None,
        taken_back: service.and_then(|service| service.taken_back),
    };
    let is_left = |key: &InstanceKey| after.is_none_or(|after| key.index > after);
    let asked = all.into_iter().map(|(key, _)| key.clone()).filter(is_left);
    Some((answer, asked.collect()))
}

/// What a page has found so far.
struct Found {
    limit: usize,
    ill: Vec<Explained>,
    /// How many are well, up to the last of those that are not; and how many after it.
    well: u32,
    well_since: u32,
    last: Option<u32>,
    next: Option<String>,
}

impl Found {
    fn new(limit: usize) -> Self {
        Self { limit, ill: Vec::new(), well: 0, well_since: 0, last: None, next: None }
    }

    fn take(&mut self, key: &InstanceKey, why: Option<&Why>) {
        if self.next.is_some() {
            return;
        }
        let Some(why) = why else {
            self.well_since += 1;
            return;
        };
        if self.ill.len() == self.limit {
            // The next page begins after the last of this one, and counts those between.
            self.next = self.last.map(|last| last.to_string());
            self.well_since = 0;
            return;
        }
        self.ill.push(views::explained(&key.to_work(), Some(why)));
        self.well += std::mem::take(&mut self.well_since);
        self.last = Some(key.index);
    }

    fn into(self, answer: &mut ServiceExplained) {
        let is_settled = !answer.is_updating && !answer.is_deleted;
        let is_complete = answer.running == answer.wanted && is_settled;
        answer.is_well = self.ill.is_empty() && is_complete;
        answer.well = self.well + self.well_since;
        answer.instances = self.ill;
        answer.next = self.next;
    }
}

#[cfg(test)]
mod tests {
    use sterna_engine::control::{Crashed, Next, Rule};
    use sterna_model::{Name, Namespace};

    use super::*;

    fn page(ill: &[u32], of: u32, limit: usize, after: Option<u32>) -> ServiceExplained {
        let key = ServiceKey { namespace: Namespace::default(), name: Name::new("web").unwrap() };
        let mut found = Found::new(limit);
        for index in after.map_or(0, |after| after + 1)..of {
            let rule = Rule::Crashed(Crashed { count: 1, end: None });
            let why = Why { rule, since: None, next: Next::WhenTold };
            found.take(&key.instance(index), ill.contains(&index).then_some(&why));
        }
        let said = serde_json::json!({
            "key": "k", "wanted": of, "running": of, "is_updating": false, "is_well": false,
            "well": 0, "instances": [],
        });
        let mut answer = serde_json::from_value(said).unwrap();
        found.into(&mut answer);
        answer
    }

    #[test]
    fn pages_tell_of_each_that_is_ill_once_and_count_each_that_is_well_once() {
        let ill = [0, 3, 4, 17, 29];
        for limit in 1..7 {
            let (mut told, mut well, mut after) = (Vec::new(), 0, None);
            loop {
                let page = page(&ill, 30, limit, after);
                assert!(!page.is_well && page.instances.len() <= limit);
                told.extend(page.instances.iter().map(|it| it.key.clone()));
                well += page.well;
                let Some(next) = page.next else { break };
                after = next.parse().ok();
            }
            let wanted = ill.map(|index| format!("default/service/web/{index}"));
            assert_eq!((told, well), (wanted.to_vec(), 25), "{limit}");
        }
    }

    #[test]
    fn a_page_that_holds_all_has_no_next_one() {
        let whole = page(&[1, 2], 5, 2, None);
        assert_eq!((whole.well, whole.next), (3, None));
        let well = page(&[], 5, 2, None);
        assert!(well.is_well && well.well == 5 && well.next.is_none());
    }
}
