//! The system calls that nobody offers safely: a process made inside a cgroup, its way to its
//! command, signals as a descriptor, and how a process ended that is not our child.
//!
//! Invariant: this is the only room with `unsafe`, and each block says why it holds.
//!
//! Invariant: between clone and exec nothing is allocated, nothing of the heap is read, which is not
//! there, and only plain system calls are made.

#![expect(
    unsafe_code,
    reason = "clone3, execve, wait4, signalfd and waiting for any descriptor have no safe form"
)]

mod bare;
mod child;
mod clone;
mod exits;
mod heap;
mod letter;
mod ready;
mod signals;

pub(crate) use self::{
    bare::spawn_and_wait,
    child::{Image, Step, Streams},
    clone::{Heard, Shape, heard, spawn},
    exits::{Ended, ended, exit_of, reported},
    heap::keep_heap_to_itself,
    ready::readable,
    signals::{Signals, be_deaf, close_inherited, watch},
};

/// What the last system call said.
fn check(result: libc::c_long) -> std::io::Result<libc::c_long> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
