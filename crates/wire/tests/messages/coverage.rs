//! That there is a sample of every variant of everything that can be said.

use std::collections::BTreeSet;

use sterna_model::{Contract, WorkKey};
use sterna_protocol::{
    health::Health,
    message::{
        HeartbeatAnswer, Kill, News, Order, Refusal, RunAnswer, RunRefusal, Saying, StatusAnswer,
    },
};

use crate::samples::{Sample, all};

/// Declares a function that names each variant, and the list of these names. The match has no
/// wildcard: a new variant does not compile before it stands here, and fails before it has a sample.
macro_rules! variants {
    ($($name:ident: $type:ty { $($pattern:pat => $label:literal,)+ })+) => {
        $(fn $name(value: &$type) -> &'static str {
            match value { $($pattern => concat!(stringify!($name), "-", $label),)+ }
        })+

        const ALL: &[&str] = &[$($(concat!(stringify!($name), "-", $label),)+)+];
    };
}

variants! {
    saying: Saying {
        Saying::Heartbeat(_) => "heartbeat",
        Saying::Statuses(_) => "statuses",
        Saying::Running(_) => "running",
        Saying::Answers(_) => "answers",
        Saying::Noted(_) => "noted",
    }
    news: News {
        News::Progress(_) => "progress",
        News::Ended(_) => "ended",
        News::WasNotRunning => "was-not-running",
    }
    answer: RunAnswer {
        RunAnswer::Started => "started",
        RunAnswer::Refused(_) => "refused",
    }
    refusal: RunRefusal {
        RunRefusal::NotHealthy => "not-healthy",
        RunRefusal::Draining => "draining",
        RunRefusal::Overtaken => "overtaken",
        RunRefusal::KeyIsHere(_) => "key-is-here",
        RunRefusal::TooLate => "too-late",
    }
    contract: Contract {
        Contract::Replace { .. } => "replace",
        Contract::Stop { .. } => "stop",
        Contract::Keep => "keep",
    }
    work: WorkKey {
        WorkKey::Instance(_) => "instance",
        WorkKey::Task(_) => "task",
        WorkKey::Node(_) => "node",
    }
    order: Order {
        Order::Heartbeat(_) => "heartbeat",
        Order::Statuses(..) => "statuses",
        Order::GetRunning => "get-running",
        Order::Run(_) => "run",
        Order::NotifyIfNotRunning(..) => "notify",
        Order::Kill(..) => "kill",
        Order::Die => "die",
    }
    heartbeat: HeartbeatAnswer {
        HeartbeatAnswer::Welcome => "welcome",
        HeartbeatAnswer::Confirmed(_) => "confirmed",
        HeartbeatAnswer::Refused(_) => "refused",
    }
    refused: Refusal {
        Refusal::Die => "die",
        Refusal::NameTaken => "name-taken",
        Refusal::WrongVersion(_) => "wrong-version",
        Refusal::WrongCluster => "wrong-cluster",
        Refusal::WentBack(_) => "went-back",
        Refusal::RosterFull => "roster-full",
    }
    verdict: Health {
        Health::New => "new",
        Health::Unhealthy => "unhealthy",
        Health::Healthy => "healthy",
        Health::MustDie => "must-die",
    }
    status: StatusAnswer {
        StatusAnswer::Recorded => "recorded",
        StatusAnswer::Ignored => "ignored",
        StatusAnswer::Retry => "retry",
    }
    kill: Kill {
        Kill::Gracefully => "gracefully",
        Kill::Now => "now",
    }
}

/// What can be left out, said and unsaid.
const OPTIONAL: &[&str] = &["mandate", "checked", "seen", "set", "wants-drain", "told-set"];

fn optional(seen: &mut BTreeSet<String>, name: &str, is_said: bool) {
    seen.insert(format!("{name}-{is_said}"));
}

fn look(sample: &Sample, seen: &mut BTreeSet<String>) {
    let mut see = |label: &str| {
        seen.insert(label.to_owned());
    };
    match sample {
        Sample::Worker(frame) => {
            see(saying(&frame.saying));
            match &frame.saying {
                Saying::Heartbeat(heartbeat) => {
                    optional(seen, "mandate", frame.mandate.is_some());
                    optional(seen, "checked", heartbeat.checked.is_some());
                    optional(seen, "seen", heartbeat.seen.is_some());
                    optional(seen, "set", heartbeat.set.is_some());
                    optional(seen, "wants-drain", heartbeat.wants_drain.is_some());
                    optional(seen, "is-leaving", heartbeat.is_leaving);
                }
                Saying::Statuses(statuses) => {
                    statuses.iter().for_each(|status| see(news(&status.news)));
                }
                Saying::Running(held) => held.iter().for_each(|held| {
                    see(contract(&held.contract));
                    see(work(&held.key));
                }),
                Saying::Answers(answers) => answers.iter().for_each(|(_, said)| {
                    see(answer(said));
                    match said {
                        RunAnswer::Started => {}
                        RunAnswer::Refused(why) => see(refusal(why)),
                    }
                }),
                Saying::Noted(_) => {}
            }
        }
        Sample::Leader(frame) => {
            see(order(&frame.order));
            match &frame.order {
                Order::Heartbeat(said) => {
                    see(heartbeat(said));
                    match said {
                        HeartbeatAnswer::Welcome => {}
                        HeartbeatAnswer::Confirmed(confirmation) => {
                            see(verdict(&confirmation.verdict));
                            optional(seen, "told-set", confirmation.set.is_some());
                        }
                        HeartbeatAnswer::Refused(why) => see(refused(why)),
                    }
                }
                Order::Statuses(_, answers) => {
                    answers.iter().for_each(|(_, _, answer)| see(status(answer)));
                }
                Order::Kill(_, how) => see(kill(how)),
                Order::GetRunning | Order::Run(_) | Order::NotifyIfNotRunning(..) | Order::Die => {}
            }
        }
        Sample::Aside(_) => see("aside"),
    }
}

#[test]
fn every_variant_has_a_sample() {
    let mut seen = BTreeSet::new();
    for (_, sample) in all() {
        look(&sample, &mut seen);
    }
    let both = |name: &&str| [format!("{name}-true"), format!("{name}-false")];
    let wanted = ALL.iter().map(|label| (*label).to_owned());
    let wanted: BTreeSet<String> = wanted.chain(OPTIONAL.iter().flat_map(both)).collect();
    let missing: Vec<_> = wanted.difference(&seen).collect();
    assert!(missing.is_empty(), "no sample of {missing:?}");
}
