//! How containers end with their worker.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sterna_executor::{
    container::{Cause, How, State},
    ward::Input,
};
use sterna_model::{RunId, payload::WhenWorkerExits};

use super::{Event, driver::Driver, live::Live, replace::Search};

impl Driver {
    pub(super) fn shut_down(&mut self) {
        self.is_shutting_down = true;
        if self.options.owner.as_deref().is_some_and(is_closed) {
            // Nobody comes who could take them over.
            let lives = self.lives.values_mut();
            lives.for_each(|live| live.work.when_worker_exits = WhenWorkerExits::Stop);
        }
        let ending = self.lives.iter().filter(|(_, live)| match live.work.when_worker_exits {
            WhenWorkerExits::Stop => true,
            WhenWorkerExits::Keep => false,
        });
        let ending: Vec<RunId> = ending.map(|(run, _)| *run).collect();
        for run in ending {
            let grace = self.lives.get(&run).and_then(|live| live.work.signals.grace);
            // As much as its guardian gives it if this worker is killed, and no more.
            let within =
                grace.map_or(self.options.kill_wait, |own| own.min(self.options.kill_wait));
            self.step(run, Input::Stop(Cause::WorkerExit, How::Within(within)));
        }
        self.tell_when_shut_down();
    }

    pub(super) fn tell_when_shut_down(&mut self) {
        let is_open = |live: &Live| match (live.work.when_worker_exits, live.ward.state()) {
            (
                WhenWorkerExits::Stop,
                State::Initializing | State::Created | State::Running | State::Reserved,
            ) => true,
            (WhenWorkerExits::Stop, State::Completed | State::Gone)
            | (
                WhenWorkerExits::Keep,
                State::Reserved
                | State::Initializing
                | State::Created
                | State::Running
                | State::Completed
                | State::Gone,
            ) => false,
        };
        let is_idle = self.search.as_ref().is_none_or(Search::is_idle);
        if self.is_shutting_down && is_idle && !self.lives.values().any(is_open) {
            self.is_shutting_down = false;
            (self.listener)(Event::ShutDown);
        }
    }
}

/// Whether the other end of a pipe is closed.
fn is_closed(pipe: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && fds.iter().any(|fd| fd.revents().contains(PollFlags::HUP))
}
