//! What clients are told of a leader: whether it leads, and if not, why.

use std::time::Duration;

use sterna_api::rest::{Code, Refused};
use sterna_store::machine::boot_time;

use super::Reigning;
use crate::shared::Standing;

/// A commit that waits for so long keeps everybody waiting who asks for a change: they are told so.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(10);

/// Without what nobody is told that this server leads.
#[derive(Clone, Debug)]
pub(super) enum Awaited {
    /// That its lease is renewed.
    Lease,
    /// That its store takes commits, which it does not for this reason.
    Store(String),
}

impl Reigning<'_> {
    /// Tells clients whether this server leads: as long as its lease lasts, and its store takes commits.
    /// What it shows may be otherwise then, for another may lead; the reign goes on if the lease is renewed
    /// after all, or the store takes the commit.
    pub(super) fn show(&mut self) {
        let is_late = boot_time() >= self.until;
        let stuck = self.under_way.as_ref().filter(|it| it.sent.elapsed() >= STUCK_AFTER);
        let holds = !is_late && stuck.is_none();
        if holds == self.is_shown {
            return;
        }
        self.is_shown = holds;
        if holds {
            if let Some(awaited) = self.awaits.take() {
                let came = match awaited {
                    Awaited::Lease => "its lease was renewed",
                    Awaited::Store(_) => "its store takes commits again",
                };
                let term = self.reign.term.get();
                (self.outlets.say)(&format!("leads again, in term {term}: {came}"));
            }
            self.shared.stand(Standing::Leads(self.lead.clone()));
            return;
        }
        let why = match stuck.filter(|_| !is_late) {
            Some(commit) => {
                let why = commit.refusals.last();
                let why = why.unwrap_or_else(|| "it does not answer".to_owned());
                let why =
                    format!("the store takes nothing, and nothing changes until it does: {why}");
                self.awaits = Some(Awaited::Store(why.clone()));
                why
            }
            None => {
                self.awaits = Some(Awaited::Lease);
                self.candidate.trouble().map_or_else(
                    || {
                        "the lease of this server is over, and was not renewed in time: it stood \
                         still, or its store does"
                            .to_owned()
                    },
                    |trouble| format!("the lease of this server is over: {trouble}"),
                )
            }
        };
        (self.outlets.say)(&why);
        // They would wait for as long as the store does.
        let message = format!("{why}; what was asked for may yet be done");
        for reply in std::mem::take(&mut self.calls).into_values() {
            // Who no longer waits needs no answer.
            drop(reply.send(Err(Refused::new(Code::NotReady, message.clone()))));
        }
        self.shared.stand(Standing::NotReady(why));
    }
}
