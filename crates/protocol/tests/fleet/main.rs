//! A whole leader with many workers that do nothing but answer: crowds, and a change of leader.

#![expect(clippy::unwrap_used, reason = "a world that cannot be made fails its test")]

mod crowd;
mod restart;
mod world;
