//! What clients are told of a leader that cannot do what they ask for: that its lease is over, or that its
//! store takes nothing.

use std::time::Duration;

use sterna_api::rest::{Code, Refused};
use sterna_store::machine::boot_time;

use super::Reigning;
use crate::shared::Standing;

/// A commit that waits for so long keeps everybody waiting who asks for a change: they are told so.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(10);

impl Reigning<'_> {
    /// Tells clients whether this server leads: as long as its lease lasts, and no longer. What it shows
    /// may be otherwise then, for another may lead; the reign goes on if the lease is renewed after all.
    pub(super) fn show(&mut self) {
        let holds = boot_time() < self.until;
        if holds == self.is_shown {
            return;
        }
        self.is_shown = holds;
        if holds {
            if self.late.take().is_some() {
                let term = self.reign.term.get();
                (self.outlets.say)(&format!("leads again, in term {term}: it renewed its lease"));
            }
            self.shared.stand(Standing::Leads(self.lead.clone()));
            return;
        }
        let why = match self.candidate.trouble() {
            Some(trouble) => format!("the lease of this server has expired: {trouble}"),
            None => {
                "the lease of this server has expired and was not renewed in time: it stood still, or its \
                 store does"
                    .to_owned()
            }
        };
        (self.outlets.say)(&why);
        self.refuse_all(&why);
        self.late = Some(why.clone());
        self.shared.stand(Standing::NotReady(why));
    }

    /// Tells clients whether the store takes commits. Its leader goes on meanwhile: what it shows stands,
    /// and workers find it.
    pub(super) fn mind_store(&mut self) {
        let waits = self.under_way.as_ref().filter(|it| it.sent.elapsed() >= STUCK_AFTER);
        if waits.is_some() == self.stuck.is_some() {
            return;
        }
        let why = waits.map(|commit| {
            let why = commit.refusals.last().unwrap_or_else(|| "it does not answer".to_owned());
            format!("the store accepts no commits, and nothing changes until it does: {why}")
        });
        (self.outlets.say)(why.as_deref().unwrap_or("the store accepts commits again"));
        if let Some(why) = &why {
            self.refuse_all(why);
        }
        self.shared.set_stuck(why.clone());
        self.stuck = why;
    }

    /// Why nothing that somebody asks for can be done now.
    pub(super) fn hindrance(&self) -> Option<&str> {
        self.stuck.as_deref().or(self.late.as_deref())
    }

    /// Those who wait would wait for as long as the store does.
    fn refuse_all(&mut self, why: &str) {
        let message = format!("{why}; what was asked for may yet be done");
        let refused = || Refused::new(Code::NotReady, message.clone());
        // Who no longer waits needs no answer.
        for reply in std::mem::take(&mut self.calls).into_values() {
            drop(reply.send(Err(refused())));
        }
        let under_way = self.under_way.as_mut().map(|commit| std::mem::take(&mut commit.replies));
        for reply in under_way.into_iter().chain([std::mem::take(&mut self.replies)]).flatten() {
            drop(reply.send(Err(refused())));
        }
    }
}
