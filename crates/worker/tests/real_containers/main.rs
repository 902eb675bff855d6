//! Real processes under a real worker and its real guardian: what they do to get away, and that
//! nothing of them is left.
//!
//! Everything runs as root, in cgroups of this machine; where the machine lacks one of them, these
//! tests fail and say which.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod ends;
mod guardian;
mod limits;
mod logs;
mod orphans;
mod program;
mod refusals;
mod signals;
mod worker;
