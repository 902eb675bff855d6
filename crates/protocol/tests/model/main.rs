//! Every state of a very small world, driven by the same two sides as everything else.
//!
//! One leader that is followed by one other; two workers; a task, which is claimed, and a node of a
//! batch under `stop`, which is not; frames that are lost, doubled and overtaken; streams that
//! break. Time is a few moments, chosen so that each deadline falls between two of them.
//!
//! All of it is too much to be looked at: the gate looks at every short history, which is a million
//! states, and at some long ones. `STERNA_LONG=1` goes further.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[cfg(feature = "planted")]
mod planted;
mod state;

use stateright::{Checker, Model, Property};
use sterna_protocol::message::StreamId;

use state::{Frame, KEYS, Key, Left, State};

/// The time from each moment to the next: two beats; until a silent worker is given up; until it
/// has ended what it runs; until the leader counts on that.
const MOMENTS: [u64; 5] = [1_000, 1_000, 10_000, 7_000, 4_000];

struct Small {
    left: Left,
    #[cfg(feature = "planted")]
    mistake: Option<sterna_protocol::planted::Mistake>,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    /// The next moment comes.
    Pass,
    Send(Key, usize),
    Deliver(StreamId, Frame),
    /// It arrives, and will arrive again.
    Copy(StreamId, Frame),
    Lose(StreamId, Frame),
    Cut(usize),
    Dial(usize),
    Restart,
}

impl Small {
    const fn new(left: Left) -> Self {
        Self {
            left,
            #[cfg(feature = "planted")]
            mistake: None,
        }
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
        state.moment = 1;
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        if state.moment <= MOMENTS.len() {
            actions.push(Action::Pass);
        }
        for index in 0..2 {
            let is_open = state.workers[index].stream.is_some();
            if !is_open {
                actions.push(Action::Dial(index));
            } else if state.left.cuts > 0 {
                actions.push(Action::Cut(index));
            }
            if state.left.runs > 0 && state.is_fit(index) && !(index == 1 && state.is_untouched()) {
                let sendable = KEYS.into_iter().filter(|key| state.may_send(*key));
                actions.extend(sendable.map(|key| Action::Send(key, index)));
            }
        }
        if state.left.restarts > 0 {
            actions.push(Action::Restart);
        }
        for (stream, frame) in &state.net {
            actions.push(Action::Deliver(*stream, frame.clone()));
            if state.left.copies > 0 {
                actions.push(Action::Copy(*stream, frame.clone()));
            }
            if state.left.losses > 0 {
                actions.push(Action::Lose(*stream, frame.clone()));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.plant();
        let mut state = last.clone();
        let take = |state: &mut State, stream: StreamId, frame: &Frame| {
            state.net.retain(|(on, other)| !(*on == stream && other == frame));
        };
        match action {
            Action::Pass => {
                let span = MOMENTS[state.moment - 1];
                state.moment += 1;
                state.pass(span);
            }
            Action::Send(key, index) => state.send(key, index),
            Action::Deliver(stream, frame) => {
                take(&mut state, stream, &frame);
                state.deliver(stream, frame);
            }
            Action::Copy(stream, frame) => {
                state.left.copies -= 1;
                state.deliver(stream, frame);
            }
            Action::Lose(stream, frame) => {
                state.left.losses -= 1;
                take(&mut state, stream, &frame);
            }
            Action::Cut(index) => {
                state.left.cuts -= 1;
                state.cut(index);
            }
            Action::Dial(index) => state.dial(index),
            Action::Restart => {
                state.left.restarts -= 1;
                state.restart();
            }
        }
        state.sort();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("P1", |_, state: &State| state.broken != Some("P1")),
            Property::always("P2", |_, state: &State| state.broken != Some("P2")),
            Property::always("P10", |_, state: &State| state.broken != Some("P10")),
            Property::always("the store is as it was", |_, state: &State| {
                state.broken != Some("a store that lags")
            }),
            Property::sometimes("both run", |_, state: &State| state.are_both_running()),
            Property::sometimes("a key runs again", |_, state: &State| state.has_run_again()),
        ]
    }
}

/// One fault of each kind.
const EVERYTHING: Left = Left { losses: 1, copies: 1, cuts: 1, restarts: 1, runs: 3 };

const PROMISES: [&str; 4] = ["P1", "P2", "P10", "the store is as it was"];

fn is_long() -> bool {
    std::env::var_os("STERNA_LONG").is_some()
}

/// Every history of up to so many choices, with up to one fault of each kind: a million states.
#[test]
fn no_short_history_breaks_a_promise() {
    let (choices, states) = (9, 1_000_000);
    let checker = Small::new(EVERYTHING).checker().target_max_depth(choices + 1);
    // On one thread, so that every state is met first on a shortest way to it.
    let checker = checker.threads(1).spawn_bfs().join();
    println!("{} distinct states", checker.unique_state_count());
    for promise in PROMISES {
        checker.assert_no_discovery(promise);
    }
    // Else nothing happened that could have broken one.
    checker.assert_any_discovery("both run");
    checker.assert_any_discovery("a key runs again");
    assert!(checker.unique_state_count() > states);
}

/// Long histories: as many as there is time for. Under `STERNA_LONG` more than a million states.
#[test]
fn no_long_history_breaks_a_promise() {
    let (steps, states) = if is_long() { (8_000_000, 1_000_000) } else { (150_000, 10_000) };
    let checker = Small::new(EVERYTHING).checker().threads(2).target_state_count(steps);
    let checker = checker.spawn_dfs().join();
    println!("{} distinct states", checker.unique_state_count());
    for promise in PROMISES {
        checker.assert_no_discovery(promise);
    }
    assert!(checker.unique_state_count() > states);
}
