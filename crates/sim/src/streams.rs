//! How streams end.

use sterna_protocol::message::StreamId;

use crate::{
    plan::Way,
    world::{Event, Message, Who, World},
};

impl World {
    /// A machine's streams break: some of what is on its way is lost.
    pub(crate) fn break_streams(&mut self, machine: usize) -> bool {
        let streams = self.net.of(|stream| stream.machine == machine);
        let is_harmed = !streams.is_empty();
        for id in streams {
            let broken = self.now + self.rng.below(2_000);
            if let Some(stream) = self.net.streams.get_mut(&id) {
                stream.broken_at.get_or_insert(broken);
            }
            let (below, above) = (self.rng.between(1, 8_000), self.rng.between(1, 20_000));
            self.queue.push(broken + below, Event::ClosedBelow(id));
            self.queue.push(broken + above, Event::ClosedAbove(id));
        }
        is_harmed
    }

    /// A machine is cut off, if faults still happen.
    pub(crate) fn cut_off(&mut self, machine: usize, lasts: u64) {
        if !self.is_calm {
            self.say(|| format!("!! m{machine} is cut off again for {lasts} ms"));
            self.net.block(machine, Way::Both, self.now + lasts);
            self.break_streams(machine);
        }
    }

    /// The worker's end hangs up: what it has sent may still arrive.
    pub(crate) fn hang_up_below(&mut self, id: StreamId) {
        let told = self.now + self.rng.between(10, 3_000);
        if let Some(stream) = self.net.streams.get_mut(&id) {
            stream.is_open_below = false;
            let broken = self.now + 40;
            stream.broken_at.get_or_insert(broken);
            self.queue.push(told, Event::ClosedAbove(id));
        }
        self.net.forget_if_over(id);
    }

    /// The leader's end hangs up.
    pub(crate) fn hang_up_above(&mut self, id: StreamId) {
        let told = self.now + self.rng.between(10, 3_000);
        if let Some(stream) = self.net.streams.get_mut(&id) {
            stream.is_open_above = false;
            let broken = self.now + 40;
            stream.broken_at.get_or_insert(broken);
            self.queue.push(told, Event::ClosedBelow(id));
        }
        self.net.forget_if_over(id);
    }

    pub(crate) fn close_below(&mut self, id: StreamId) {
        let Some(stream) = self.net.streams.get_mut(&id) else { return };
        if !std::mem::replace(&mut stream.is_open_below, false) {
            return;
        }
        stream.broken_at.get_or_insert(self.now);
        let (machine, worker) = (stream.machine, stream.worker);
        self.deliver(Who::Worker(machine), worker, Message::Closed(id));
        // The other end hears of it, if it has not.
        let told = self.now + self.rng.between(10, 20_000);
        self.queue.push(told, Event::ClosedAbove(id));
        self.net.forget_if_over(id);
    }

    pub(crate) fn close_above(&mut self, id: StreamId) {
        let Some(stream) = self.net.streams.get_mut(&id) else { return };
        if !std::mem::replace(&mut stream.is_open_above, false) {
            return;
        }
        stream.broken_at.get_or_insert(self.now);
        let (server, leader) = (stream.server, stream.leader);
        self.deliver(Who::Server(server), leader, Message::Closed(id));
        self.net.forget_if_over(id);
    }

    /// The worker's end gives up a stream on which it hears nothing.
    pub(crate) fn lose_patience(&mut self, id: StreamId) {
        let Some(stream) = self.net.streams.get(&id).filter(|stream| stream.is_open_below) else {
            return;
        };
        if self.now > stream.heard + stream.patience {
            return self.close_below(id);
        }
        let at = (stream.heard + stream.patience + 1).max(self.now + 500);
        self.queue.push(at, Event::Patience(id));
    }
}
