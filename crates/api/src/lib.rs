//! What people and programs say to Sterna, and what they are told, as types.
//!
//! | room | words |
//! | --- | --- |
//! | [`spec`] | what people want, read from TOML or JSON, or everything that is wrong with it |
//!
//! Invariant: what was read is valid in every part; nobody behind this door checks it again for
//! what its text alone can tell.
//!
//! It does no I/O and reads no clock. It does not know what a cluster has: that something is well
//! said does not mean that it can run anywhere.

pub mod spec;
