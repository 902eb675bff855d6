//! What the description of the API says of all calls, and where it is read.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Extension, response::IntoResponse};
use http::header;
use sterna_api::rest::Refused;
use utoipa::{
    IntoResponses, OpenApi,
    openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder},
};

use super::status;

/// What is said of all calls, and those that are answered beside them.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sterna",
        description = "Services and tasks on a fleet of machines: nothing runs twice, and nothing is forgotten."
    ),
    paths(status::healthz, status::readyz, read),
    components(schemas(Refused, sterna_api::rest::EventView, sterna_api::rest::LogLine)),
    modifiers(&Token)
)]
pub(super) struct Described;

/// Every call asks for a token, unless it says otherwise.
struct Token;

impl utoipa::Modify for Token {
    fn modify(&self, described: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{
            Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
        };
        let components = described.components.get_or_insert_default();
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("token", scheme);
        described.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
    }
}

/// What every call may be answered with instead.
pub(super) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let refusal = |description: &str| {
            let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("Refused")));
            let response = ResponseBuilder::new().description(description);
            RefOr::T(response.content("application/json", body.build()).build())
        };
        BTreeMap::from([
            ("4XX".to_owned(), refusal("Refused: nothing was done; `code` says why.")),
            ("5XX".to_owned(), refusal("Not available now: `remedy` says what to do.")),
        ])
    }
}

/// The description, as JSON.
#[derive(Clone)]
pub(super) struct Said(pub(super) Arc<str>);

/// The description of the API.
#[utoipa::path(get, operation_id = "getDescription", path = "/openapi.json", tag = "cluster",
    responses((status = 200, description = "The description of all calls.", content_type = "application/json", body = Object), Refusals))]
pub(super) async fn read(Extension(Said(said)): Extension<Said>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], said.to_string())
}
