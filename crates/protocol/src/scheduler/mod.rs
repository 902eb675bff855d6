//! The leader's side of all links, as a pure machine.
//!
//! ```text
//!   heartbeat.rs   who is heard, on which stream; welcome, confirmed, refused
//!   due.rs         what time alone does: judge, lose, count deadlines
//!   runs.rs        send each run once; settle it, or know that it is certainly gone
//!   objection.rs   why a run is not sent now
//!   statuses.rs    report what happened, and acknowledge when it is recorded
//!   unsure.rs      ask about runs whose sending was not answered
//!   replace.rs     who is this; the table of arrivals: who may take whose place; enrol
//!   wait.rs        for whom this leader waits
//!   interface.rs   what goes in, and what comes out
//!   peer.rs, peers.rs, index.rs, table.rs   what is known of each machine, and where it is kept
//!   keys.rs, given_up.rs   which runs a key has; which lives are over for good
//!   told.rs   of which refused workers people were told lately
//! ```
//!
//! The worker's side, in `worker`, has the first three files too.
//!
//! Invariant: a run is in the table of a machine from before it is sent until it is settled; MUST_DIE
//! takes nothing out (safety rule 9). Should two machines say that they have it, both are believed, and
//! it is settled when neither has it.
//!
//! Invariant: nothing is sent, confirmed or concluded after the lease has ended (safety rule 16).
//!
//! It does not know what work is, nor the store: what must be committed goes out as an effect, and
//! what was committed comes in as an input.

mod due;
mod given_up;
mod heartbeat;
mod index;
mod interface;
mod keys;
mod objection;
mod peer;
mod peers;
mod reach;
mod replace;
mod runs;
mod statuses;
mod table;
mod told;
mod unsure;
mod wait;

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{BootTime, Incarnation, Lock, Marks, Name, Nonce, Revision, RunId, Term};

use self::{
    given_up::GivenUp,
    keys::Keys,
    peer::Peer,
    peers::{Peers, Slot, tree_bytes},
    told::Told,
};
pub use self::{
    interface::{Alarm, Begin, Claim, Dispatch, Effect, Input, Report},
    objection::NotSent,
    reach::Reach,
    replace::{Arrival, Bump, arrival},
    runs::{GoneBy, Settlement},
};
use crate::{
    consensus::Consensus,
    health::Health,
    limits::{Book, Limits, Terms},
    message::{FromLeader, FromWorker, Mandate, Order, Saying, StreamId, VERSION},
    planted::{Mistake, is_planted},
    roster::{Doors, Origin},
};

/// All workers, as the leader sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fleet {
    mandate: Mandate,
    elected: BootTime,
    lease_until: BootTime,
    revision: Revision,
    reigns: BTreeMap<Term, (Nonce, Revision)>,
    book: Book,
    /// The highest marks that this server had seen when its reign began.
    seen: Marks,
    bump: Bump,
    /// How many machines may be on the roster, beside those that were declared dead.
    roster_max: usize,
    /// Those.
    dead: BTreeSet<Lock>,
    /// Who was refused, and told of, lately.
    told: Told,
    origin: Origin,
    /// How everybody is judged, as the book has it.
    terms: Terms,
    peers: Peers,
    /// Who holds a name.
    names: BTreeMap<Name, Slot>,
    /// Machines that get no new work and are not among the peers.
    draining: BTreeSet<Lock>,
    given_up: GivenUp,
    /// Where each run is; nearly always in one place.
    places: BTreeSet<(RunId, Slot)>,
    /// Which runs a key has.
    keys: Keys,
    consensus: Consensus,
    doors: Doors,
    /// Who was declared dead while this leader was mute.
    declared: BTreeSet<Lock>,
    /// Set when the store was found to lag: nothing is said any more.
    is_over: bool,
    judged: BootTime,
    /// When the consensus was asked last.
    agreed: BootTime,
    /// When to tick next; who is mute ticks too, and judges nobody.
    tick_at: BootTime,
}

impl Fleet {
    /// A leader that has just been elected.
    pub fn new(now: BootTime, begin: Begin) -> Self {
        let Begin { mandate, mut elected, lease_until, revision, .. } = begin;
        if is_planted(Mistake::CountsFromStart) {
            elected = BootTime::from_millis(elected.as_millis().saturating_sub(60_000));
        }
        let origin = match begin.origin {
            // Somebody was on the roster: whatever calls this store new, it is not (safety rule 21).
            Origin::Virgin
                if (!begin.roster.is_empty() || !begin.claims.is_empty())
                    && !is_planted(Mistake::StaysVirgin) =>
            {
                Origin::Continued
            }
            origin @ (Origin::Virgin | Origin::Continued | Origin::Recovered | Origin::Rebuilt) => {
                origin
            }
        };
        let mut fleet = Self {
            mandate,
            elected,
            lease_until,
            revision,
            reigns: begin.reigns,
            tick_at: now.plus(begin.book.newest().judge_every),
            terms: begin.book.terms(),
            book: begin.book,
            seen: begin.marks,
            bump: begin.bump,
            roster_max: begin.roster_max,
            dead: BTreeSet::new(),
            told: Told::EMPTY,
            origin,
            peers: Peers::EMPTY,
            names: BTreeMap::new(),
            draining: BTreeSet::new(),
            given_up: GivenUp::EMPTY,
            places: BTreeSet::new(),
            keys: Keys::EMPTY,
            consensus: Consensus::new(mandate.term, mandate.nonce),
            doors: Doors::default(),
            declared: BTreeSet::new(),
            is_over: false,
            judged: now,
            agreed: now,
        };
        for entry in begin.roster {
            let lock = entry.incarnation.lock;
            // Who was declared dead holds no name until it is heard.
            let name = Some(entry.name.clone()).filter(|_| !entry.is_declared_dead);
            if entry.is_declared_dead {
                fleet.dead.insert(lock);
            }
            let slot = fleet.peers.insert(lock, Peer::awaited(now, entry));
            fleet.names.extend(name.map(|name| (name, slot)));
        }
        for claim in begin.claims {
            fleet.presume(now, claim);
        }
        // What need not wait is open from the first moment.
        fleet.open_doors(now, &mut Vec::new());
        fleet
    }

    /// When to call [`Fleet::step`] with [`Input::Tick`].
    pub const fn deadline(&self) -> BootTime {
        self.tick_at
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order.
    ///
    /// An early or repeated tick changes nothing. After the lease has ended nothing is said or
    /// concluded; what is told then is remembered, until a renewal of the lease ends the silence.
    pub fn step(&mut self, now: BootTime, input: Input, effects: &mut Vec<Effect>) {
        let was_mute = self.is_mute(now);
        if let Input::Lease(until) = input {
            self.lease_until = self.lease_until.max(until);
        }
        if !self.is_mute(now) {
            self.excuse(now, effects);
            if was_mute {
                self.speak_again(now, effects);
            }
            return self.act(now, input, effects);
        }
        if let Input::Dispatch(runs) = input {
            let not_sent =
                |run: Dispatch| Effect::Settled(run.run, Settlement::NotSent(NotSent::NotLeading));
            return effects.extend(runs.into_iter().map(not_sent));
        }
        self.remember(now, input);
    }

    /// What a mute leader does with an input. It has nowhere to say anything: whatever follows from
    /// this, follows when it leads again.
    fn remember(&mut self, now: BootTime, input: Input) {
        match input {
            Input::Tick => self.tick_at = now.plus(self.book.newest().judge_every),
            // Said again, or asked about; and a dispatch was refused.
            Input::Frame(..) | Input::Lease(_) | Input::Dispatch(_) => {}
            Input::Closed(stream) => drop(self.close(now, stream)),
            Input::Kill(run, kill) => drop(self.note_kill(run, kill)),
            Input::Enrolled(incarnation) => drop(self.note_enrolled(incarnation)),
            Input::Struck(life) => self.be_struck(life),
            Input::Recorded(to, run, number, answer) => {
                self.note_recorded(to, run, number, answer);
            }
            Input::DeclaredDead(lock) => drop(self.declared.insert(lock)),
            Input::Draining(lock, is_draining) => self.set_draining(lock, is_draining),
            Input::Limits(limits) => self.change_limits(limits),
            Input::Revision(revision) => self.revision = self.revision.max(revision),
            Input::RosterIsComplete => self.trust_roster(),
        }
    }

    /// What was told to this leader while it was mute has its consequences now.
    fn speak_again(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        // First of all, or a mark that was set meanwhile would be taken off by what is older.
        for lock in std::mem::take(&mut self.declared) {
            self.declare_dead(now, lock, effects);
        }
        for lock in self.peers.locks() {
            self.repeat_kills(lock, effects);
            self.finish_purge(lock, effects);
        }
        self.open_doors(now, effects);
    }

    fn act(&mut self, now: BootTime, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Lease(_) => {}
            Input::Tick => self.tick(now, effects),
            Input::Frame(stream, frame) => self.receive(now, stream, frame, effects),
            Input::Closed(stream) => {
                if let Some(left) = self.close(now, stream) {
                    self.lose(left, effects);
                }
            }
            Input::Dispatch(runs) => self.dispatch(now, runs, effects),
            Input::Kill(run, kill) => self.kill(run, kill, effects),
            Input::Enrolled(incarnation) => self.be_enrolled(incarnation, effects),
            Input::Struck(life) => self.be_struck(life),
            Input::Recorded(to, run, number, answer) => {
                self.recorded(to, run, number, answer, effects);
            }
            Input::DeclaredDead(lock) => self.declare_dead(now, lock, effects),
            Input::Draining(lock, is_draining) => self.set_draining(lock, is_draining),
            Input::Limits(limits) => self.change_limits(limits),
            Input::Revision(revision) => self.revision = self.revision.max(revision),
            Input::RosterIsComplete => {
                self.trust_roster();
                self.open_doors(now, effects);
            }
        }
    }

    /// Kept for a machine that nobody knows, too: it may come, or come back.
    fn set_draining(&mut self, lock: Lock, is_draining: bool) {
        match (self.peers.get_mut(&lock), is_draining) {
            (Some(peer), true | false) => {
                peer.is_draining = is_draining;
                peer.asked_drain.take_if(|asked| *asked == is_draining);
            }
            (None, true) => drop(self.draining.insert(lock)),
            (None, false) => drop(self.draining.remove(&lock)),
        }
    }

    /// Whether this leader may neither speak nor conclude anything.
    pub fn is_mute(&self, now: BootTime) -> bool {
        self.is_over || now >= self.lease_until && !is_planted(Mistake::SpeaksWhenMute)
    }

    /// How a worker is judged; `None` if it is not the newest life under its lock.
    pub fn health(&self, worker: Incarnation) -> Option<Health> {
        let peer = self.peers.get(&worker.lock)?;
        (peer.incarnation == worker).then(|| peer.vitals.health())
    }

    /// Where a run may be running; the first of several, should more than one machine say so.
    pub fn place(&self, run: RunId) -> Option<Lock> {
        self.holders(run).find_map(|slot| Some(self.peers.at(slot)?.incarnation.lock))
    }

    /// Every machine that may have a run.
    fn holders(&self, run: RunId) -> impl Iterator<Item = Slot> {
        let places = self.places.range((run, Slot::FIRST)..);
        places.take_while(move |(other, _)| *other == run).map(|(_, slot)| *slot)
    }

    /// Everything that may be running on a machine.
    pub fn held(&self, lock: Lock) -> impl Iterator<Item = Claim> {
        self.peers.get(&lock).into_iter().flat_map(Peer::held)
    }

    /// What may start.
    pub const fn doors(&self) -> Doors {
        self.doors
    }

    /// The limits in force.
    pub const fn limits(&self) -> &Limits {
        self.book.newest()
    }

    /// The highest marks that this server has seen: to be written down beside the highest position of
    /// the store, and given to its next reign (safety rule 25).
    pub fn marks(&self) -> Marks {
        self.seen.max(self.book.marks())
    }

    /// What it holds on the heap, at most.
    pub fn heap_bytes(&self) -> usize {
        let names: usize = self.names.keys().map(|name| name.as_str().len()).sum();
        self.peers.heap_bytes()
            + self.consensus.heap_bytes()
            + names
            + tree_bytes::<Name, Slot>(self.names.len())
            + tree_bytes::<(RunId, Slot), ()>(self.places.len())
            + tree_bytes::<(u64, RunId), ()>(self.keys.len())
            + self.given_up.heap_bytes()
            + self.told.heap_bytes()
            + tree_bytes::<Lock, ()>(self.draining.len())
    }

    fn receive(
        &mut self,
        now: BootTime,
        stream: StreamId,
        frame: FromWorker,
        effects: &mut Vec<Effect>,
    ) {
        let FromWorker { version, incarnation, mandate, saying } = frame;
        let saying = match saying {
            Saying::Heartbeat(heartbeat) => {
                return self.hear(now, stream, (version, incarnation), heartbeat, effects);
            }
            // Only a heartbeat is answered in another version.
            Saying::Statuses(_) | Saying::Running(_) | Saying::Answers(_) | Saying::Noted(_)
                if version != VERSION =>
            {
                return;
            }
            Saying::Statuses(statuses) => {
                let from = (stream, incarnation, mandate);
                return self.take_statuses(from, statuses, effects);
            }
            saying @ (Saying::Running(_) | Saying::Answers(_) | Saying::Noted(_)) => saying,
        };
        // Answers count only in the association and on the stream in which the question was asked.
        let Some(peer) = self.peers.get(&incarnation.lock) else { return };
        let is_ours = mandate == Some(self.mandate)
            && peer.incarnation == incarnation
            && peer.stream() == Some(stream);
        if !is_ours {
            return;
        }
        match saying {
            Saying::Running(held) => self.learn_running(incarnation, held, effects),
            Saying::Answers(answers) => self.learn_answers(now, incarnation.lock, answers, effects),
            Saying::Noted(number) => self.learn_noted(incarnation.lock, number),
            Saying::Heartbeat(_) | Saying::Statuses(_) => {}
        }
    }

    /// Tells people of a worker that is refused, unless they were told lately.
    fn warn(&mut self, now: BootTime, of: Incarnation, alarm: Alarm, effects: &mut Vec<Effect>) {
        if self.told.tells(now, of.lock, &alarm) {
            effects.push(Effect::Alarm(of, alarm));
        }
    }

    fn send(&self, stream: StreamId, to: Incarnation, order: Order, effects: &mut Vec<Effect>) {
        let frame = FromLeader { version: VERSION, mandate: self.mandate, incarnation: to, order };
        effects.push(Effect::Send(stream, frame));
    }

    /// Sends to a worker that this leader has a stream with.
    fn send_to(&self, lock: Lock, order: Order, effects: &mut Vec<Effect>) {
        if let Some(peer) = self.peers.get(&lock)
            && let Some(stream) = peer.stream()
        {
            self.send(stream, peer.incarnation, order, effects);
        }
    }
}
