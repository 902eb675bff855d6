//! What a worker tells people about its link and its runs, and how often.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use sterna_model::{BootTime, ClusterId, Incarnation, Name, RunId, Span, WorkKey};
use sterna_protocol::{
    health::Health,
    message::{Mandate, VERSION},
};
use sterna_wire::Address;

/// Something that people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A run of an earlier life goes on.
    Adopted(RunId, WorkKey),
    /// What an earlier life has left is not known: it is ended before anything else.
    Stray(RunId),
    /// A stream is open.
    Open(Address),
    /// A stream cannot be opened; told again at longer and longer intervals.
    NotOpen(String),
    /// A stream is over.
    Over(Address, String),
    /// A leader knows what runs here.
    Confirmed(Mandate, Incarnation),
    /// How the leader judges this worker has changed.
    Verdict(Health),
    /// Whether new work comes has changed.
    Draining(bool),
    /// This worker has a run.
    Accepted(RunId, WorkKey),
    /// It is told to end.
    Stopping(RunId, &'static str),
    /// It is over.
    Ended(RunId, String),
    /// The leader has the end of a run.
    Recorded(RunId),
    /// This worker is another one from now on, with the same runs.
    Reborn(Incarnation),
    /// The next life cannot begin.
    NotReborn(String),
    /// The guardian is gone, for this reason, and there is another one.
    Replaced(String),
    /// A subprocess could not be run, or did not end well.
    Unwell(String),
    /// The name belongs to another machine.
    NameTaken(Name),
    /// As many machines are on the roster as may be.
    RosterFull,
    /// The other side speaks another version.
    WrongVersion(u32),
    /// Two leaders claim the same term.
    Rival(Mandate),
    /// The other side leads another cluster.
    Foreign(ClusterId),
    /// The leader knows this later life of the same data directory.
    WentBack(u64),
    /// A message could not be said.
    Unsaid(String),
    /// A run was refused, for it could not be kept.
    TurnedDown(RunId, String),
    /// What must be kept could not be written.
    NotKept(String),
    /// The directory of a run that is over is left.
    NotRemoved(PathBuf, String),
    /// This worker ends, and what must end with it.
    Ending,
    /// It was told so again: the guardian ends what is left.
    Leaving,
    /// Ends were not acknowledged: the next life will tell them.
    Untold(usize),
    /// This worker is done.
    Done,
}

const ROSTER_FULL: &str = "the server has reached its limit of workers: forget those that are gone, or start it with a larger \
                           --workers-max; retrying";

const UNTOLD: &str = "the next life reports them";
const LEAVING: &str = "leaving at once: the guardian ends what must end with this worker";

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adopted(run, key) => write!(f, "{run} of {key} continues from an earlier life"),
            Self::Stray(run) => {
                write!(f, "{run} belongs to no known work: the worker ends it first")
            }
            Self::Open(address) => write!(f, "link to {address} is open"),
            Self::NotOpen(why) => write!(f, "no link: {why}; retrying"),
            Self::Over(address, why) => write!(f, "link to {address} closed: {why}"),
            Self::Confirmed(mandate, incarnation) => write!(
                f,
                "confirmed as life {} by the leader of {}, {}",
                incarnation.life, mandate.term, mandate.epoch
            ),
            Self::Verdict(health) => f.write_str(verdict(*health)),
            Self::Draining(true) => f.write_str("draining: the leader sends no new work"),
            Self::Draining(false) => f.write_str("not draining: the leader may send new work"),
            Self::Accepted(run, key) => write!(f, "{run} of {key} starts"),
            Self::Stopping(run, why) => write!(f, "{run} is being stopped: {why}"),
            Self::Ended(run, how) => write!(f, "{run} is over: {how}"),
            Self::Recorded(run) => write!(f, "{run}: the leader has recorded its end"),
            Self::Reborn(incarnation) => {
                write!(f, "begins life {}; its runs continue", incarnation.life)
            }
            Self::NotReborn(why) => write!(f, "cannot begin the next life: {why}; retrying"),
            Self::Replaced(why) => {
                write!(f, "{why}: a new guardian has taken over, and all runs continue")
            }
            Self::Unwell(why) => write!(f, "health check failed: {why}"),
            Self::NameTaken(name) => write!(
                f,
                "the name {name} belongs to another machine that is alive: start this worker with another --name, or stop that one; retrying"
            ),
            Self::RosterFull => f.write_str(ROSTER_FULL),
            Self::WrongVersion(theirs) => write!(
                f,
                "the server speaks version {theirs} of the protocol, and this worker {VERSION}: \
                 upgrade the older of the two; retrying"
            ),
            Self::Rival(mandate) => write!(
                f,
                "another leader claims {} of {}: the store was restored from an older \
                 state; this worker does not obey it",
                mandate.term, mandate.epoch
            ),
            Self::Foreign(cluster) => write!(
                f,
                "the server leads {cluster}, and this worker belongs to another one: join that, or \
                 start with an empty --data; this worker does not obey it, retrying"
            ),
            Self::WentBack(newest) => write!(
                f,
                "the leader knows life {newest} of this data directory from another start: it was \
                 restored from an older state or copied; start this worker with an empty --data; retrying"
            ),
            Self::Unsaid(why) => write!(f, "cannot send a message: {why}"),
            Self::TurnedDown(run, why) => write!(f, "{run} is refused: {why}"),
            Self::NotKept(why) => write!(f, "cannot write to the data directory: {why}"),
            Self::NotRemoved(directory, why) => {
                let directory = directory.display();
                write!(f, "cannot remove {directory}: {why}; the worker retries at its next start")
            }
            Self::Ending => f.write_str("ending: first the runs that must end with this worker"),
            Self::Leaving => f.write_str(LEAVING),
            Self::Untold(count) => write!(f, "{count} ends are not recorded yet: {UNTOLD}"),
            Self::Done => f.write_str("ended"),
        }
    }
}

/// What the leader thinks of us.
const fn verdict(health: Health) -> &'static str {
    match health {
        Health::New => "the leader does not know this worker yet",
        Health::Healthy => "the leader calls this worker healthy",
        Health::Unhealthy => {
            "the leader does not call this worker healthy yet, and sends no new work"
        }
        Health::MustDie => "the leader has given this worker up",
    }
}

/// What is told again and again, and therefore more and more seldom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Link,
    Rebirth,
    Health,
    Guardian,
    Name,
    Roster,
    Version,
    Rival,
    Cluster,
    Directory,
    Size,
    Disk,
    Table,
}

impl Remark {
    /// `None` for what is told whenever it happens.
    const fn topic(&self) -> Option<Topic> {
        match self {
            Self::NotOpen(_) => Some(Topic::Link),
            Self::NotReborn(_) => Some(Topic::Rebirth),
            Self::Unwell(_) => Some(Topic::Health),
            Self::Replaced(_) => Some(Topic::Guardian),
            Self::NameTaken(_) => Some(Topic::Name),
            Self::RosterFull => Some(Topic::Roster),
            Self::WrongVersion(_) => Some(Topic::Version),
            Self::Rival(_) => Some(Topic::Rival),
            Self::Foreign(_) => Some(Topic::Cluster),
            Self::WentBack(_) => Some(Topic::Directory),
            Self::Unsaid(_) => Some(Topic::Size),
            Self::TurnedDown(..) => Some(Topic::Table),
            Self::NotKept(_) => Some(Topic::Disk),
            Self::Adopted(..)
            | Self::Stray(_)
            | Self::Open(_)
            | Self::Over(..)
            | Self::Confirmed(..)
            | Self::Verdict(_)
            | Self::Draining(_)
            | Self::Accepted(..)
            | Self::Stopping(..)
            | Self::Ended(..)
            | Self::Recorded(_)
            | Self::Reborn(_)
            | Self::NotRemoved(..)
            | Self::Ending
            | Self::Leaving
            | Self::Untold(_)
            | Self::Done => None,
        }
    }
}

/// After the first time, the second comes after this, and each pause is four times the one before.
const FIRST: Span = Span::from_secs(15);
/// But no pause is longer.
const LAST: Span = Span::from_secs(900);

/// Keeps troubles that last from being told too often.
#[derive(Clone, Debug, Default)]
pub(super) struct Muffle {
    told: BTreeMap<Topic, (BootTime, Span)>,
}

impl Muffle {
    /// Whether to tell it now.
    pub(super) fn lets(&mut self, now: BootTime, remark: &Remark) -> bool {
        let Some(topic) = remark.topic() else { return true };
        let (again_at, pause) = self.told.get(&topic).copied().unwrap_or((now, FIRST));
        if now < again_at {
            return false;
        }
        self.told.insert(topic, (now.plus(pause), pause.times(4).min(LAST)));
        true
    }

    /// The trouble is over: the next one is told at once.
    pub(super) fn calm_link(&mut self) {
        for topic in [Topic::Link, Topic::Name, Topic::Version] {
            self.told.remove(&topic);
        }
    }

    pub(super) fn calm_disk(&mut self) {
        self.told.remove(&Topic::Table);
    }

    pub(super) fn calm_health(&mut self) {
        self.told.remove(&Topic::Health);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_lasts_is_told_more_and_more_seldom() {
        let mut muffle = Muffle::default();
        let remark = Remark::NotOpen("nobody is there".to_owned());
        let told = |second: &u64| muffle.lets(BootTime::from_millis(second * 1_000), &remark);
        let seconds: Vec<u64> = (0..4_000).filter(told).collect();
        assert_eq!(seconds, [0, 15, 75, 315, 1_215, 2_115, 3_015, 3_915]);
    }

    #[test]
    fn a_trouble_that_comes_back_is_told_at_once() {
        let mut muffle = Muffle::default();
        let now = BootTime::from_millis(0);
        let remark = Remark::NotOpen("nobody is there".to_owned());
        assert!(muffle.lets(now, &remark));
        assert!(!muffle.lets(now, &remark));
        assert!(muffle.lets(now, &Remark::Unwell("none".to_owned())), "another trouble");
        muffle.calm_link();
        assert!(muffle.lets(now, &remark));
        assert!(muffle.lets(now, &Remark::Done) && muffle.lets(now, &Remark::Done));
    }
}
