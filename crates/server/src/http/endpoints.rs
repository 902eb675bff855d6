//! Where the instances of a service take requests: now, or whenever that changes.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use sterna_api::rest::{EndpointView, Page};
use sterna_model::ServiceKey;
use tokio::time::Instant;

use super::{
    Answer, Api,
    chunks::{self, Chunks, News},
    described::Refusals,
    given::{Path, Query},
    not_found,
    seat::Seat,
    services::service_key,
};
use crate::{
    shared::{Lead, Shared},
    views,
};

/// How it is told.
#[derive(Clone, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Goes on with the whole list whenever it is another one, until the service is deleted: server-sent
    /// events of the kind `endpoints`.
    follow: Option<bool>,
}

/// The endpoints of a service: once, or as a stream that reports each change.
#[utoipa::path(get, operation_id = "listEndpoints", path = "/v1/namespaces/{namespace}/services/{name}/endpoints", tag = "services",
    params(("namespace" = String, Path), ("name" = String, Path), Which),
    responses((status = 200, description = "The endpoints: once, or after each change.", content((Page<EndpointView> = "application/json"), (Page<EndpointView> = "text/event-stream"))),
        Refusals))]
pub(super) async fn endpoints(
    State(shared): State<Api>,
    Path((space, service)): Path<(String, String)>,
    Query(Which { follow }): Query<Which>,
) -> Answer<Response> {
    let key = service_key(&space, &service)?;
    let reign = shared.lead()?;
    let items = ready(&shared, &key).ok_or_else(|| not_found(&format!("service {service}")))?;
    if follow != Some(true) {
        return Ok(Json(Page { items, next: None }).into_response());
    }
    let seat = Seat::take(&shared)?;
    let following = Following { shared, key, reign, told: None, is_over: false, _seat: seat };
    Ok(chunks::events(following))
}

/// Where its instances take requests; `None` if there is no such service.
fn ready(shared: &Shared, key: &ServiceKey) -> Option<Vec<EndpointView>> {
    let mirror = shared.mirror();
    mirror.services.get(key)?;
    let instances = views::instances(&mirror, key);
    let all = instances.flat_map(|(key, instance)| views::endpoints(&mirror, key, instance));
    Some(all.collect())
}

/// Somebody who follows the endpoints of a service. What is told next is found out when it is asked for: a
/// reader that stops reading holds one list, and then gets the newest.
struct Following {
    shared: Arc<Shared>,
    key: ServiceKey,
    /// The reign that tells.
    reign: Lead,
    /// What was told last.
    told: Option<Vec<EndpointView>>,
    is_over: bool,
    /// Given back with it.
    _seat: Seat,
}

impl Chunks for Following {
    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            let change = self.shared.service_changed(&self.key);
            let found = ready(&self.shared, &self.key);
            // Of a service that is deleted nothing takes requests any more, and that is the last word.
            self.is_over = found.is_none();
            let items = found.unwrap_or_default();
            if self.told.as_ref() != Some(&items) {
                let chunk = written(&items);
                self.told = Some(items);
                return Some(chunk);
            }
            if self.is_over {
                return None;
            }
            let change = async { change.await.is_ok() };
            let until = Instant::now() + chunks::BEAT;
            match chunks::news(&self.shared, &self.reign, until, change).await {
                News::Changed => {}
                News::Over => return None,
                News::Nothing => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }
}

fn written(items: &[EndpointView]) -> Bytes {
    let page = serde_json::json!({ "items": items });
    format!("event: endpoints\ndata: {page}\n\n").into()
}

#[cfg(test)]
mod tests {
    use sterna_engine::control;
    use sterna_model::Revision;

    use super::*;
    use crate::shared::{Standing, leading};

    /// As with events: the follower of a deposed leader would be told that it is still there, for ever.
    #[tokio::test]
    async fn a_follower_is_told_what_holds_and_no_more_when_the_reign_is_over() {
        let (shared, reign, _inbox) = leading();
        let text = "version = 1\n[service.web]\nrun = [\"true\"]\n";
        let specs =
            sterna_api::spec::read(&[sterna_api::spec::Source { name: "s", text }]).unwrap();
        let spec = specs.services.into_values().next().unwrap();
        let key = service_key("default", "web").unwrap();
        let record = control::ServiceRecord {
            spec,
            version: 1,
            highest: 1,
            before: None,
            crashes: 0,
            taken_back: None,
        };
        let write = control::Row::Service(key.clone(), Some(Arc::new(record)));
        shared.apply(Revision::new(1), vec![write]);
        let (seat, too) = (Seat::take(&shared).unwrap(), Arc::clone(&shared));
        let mut following =
            Following { shared: too, key, reign, told: None, is_over: false, _seat: seat };
        let first = following.chunk().await.unwrap();
        assert_eq!(&first[..], b"event: endpoints\ndata: {\"items\":[]}\n\n");
        let deposed = async {
            tokio::task::yield_now().await;
            shared.stand(Standing::Follows(None));
        };
        let (chunk, ()) = tokio::join!(following.chunk(), deposed);
        assert_eq!(chunk, None);
    }
}
