//! What happens next with what is not where its spec wants it.

use sterna_model::WallTime;

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is tried at this moment.
    At(WallTime),
    /// It is over at this moment, if it has not started until then.
    EndsAt(WallTime),
    /// It is over at this moment, unless its worker is heard again.
    OverAt(WallTime),
    /// It is asked to end at this moment, and has its grace.
    AskedAt(WallTime),
    /// What is being ended is killed at this moment, if it is still there.
    KilledAt(WallTime),
    /// It counts as there at this moment, if it runs until then.
    ServesAt(WallTime),
    /// It counts as a crash at this moment, if it is not ready until then.
    CountsAt(WallTime),
    /// It goes on when its worker says more.
    WhenTold,
    /// It goes on when whoever is told answers, or does not in time.
    WhenAnswered,
    /// It takes requests when its readiness probe succeeds.
    WhenReady,
    /// It goes on when more instances of the wanted version serve.
    WhenServing,
    /// It goes on when what the store has forgotten has certainly ended.
    WhenCertain,
    /// It is tried when a worker has more room, or another one comes.
    WhenThereIsRoom,
    /// It goes on when these workers are back, or somebody who must know speaks for them.
    WhenBack,
    /// It goes on when that copy is certainly gone.
    WhenGone,
    /// Nothing, until somebody changes a worker or the spec.
    WhenChanged,
    /// Nothing: it is as it stays.
    Nothing,
}

impl Next {
    /// Of work that is over at this moment, if it has not started until then.
    pub(super) fn unless_over(self, at: WallTime) -> Self {
        match self {
            Self::WhenThereIsRoom | Self::WhenChanged | Self::WhenBack | Self::WhenCertain => {
                Self::EndsAt(at)
            }
            Self::At(other) if other < at => self,
            Self::At(_) => Self::EndsAt(at),
            Self::EndsAt(other) => Self::EndsAt(at.min(other)),
            Self::OverAt(_)
            | Self::AskedAt(_)
            | Self::KilledAt(_)
            | Self::ServesAt(_)
            | Self::CountsAt(_)
            | Self::WhenTold
            | Self::WhenAnswered
            | Self::WhenReady
            | Self::WhenServing
            | Self::WhenGone
            | Self::Nothing => self,
        }
    }

    /// Of a task that is out of reach, and that a drain asks to end at this moment: one that is not heard
    /// is over then.
    pub(super) fn unless_drained(self, asked: WallTime) -> Self {
        match self {
            Self::OverAt(at) => Self::OverAt(at.min(asked)),
            Self::WhenBack => Self::OverAt(asked),
            Self::WhenChanged => Self::AskedAt(asked),
            Self::At(_)
            | Self::EndsAt(_)
            | Self::AskedAt(_)
            | Self::KilledAt(_)
            | Self::ServesAt(_)
            | Self::CountsAt(_)
            | Self::WhenTold
            | Self::WhenAnswered
            | Self::WhenReady
            | Self::WhenServing
            | Self::WhenCertain
            | Self::WhenThereIsRoom
            | Self::WhenGone
            | Self::Nothing => self,
        }
    }
}
