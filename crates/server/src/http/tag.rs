//! What a client has read, and changes only if it is still so: `ETag` and `If-Match`.
//!
//! | what | its tag changes |
//! | --- | --- |
//! | a service | with its spec |
//! | a task | never: it names the incarnation, so that no other task of the name is meant |

use std::hash::Hasher;

use axum::{
    Json,
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, header, request::Parts};
use sterna_engine::{Leader, control::ServiceRecord};
use sterna_model::{ServiceKey, TaskKey, record::Task};

use super::{bad, refusal::Refusal};
use crate::{desk::OnlyIf, records};

/// FNV-1a: the same on every machine and in every build.
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Names the spec of a service.
pub(super) fn of_service(record: &ServiceRecord) -> String {
    let spec = record.spec.clone();
    let bare = ServiceRecord {
        spec,
        version: record.version,
        highest: 0,
        before: None,
        crashes: 0,
        taken_back: None,
    };
    let mut hash = Fnv::new();
    hash.write(&records::encode_service(&bare));
    format!("\"{:016x}\"", hash.finish())
}

/// Names a task among all that ever had its name.
fn of_task(task: &Task) -> String {
    named(&task.incarnation().to_string())
}

/// What is named by an id.
pub(super) fn named(id: &str) -> String {
    format!("\"{id}\"")
}

/// An answer with its tag.
pub(super) fn tagged(tag: String, body: impl serde::Serialize) -> Response {
    ([(header::ETAG, tag)], Json(body)).into_response()
}

/// What must be so for a change to be made.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching {
    /// One of these tags, or `*` for any.
    is: Option<Vec<String>>,
    /// Nothing of that name.
    is_new: bool,
}

impl<S: Sync> FromRequestParts<S> for Matching {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let is_new = match all(&parts.headers, &header::IF_NONE_MATCH)?.as_deref() {
            None => false,
            Some([star]) if star == "*" => true,
            Some(_) => {
                return Err(bad("If-None-Match: only * is understood: nothing of that name"));
            }
        };
        Ok(Self { is: all(&parts.headers, &header::IF_MATCH)?, is_new })
    }
}

/// The tags of a header, over all its lines.
fn all(headers: &HeaderMap, name: &header::HeaderName) -> Result<Option<Vec<String>>, Refusal> {
    let mut tags = None;
    for line in headers.get_all(name) {
        let unread = || bad(format!("{name}: it holds more than letters, digits and signs"));
        let line = line.to_str().map_err(|_| unread())?;
        let found = line.split(',').map(|tag| tag.trim().to_owned());
        tags.get_or_insert_with(Vec::new).extend(found);
    }
    Ok(tags)
}

impl Matching {
    fn holds(&self, tag: Option<&str>) -> bool {
        let is = |wanted: &String| tag.is_some_and(|tag| wanted == "*" || wanted == tag);
        self.is.as_ref().is_none_or(|tags| tags.iter().any(is)) && !(self.is_new && tag.is_some())
    }

    /// As a condition on a service.
    pub(super) fn service(self, key: ServiceKey) -> Option<OnlyIf> {
        self.on(move |leader| leader.control().service(&key).map(of_service))
    }

    /// As a condition on a task.
    pub(super) fn task(self, key: TaskKey) -> Option<OnlyIf> {
        self.on(move |leader| leader.control().task(&key).map(of_task))
    }

    /// As a condition on what has this tag; none if nothing is asked.
    fn on(self, tag: impl FnOnce(&Leader) -> Option<String> + Send + 'static) -> Option<OnlyIf> {
        if self.is.is_none() && !self.is_new {
            return None;
        }
        Some(Box::new(move |leader| self.holds(tag(leader).as_deref())))
    }
}
