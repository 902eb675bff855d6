//! The election, as a pure machine: one for each process that may lead.

use sterna_model::{BootTime, FenceCounter, Nonce, Revision, Span, Term};

use super::record::{LEASE_KEY, Lease, LeaseState, REIGN_KEY, Reign, term_key};
use crate::{Expect, Key, Write};

/// How long things may take. The same for all processes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a challenger must see the lease unchanged before it takes over.
    pub lease: Span,
    /// How long after sending one renewal the leader sends the next.
    pub renew_every: Span,
    /// How long after a failure, or a look at the lease, the next one comes.
    pub retry_every: Span,
    /// Whether no other process can be at the store as long as this one is: whoever held the lease is
    /// gone then, and nobody waits for its end.
    pub is_alone: bool,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Span::from_secs(10),
            renew_every: Span::from_secs(3),
            retry_every: Span::from_millis(500),
            is_alone: false,
        }
    }
}

impl Timing {
    /// By how much a holder counts its lease shorter than a challenger does: two seconds, and 0.2 %
    /// of the lease for clocks that run differently.
    pub const fn margin(&self) -> Span {
        Span::from_millis(2_000 + self.lease.as_millis() / 500)
    }

    /// Until when a lease holds that was sent for at `sent`, as its holder counts.
    const fn until(&self, sent: BootTime) -> BootTime {
        sent.plus(self.lease.minus(self.margin()))
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment of [`Election::deadline`] came.
    Tick,
    /// The lease was read: the record and the revision that last wrote it, if it is there.
    Seen(Option<(Lease, Revision)>),
    /// The lease could not be read.
    NotSeen,
    /// A commit came to an end.
    Answered(Attempt, Ended),
    /// This process wants to stop leading, for good.
    Resign,
}

/// What a commit of the machine was for, and when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// To begin this reign.
    Takeover(Reign, BootTime),
    /// To go on with it.
    Renewal(BootTime),
    /// To give it up.
    Resignation,
}

/// How a commit came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It applied, at this revision.
    Applied(Revision),
    /// Something was not as it expected.
    Conflict,
    /// It did not apply, and never will.
    Unavailable,
    /// It may have applied, or may yet.
    Unknown,
}

/// Something that the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read the lease, and answer with [`Input::Seen`] or [`Input::NotSeen`].
    Read,
    /// Commit this, and answer with [`Input::Answered`].
    Commit {
        /// To be handed back with the answer.
        attempt: Attempt,
        /// The condition, on the lease.
        expect: Expect,
        /// The writes.
        writes: Vec<(Key, Write)>,
    },
    /// From now on this process leads; [`Election::is_leading`] says until when.
    Elected(Reign),
    /// This process leads no more under this reign, and never will. Somebody else leads, and nothing
    /// that was fenced by it can apply any more; or the store has gone back, and whoever leads next
    /// begins another.
    Deposed(Reign),
}

/// What this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Looks on.
    Follower {
        /// The lease's revision, and when it was first seen so.
        watched: Option<(Revision, BootTime)>,
    },
    /// Has sent a takeover.
    Claiming,
    /// Leads, or did until its lease ran out unrenewed; then it is mute, and still tries to renew.
    Leader {
        reign: Reign,
        until: BootTime,
        /// The lease's revision, unless an answer about it was lost.
        known: Option<Revision>,
        /// The highest one that it had.
        highest: Revision,
    },
    /// Has resigned, and never leads again.
    Retired,
}

/// One process's part in the election.
#[derive(Debug)]
pub struct Election {
    timing: Timing,
    holder: String,
    role: Role,
    /// The last takeover whose answer was lost: it may have made us leader, or may yet.
    unanswered: Option<(Reign, BootTime)>,
    /// Whether a read or a commit is under way; there is one at a time.
    is_waiting: bool,
    is_resigning: bool,
    /// When to act next.
    next: BootTime,
}

impl Election {
    /// A process that has just started and calls itself `holder`. It knows of no reign of its own.
    pub fn new(timing: Timing, holder: impl Into<String>, now: BootTime) -> Self {
        Self {
            timing,
            holder: holder.into(),
            role: Role::Follower { watched: None },
            unanswered: None,
            is_waiting: false,
            is_resigning: false,
            next: now,
        }
    }

    /// The reign under which this process may act at `now`; `None` when it is mute or does not lead.
    pub fn is_leading(&self, now: BootTime) -> Option<Reign> {
        match self.role {
            Role::Leader { reign, until, .. } if now < until => Some(reign),
            Role::Leader { .. } | Role::Follower { .. } | Role::Claiming | Role::Retired => None,
        }
    }

    /// The reign of this process, and until when it may act under it.
    pub const fn until(&self) -> Option<(Reign, BootTime)> {
        match self.role {
            Role::Leader { reign, until, .. } => Some((reign, until)),
            Role::Follower { .. } | Role::Claiming | Role::Retired => None,
        }
    }

    /// Whether this process has resigned, and nothing more will come of it.
    pub fn has_retired(&self) -> bool {
        self.role == Role::Retired
    }

    /// When to call [`Election::step`] with [`Input::Tick`]; `None` while an answer is awaited, and
    /// after resigning.
    pub fn deadline(&self) -> Option<BootTime> {
        (!self.is_waiting && self.role != Role::Retired).then_some(self.next)
    }

    /// The counter was raised in the store; later commits are fenced by the new reign.
    pub fn raised(&mut self, raised: Reign) {
        if let Role::Leader { reign, .. } = &mut self.role
            && (reign.term, reign.nonce) == (raised.term, raised.nonce)
        {
            *reign = raised;
        }
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order. `nonce` is
    /// drawn anew for every call, and used if a reign begins.
    ///
    /// An early or repeated tick changes nothing.
    pub fn step(&mut self, now: BootTime, nonce: Nonce, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Seen(lease) => {
                self.is_waiting = false;
                self.see(now, lease, nonce, effects);
            }
            Input::NotSeen => {
                self.is_waiting = false;
                self.next = now.plus(self.timing.retry_every);
                if self.is_resigning {
                    // It is mute; a store that does not answer is not waited for.
                    self.role = Role::Retired;
                }
            }
            Input::Answered(attempt, ended) => {
                self.is_waiting = false;
                self.learn(now, attempt, ended, effects);
            }
            Input::Resign => self.resign(now),
        }
        self.act(now, effects);
    }

    /// Does what is due, if nothing is under way.
    fn act(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if self.is_waiting || now < self.next {
            return;
        }
        match self.role {
            Role::Follower { .. } | Role::Leader { known: None, .. } => {
                self.is_waiting = true;
                effects.push(Effect::Read);
            }
            Role::Leader { reign, known: Some(known), .. } => {
                let (state, attempt) = if self.is_resigning {
                    (LeaseState::Resigned, Attempt::Resignation)
                } else {
                    (LeaseState::Held, Attempt::Renewal(now))
                };
                let lease = (LEASE_KEY.into(), Write::Put(self.lease(reign, state)));
                let expect = Expect::At(known);
                self.commit(attempt, expect, vec![lease], effects);
            }
            Role::Claiming | Role::Retired => {}
        }
    }

    /// Looks at the lease, which was read after it was asked for and before `now`.
    fn see(
        &mut self,
        now: BootTime,
        lease: Option<(Lease, Revision)>,
        nonce: Nonce,
        effects: &mut Vec<Effect>,
    ) {
        self.next = now.plus(self.timing.retry_every);
        let mine = |reign: &Reign| {
            let revision = |(lease, revision): &(Lease, Revision)| {
                ((lease.term, lease.nonce) == (reign.term, reign.nonce)).then_some(*revision)
            };
            lease.as_ref().and_then(revision)
        };
        match &mut self.role {
            Role::Leader { reign, known, until, highest } => match mine(reign) {
                Some(revision) if revision >= *highest => {
                    (*known, *highest) = (Some(revision), revision);
                    self.next = now;
                }
                // One that is older than it was comes from a store that has lost something: it must
                // not go on in the same reign, by which that could be told (safety rule 25).
                Some(_) | None => {
                    let reign = *reign;
                    *until = now;
                    self.follow(now);
                    effects.push(Effect::Deposed(reign));
                }
            },
            Role::Follower { watched } => {
                if let Some((reign, sent)) = self.unanswered
                    && let Some(revision) = mine(&reign)
                {
                    self.begin(reign, sent, revision, effects);
                    self.next = now;
                    return;
                }
                match lease {
                    None => self.claim(now, Term::ZERO, nonce, Expect::Absent, effects),
                    Some((lease, revision)) => {
                        let (_, since) = *watched
                            .take_if(|(seen, _)| *seen == revision)
                            .get_or_insert((revision, now));
                        *watched = Some((revision, since));
                        let is_free = match lease.state {
                            LeaseState::Resigned => true,
                            LeaseState::Held => {
                                self.timing.is_alone || now.since(since) >= self.timing.lease
                            }
                        };
                        if is_free {
                            self.claim(now, lease.term, nonce, Expect::At(revision), effects);
                        }
                    }
                }
            }
            Role::Claiming | Role::Retired => {}
        }
    }

    /// Tries to begin the reign after `last`.
    fn claim(
        &mut self,
        now: BootTime,
        last: Term,
        nonce: Nonce,
        expect: Expect,
        effects: &mut Vec<Effect>,
    ) {
        // At the end of the counter nobody can lead any more, and nobody pretends to.
        let Some(term) = last.next() else { return };
        let reign = Reign { term, nonce, counter: FenceCounter::ZERO };
        let writes = vec![
            (LEASE_KEY.into(), Write::Put(self.lease(reign, LeaseState::Held))),
            (REIGN_KEY.into(), Write::Put(reign.to_string().into())),
            (term_key(term).into(), Write::Put(format!("{:016x}", nonce.get()).into())),
        ];
        self.role = Role::Claiming;
        self.commit(Attempt::Takeover(reign, now), expect, writes, effects);
    }

    /// Takes the answer to a commit of this machine.
    #[rustfmt::skip]
    fn learn(&mut self, now: BootTime, attempt: Attempt, ended: Ended, effects: &mut Vec<Effect>) {
        use Attempt::{Renewal, Resignation, Takeover};
        use Ended::{Applied, Conflict, Unavailable, Unknown};
        self.next = now.plus(self.timing.retry_every);
        match (attempt, ended) {
            (Takeover(reign, sent), Applied(revision)) => self.begin(reign, sent, revision, effects),
            (Takeover(..), Conflict | Unavailable)     => self.follow(now),
            // It may apply, or have applied: the lease, when read, will say so by its nonce.
            (Takeover(reign, sent), Unknown) => {
                self.follow(now);
                self.unanswered = Some((reign, sent));
            }
            (Renewal(sent), Applied(revision))         => self.renewed(sent, revision),
            // A conflict is not yet a deposition: a renewal that was Unknown may have come late.
            (Renewal(_), Conflict | Unknown)           => self.forget_revision(now),
            (Renewal(_), Unavailable)                  => {}
            // Whether it applied or not: this process is mute, and never leads again.
            (Resignation, Applied(_) | Conflict | Unavailable | Unknown) => self.role = Role::Retired,
        }
    }

    fn begin(
        &mut self,
        reign: Reign,
        sent: BootTime,
        revision: Revision,
        effects: &mut Vec<Effect>,
    ) {
        self.unanswered = None;
        let (known, highest) = (Some(revision), revision);
        if self.is_resigning {
            // It came too late: the lease is ours, but only to be given back.
            self.role = Role::Leader { reign, until: sent, known, highest };
            self.next = sent;
            return;
        }
        self.role = Role::Leader { reign, until: self.timing.until(sent), known, highest };
        self.next = sent.plus(self.timing.renew_every);
        effects.push(Effect::Elected(reign));
    }

    fn renewed(&mut self, sent: BootTime, revision: Revision) {
        if let Role::Leader { until, known, highest, .. } = &mut self.role {
            (*known, *highest) = (Some(revision), revision);
            // One that is resigning stays mute, even if a renewal comes through.
            if !self.is_resigning {
                *until = self.timing.until(sent);
                self.next = sent.plus(self.timing.renew_every);
            }
        }
    }

    const fn forget_revision(&mut self, now: BootTime) {
        if let Role::Leader { known, .. } = &mut self.role {
            *known = None;
            self.next = now;
        }
    }

    fn follow(&mut self, now: BootTime) {
        self.role =
            if self.is_resigning { Role::Retired } else { Role::Follower { watched: None } };
        self.next = now;
    }

    /// Mute first: the resignation must not reach a challenger before that.
    fn resign(&mut self, now: BootTime) {
        self.is_resigning = true;
        match &mut self.role {
            Role::Leader { until, .. } => {
                *until = now.min(*until);
                self.next = now;
            }
            Role::Follower { .. } => self.role = Role::Retired,
            // Its takeover is under way; when that has ended, so does this.
            Role::Claiming | Role::Retired => {}
        }
    }

    fn lease(&self, reign: Reign, state: LeaseState) -> bytes::Bytes {
        let Reign { term, nonce, .. } = reign;
        Lease { term, nonce, state, holder: self.holder.clone() }.to_string().into()
    }

    fn commit(
        &mut self,
        attempt: Attempt,
        expect: Expect,
        writes: Vec<(Key, Write)>,
        effects: &mut Vec<Effect>,
    ) {
        self.is_waiting = true;
        effects.push(Effect::Commit { attempt, expect, writes });
    }
}
