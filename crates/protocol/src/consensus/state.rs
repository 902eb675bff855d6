//! The leader's side: the set, and what every worker is known to hold of it.

use std::cmp::Ordering;

use sterna_model::{Incarnation, Nonce, Term};

use super::{
    Agreement, Permission, Seat, SetHash, SetId, Version,
    history::{History, Stretch},
    members::{Heard, Inside, Members, Place},
    newcomers::{NEWCOMERS_MAX, Newcomers},
    propagate::propagate,
    set_id::Token,
    verdict::{self, Others, Standing},
};

/// The worker set of one reign, as its leader keeps it.
///
/// A worker that cannot be given up yet is inside, healthy or not; one at MUST_DIE has left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consensus {
    newest: SetId,
    members: Members,
    history: History,
    newcomers: Newcomers,
    /// How many inside have not echoed anything yet.
    unheard: usize,
    /// How many inside have not been granted anything yet.
    ungranted: usize,
    /// The lowest indirect version of all inside, as of the last judgement; `None` when somebody
    /// had not been heard then, or nobody was there. It stays a lower bound until the next one:
    /// indirect versions only grow, and who joins later requires later sets.
    horizon: Option<Version>,
}

/// What an echo was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// A newer set than the worker had echoed before.
    Newer,
    /// What it had echoed before.
    Same,
    /// An older set: a heartbeat that was overtaken.
    Older,
    /// From before its joining, or from another reign: it has not read our answer yet.
    Foreign,
    /// A set that this leader has not counted, or counted otherwise: what sent it is damaged.
    NeverIssued,
    /// The worker is not in the set.
    Outside,
}

impl Consensus {
    /// The empty set of a leader that begins its reign.
    pub const fn new(term: Term, nonce: Nonce) -> Self {
        Self::starting_at(term, nonce, Version::ZERO, NEWCOMERS_MAX)
    }

    /// The same, counting from `version`, and with another number of newcomers.
    pub const fn starting_at(
        term: Term,
        nonce: Nonce,
        version: Version,
        newcomers_max: u32,
    ) -> Self {
        Self {
            newest: SetId { term, nonce, version, hash: SetHash::EMPTY },
            members: Members::EMPTY,
            history: History::EMPTY,
            newcomers: Newcomers::new(newcomers_max),
            unheard: 0,
            ungranted: 0,
            horizon: None,
        }
    }

    /// Takes a worker in, with the id that it came with, when from now on it is told the newest one:
    /// everybody waits for its echo.
    ///
    /// An incarnation joins once in a reign. One with an id of another reign was known to an
    /// earlier leader: it is awaited, not a newcomer, and never made to wait outside.
    pub fn join(&mut self, worker: &Incarnation, initial: Option<SetId>) -> Seat {
        let seat = self.members.seat(Token::of(worker), initial);
        let is_returning = initial.is_some_and(|id| !id.is_same_reign(&self.newest));
        if is_returning || self.newcomers.arrive(seat) {
            self.enter(seat);
        }
        seat
    }

    /// Takes a worker out: it is at MUST_DIE, or a later incarnation has replaced it.
    pub fn leave(&mut self, seat: Seat) {
        let Some(member) = self.members.get(seat) else { return };
        let token = member.token;
        if let Some(Inside { first, heard, is_granted }) = self.members.inside(seat).copied() {
            self.newest.version = self.newest.version.next();
            self.newest.hash.remove_token(token);
            self.unheard -= usize::from(heard.is_none());
            self.ungranted -= usize::from(!is_granted);
            if let Some(Heard { last, indirect: _ }) = heard {
                self.history.left(Stretch { first, last });
            }
        }
        self.members.vacate(seat);
    }

    /// Hears the id that came with a worker's heartbeat.
    pub fn hear(&mut self, seat: Seat, echo: Option<&SetId>) -> Echo {
        let newest = self.newest;
        let Some(inside) = self.members.inside_mut(seat) else { return Echo::Outside };
        let Some(echo) = echo else { return Echo::Foreign };
        if !echo.is_same_reign(&newest) || echo.version.is_before(inside.first) {
            return Echo::Foreign;
        }
        match echo.version.compare(newest.version) {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) if echo.hash == newest.hash => {}
            Some(Ordering::Equal | Ordering::Greater) | None => return Echo::NeverIssued,
        }
        let last = echo.version;
        let Some(heard) = &mut inside.heard else {
            inside.heard = Some(Heard { last, indirect: last });
            self.unheard -= 1;
            return Echo::Newer;
        };
        if last.is_before(heard.last) {
            return Echo::Older;
        }
        if last == heard.last {
            return Echo::Same;
        }
        *heard = Heard { last, indirect: heard.indirect.later(last) };
        Echo::Newer
    }

    /// The id for the answer to a worker's heartbeat; `None` while it is not in the set.
    pub fn answer(&self, seat: Seat) -> Option<SetId> {
        self.members.inside(seat).map(|_| self.newest)
    }

    /// Judges: finds out who requires whom, grants what can be granted, forgets what cannot matter
    /// any more, and lets those in who wait when everybody inside is agreed upon.
    ///
    /// To be called as often as health is judged. It costs a walk over all workers.
    pub fn judge(&mut self) {
        let Self { members, history, newcomers, .. } = self;
        history.prune(members);
        newcomers.prune(|seat| members.get(seat).is_some());
        let lowest = propagate(history, members);
        self.horizon = if self.unheard == 0 { lowest } else { None };
        self.grant();
        if self.ungranted == 0 {
            for seat in self.newcomers.agreed() {
                self.enter(seat);
            }
        }
    }

    /// Whether this worker may become healthy, as far as the consensus goes.
    ///
    /// To be asked until the worker has been healthy once. One that is kept from it by this alone
    /// must never be lost for it.
    pub fn permits_becoming_healthy(&self, seat: Seat) -> Permission {
        let Some(inside) = self.members.inside(seat) else {
            let is_queued = self.members.get(seat).is_some();
            let standing = if is_queued { Standing::Queued } else { Standing::Gone };
            return verdict::permission(standing, Others::Unheard);
        };
        if inside.is_granted { Permission::GrantedBefore } else { self.permission_now(inside) }
    }

    /// Whether the workers that are here agree on who they all are, by the ids that they came
    /// with. It is for a new leader's initial wait, and its answer alone does not end it.
    pub fn agreement(&self) -> Agreement {
        let inside = self.history.order().iter().filter_map(|seat| {
            self.members.get(*seat)?;
            Some((*seat, self.members.initial(*seat)))
        });
        verdict::agreement(inside, self.newest.hash)
    }

    /// The id of the set as it is.
    pub const fn newest(&self) -> &SetId {
        &self.newest
    }

    /// The version of the first set with this worker in it; `None` while it is outside.
    pub fn first(&self, seat: Seat) -> Option<Version> {
        self.members.inside(seat).map(|inside| inside.first)
    }

    /// The newest version that this worker has echoed.
    pub fn last(&self, seat: Seat) -> Option<Version> {
        self.members.inside(seat)?.heard.map(|heard| heard.last)
    }

    /// The newest version whose workers this one is known to require, as of the last judgement.
    pub fn indirect(&self, seat: Seat) -> Option<Version> {
        self.members.inside(seat)?.heard.map(|heard| heard.indirect)
    }

    /// The oldest version that anybody inside holds. Of those who left nothing from before it is kept
    /// beyond the next judgement.
    pub fn oldest(&self) -> Option<Version> {
        self.history.oldest(&self.members)
    }

    /// In how many pieces those who left are kept.
    pub fn departed(&self) -> usize {
        self.history.departed().len()
    }

    /// How many newcomers wait outside; those who left since the last judgement included.
    pub const fn waiting(&self) -> usize {
        self.newcomers.waiting()
    }

    /// What it holds on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.members.heap_bytes() + self.history.heap_bytes() + self.newcomers.heap_bytes()
    }

    fn enter(&mut self, seat: Seat) {
        let Some(member) = self.members.get_mut(seat) else { return };
        self.newest.version = self.newest.version.next();
        self.newest.hash.add_token(member.token);
        member.place =
            Place::Inside(Inside { first: self.newest.version, heard: None, is_granted: false });
        self.history.joined(seat);
        self.unheard += 1;
        self.ungranted += 1;
    }

    fn grant(&mut self) {
        if self.ungranted == 0 || self.horizon.is_none() {
            return;
        }
        for at in 0..self.history.order().len() {
            let seat = self.history.order()[at];
            let Some(inside) = self.members.inside(seat) else { continue };
            if !inside.is_granted && self.permission_now(inside).is_granted() {
                self.ungranted -= 1;
                if let Some(inside) = self.members.inside_mut(seat) {
                    inside.is_granted = true;
                }
            }
        }
    }

    fn permission_now(&self, inside: &Inside) -> Permission {
        let standing = match inside.heard {
            None => Standing::Unheard,
            Some(heard) if heard.last == self.newest.version => Standing::Newest,
            Some(_) => Standing::Behind,
        };
        let others = match self.horizon {
            _ if self.unheard > 0 => Others::Unheard,
            Some(horizon) if !horizon.is_before(inside.first) => Others::Aware,
            Some(_) | None => Others::Unaware,
        };
        verdict::permission(standing, others)
    }
}
