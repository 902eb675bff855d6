//! The worker's side: it holds the newest id that it was given, and echoes it.

use std::cmp::Ordering;

use super::SetId;

/// The set id that a worker holds, and sends word for word with every heartbeat.
///
/// A new life of a worker begins with none: what an earlier life held names a set with that life
/// in it. A change of leader, however, takes nothing away: what the last leader gave is exactly
/// what the next one needs to hear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Held(Option<SetId>);

/// What a worker does with an id that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// It is newer than what is held, and replaces it.
    Takes,
    /// It is what is held, or older: an answer that was overtaken.
    Keeps,
    /// It comes from an older reign, or from another leader of the same term.
    Refuses,
}

impl Held {
    /// Takes the id of an answer, unless the worker holds a newer one.
    ///
    /// Going back to an older one would be unsafe: the leader has built on what it heard echoed.
    pub fn take(&mut self, given: SetId) -> Taking {
        let taking = match &self.0 {
            None => Taking::Takes,
            Some(held) => decide(
                given.term.cmp(&held.term),
                given.is_same_reign(held),
                given.version.compare(held.version),
            ),
        };
        match taking {
            Taking::Takes => self.0 = Some(given),
            Taking::Keeps | Taking::Refuses => {}
        }
        taking
    }

    /// What to send with the next heartbeat; `None` in a life that was not given any yet.
    pub const fn echo(&self) -> Option<SetId> {
        self.0
    }
}

/// `version` counts only when both are of one reign.
#[rustfmt::skip]
pub(super) const fn decide(
    term: Ordering,
    is_same_reign: bool,
    version: Option<Ordering>,
) -> Taking {
    use Ordering::{Equal, Greater, Less};
    match (term, is_same_reign, version) {
        // A new leader counts from the start again: its versions do not compare with the old ones.
        (Greater, true | false, None | Some(Less | Equal | Greater)) => Taking::Takes,
        (Less,    true | false, None | Some(Less | Equal | Greater)) => Taking::Refuses,
        (Equal,   false,        None | Some(Less | Equal | Greater)) => Taking::Refuses,
        (Equal,   true,         Some(Greater))                       => Taking::Takes,
        (Equal,   true,         Some(Less | Equal))                  => Taking::Keeps,
        // Half the circle away: no leader has counted that far.
        (Equal,   true,         None)                                => Taking::Refuses,
    }
}
