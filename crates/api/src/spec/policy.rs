//! How crashes are answered, how a new version comes about, and whom to tell of an end.

use sterna_model::{Span, quoted, record::CrashPolicy, spec::UpdatePolicy};

use super::{
    fields::{Fields, Said},
    problem::Found,
    schema::{CRASH, UPDATE},
};

/// No address that anybody uses is longer.
const CALLBACK_BYTES_MAX: usize = 2_048;

pub(super) fn crash(fields: &Fields<'_>, found: &mut Found<'_>) -> CrashPolicy {
    let mut policy = CrashPolicy::default();
    let Some(said) = fields.get("crash") else { return policy };
    let Some(fields) = said.form(&CRASH, found) else { return policy };
    if let Some(count) = fields.get("wait_from").and_then(|said| said.count(found)) {
        policy.wait_from = count;
    }
    if let Some(said) = fields.get("give_up_at") {
        let count = if said.is_never() { Some(u32::MAX) } else { said.count(found) };
        policy.give_up_at = count.unwrap_or(policy.give_up_at);
    }
    let mut span = |name| fields.get(name).and_then(|said| said.span(Span::ZERO, found));
    let (first, longest, forgiven) =
        (span("first_wait"), span("longest_wait"), span("forgiven_after"));
    policy.first_wait = first.unwrap_or(policy.first_wait);
    policy.longest_wait = longest.unwrap_or(policy.longest_wait);
    policy.forgiven_after = forgiven.unwrap_or(policy.forgiven_after);
    let at = fields.get("longest_wait").or_else(|| fields.get("first_wait"));
    if let Some(at) = at.filter(|_| policy.longest_wait < policy.first_wait) {
        let CrashPolicy { first_wait, longest_wait, .. } = policy;
        let reason = format!("the longest wait, {longest_wait}, is below the first, {first_wait}");
        at.refuse(reason, "lower first_wait or raise longest_wait", found);
    }
    policy
}

pub(super) fn update(fields: &Fields<'_>, found: &mut Found<'_>) -> UpdatePolicy {
    let mut policy = UpdatePolicy::default();
    let Some(said) = fields.get("update") else { return policy };
    let Some(fields) = said.form(&UPDATE, found) else { return policy };
    if let Some(count) = fields.get("max_unavailable").and_then(|said| said.count(found)) {
        policy.max_unavailable = count;
    }
    let healthy_for = fields.get("healthy_for").and_then(|said| said.span(Span::ZERO, found));
    policy.healthy_for = healthy_for.unwrap_or(policy.healthy_for);
    if let Some(said) = fields.get("revert_after") {
        policy.revert_after = if said.is_never() { None } else { said.count(found) };
    }
    policy
}

/// An address that can be called over HTTP.
pub(super) fn callback(said: &Said<'_>, found: &mut Found<'_>) -> Option<Box<str>> {
    const REMEDY: &str = "write such as \"https://shop.example/done\"";
    let text = said.text(found)?;
    if text.len() > CALLBACK_BYTES_MAX {
        let reason = format!("the address has {} bytes", text.len());
        said.refuse(reason, format!("write one of at most {CALLBACK_BYTES_MAX}"), found);
        return None;
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else {
        let reason = format!("{} begins with neither http:// nor https://", quoted(text));
        said.refuse(reason, REMEDY, found);
        return None;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let reason = format!("{} is no address: it lacks a host, or holds spaces", quoted(text));
        said.refuse(reason, REMEDY, found);
        return None;
    }
    Some(text.into())
}
