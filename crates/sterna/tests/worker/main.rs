//! `sterna worker`, the real program, with a leader of the test's own: the scheduler's core on a real
//! port. Everything runs as root, in cgroups of this machine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod commands;
mod contact;
mod disk;
mod ends;
mod leader;
mod left;
mod lives;
mod place;
mod proxy;
mod runs;
mod storm;
