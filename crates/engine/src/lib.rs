//! The control core: decides what runs where, and what becomes of it.
//!
//! | room | what it is |
//! | --- | --- |
//! | [`auction`] | which worker gets what, or why none |
//! | `by_service` | what is kept of each service, found at once |
//! | [`control`] | what is to run, what became of it, and what must stand in the store before it is said |
//! | `diary` | what the log says of `why` |
//! | [`Leader`] | one reign: the fleet of the protocol and the control core together |
//! | [`tables`] | what is done about a container, given what the record says |
//!
//! This crate is pure: no clock, no randomness, no I/O. It does not know how a decision is stored,
//! nor how it reaches a worker.

pub mod auction;
mod by_service;
pub mod control;
mod diary;
mod leader;
mod numbered;
pub mod tables;

pub use diary::Line;
pub use leader::{Effect, Input, Leader};
