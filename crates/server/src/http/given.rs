//! What is given in a path or after it, read so that what cannot be read is a refusal like every other.

use axum::extract::{self, FromRequestParts};
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::refusal::Refusal;

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
