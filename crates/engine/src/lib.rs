//! The control core: decides what runs where, and what becomes of it.
//!
//! | room | what it is |
//! | --- | --- |
//! | [`auction`] | which worker gets what, or why none |
//!
//! This crate is pure: no clock, no randomness, no I/O. It does not know how a decision is stored,
//! nor how it reaches a worker.

pub mod auction;
