//! What a leader and its workers say to each other, and what each may conclude from it.
//!
//! This crate is pure: no clock, no randomness, no I/O. Time, ids and messages come in as
//! arguments; what is to be done goes out as effects.

pub mod consensus;
