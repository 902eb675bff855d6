//! What a call understands, by its own description. What it does not is refused: a condition or a filter
//! that is not heeded would do something else than was asked for.

use std::sync::Arc;

use axum::{
    extract::{Query, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{Method, header};
use sterna_model::nearest_word;
use utoipa::openapi::{
    OpenApi, RefOr,
    path::{Operation, ParameterIn},
};

use super::{Answer, bad};

/// Every call that is described.
pub(super) struct Understood(Vec<Call>);

struct Call {
    method: Method,
    /// Its path in parts, in which `{…}` stands for any.
    path: Vec<String>,
    queries: Vec<String>,
    headers: Vec<String>,
}

impl Understood {
    pub(super) fn new(described: &OpenApi) -> Arc<Self> {
        let mut calls = Vec::new();
        for (path, item) in &described.paths.paths {
            let methods = [
                (Method::GET, &item.get),
                (Method::PUT, &item.put),
                (Method::POST, &item.post),
                (Method::DELETE, &item.delete),
            ];
            let described = |(method, call): (Method, &Option<Operation>)| {
                Some(Call::new(method, path, call.as_ref()?))
            };
            calls.extend(methods.into_iter().filter_map(described));
        }
        Arc::new(Self(calls))
    }

    fn check(&self, request: &Request) -> Answer<()> {
        let method = match *request.method() {
            Method::HEAD => &Method::GET,
            _ => request.method(),
        };
        let path: Vec<_> = request.uri().path().split('/').collect();
        // What is not described is no call, or not for this method.
        let call = self.0.iter().find(|call| call.method == *method && call.is_at(&path));
        call.map_or(Ok(()), |call| call.check(request))
    }
}

impl Call {
    fn new(method: Method, path: &str, call: &Operation) -> Self {
        let path = path.split('/').map(str::to_owned).collect();
        let parameters = || {
            call.parameters.iter().flatten().filter_map(|parameter| match parameter {
                RefOr::T(parameter) => Some(parameter),
                RefOr::Ref(_) => None,
            })
        };
        let named = |place: ParameterIn| {
            let those = parameters().filter(|parameter| parameter.parameter_in == place);
            those.map(|parameter| parameter.name.clone()).collect()
        };
        Self {
            method,
            path,
            queries: named(ParameterIn::Query),
            headers: named(ParameterIn::Header),
        }
    }

    fn is_at(&self, path: &[&str]) -> bool {
        let is_same = |(ours, given): (&String, &&str)| ours.starts_with('{') || ours == given;
        self.path.len() == path.len() && self.path.iter().zip(path).all(is_same)
    }

    fn check(&self, request: &Request) -> Answer<()> {
        let Query(given) = Query::<Vec<(String, String)>>::try_from_uri(request.uri())?;
        if let Some((name, _)) = given.iter().find(|(name, _)| !self.queries.contains(name)) {
            let known = || self.queries.iter().map(String::as_str);
            // tidy: not a table
            let remedy = match (nearest_word(name, known()), self.queries.is_empty()) {
                (Some(near), _) => format!("did you mean {near}?"),
                (None, false) => format!("it knows {}", self.queries.join(", ")),
                (None, true) => "it knows none".to_owned(),
            };
            return Err(bad(format!("this call has no parameter {name:?}: {remedy}")));
        }
        // Who reads may be answered in full whatever it has read before.
        let is_read = self.method == Method::GET;
        let conditions = [
            (header::IF_MATCH, false),
            (header::IF_UNMODIFIED_SINCE, false),
            (header::IF_NONE_MATCH, is_read),
        ];
        for (name, is_harmless) in conditions {
            let is_known = self.headers.iter().any(|known| name == known.as_str());
            if !is_known && !is_harmless && request.headers().contains_key(&name) {
                return Err(bad(format!(
                    "{name}: this call heeds no such condition; leave it out"
                )));
            }
        }
        Ok(())
    }
}

/// Refuses what would not be heeded.
pub(super) async fn heed(
    State(understood): State<Arc<Understood>>,
    request: Request,
    next: Next,
) -> Response {
    match understood.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}
