//! What goes wrong in one seed, and when: a list, so that a failing one can be made shorter.

use std::fmt;

use crate::{clock::Moment, rng::Rng};

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When, in milliseconds since the beginning.
    pub at: Moment,
    /// What.
    pub fault: Fault,
}

/// Which way of a link is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Both.
    Both,
    /// What workers say is not heard.
    Up,
    /// What leaders say is not heard.
    Down,
}

/// What becomes of the next commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Refused, and nothing is written.
    Unavailable,
    /// Applied, and not answered.
    Answer,
    /// Lost, and not answered.
    Commit,
    /// Not answered, and applied later.
    Late,
}

/// Something that goes wrong. Machines and servers are named by their place in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A machine's stream breaks.
    StreamBreaks(usize),
    /// A machine is cut off from the servers for so long.
    CutOff(usize, Way, u64),
    /// A machine is cut off for so long, soon after it has dialled the next time: what is asked first is
    /// most easily lost.
    CutOffAtDial(usize, u64),
    /// The network is in two for so long: these machines, a bit each, and this server on one side, and
    /// the store with everybody else on the other.
    NetworkSplit(u64, usize, u64),
    /// All frames are lost, doubled, late and overtaken, each for itself, for so long.
    NetworkHarsh(u64),
    /// A worker is killed, and started again after so long.
    WorkerKilled(usize, u64),
    /// A worker is asked to end, and started again after so long.
    WorkerLeaves(usize, u64),
    /// A machine's checks of itself fail for so long.
    ChecksFail(usize, u64),
    /// A worker is stopped, and continued after so long.
    WorkerStopped(usize, u64),
    /// A guardian is killed; its worker starts it again.
    GuardianKilled(usize),
    /// A guardian is stopped, and continued after so long.
    GuardianStopped(usize, u64),
    /// A worker and its guardian are killed together, and with them, by their pid namespace, all
    /// that they ran.
    NamespaceKilled(usize, u64),
    /// A machine loses power, and has it again after so long.
    MachineRebooted(usize, u64),
    /// The same, and meanwhile somebody declares it dead.
    MachineDeclaredDead(usize, u64),
    /// Somebody declares a machine dead that lives.
    LiveDeclaredDead(usize),
    /// A machine is gone for good; another comes with its name after so long.
    MachineDestroyed(usize, u64),
    /// A machine is gone for good, and nobody says so.
    MachineVanished(usize),
    /// A machine's wall clock is set to be wrong by so many milliseconds.
    WallClockSet(usize, i64),
    /// The operator of a machine wants it drained for so long.
    DrainWanted(usize, u64),
    /// A server is killed, and started again after so long.
    ServerKilled(usize, u64),
    /// A server is stopped, and continued after so long.
    ServerStopped(usize, u64),
    /// A server does not reach the store for so long.
    ServerAlone(usize, u64),
    /// A server resigns, and is started again after so long.
    ServerResigns(usize, u64),
    /// The store does not answer for so long.
    StoreDown(u64),
    /// Every call of the store takes long for so long.
    StoreSlow(u64),
    /// The next so many commits are lost in a way.
    CommitsLost(Loss, u64),
    /// All servers end, the store goes back by so many milliseconds, and they start again.
    StoreRestored(u64),
    /// The same, under servers that run: an older copy takes over.
    StoreSetBack(u64),
    /// Somebody changes the limits.
    LimitsChanged,
}

impl Fault {
    /// All kinds, by name.
    pub const KINDS: &[&str] = &[
        "stream-breaks",
        "cut-off",
        "cut-off-up",
        "cut-off-down",
        "cut-off-at-dial",
        "network-split",
        "network-harsh",
        "worker-killed",
        "worker-leaves",
        "checks-fail",
        "worker-stopped",
        "guardian-killed",
        "guardian-stopped",
        "namespace-killed",
        "machine-rebooted",
        "machine-declared-dead",
        "live-declared-dead",
        "machine-destroyed",
        "machine-vanished",
        "wall-clock-set",
        "drain-wanted",
        "server-killed",
        "server-stopped",
        "server-alone",
        "server-resigns",
        "store-down",
        "store-slow",
        "commits-unavailable",
        "commits-unanswered",
        "commits-lost",
        "commits-late",
        "store-restored",
        "store-set-back",
        "limits-changed",
    ];

    /// What kind it is.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::StreamBreaks(_) => "stream-breaks",
            Self::CutOff(_, Way::Both, _) => "cut-off",
            Self::CutOff(_, Way::Up, _) => "cut-off-up",
            Self::CutOff(_, Way::Down, _) => "cut-off-down",
            Self::CutOffAtDial(..) => "cut-off-at-dial",
            Self::NetworkSplit(..) => "network-split",
            Self::NetworkHarsh(_) => "network-harsh",
            Self::WorkerLeaves(..) => "worker-leaves",
            Self::ChecksFail(..) => "checks-fail",
            Self::WorkerKilled(..) => "worker-killed",
            Self::WorkerStopped(..) => "worker-stopped",
            Self::GuardianKilled(_) => "guardian-killed",
            Self::GuardianStopped(..) => "guardian-stopped",
            Self::NamespaceKilled(..) => "namespace-killed",
            Self::MachineRebooted(..) => "machine-rebooted",
            Self::MachineDeclaredDead(..) => "machine-declared-dead",
            Self::LiveDeclaredDead(_) => "live-declared-dead",
            Self::MachineDestroyed(..) => "machine-destroyed",
            Self::MachineVanished(_) => "machine-vanished",
            Self::WallClockSet(..) => "wall-clock-set",
            Self::DrainWanted(..) => "drain-wanted",
            Self::ServerKilled(..) => "server-killed",
            Self::ServerStopped(..) => "server-stopped",
            Self::ServerAlone(..) => "server-alone",
            Self::ServerResigns(..) => "server-resigns",
            Self::StoreDown(_) => "store-down",
            Self::StoreSlow(_) => "store-slow",
            Self::CommitsLost(Loss::Unavailable, _) => "commits-unavailable",
            Self::CommitsLost(Loss::Answer, _) => "commits-unanswered",
            Self::CommitsLost(Loss::Commit, _) => "commits-lost",
            Self::CommitsLost(Loss::Late, _) => "commits-late",
            Self::StoreRestored(_) => "store-restored",
            Self::StoreSetBack(_) => "store-set-back",
            Self::LimitsChanged => "limits-changed",
        }
    }

    /// Whose it is, for the diagram: `m0`, `s1`, `net` or `store`.
    pub fn whose(&self) -> String {
        match self {
            Self::StreamBreaks(machine)
            | Self::CutOff(machine, ..)
            | Self::CutOffAtDial(machine, _)
            | Self::WorkerKilled(machine, _)
            | Self::WorkerLeaves(machine, _)
            | Self::ChecksFail(machine, _)
            | Self::WorkerStopped(machine, _)
            | Self::GuardianKilled(machine)
            | Self::GuardianStopped(machine, _)
            | Self::NamespaceKilled(machine, _)
            | Self::MachineRebooted(machine, _)
            | Self::MachineDeclaredDead(machine, _)
            | Self::LiveDeclaredDead(machine)
            | Self::MachineDestroyed(machine, _)
            | Self::MachineVanished(machine)
            | Self::WallClockSet(machine, _)
            | Self::DrainWanted(machine, _) => format!("m{machine}"),
            Self::ServerKilled(server, _)
            | Self::ServerStopped(server, _)
            | Self::ServerAlone(server, _)
            | Self::ServerResigns(server, _) => format!("s{server}"),
            Self::NetworkSplit(..) | Self::NetworkHarsh(_) => "net".to_owned(),
            Self::StoreDown(_)
            | Self::StoreSlow(_)
            | Self::CommitsLost(..)
            | Self::StoreRestored(_)
            | Self::StoreSetBack(_)
            | Self::LimitsChanged => "store".to_owned(),
        }
    }

    /// How long it lasts, if it does.
    pub const fn lasts(&self) -> Option<u64> {
        match self {
            Self::CutOff(_, _, lasts)
            | Self::CutOffAtDial(_, lasts)
            | Self::NetworkSplit(_, _, lasts)
            | Self::NetworkHarsh(lasts)
            | Self::WorkerLeaves(_, lasts)
            | Self::ChecksFail(_, lasts)
            | Self::WorkerKilled(_, lasts)
            | Self::WorkerStopped(_, lasts)
            | Self::GuardianStopped(_, lasts)
            | Self::NamespaceKilled(_, lasts)
            | Self::MachineRebooted(_, lasts)
            | Self::MachineDeclaredDead(_, lasts)
            | Self::MachineDestroyed(_, lasts)
            | Self::DrainWanted(_, lasts)
            | Self::ServerKilled(_, lasts)
            | Self::ServerStopped(_, lasts)
            | Self::ServerAlone(_, lasts)
            | Self::ServerResigns(_, lasts)
            | Self::StoreDown(lasts)
            | Self::StoreSlow(lasts) => Some(*lasts),
            Self::StreamBreaks(_)
            | Self::LiveDeclaredDead(_)
            | Self::GuardianKilled(_)
            | Self::MachineVanished(_)
            | Self::WallClockSet(..)
            | Self::CommitsLost(..)
            | Self::StoreRestored(_)
            | Self::StoreSetBack(_)
            | Self::LimitsChanged => None,
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, fault } = self;
        let seconds = |millis: u64| format!("{}.{:03} s", millis / 1_000, millis % 1_000);
        write!(f, "{:>12}  {:<6} {}", seconds(*at), fault.whose(), fault.kind())?;
        if let Some(lasts) = fault.lasts() {
            write!(f, " for {}", seconds(lasts))?;
        }
        match fault {
            Fault::CommitsLost(_, count) => write!(f, ", the next {count}"),
            Fault::StoreRestored(back) | Fault::StoreSetBack(back) => {
                write!(f, ", back by {}", seconds(*back))
            }
            Fault::NetworkSplit(mask, server, _) => write!(f, ", {mask:b} with s{server}"),
            Fault::WallClockSet(_, off) => write!(f, " by {off} ms"),
            Fault::StreamBreaks(_)
            | Fault::CutOff(..)
            | Fault::CutOffAtDial(..)
            | Fault::NetworkHarsh(_)
            | Fault::WorkerLeaves(..)
            | Fault::ChecksFail(..)
            | Fault::WorkerKilled(..)
            | Fault::WorkerStopped(..)
            | Fault::GuardianKilled(_)
            | Fault::GuardianStopped(..)
            | Fault::NamespaceKilled(..)
            | Fault::MachineRebooted(..)
            | Fault::MachineDeclaredDead(..)
            | Fault::LiveDeclaredDead(_)
            | Fault::MachineDestroyed(..)
            | Fault::MachineVanished(_)
            | Fault::DrainWanted(..)
            | Fault::ServerKilled(..)
            | Fault::ServerStopped(..)
            | Fault::ServerAlone(..)
            | Fault::ServerResigns(..)
            | Fault::StoreDown(_)
            | Fault::StoreSlow(_)
            | Fault::LimitsChanged => Ok(()),
        }
    }
}

/// Draws what goes wrong in a world of so many machines and servers, until a moment.
pub(crate) fn draw(rng: &mut Rng, machines: usize, servers: usize, until: Moment) -> Vec<Planned> {
    let mut plan = Vec::new();
    // Some seeds are quiet, and some are not.
    let every = rng.between(3_000, 40_000);
    let may_restore = rng.chance(100);
    let mut at = rng.between(2_000, 10_000);
    if may_restore && rng.chance(500) {
        let (at, back) = (rng.between(60_000, until.max(60_001)), rng.between(2_000, 120_000));
        let fault =
            if rng.chance(500) { Fault::StoreRestored(back) } else { Fault::StoreSetBack(back) };
        plan.push(Planned { at, fault });
    }
    while at < until {
        let fault = one(rng, machines, servers, may_restore);
        plan.push(Planned { at, fault });
        let is_change_of_leader = matches!(
            fault,
            Fault::ServerKilled(..)
                | Fault::ServerStopped(..)
                | Fault::ServerAlone(..)
                | Fault::ServerResigns(..)
                | Fault::NetworkSplit(..)
                | Fault::StoreRestored(_)
                | Fault::StoreSetBack(_)
        );
        if is_change_of_leader && rng.chance(700) {
            // Much is unsettled when a reign begins: then more breaks.
            for _ in 0..rng.between(1, 3) {
                let later = at + rng.between(0, 16_000);
                let fault = if rng.chance(400) {
                    Fault::CutOff(rng.index(machines), Way::Both, rng.between(5_000, 160_000))
                } else {
                    of_machine(rng, machines)
                };
                plan.push(Planned { at: later, fault });
            }
        }
        if let Fault::WorkerKilled(machine, lasts) = fault
            && rng.chance(300)
        {
            // While what it ran is being ended.
            let later = at + lasts.min(1_000) + rng.between(10, 1_500);
            plan.push(Planned { at: later, fault: Fault::GuardianKilled(machine) });
        }
        at += rng.between(every / 4, every * 2);
    }
    plan.retain(|planned| planned.at < until);
    plan.sort_by_key(|planned| planned.at);
    plan
}

/// Mostly short; sometimes longer than any deadline.
fn lasts(rng: &mut Rng) -> u64 {
    let longest = rng.pick(&[1_000, 5_000, 12_000, 45_000, 160_000]).unwrap_or(1_000);
    rng.between(200, longest)
}

fn one(rng: &mut Rng, machines: usize, servers: usize, may_restore: bool) -> Fault {
    let server = rng.index(servers);
    let lasting = lasts(rng).min(60_000);
    match rng.below(100) {
        0..64 => of_machine(rng, machines),
        64..70 => Fault::ServerKilled(server, lasting),
        70..77 => Fault::ServerStopped(server, lasting),
        77..81 => Fault::ServerAlone(server, lasting),
        81..84 => Fault::ServerResigns(server, lasting.min(5_000)),
        84..86 => Fault::StoreDown(lasting.min(20_000)),
        86..88 => Fault::StoreSlow(lasting),
        88..94 => {
            let losses = [Loss::Unavailable, Loss::Answer, Loss::Commit, Loss::Late];
            let loss = rng.pick(&losses).unwrap_or(Loss::Answer);
            Fault::CommitsLost(loss, rng.between(1, 6))
        }
        94..96 => Fault::NetworkHarsh(rng.between(2_000, 90_000)),
        96 if may_restore && rng.chance(500) => Fault::StoreRestored(rng.between(2_000, 120_000)),
        96 if may_restore => Fault::StoreSetBack(rng.between(2_000, 120_000)),
        97..99 => {
            let mask = rng.below(1 << machines.min(63));
            Fault::NetworkSplit(mask, server, lasting)
        }
        _ => Fault::LimitsChanged,
    }
}

fn of_machine(rng: &mut Rng, machines: usize) -> Fault {
    let machine = rng.index(machines);
    let lasting = lasts(rng);
    match rng.below(100) {
        0..13 => Fault::StreamBreaks(machine),
        13..20 => Fault::CutOffAtDial(machine, rng.between(1_000, 60_000)),
        20..36 => Fault::CutOff(machine, Way::Both, lasting),
        36..41 => Fault::CutOff(machine, Way::Up, lasting),
        41..46 => Fault::CutOff(machine, Way::Down, lasting),
        46..52 => Fault::WorkerKilled(machine, lasting.min(30_000)),
        52..56 => Fault::WorkerKilled(machine, lasting.min(1_000)),
        56..59 => Fault::WorkerLeaves(machine, lasting.min(20_000)),
        59..61 => Fault::ChecksFail(machine, lasting),
        61..70 => Fault::WorkerStopped(machine, lasting),
        70..75 => Fault::GuardianKilled(machine),
        75..80 => Fault::GuardianStopped(machine, lasting.min(20_000)),
        80..83 => Fault::NamespaceKilled(machine, lasting.min(30_000)),
        83..89 => Fault::MachineRebooted(machine, lasting),
        89..91 => Fault::MachineDeclaredDead(machine, lasting.max(5_000)),
        91..93 => Fault::MachineDestroyed(machine, lasting),
        93..94 => Fault::MachineVanished(machine),
        94..96 => Fault::LiveDeclaredDead(machine),
        96..97 => {
            let off = i64::try_from(rng.below(7_200_000)).unwrap_or(0) - 3_600_000;
            Fault::WallClockSet(machine, off)
        }
        _ => Fault::DrainWanted(machine, lasting.max(3_000)),
    }
}
