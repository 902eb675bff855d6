//! Who owns the newest worker, if anybody does: whoever holds the other end of this pipe, and ends with
//! everything that it has started.

use std::os::fd::OwnedFd;

use rustix::event::epoll;
use sterna_executor::guardian::Input;

use super::serve::{Serving, Source};

/// The pipe of the newest worker's owner, and of a worker that has not been adopted yet.
#[derive(Debug, Default)]
pub(super) struct Owner {
    watched: Option<OwnedFd>,
    offered: Option<OwnedFd>,
}

impl Serving {
    /// A worker says who owns it, before it is clear whether it is heard.
    pub(super) fn offer_owner(&mut self, owner: Option<OwnedFd>) {
        self.owner.offered = owner;
    }

    /// That worker is heard from now on: its owner counts, and no earlier one does.
    pub(super) fn take_owner(&mut self) {
        self.let_go_of_owner();
        let Some(owner) = self.owner.offered.take() else { return };
        let data = epoll::EventData::new_u64(self.token(Source::Owner));
        // That the other end is closed is told without being asked for. What can never tell is no owner.
        if epoll::add(&self.epoll, &owner, data, epoll::EventFlags::empty()).is_ok() {
            self.owner.watched = Some(owner);
        } else {
            self.sources.retain(|_, source| *source != Source::Owner);
        }
    }

    /// It has ended, and would tell so again and again.
    pub(super) fn lose_owner(&mut self) {
        self.let_go_of_owner();
        self.inputs.push_back(Input::OwnerGone);
    }

    fn let_go_of_owner(&mut self) {
        self.sources.retain(|_, source| *source != Source::Owner);
        if let Some(owner) = self.owner.watched.take() {
            // Its worker has the same pipe, so that to close it would not take it out of the poll.
            let _ = epoll::delete(&self.epoll, &owner);
        }
    }
}
