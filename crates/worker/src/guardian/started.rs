//! What the runtime of an image has made: it ends, and the command's first process falls to us.

use std::fs;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;
use sterna_executor::{
    container::Exit,
    guardian::{Input, Part},
};
use sterna_model::{BootTime, RunId, Span};

use super::{
    kept::Entry,
    runs::Driven,
    serve::{Serving, signal},
    words::RuntimeWord,
};
use crate::{clock::boot_time, sys::Ended};

/// Longer than the threads of a process take to end one after the other; shorter than it takes until
/// their numbers come again.
const KNOWN_WITHIN: Span = Span::from_secs(2);

impl Serving {
    /// A runtime has ended. What it made is the command from now on; or there is none, and it says why.
    pub(super) fn started(&mut self, run: RunId, part: Part, ended: Ended) {
        let Some(driven) = self.runs.get_mut(&run) else { return };
        let Some(proc) = driven.parts.get_mut(&part) else { return };
        let Some(word) = proc.starting.take() else { return };
        let made = if ended.exit == Exit::Code(0) { number(&word) } else { None };
        let Some(pid) = made else {
            proc.ended = Some((ended.exit, ended.cpu_us, ended.peak_bytes));
            let why = complaint(&word, ended.exit);
            return self.inputs.push_back(Input::NotExeced(run, part, why));
        };
        proc.pid = pid.as_raw_pid();
        let is_it = |(_, known): &(BootTime, Ended)| known.pid == pid.as_raw_pid();
        let at = self.strangers.iter().position(is_it);
        let taken = at.map(|at| self.strangers.swap_remove(at).1);
        // Until it is taken nobody else has its number.
        if taken.is_none()
            && let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty())
        {
            proc.pidfd = pidfd;
        }
        // What is not kept is ended by the next guardian, which does not know it then.
        drop(driven.journal.add(&Entry::Made { part: part.get(), pid: pid.as_raw_pid() }));
        self.children.insert(pid.as_raw_pid(), (run, part));
        self.inputs.push_back(Input::Execed(run, part));
        if let Some(ended) = taken {
            self.take(ended);
        } else if driven.is_stopping
            && let Some(number) = signal(driven.stop.signal)
        {
            // Whoever was asked to end meanwhile was the runtime, which does not pass it on.
            driven.signal(number, driven.stop.to);
        }
    }

    /// Somebody has ended whom nobody knows. What a runtime has made falls to us while the last of the
    /// runtime's threads ends, and so may be taken before the runtime can be.
    pub(super) fn keep_stranger(&mut self, ended: Ended) {
        let now = boot_time();
        let is_starting = |driven: &Driven| driven.parts.values().any(|it| it.starting.is_some());
        let is_awaited = self.runs.values().any(is_starting);
        self.strangers.retain(|(since, _)| is_awaited && now.since(*since) < KNOWN_WITHIN);
        if is_awaited {
            self.strangers.push((now, ended));
        }
    }
}

/// The process that a runtime has made.
fn number(word: &RuntimeWord) -> Option<Pid> {
    Pid::from_raw(fs::read_to_string(&word.pid_file).ok()?.trim().parse().ok()?)
}

#[derive(Deserialize)]
struct Line {
    level: String,
    msg: String,
}

/// Why a runtime has made nothing, for people.
fn complaint(word: &RuntimeWord, exit: Exit) -> String {
    let text = fs::read_to_string(&word.log).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let said = lines.filter(|line| line.level == "error").map(|line| line.msg).next_back();
    match (said, exit) {
        (Some(said), Exit::Code(_) | Exit::Signal(_) | Exit::OutOfMemory | Exit::Unknown) => {
            format!("the image cannot be run: {said}")
        }
        (None, Exit::Signal(number)) => {
            format!("the runtime was ended by signal {number} before the command began")
        }
        (None, Exit::Code(_) | Exit::OutOfMemory | Exit::Unknown) => {
            "the image cannot be run, and its runtime does not say why".to_owned()
        }
    }
}
