//! Worker-set consensus: when the workers that have come back to a new leader are all of them.
//!
//! A new leader does not know what runs where until every worker has come back. It would have to
//! wait for as long as a cut-off worker may go on. To shorten the wait, each worker holds the
//! [`SetId`] of the whole set, as the leader last told it. When all that have come back hold one
//! and the same id, and it names exactly them, then nobody is missing.
//!
//! ```text
//!       leader                                             worker
//!   Consensus ── answer: the newest SetId ───────────────► Held
//!      ▲   ▲◄──── heartbeat: the SetId that it holds ────────┘
//!      │   │
//!      │   └ join, leave, judge      by the registry, as workers come, die, and are judged
//!      └ agreement                   may the initial wait end?         after a change of leader
//!        permits_becoming_healthy    may this one begin to work?       for each new worker
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `set_id.rs` | the hash that does not care for order, versions, and the id made of both |
//! | `state.rs` | the leader's side: joining, leaving, echoes, the judgement |
//! | `members.rs`, `history.rs` | who is there; what is remembered of who was |
//! | `propagate.rs` | who requires whom, through whomever: one merged walk |
//! | `newcomers.rs` | the door that is shut when too many come in without an agreement |
//! | `verdict.rs` | the two questions, with every answer to them |
//! | `held.rs` | the worker's side: hold the newest, echo it |
//!
//! # Why it is right
//!
//! **What must not happen.** A leader falls. Some workers come back to the next one, agree on a set
//! without `w`, and their agreement is taken for the whole, while `w` still works.
//!
//! **What is done about it.** `w` begins to work only when (a) it has echoed the newest set, (b)
//! everybody inside has echoed some set, and (c) everybody inside requires `w`: names it in its set,
//! or names somebody who does, and so on.
//!
//! **Why that is enough.** Suppose they agree on version `u`, from before `w` joined. Then those who
//! agree are exactly the set of `u`, and every one of them holds `u`. Take one of them that was inside
//! when `w` was let go, call it `m`. By (b) it had echoed a version, at most `u`, since a worker never
//! goes back to an older one. By (c) a chain of echoes led from there to a version with `w` in it,
//! above `u`. Let `z` be the first on the chain whose own echo was above `u`. It was named by a set not
//! above `u`, and was still there when it echoed: so it is in the set of `u`, and agrees on `u`. But it
//! holds something newer. There is no such agreement. ∎
//!
//! Nothing in this is undone by who joins or leaves later, so what was granted stays granted.
//!
//! Invariant: `w` is in the set of version `v` exactly from its joining to its leaving, so a set is a
//! number, and its members are never listed. Versions grow by one with each change.
//!
//! Invariant: indirect versions only grow; what is forgotten of the history could not raise any.
//!
//! Invariant: workers are walked in the order of joining. The same calls give the same answers.
//!
//! # Where it ends
//!
//! The proof speaks of workers that were *inside when `w` was let go*. It says nothing of a worker
//! that had been given up and lives, nor of one that this leader never met and that holds a set of
//! an earlier one; each may come back and agree with itself. And it speaks of `w` only while `w` is
//! inside: once `w` is given up, others agree without it, whatever it still runs
//! (`tests/consensus/holes.rs`). The roster closes all three: the initial wait ends only when
//! everybody on it is back or certainly gone (safety rules 9, 19 and 20). The consensus shortens
//! the wait; the safety is the roster's.
//!
//! This room knows no clock, no health and no tasks, and it does not know what a lost worker is:
//! that is told to it by [`Consensus::leave`].

mod held;
mod history;
mod members;
mod newcomers;
mod propagate;
mod set_id;
mod state;
mod verdict;

#[cfg(test)]
mod tests;

pub use held::{Held, Taking};
pub use members::Seat;
pub use newcomers::NEWCOMERS_MAX;
pub use set_id::{SetHash, SetId, Version};
pub use state::{Consensus, Echo};
pub use verdict::{Agreement, Permission};
