//! What is given in a path, after it or as a body, read so that what cannot be read is a refusal like every
//! other.

use axum::{
    Json,
    extract::{self, FromRequest, FromRequestParts, Request, rejection::JsonRejection},
};
use bytes::Bytes;
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sterna_api::rest::{Code, Refused};

use super::{
    bad,
    refusal::{DESCRIBED, Refusal},
};

/// The parts of a path that have names.
pub(super) struct Path<T>(pub(super) T);

/// What stands behind the question mark.
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let extract::Path(given) = extract::Path::from_request_parts(parts, state).await?;
        Ok(Self(given))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let extract::Query(given) = extract::Query::from_request_parts(parts, state).await?;
        Ok(Self(given))
    }
}

/// What was sent, in JSON: always an object.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let (head, body) = request.into_parts();
        let request = Request::from_parts(head.clone(), body);
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|_| bad("the request broke off"))?;
        let request = Request::from_parts(head, body.clone().into());
        match Json::<T>::from_request(request, state).await {
            Err(rejection @ JsonRejection::MissingJsonContentType(_)) => Err(rejection.into()),
            read => {
                check_object(&body)?;
                Ok(Self(read?.0))
            }
        }
    }
}

/// Refuses what is whole and no object: an array that has its values in their order would be taken for
/// one. What is not whole is refused by who reads it, with the place.
fn check_object(body: &[u8]) -> Result<(), Refusal> {
    let what = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(_)) | Err(_) => return Ok(()),
        Ok(Value::Array(_)) => "an array",
        Ok(Value::String(_)) => "a text",
        Ok(Value::Number(_)) => "a number",
        Ok(Value::Bool(_)) => "a truth value",
        Ok(Value::Null) => "null",
    };
    let refused =
        Refused::new(Code::BadRequest, format!("the body is {what}, and must be an object"));
    Err(Refusal(Refused { remedy: DESCRIBED.into(), ..refused }))
}
