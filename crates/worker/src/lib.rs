//! The shell of the agent on every machine: guardian, containers, cgroups, output.
//!
//! | room | what it is |
//! | --- | --- |
//! | [`containers`] | all containers of this worker, and the thread that drives their cores |
//! | [`guardian`] | the process that parents every container and outlives the worker |
//! | [`link`] | the stream to the leader, and what follows from what is said on it |
//! | [`interrupts`] | what a terminal or a supervisor asks by signals |
//! | [`mod@bench`] | what isolation costs, step by step |
//! | `cgroup` | groups, limits and usage, as files of version 1 and 2 |
//! | [`logs`] | what runs wrote and what was said of them, kept and read |
//! | [`machine`] | what this machine has to give, and what it lacks |
//! | [`sink`] | where the output of runs goes |
//! | [`oci`] | work in an image, and the runtime that puts it there |
//! | `stop` | what asks a run to end, as the system calls it |
//! | `sys` | the system calls that nobody offers safely |
//!
//! It does not know what else the cluster does: what is said on its link is all that it hears.

pub mod bench;
mod cgroup;
mod clock;
pub mod containers;
mod directory;
pub mod guardian;
pub mod interrupts;
pub mod link;
pub mod logs;
pub mod machine;
pub mod oci;
pub mod sink;
mod stop;
mod sys;

pub use self::{
    cgroup::{Isolation, Usage},
    containers::Containers,
    directory::{Directory, DirectoryError},
};
