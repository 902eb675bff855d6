//! The small world as a model: what may happen in each of its states, and what must not be reached.

use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Model, Property};

use crate::{
    shared::Shared,
    state::{Frame, KEYS, Key, Left, Stalled, State},
};

/// What no state may break.
pub(crate) const PROMISES: [&str; 5] =
    ["P1", "P2", "P10", "the store is as it was", "a mute leader concludes nothing"];

/// A small world.
pub(crate) struct Small {
    left: Left,
    /// Time passes from one of these to the next.
    moments: &'static [u64],
    #[cfg(feature = "planted")]
    mistake: Option<sterna_protocol::planted::Mistake>,
    /// Of how many states everything that may happen was asked for.
    expanded: AtomicUsize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Store {
    Reached,
    /// From now on.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Up,
    Down,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Time passes, until the next moment or until something is said; the leader reaches the store
    /// meanwhile, or does not.
    Pass([Stalled; 2], Store),
    Send(Key, usize),
    /// The next frame of a stream arrives.
    Deliver(usize, Way),
    /// It arrives, and will arrive again.
    Copy(usize, Way),
    Lose(usize, Way),
    /// Others overtake it.
    SetAside(usize, Way),
    /// A frame that was set aside arrives.
    Late(Shared<Frame>),
    Cut(usize),
    Dial(usize),
    /// The leader resigns, or is found mute, and another is elected.
    Elect,
    /// The same, and the store is set back: so many of the machines are on its roster.
    Restore(usize),
    Destroy(usize),
    /// Somebody says that nothing on that machine runs any more.
    Declare(usize),
    /// Somebody says that nobody is missing from the roster.
    Complete,
}

impl Small {
    pub(crate) const fn new(left: Left, moments: &'static [u64]) -> Self {
        Self {
            left,
            moments,
            #[cfg(feature = "planted")]
            mistake: None,
            expanded: AtomicUsize::new(0),
        }
    }

    /// The same with a mistake in both sides of every link.
    #[cfg(feature = "planted")]
    pub(crate) const fn with(mut self, mistake: sterna_protocol::planted::Mistake) -> Self {
        self.mistake = Some(mistake);
        self
    }

    pub(crate) fn expanded(&self) -> usize {
        self.expanded.load(Ordering::Relaxed)
    }

    fn next_moment(&self, state: &State) -> Option<u64> {
        self.moments.iter().copied().find(|moment| *moment > state.now)
    }

    fn plant(&self) {
        #[cfg(feature = "planted")]
        sterna_protocol::planted::plant(self.mistake);
    }
}

impl Model for Small {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        self.plant();
        let mut state = State::new(self.left);
        state.seal();
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.expanded.fetch_add(1, Ordering::Relaxed);
        if state.broken.is_some() || !state.may_start_something() {
            return;
        }
        if self.next_moment(state).is_some() {
            passes(state, actions);
        }
        let indices = if state.is_lopsided { 0..2 } else { 0..1 };
        for index in indices.clone() {
            let is_destroyed = state.workers[index].is_destroyed;
            if !state.is_linked(index) && !is_destroyed {
                actions.push(Action::Dial(index));
            }
            if state.left.deaths > 0 && !is_destroyed {
                actions.push(Action::Destroy(index));
            }
            if state.may_be_declared(index) {
                actions.push(Action::Declare(index));
            }
            if state.workers[index].stream.is_some() && state.left.cuts > 0 {
                actions.push(Action::Cut(index));
            }
            if state.left.runs > 0 && state.is_fit(index) && !state.is_mute() {
                let sendable = KEYS.into_iter().filter(|key| state.may_send(*key));
                actions.extend(sendable.map(|key| Action::Send(key, index)));
            }
        }
        if !state.leader.is_cut_off || state.is_mute() {
            actions.extend((state.left.restarts > 0).then_some(Action::Elect));
            if state.left.restores > 0 {
                actions.extend((0..=2).map(Action::Restore));
            }
        }
        if state.is_roster_complete() {
            actions.push(Action::Complete);
        }
        for index in indices {
            let machine = &state.workers[index];
            for (way, queue) in [(Way::Up, &machine.up), (Way::Down, &machine.down)] {
                if queue.is_empty() {
                    continue;
                }
                actions.push(Action::Deliver(index, way));
                if state.left.copies > 0 {
                    actions.push(Action::Copy(index, way));
                }
                if state.left.losses > 0 {
                    actions.push(Action::Lose(index, way));
                }
                if state.left.overtakings > 0 {
                    actions.push(Action::SetAside(index, way));
                }
            }
        }
        actions.extend(state.late.iter().cloned().map(Action::Late));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.plant();
        let mut state = last.clone();
        match action {
            Action::Pass(stalled, store) => {
                state.leader.is_cut_off |= store == Store::Lost;
                state.left.stalls -= cost(&state, stalled);
                state.is_lopsided |= stalled[0] != stalled[1];
                let until = self.next_moment(&state)?;
                state.pass(until, stalled);
            }
            Action::Send(key, index) => {
                state.is_lopsided = true;
                state.send(key, index);
            }
            Action::Deliver(index, way) => {
                let frame = take(&mut state, index, way);
                state.deliver(&frame);
            }
            Action::Copy(index, way) => {
                state.left.copies -= 1;
                let frame = take(&mut state, index, way);
                state.late.push(frame.clone());
                state.deliver(&frame);
            }
            Action::Lose(index, way) => {
                state.left.losses -= 1;
                take(&mut state, index, way);
            }
            Action::SetAside(index, way) => {
                state.left.overtakings -= 1;
                let frame = take(&mut state, index, way);
                state.late.push(frame);
            }
            Action::Late(frame) => {
                state.late.retain(|other| *other != frame);
                state.deliver(&frame);
            }
            Action::Cut(index) => {
                state.is_lopsided = true;
                state.left.cuts -= 1;
                state.cut(index);
            }
            Action::Dial(index) => {
                state.is_lopsided = true;
                state.dial(index);
            }
            Action::Elect => {
                state.left.restarts -= 1;
                state.elect();
            }
            Action::Restore(enrolled) => {
                state.left.restores -= 1;
                state.is_lopsided |= enrolled == 1;
                state.restore(enrolled);
            }
            Action::Destroy(index) => {
                state.is_lopsided = true;
                state.left.deaths -= 1;
                state.destroy(index);
            }
            Action::Declare(index) => state.declare(index),
            Action::Complete => state.complete(),
        }
        state.seal();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("P1", |_, state: &State| state.broken != Some("P1")),
            Property::always("P2", |_, state: &State| state.broken != Some("P2")),
            Property::always("P10", |_, state: &State| state.broken != Some("P10")),
            Property::always("the store is as it was", |_, state: &State| {
                state.broken != Some("the store is as it was")
            }),
            Property::always("a mute leader concludes nothing", |_, state: &State| {
                state.broken != Some("a mute leader concludes nothing")
            }),
            Property::sometimes("two lead", |_, state: &State| state.has_two_leaders()),
            Property::sometimes("both run", |_, state: &State| state.are_both_running()),
            Property::sometimes("something runs after a restore", |_, state: &State| {
                state.has_run_after_a_restore()
            }),
            Property::sometimes("a key runs again", |_, state: &State| state.has_run_again()),
        ]
    }
}

/// Takes the next frame from a stream.
fn take(state: &mut State, index: usize, way: Way) -> Shared<Frame> {
    state.is_lopsided = true;
    match way {
        Way::Up => state.workers[index].up.remove(0),
        Way::Down => state.workers[index].down.remove(0),
    }
}

/// How many directions begin to let nothing through. A stall goes on for as long as it likes.
fn cost(state: &State, stalled: [Stalled; 2]) -> u8 {
    let begins = |index: usize| {
        let (before, now) = (state.stalled[index], stalled[index]);
        u8::from(now.up && !before.up) + u8::from(now.down && !before.down)
    };
    begins(0) + begins(1)
}

/// Time passes, and every stream lets something through or not. What is on its way is held up where
/// its direction is stalled, and arrives before time passes where it is not.
fn passes(state: &State, actions: &mut Vec<Action>) {
    let ways = |index: usize| {
        let machine = &state.workers[index];
        let (up, down) = (!machine.up.is_empty(), !machine.down.is_empty());
        let held = Stalled { up, down };
        let mut ways = vec![held];
        if state.is_linked(index) {
            let more = [(true, down), (up, true), (true, true)];
            ways.extend(more.map(|(up, down)| Stalled { up, down }));
            ways.sort();
            ways.dedup();
        }
        ways
    };
    for first in ways(0) {
        for second in ways(1) {
            // Of two that are alike the first falls silent.
            let is_mirrored = !state.is_lopsided && first < second;
            if cost(state, [first, second]) <= state.left.stalls && !is_mirrored {
                actions.push(Action::Pass([first, second], Store::Reached));
                if state.left.restarts > 0 && !state.leader.is_cut_off {
                    actions.push(Action::Pass([first, second], Store::Lost));
                }
            }
        }
    }
}
