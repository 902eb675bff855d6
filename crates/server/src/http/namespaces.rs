//! Namespaces: there is no record of one, it is there as long as something has a name in it.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use sterna_api::rest::{Counts, NamespaceView, Page};
use sterna_model::Namespace;

use super::{Answer, Api, Paging, described::Refusals, given::Query, page};
use crate::mirror::Mirror;

/// The namespaces that hold a service, a task or a definition, and `default`, ordered by name.
#[utoipa::path(get, operation_id = "listNamespaces", path = "/v1/namespaces", tag = "cluster", params(Paging),
    responses((status = 200, description = "A page of namespaces.", body = Page<NamespaceView>), Refusals))]
pub(super) async fn list(
    State(shared): State<Api>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<NamespaceView>>> {
    shared.lead()?;
    let mirror = shared.mirror();
    let all = counted(&mirror).into_iter().map(|(space, counts)| (space.clone(), (space, counts)));
    page(&paging, all, |(space, services)| view(&mirror, &space, services)).map(Json)
}

fn view(mirror: &Mirror, space: &Namespace, services: Counts) -> NamespaceView {
    let phases = mirror.totals.phases(Some(space));
    let tasks = phases.words().map(|(phase, count)| (phase.to_owned(), count)).collect();
    let outcomes = phases.outcomes();
    let outcomes = outcomes.map(|(outcome, count)| (outcome.to_owned(), count)).collect();
    NamespaceView { name: space.to_string(), services, tasks, outcomes }
}

/// How far the services of each are, by what is kept of each service.
fn counted(mirror: &Mirror) -> BTreeMap<Namespace, Counts> {
    let mut all = BTreeMap::from([(Namespace::default(), Counts::default())]);
    for space in mirror.totals.by_namespace.keys() {
        all.entry(space.clone()).or_default();
    }
    for key in mirror.definitions.keys() {
        all.entry(key.namespace.clone()).or_default();
    }
    for (key, record) in &mirror.services {
        let counts = all.entry(key.namespace.clone()).or_default();
        counts.services += 1;
        counts.wanted += record.spec.instances as usize;
        counts.running += mirror.count(key).running as usize;
    }
    all
}
