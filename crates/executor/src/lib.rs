//! One container's life, and the guardian's decisions, as pure machines.
//!
//! | room | what it is |
//! | --- | --- |
//! | [`container`] | from reservation to completion: steps, stops, and how it ended |
//! | [`guardian`] | who parents containers, and ends them when nobody else does |
//! | [`monitor`] | when to probe, and what probes mean |
//! | [`ward`] | a container as its worker has it: what the guardian tells, and what to ask of it |
//!
//! Invariant: a container is completed once, when everything of it is gone, and says how it ended.
//!
//! This crate is pure: no clock, no process, no file. It does not know what a container runs, nor
//! who asked for it.

pub mod container;
pub mod guardian;
pub mod monitor;
pub mod ward;
