//! Whether this machine can still run something: a real subprocess, asked for again and again.

use std::{
    io,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::time::timeout;

use crate::sys;

/// Does nothing, and does it well.
const PROGRAM: &str = "true";
/// Within this a process that was killed is gone, unless the machine is not well at all.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// Runs it, for so long at most.
pub(super) async fn check(within: Duration) -> Result<(), String> {
    run(Command::new(PROGRAM), within).await
}

async fn run(mut command: Command, within: Duration) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cannot run {program}: {error}"))?;
    let id = Pid::from_child(&child);
    let ended = async || -> io::Result<()> {
        let pidfd = pidfd_open(id, PidfdFlags::empty())?;
        sys::readable(pidfd)?.readable().await.map(drop)
    };
    if timeout(within, ended()).await.is_err() {
        // It may be gone already, which is as good. One that cannot be killed is not waited for.
        drop(child.kill());
        drop(timeout(GONE_WITHIN, ended()).await);
        drop(child.try_wait());
        return Err(format!("{program} has not ended within {} s", within.as_secs()));
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(error) => Err(format!("{program} cannot be waited for: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(program: &str, argument: Option<&str>, within: Duration) -> Result<(), String> {
        let mut command = Command::new(program);
        command.args(argument);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(command, within))
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_machine_that_runs_tests_can_run_a_subprocess() {
        assert_eq!(checked(PROGRAM, None, LONG), Ok(()));
    }

    #[test]
    fn what_ends_badly_late_or_never_begins_is_no_good_check() {
        let bad = checked("false", None, LONG).unwrap_err();
        assert_eq!(bad, "false ended with exit status: 1");
        let late = checked("sleep", Some("1000"), Duration::from_millis(20)).unwrap_err();
        assert_eq!(late, "sleep has not ended within 0 s");
        let absent = checked("/nowhere", None, LONG).unwrap_err();
        assert!(absent.starts_with("cannot run /nowhere: "), "{absent}");
    }
}
