//! The auction as its callers see it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod fleet;
mod holes;
mod properties;
mod reasons;
mod scenarios;
mod waits;
mod zones;
