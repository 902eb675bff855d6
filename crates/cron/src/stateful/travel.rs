//! The local clock is moved: by another zone, or by other rules for the same one.
//!
//! What is done is then told by labels, because the clock of the new zone may show the label that
//! was reached once, twice or never, and at any distance. Three questions follow, and a fold makes
//! instants the wrong measure for each of them:
//!
//! 1. *Which labels are done?* Up to the one shown, ordinarily. But while labels are shown for the
//!    second time, an item that fires the first time has done them all; and while they are shown
//!    for the first time, an item that fires the second time has done none of them.
//! 2. *Where in the new zone is that?* Before the first showing of the next label; for an item that
//!    fires the last time, at the last showing of a label that is done.
//! 3. *How late is what the clock was moved over?* By the labels between: moved from 00:50 to 01:50
//!    it was moved by an hour, whether or not the new zone shows 01:00 to 02:00 twice and this is
//!    the second time. In the same way a clock set from 02:30 to 00:30 was set back by two hours,
//!    even if the new zone takes three to come to 02:30.
//!
//! A clock that is moved passes each label once: an item that fires whenever a label is shown then
//! fires once for each of them, and not for those that were not passed.

use super::{
    clockwork::{Clockwork, Movement},
    state::Moved,
};
use crate::{Repeated, Time, Zone};

impl Clockwork {
    /// When the offset of the last reading, computed anew, has changed, the local clock was moved:
    /// `done` goes to where the new clock has shown what was done.
    pub(super) fn move_zone(&mut self, movement: &mut Movement) {
        let left = self.left.take();
        let Some(fixes) = self.pattern.dst_fixes() else { return };
        let offset = self.saved.offset_seconds;
        let anew = self.zone.offset_seconds(self.saved.system);
        movement.zone_shift_seconds = anew.saturating_sub(offset);
        match left {
            Some(left) => {
                self.carry(fixes.repeated, |at| {
                    left.table().done_label(at.epoch(), fixes.repeated)
                });
            }
            // After a restart the old zone is gone, and its last offset is all there is.
            None if movement.zone_shift_seconds != 0 => {
                self.carry(fixes.repeated, |at| at.epoch().saturating_add(offset));
            }
            None => {}
        }
        let saved = &mut self.saved;
        let anew = self.zone.table().done_label(saved.done.epoch(), fixes.repeated);
        // Beside a fold the same offset is not enough: what one zone shows a second time, another
        // may show once.
        let is_same = saved.done_label.is_none_or(|label| label == anew);
        if movement.zone_shift_seconds == 0 && is_same {
            return;
        }
        let label = saved.done_label.unwrap_or_else(|| saved.done.epoch().saturating_add(offset));
        saved.done = done_at(&self.zone, label, fixes.repeated);
        saved.moved =
            (saved.done < saved.system).then_some(Moved { at: saved.system, done_label: label });
    }

    /// What comes again, and what was never listed, goes to the moments at which the new clock has
    /// shown what the old one did.
    fn carry(&mut self, repeated: Repeated, label: impl Fn(Time) -> i64) {
        let moved = |at| done_at(&self.zone, label(at), repeated);
        for repeat in &mut self.saved.repeats {
            repeat.after = moved(repeat.after);
            repeat.until = moved(repeat.until);
        }
        for unlisted in &mut self.saved.unlisted {
            unlisted.after = moved(unlisted.after);
            unlisted.until = moved(unlisted.until);
        }
    }

    /// Up to which label everything is done, for items that fire once for each label.
    pub(super) fn done_label(&self) -> Option<i64> {
        let repeated = self.pattern.dst_fixes()?.repeated;
        match repeated {
            Repeated::Both => None,
            Repeated::OnlyEarly | Repeated::OnlyLate => {
                Some(self.zone.table().done_label(self.saved.done.epoch(), repeated))
            }
        }
    }

    /// How late a firing is: by the clock that was moved over it, or by the time that passed.
    pub(super) fn late_seconds(&self, due: Time) -> i64 {
        let present = self.saved.present;
        let Some(moved) = self.saved.moved.filter(|moved| due <= moved.at) else {
            return present.seconds_since(due);
        };
        // A label beyond the one moved to is not late at all: it fires now or never.
        let by_clock = self.zone.label(moved.at).saturating_sub(self.zone.label(due)).max(0);
        by_clock.saturating_add(present.seconds_since(moved.at)).max(0)
    }

    /// The first moment of which a firing may be late by no more than what is listed.
    pub(super) fn listed_from(&self) -> Time {
        let from = self.saved.present.plus_seconds(-self.listing.listed_seconds.max(0));
        match self.saved.moved {
            Some(moved) if from < moved.at => {
                let before = moved.at.seconds_since(from);
                self.zone.first_showing(self.zone.label(moved.at).saturating_sub(before))
            }
            Some(_) | None => from,
        }
    }

    /// Whether a firing is one that the clock was moved over, when it was moved.
    pub(super) fn is_passed(&self, due: Time) -> bool {
        let repeated = self.pattern.dst_fixes().map(|fixes| fixes.repeated);
        match (repeated, self.saved.moved) {
            (Some(Repeated::Both), Some(moved)) if due <= moved.at => {
                let label = self.zone.label(due);
                let mut is_last = true;
                self.zone.table().instants(label, |instant| {
                    is_last &= instant <= due.epoch() || instant > moved.at.epoch();
                });
                is_last && moved.done_label < label && label <= self.zone.label(moved.at)
            }
            // These fire once for each label anyway, and `done` was chosen accordingly.
            (
                Some(Repeated::Both | Repeated::OnlyEarly | Repeated::OnlyLate) | None,
                Some(_) | None,
            ) => true,
        }
    }
}

/// The moment at whose end everything up to a label is done.
fn done_at(zone: &Zone, label: i64, repeated: Repeated) -> Time {
    match repeated {
        Repeated::Both | Repeated::OnlyEarly => {
            zone.first_showing(label.saturating_add(1)).plus_seconds(-1)
        }
        Repeated::OnlyLate => Time::from_epoch(zone.table().last_showing(label)),
    }
}
