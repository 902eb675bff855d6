//! The shell of the agent on every machine: guardian, containers, cgroups, output.
//!
//! | room | what it is |
//! | --- | --- |
//! | [`sink`] | where the output of runs goes |
//!
//! It does not know who asks for work, nor over what link.

pub mod sink;
