//! The table of arrivals: whether a worker is whom we know, and who may take whose place.

use sterna_model::Succession;

use crate::health::Health;

/// Whether a worker of another machine may take the name of one that is merely not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bump {
    /// Only of one that was given up.
    Forbidden,
    /// Also of one that is new or unhealthy (`caution_allow_bump_unhealthy`).
    Allowed,
}

/// What a heartbeat's sender is to the worker that holds its name, or its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The same life: go on.
    Known,
    /// The same life, which was given up: it is told so again.
    GivenUp,
    /// A later life under the same lock, which proves the earlier one over.
    Reborn,
    /// An earlier life under the same lock: a heartbeat that was overtaken, and no word.
    Stale,
    /// A worker of another machine, to whom the name goes. Nothing of the old one is forgotten
    /// until it is certainly gone (safety rule 9).
    TakesName,
    /// The same, and the old one is told to give up.
    BumpsOld,
    /// A worker of another machine that must ask again later.
    NameTaken,
}

/// Decides by how the newcomer's life stands to the holder's, and how the holder is.
#[rustfmt::skip]
pub const fn arrival(newcomer: Succession, holder: Health, bump: Bump) -> Arrival {
    use Bump as B;
    use Health as H;
    use Succession as S;
    match (newcomer, holder, bump) {
        (S::Same,      H::New | H::Unhealthy | H::Healthy,              B::Forbidden | B::Allowed) => Arrival::Known,
        (S::Same,      H::MustDie,                                      B::Forbidden | B::Allowed) => Arrival::GivenUp,
        // The lock proves that the earlier life is over: nobody needs to be told.
        (S::Later,     H::New | H::Unhealthy | H::Healthy | H::MustDie, B::Forbidden | B::Allowed) => Arrival::Reborn,
        (S::Earlier,   H::New | H::Unhealthy | H::Healthy | H::MustDie, B::Forbidden | B::Allowed) => Arrival::Stale,
        (S::Unrelated, H::MustDie,                                      B::Forbidden | B::Allowed) => Arrival::TakesName,
        (S::Unrelated, H::Healthy,                                      B::Forbidden | B::Allowed) => Arrival::NameTaken,
        (S::Unrelated, H::New | H::Unhealthy,                           B::Forbidden)              => Arrival::NameTaken,
        (S::Unrelated, H::New | H::Unhealthy,                           B::Allowed)                => Arrival::BumpsOld,
    }
}
