//! What people and programs say to Sterna, and what they are told, as types.
//!
//! | room | words |
//! | --- | --- |
//! | [`client`] | asks a server, one connection at a time |
//! | [`rest`] | what is asked and told over HTTP |
//! | [`spec`] | what people want, read from TOML or JSON, or everything that is wrong with it |
//!
//! Invariant: what was read is valid in every part; nobody behind this door checks it again for
//! what its text alone can tell.
//!
//! Only the client does I/O; nothing here reads a clock. It does not know what a cluster has: that something is well
//! said does not mean that it can run anywhere.

pub mod client;
pub mod rest;
mod socket;
pub mod spec;
