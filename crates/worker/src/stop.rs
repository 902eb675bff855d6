//! What asks a run to end, as the system calls it.

use serde::{Deserialize, Serialize};
use sterna_model::payload::{ProcessGroup, Signal, Signals, To};

/// What asks a run to end, as its guardian must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StopSignal {
    pub(crate) signal: i32,
    pub(crate) to: To,
}

impl StopSignal {
    pub(crate) const fn of(signals: &Signals) -> Self {
        let to = match (signals.group, signals.to) {
            // The group is the guardian's, which must not be asked to end.
            (ProcessGroup::Shared, To::Group | To::Process) | (ProcessGroup::Own, To::Process) => {
                To::Process
            }
            (ProcessGroup::Own, To::Group) => To::Group,
            (ProcessGroup::Own | ProcessGroup::Shared, To::All) => To::All,
        };
        Self { signal: number(signals.stop), to }
    }
}

/// The number of a signal.
pub(crate) const fn number(signal: Signal) -> i32 {
    match signal {
        Signal::Term => libc::SIGTERM,
        Signal::Int => libc::SIGINT,
        Signal::Quit => libc::SIGQUIT,
        Signal::Hup => libc::SIGHUP,
        Signal::Usr1 => libc::SIGUSR1,
        Signal::Usr2 => libc::SIGUSR2,
        Signal::Kill => libc::SIGKILL,
    }
}
