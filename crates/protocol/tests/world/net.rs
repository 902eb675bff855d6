//! Streams between workers and leaders.
//!
//! On a plain network the frames of a stream come in order, late perhaps, and are lost only with
//! the stream: a suffix of them. On a harsh one each is lost, doubled, late and overtaken alone.

use sterna_protocol::message::{FromLeader, FromWorker, StreamId};

use super::rng::Rng;

pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) machine: usize,
    pub(crate) leader: usize,
    up: Vec<(u64, FromWorker)>,
    down: Vec<(u64, FromLeader)>,
    /// Whether each end still reads it.
    pub(crate) is_open_below: bool,
    pub(crate) is_open_above: bool,
    /// Nothing that is sent from now on gets through.
    is_cut: bool,
    /// When each end notices that it is over.
    pub(crate) told_below: Option<u64>,
    pub(crate) told_above: Option<u64>,
    /// Nothing arrives before.
    stalled_until: u64,
    /// The worker's end gives up when it was told nothing for so long.
    pub(crate) patience: u64,
    pub(crate) heard: u64,
}

/// How the network treats frames.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Temper {
    /// In order, and at once.
    Calm,
    /// In order, some late.
    #[default]
    Plain,
    /// Each for itself.
    Harsh,
}

#[derive(Default)]
pub(crate) struct Net {
    pub(crate) streams: Vec<Stream>,
    pub(crate) temper: Temper,
    pub(crate) opened: u64,
}

impl Net {
    pub(crate) fn open(
        &mut self,
        now: u64,
        machine: usize,
        leader: usize,
        rng: &mut Rng,
    ) -> StreamId {
        self.opened += 1;
        let id = StreamId::new(self.opened);
        self.streams.push(Stream {
            id,
            machine,
            leader,
            up: Vec::new(),
            down: Vec::new(),
            is_open_below: true,
            is_open_above: true,
            is_cut: false,
            told_below: None,
            told_above: None,
            stalled_until: 0,
            patience: if rng.chance(300) { rng.between(10_000, 40_000) } else { 4_000 },
            heard: now,
        });
        id
    }

    fn find(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.id == id)
    }

    pub(crate) fn send_up(&mut self, now: u64, id: StreamId, frame: FromWorker, rng: &mut Rng) {
        let temper = self.temper;
        let Some(stream) = self.find(id).filter(|stream| !stream.is_cut) else { return };
        send(now, temper, stream.stalled_until, &mut stream.up, frame, rng);
    }

    pub(crate) fn send_down(&mut self, now: u64, id: StreamId, frame: FromLeader, rng: &mut Rng) {
        let temper = self.temper;
        let Some(stream) = self.find(id).filter(|stream| !stream.is_cut) else { return };
        send(now, temper, stream.stalled_until, &mut stream.down, frame, rng);
    }

    /// The worker's end hangs up: what it has sent may still arrive.
    pub(crate) fn close_below(&mut self, now: u64, id: StreamId, rng: &mut Rng) {
        let late = rng.between(10, 3_000);
        if let Some(stream) = self.find(id) {
            stream.is_open_below = false;
            stream.is_cut = true;
            stream.told_above.get_or_insert(now + late);
        }
    }

    pub(crate) fn close_above(&mut self, now: u64, id: StreamId, rng: &mut Rng) {
        let late = rng.between(10, 3_000);
        if let Some(stream) = self.find(id) {
            stream.is_open_above = false;
            stream.is_cut = true;
            stream.told_below.get_or_insert(now + late);
        }
    }

    /// Breaks the streams that are meant: some of what is on its way is lost.
    pub(crate) fn cut(&mut self, now: u64, rng: &mut Rng, is_meant: impl Fn(&Stream) -> bool) {
        for stream in self.streams.iter_mut().filter(|stream| is_meant(stream)) {
            stream.is_cut = true;
            let until = now + rng.below(2_000);
            stream.up.retain(|(at, _)| *at <= until);
            stream.down.retain(|(at, _)| *at <= until);
            stream.told_below.get_or_insert(until + rng.between(1, 8_000));
            stream.told_above.get_or_insert(until + rng.between(1, 20_000));
        }
    }

    /// Lets nothing through for a while, and loses nothing.
    pub(crate) fn stall(&mut self, until: u64, is_meant: impl Fn(&Stream) -> bool) {
        for stream in self.streams.iter_mut().filter(|stream| is_meant(stream)) {
            stream.stalled_until = until;
            for at in stream.up.iter_mut().map(|(at, _)| at) {
                *at = until.max(*at);
            }
            for at in stream.down.iter_mut().map(|(at, _)| at) {
                *at = until.max(*at);
            }
        }
    }

    pub(crate) fn due_up(&mut self, now: u64, leader: usize) -> Vec<(StreamId, FromWorker)> {
        let mut due = Vec::new();
        for stream in self.streams.iter_mut().filter(|stream| stream.leader == leader) {
            let frames = take_due(now, &mut stream.up);
            due.extend(frames.into_iter().map(|(at, frame)| (at, stream.id, frame)));
        }
        due.sort_by_key(|(at, ..)| *at);
        due.into_iter().map(|(_, id, frame)| (id, frame)).collect()
    }

    pub(crate) fn due_down(&mut self, now: u64, machine: usize) -> Vec<(StreamId, FromLeader)> {
        let mut due = Vec::new();
        for stream in self.streams.iter_mut().filter(|stream| stream.machine == machine) {
            let frames = take_due(now, &mut stream.down);
            if !frames.is_empty() {
                stream.heard = now;
            }
            due.extend(frames.into_iter().map(|(at, frame)| (at, stream.id, frame)));
        }
        due.sort_by_key(|(at, ..)| *at);
        due.into_iter().map(|(_, id, frame)| (id, frame)).collect()
    }

    pub(crate) fn is_open_above(&self, id: StreamId) -> bool {
        self.streams.iter().any(|stream| stream.id == id && stream.is_open_above)
    }

    pub(crate) fn is_open_below(&self, id: StreamId) -> bool {
        self.streams.iter().any(|stream| stream.id == id && stream.is_open_below)
    }

    /// Streams of which both ends know that they are over.
    pub(crate) fn forget_closed(&mut self) {
        self.streams.retain(|stream| stream.is_open_above || stream.is_open_below);
    }
}

fn send<F: Clone>(
    now: u64,
    temper: Temper,
    stalled_until: u64,
    queue: &mut Vec<(u64, F)>,
    frame: F,
    rng: &mut Rng,
) {
    let arrival = |rng: &mut Rng| {
        let delay = match (temper, rng.below(200)) {
            (Temper::Harsh, 0..6) => rng.between(2_000, 30_000),
            (Temper::Plain | Temper::Harsh, 0..8) => rng.between(300, 3_000),
            (Temper::Calm | Temper::Plain | Temper::Harsh, _) => rng.between(1, 80),
        };
        (now + delay).max(stalled_until)
    };
    if temper != Temper::Harsh {
        let after = queue.last().map_or(0, |(at, _)| *at);
        let at = arrival(rng).max(after);
        return queue.push((at, frame));
    }
    if rng.chance(80) {
        queue.push((arrival(rng), frame.clone()));
    }
    if !rng.chance(60) {
        queue.push((arrival(rng), frame));
    }
}

fn take_due<F>(now: u64, queue: &mut Vec<(u64, F)>) -> Vec<(u64, F)> {
    if queue.iter().all(|(at, _)| *at > now) {
        return Vec::new();
    }
    let (due, rest) = std::mem::take(queue).into_iter().partition(|(at, _)| *at <= now);
    *queue = rest;
    due
}
