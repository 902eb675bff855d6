//! Services, their instances, and where those take requests.

use axum::{Json, extract::State, response::Response};
use serde_json::json;
use sterna_api::{
    rest::{Code, Done, InstanceView, Page, PutService, Refused, ServiceView, phase_word},
    spec::{Source, of_service, read},
};
use sterna_engine::control::{self, Call};
use sterna_model::{
    InstanceKey, ServiceKey,
    record::{Illegal, Instance, InstancePhase},
};

use super::{
    Answer, Api, Listing, Named, Paging, bad,
    described::Refusals,
    given::{Body, Path, Query},
    name, namespace, not_found, page,
    refusal::{Refusal, changed, done},
    tag::{self, Matching, tagged},
};
use crate::views;

pub(super) fn service_key(space: &str, service: &str) -> Answer<ServiceKey> {
    Ok(ServiceKey { namespace: namespace(space)?, name: name(service)? })
}

pub(super) fn instance_key(space: &str, service: &str, index: &str) -> Answer<InstanceKey> {
    let index = index.parse().map_err(|_| bad(format!("{index:?} is no index: write a number")))?;
    Ok(service_key(space, service)?.instance(index))
}

/// All services of a namespace, ordered by name.
#[utoipa::path(get, operation_id = "listServices", path = "/v1/namespaces/{namespace}/services", tag = "services",
    params(("namespace" = String, Path), Paging, Named),
    responses((status = 200, description = "A page of services.", body = Page<ServiceView>), Refusals))]
pub(super) async fn list(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Query(paging): Query<Paging>,
    Query(named): Query<Named>,
) -> Answer<Json<Page<ServiceView>>> {
    let space = namespace(&space)?;
    shared.lead()?;
    let mirror = shared.mirror();
    let is_asked = |key: &&ServiceKey| key.namespace == space && named.is_asked(&key.name);
    let services = mirror.services.keys().filter(is_asked);
    let views = services.filter_map(|key| {
        let view = views::service(&mirror, key)?;
        Some((view.name.clone(), view))
    });
    page(&paging, views, |view| view).map(Json)
}

/// A service.
#[utoipa::path(get, operation_id = "getService", path = "/v1/namespaces/{namespace}/services/{name}", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "The service.", body = ServiceView, headers(("ETag" = String, description = "for `If-Match`"))),
        Refusals))]
pub(super) async fn get(
    State(shared): State<Api>,
    Path((space, service)): Path<(String, String)>,
) -> Answer<Response> {
    let key = service_key(&space, &service)?;
    shared.lead()?;
    view(&shared, &key).ok_or_else(|| not_found(&format!("service {service}")))
}

fn view(shared: &Api, key: &ServiceKey) -> Option<Response> {
    let mirror = shared.mirror();
    let record = mirror.services.get(key)?;
    let spec = Some(of_service(&record.spec));
    let view = ServiceView { spec, ..views::service(&mirror, key)? };
    Some(tagged(tag::of_service(record), view))
}

/// Creates a service, or changes it to this spec.
#[utoipa::path(put, operation_id = "putService", path = "/v1/namespaces/{namespace}/services/{name}", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "the `ETag` that you read: only if it is still current"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if no service has this name")),
    request_body = PutService,
    responses((status = 200, description = "The service.", body = ServiceView, headers(("ETag" = String, description = "for `If-Match`"))),
        Refusals))]
pub(super) async fn put(
    State(shared): State<Api>,
    Path((space, service)): Path<(String, String)>,
    matching: Matching,
    Body(PutService { spec }): Body<PutService>,
) -> Answer<Response> {
    let key = service_key(&space, &service)?;
    let text = json!({ "version": 1, "service": { service.as_str(): spec } }).to_string();
    let specs = read(&[Source { name: "request.json", text: &text }]);
    let specs = specs.map_err(|problems| Refusal::from(&problems))?;
    let spec = specs.services.into_values().next();
    let spec = spec.ok_or_else(|| bad("the spec holds no service"))?;
    let only_if = matching.service(key.clone());
    let answer = shared.desk.call_if(only_if, Call::PutService(key.clone(), spec)).await?;
    changed(answer, &format!("service {service}"))?;
    // Somebody may have deleted it since.
    view(&shared, &key).ok_or_else(|| not_found(&format!("service {service}")))
}

/// Deletes a service and ends all its instances.
#[utoipa::path(delete, operation_id = "deleteService", path = "/v1/namespaces/{namespace}/services/{name}", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "the `ETag` that you read: only if it is still current")),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn delete(
    State(shared): State<Api>,
    Path((space, service)): Path<(String, String)>,
    matching: Matching,
) -> Answer<Json<Done>> {
    let key = service_key(&space, &service)?;
    let only_if = matching.service(key.clone());
    let answer = shared.desk.call_if(only_if, Call::DeleteService(key)).await?;
    done(answer, &format!("service {service}"))
}

/// The instances of a service, ordered by index.
#[utoipa::path(get, operation_id = "listInstancesOfService", path = "/v1/namespaces/{namespace}/services/{name}/instances", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), Listing),
    responses((status = 200, description = "A page of instances.", body = Page<InstanceView>), Refusals))]
pub(super) async fn instances(
    State(shared): State<Api>,
    Path((space, service)): Path<(String, String)>,
    Query(listing): Query<Listing>,
) -> Answer<Json<Page<InstanceView>>> {
    let key = service_key(&space, &service)?;
    listing.check_phase(&InstancePhase::ALL.map(InstancePhase::as_str))?;
    shared.lead()?;
    let mirror = shared.mirror();
    let mut all = views::instances(&mirror, &key).peekable();
    if all.peek().is_none() && !mirror.services.contains_key(&key) {
        return Err(not_found(&format!("service {service}")));
    }
    let is_in = |(_, instance): &(_, &Instance)| listing.is_in(instance.phase().as_str());
    let all = all.filter(is_in).map(|(key, instance)| (key.index, (key, instance)));
    let view = |(key, instance): (&InstanceKey, &Instance)| views::instance(&mirror, key, instance);
    page(&listing.paging(), all, view).map(Json)
}

/// The instances of all services of a namespace, ordered by key, including those of deleted services that are
/// still ending.
#[utoipa::path(get, operation_id = "listInstances", path = "/v1/namespaces/{namespace}/instances", tag = "services",
    params(("namespace" = String, Path), Listing),
    responses((status = 200, description = "A page of instances.", body = Page<InstanceView>), Refusals))]
pub(super) async fn all_instances(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Query(listing): Query<Listing>,
) -> Answer<Json<Page<InstanceView>>> {
    let space = namespace(&space)?;
    listing.check_phase(&InstancePhase::ALL.map(InstancePhase::as_str))?;
    shared.lead()?;
    let mirror = shared.mirror();
    let all = mirror.instances.iter().filter(|(key, instance)| {
        key.service.namespace == space && listing.is_in(instance.phase().as_str())
    });
    let all = all.map(|(key, instance)| (key.clone(), (key, instance)));
    let view = |(key, instance): (&InstanceKey, &Instance)| views::instance(&mirror, key, instance);
    page(&listing.paging(), all, view).map(Json)
}

/// One instance.
#[utoipa::path(get, operation_id = "getInstance", path = "/v1/namespaces/{namespace}/services/{name}/instances/{index}", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), ("index" = u32, Path)),
    responses((status = 200, description = "The instance.", body = InstanceView), Refusals))]
pub(super) async fn instance(
    State(shared): State<Api>,
    Path((space, service, index)): Path<(String, String, String)>,
) -> Answer<Json<InstanceView>> {
    let key = instance_key(&space, &service, &index)?;
    shared.lead()?;
    let mirror = shared.mirror();
    let instance = mirror.instances.get(&key);
    let view = instance.map(|instance| views::instance(&mirror, &key, instance));
    view.map(Json).ok_or_else(|| not_found(&format!("instance {service}/{index}")))
}

/// Restarts an instance gracefully. If it had crashed and waits, or the leader gave it up, it restarts at once
/// and the answer has `begins_again`.
#[utoipa::path(post, operation_id = "stopInstance", path = "/v1/namespaces/{namespace}/services/{name}/instances/{index}/stop", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), ("index" = u32, Path)),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn stop(
    State(shared): State<Api>,
    Path((space, service, index)): Path<(String, String, String)>,
) -> Answer<Json<Done>> {
    let key = instance_key(&space, &service, &index)?;
    let answer = shared.desk.call(Call::StopInstance(key)).await?;
    if let control::Answer::Conflict(Illegal { phase, .. }) = answer {
        let message =
            format!("instance {service}/{index} is {}: it has no run to stop", phase_word(phase));
        let remedy = format!("see what it waits for with `sterna why {service}/{index}`").into();
        return Err(Refusal(Refused { remedy, ..Refused::new(Code::WrongPhase, message) }));
    }
    done(answer, &format!("instance {service}/{index}"))
}

/// Kills an instance at once. It restarts, and this does not count as a crash.
#[utoipa::path(post, operation_id = "killInstance", path = "/v1/namespaces/{namespace}/services/{name}/instances/{index}/kill", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), ("index" = u32, Path)),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn kill(
    State(shared): State<Api>,
    Path((space, service, index)): Path<(String, String, String)>,
) -> Answer<Json<Done>> {
    let key = instance_key(&space, &service, &index)?;
    let answer = shared.desk.call(Call::Kill(key.into())).await?;
    done(answer, &format!("instance {service}/{index}"))
}
