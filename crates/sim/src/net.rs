//! Streams between workers and servers.
//!
//! On a plain network the frames of a stream come in order, late perhaps, and are lost only with the
//! stream: a suffix of them. On a harsh one each is lost, doubled, late and overtaken by itself.

use std::collections::{BTreeMap, BTreeSet};

use sterna_protocol::message::StreamId;

use crate::{clock::Moment, plan::Way, rng::Rng, world::Pid};

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Server,
    Worker,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) machine: usize,
    pub(crate) worker: Pid,
    pub(crate) server: usize,
    pub(crate) leader: Pid,
    /// Whether each end still reads it.
    pub(crate) is_open_below: bool,
    pub(crate) is_open_above: bool,
    /// Whether a frame of it was lost.
    pub(crate) is_lossy: bool,
    /// What arrives after this is lost.
    pub(crate) broken_at: Option<Moment>,
    /// When the last frame each way arrives: later ones come after it.
    last_up: Moment,
    last_down: Moment,
    /// When the worker's end was told something last.
    pub(crate) heard: Moment,
    /// The worker's end gives up when it was told nothing for so long.
    pub(crate) patience: u64,
}

/// A network in two parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    /// The machines of one part, a bit each.
    pub(crate) machines: u64,
    /// The server that is with them.
    pub(crate) server: usize,
    pub(crate) until: Moment,
}

impl Split {
    const fn is_between(&self, machine: usize, server: usize) -> bool {
        let is_in = machine < 64 && self.machines >> machine & 1 == 1;
        is_in != (server == self.server)
    }
}

#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) rng: Rng,
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    /// Until when each machine's frames are held up, up and down.
    blocked: Vec<(Moment, Moment)>,
    /// Until when these machines reach one server alone, and all others the other servers.
    split: Split,
    pub(crate) harsh_until: Moment,
    pub(crate) is_calm: bool,
    /// Machines whose frames may have overtaken each other.
    pub(crate) disordered: BTreeSet<usize>,
    opened: u64,
}

impl Net {
    pub(crate) const fn new(rng: Rng) -> Self {
        Self {
            rng,
            streams: BTreeMap::new(),
            blocked: Vec::new(),
            split: Split { machines: 0, server: 0, until: 0 },
            harsh_until: 0,
            is_calm: false,
            disordered: BTreeSet::new(),
            opened: 0,
        }
    }

    pub(crate) fn add_machine(&mut self) {
        self.blocked.push((0, 0));
    }

    pub(crate) fn open(
        &mut self,
        now: Moment,
        (machine, worker): (usize, Pid),
        (server, leader): (usize, Pid),
    ) -> StreamId {
        self.opened += 1;
        let id = StreamId::new(self.opened);
        let patience = if self.rng.chance(300) { self.rng.between(10_000, 40_000) } else { 5_000 };
        let stream = Stream {
            machine,
            worker,
            server,
            leader,
            is_open_below: true,
            is_open_above: true,
            is_lossy: false,
            broken_at: None,
            last_up: now,
            last_down: now,
            heard: now,
            patience: if self.is_calm { 5_000 } else { patience },
        };
        self.streams.insert(id, stream);
        id
    }

    /// When a frame that is sent now arrives: never, once or twice.
    pub(crate) fn arrivals(&mut self, now: Moment, id: StreamId, toward: Toward) -> Vec<Moment> {
        let is_harsh = now < self.harsh_until && !self.is_calm;
        let Some(stream) = self.streams.get_mut(&id) else { return Vec::new() };
        let (up, down) = self.blocked[stream.machine];
        let blocked = match toward {
            Toward::Server => up,
            Toward::Worker => down,
        };
        let is_between = self.split.is_between(stream.machine, stream.server);
        let blocked = if is_between { blocked.max(self.split.until) } else { blocked };
        let rng = &mut self.rng;
        let is_calm = self.is_calm;
        let mut draw = || {
            let delay = match rng.below(200) {
                0..6 if is_harsh => rng.between(2_000, 30_000),
                0..3 if !is_calm => rng.between(300, 3_000),
                _ => rng.between(1, 40),
            };
            (now + delay).max(blocked)
        };
        if is_harsh {
            let copies = match draw() % 100 {
                0..7 => 0,
                7..15 => 2,
                _ => 1,
            };
            stream.is_lossy |= copies == 0;
            self.disordered.insert(stream.machine);
            return (0..copies).map(|_| draw()).collect();
        }
        let last = match toward {
            Toward::Server => &mut stream.last_up,
            Toward::Worker => &mut stream.last_down,
        };
        *last = draw().max(*last);
        vec![*last]
    }

    /// Whether a frame that arrives now is read.
    pub(crate) fn is_read(&self, now: Moment, id: StreamId, toward: Toward) -> bool {
        self.streams.get(&id).is_some_and(|stream| {
            let is_open = match toward {
                Toward::Server => stream.is_open_above,
                Toward::Worker => stream.is_open_below,
            };
            is_open && stream.broken_at.is_none_or(|broken| now < broken)
        })
    }

    pub(crate) fn block(&mut self, machine: usize, way: Way, until: Moment) {
        let (up, down) = &mut self.blocked[machine];
        match way {
            Way::Both => (*up, *down) = (until.max(*up), until.max(*down)),
            Way::Up => *up = until.max(*up),
            Way::Down => *down = until.max(*down),
        }
    }

    /// Cuts the network in two.
    pub(crate) const fn cut_in_two(&mut self, split: Split) {
        self.split = split;
    }

    pub(crate) fn unblock_all(&mut self) {
        self.split.until = 0;
        self.blocked.iter_mut().for_each(|blocked| *blocked = (0, 0));
    }

    /// Whether a machine can reach a server.
    pub(crate) fn is_reachable(&self, now: Moment, machine: usize, server: usize) -> bool {
        let (up, down) = self.blocked[machine];
        let is_split = now < self.split.until && self.split.is_between(machine, server);
        now >= up && now >= down && !is_split
    }

    /// Streams of a machine, or of a server's process, that are not over at both ends.
    pub(crate) fn of(&self, is_meant: impl Fn(&Stream) -> bool) -> Vec<StreamId> {
        self.streams.iter().filter(|(_, stream)| is_meant(stream)).map(|(id, _)| *id).collect()
    }

    /// Forgets a stream of which both ends know that it is over.
    pub(crate) fn forget_if_over(&mut self, id: StreamId) {
        if self.streams.get(&id).is_some_and(|one| !one.is_open_above && !one.is_open_below) {
            self.streams.remove(&id);
        }
    }
}
