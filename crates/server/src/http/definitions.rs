//! Definitions: tasks that are stored and not started. `apply` makes them.

use axum::{Json, extract::State};
use sterna_api::{
    rest::{DefinitionView, Done, Page},
    spec::of_definition,
};
use sterna_engine::control::Call;
use sterna_model::DefinitionKey;

use super::{
    Answer, Api, Named, Paging,
    described::Refusals,
    given::{Path, Query},
    name, namespace, not_found, page,
    refusal::done,
};
use crate::views;

fn key(space: &str, definition: &str) -> Answer<DefinitionKey> {
    Ok(DefinitionKey { namespace: namespace(space)?, name: name(definition)? })
}

/// All definitions of a namespace, in the order of their names.
#[utoipa::path(get, operation_id = "listDefinitions", path = "/v1/namespaces/{namespace}/definitions", tag = "definitions",
    params(("namespace" = String, Path), Paging, Named),
    responses((status = 200, description = "A page of definitions.", body = Page<DefinitionView>), Refusals))]
pub(super) async fn list(
    State(shared): State<Api>,
    Path(space): Path<String>,
    Query(paging): Query<Paging>,
    Query(named): Query<Named>,
) -> Answer<Json<Page<DefinitionView>>> {
    let space = namespace(&space)?;
    shared.lead()?;
    let mirror = shared.mirror();
    let is_asked = |key: &&DefinitionKey| key.namespace == space && named.is_asked(&key.name);
    let definitions = mirror.definitions.keys().filter(is_asked);
    let views = definitions.filter_map(|key| {
        let view = views::definition(&mirror, key)?;
        Some((view.name.clone(), view))
    });
    page(&paging, views, |view| view).map(Json)
}

/// A definition: its newest version.
#[utoipa::path(get, operation_id = "getDefinition", path = "/v1/namespaces/{namespace}/definitions/{name}", tag = "definitions",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "The definition.", body = DefinitionView), Refusals))]
pub(super) async fn get(
    State(shared): State<Api>,
    Path((space, definition)): Path<(String, String)>,
) -> Answer<Json<DefinitionView>> {
    let key = key(&space, &definition)?;
    shared.lead()?;
    let mirror = shared.mirror();
    let view = views::definition(&mirror, &key).map(|view| {
        let spec = mirror.definition(&key).map(|(_, stored)| of_definition(stored));
        DefinitionView { spec, ..view }
    });
    view.map(Json).ok_or_else(|| not_found(&format!("definition {definition}")))
}

/// Deletes a definition. Tasks that were started under its name stay as they are.
#[utoipa::path(delete, operation_id = "deleteDefinition", path = "/v1/namespaces/{namespace}/definitions/{name}", tag = "definitions",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "Done, or already so.", body = Done), Refusals))]
pub(super) async fn delete(
    State(shared): State<Api>,
    Path((space, definition)): Path<(String, String)>,
) -> Answer<Json<Done>> {
    let key = key(&space, &definition)?;
    let answer = shared.desk.call(Call::DeleteDefinition(key)).await?;
    done(answer, &format!("definition {definition}"))
}
