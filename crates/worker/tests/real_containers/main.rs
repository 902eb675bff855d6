//! Real processes under a real worker and its real guardian: what they do to get away, and that
//! nothing of them is left.
//!
//! Everything runs as root, in cgroups of this machine; where the machine lacks one of them, these
//! tests fail and say which.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

/// Makes two tests of each function: of plain processes, and of processes in an image.
macro_rules! for_each_runtime {
    ($($test:ident),+ $(,)?) => {
        mod process {
            $(#[test] fn $test() { super::$test($crate::worker::Runtime::Process); })+
        }
        mod oci {
            $(#[test] fn $test() { super::$test($crate::worker::Runtime::Oci); })+
        }
    };
}

mod ends;
mod guardian;
mod images;
mod limits;
mod logs;
mod orphans;
mod probes;
mod program;
mod refusals;
mod replaced;
mod signals;
mod versions;
mod worker;
