//! Makes the plan of a failing seed as short as it can be.

use crate::{Options, Promise, Violation, plan::Planned, plan_of, play_plan};

/// A plan that breaks a promise, and of which nothing can be left out.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What goes wrong.
    pub plan: Vec<Planned>,
    /// What is broken by it.
    pub violation: Violation,
    /// How many plans were tried.
    pub tried: u32,
}

/// The shortest plan that was found to break the promise that the seed breaks; `None` if it breaks
/// none.
///
/// `tries` bounds how many plans are played.
pub fn shrink(seed: u64, options: &Options, tries: u32) -> Option<Shrunk> {
    let plan = plan_of(seed, options);
    let violation = play_plan(seed, options, Some(plan.clone())).violation?;
    let mut best = Shrunk { plan, violation, tried: 1 };
    // What comes after the violation did not lead to it.
    let at = best.violation.at;
    if best.violation.promise != Promise::P3 && best.violation.promise != Promise::P9 {
        let before: Vec<_> = best.plan.iter().filter(|one| one.at <= at).copied().collect();
        best.try_plan(seed, options, before);
    }
    let mut chunk = best.plan.len().div_ceil(2);
    while chunk > 0 && best.tried < tries {
        let (before, mut start) = (best.plan.len(), 0);
        while start < best.plan.len() && best.tried < tries {
            let mut without = best.plan.clone();
            without.drain(start..(start + chunk).min(without.len()));
            if !best.try_plan(seed, options, without) {
                start += chunk;
            }
        }
        // What could not be left out before may be, now that less is there.
        if chunk > 1 || best.plan.len() == before {
            chunk /= 2;
        }
    }
    Some(best)
}

impl Shrunk {
    /// Takes a shorter plan if it breaks the same promise.
    fn try_plan(&mut self, seed: u64, options: &Options, plan: Vec<Planned>) -> bool {
        self.tried += 1;
        let violation = play_plan(seed, options, Some(plan.clone())).violation;
        match violation.filter(|found| found.promise == self.violation.promise) {
            Some(violation) => {
                self.plan = plan;
                self.violation = violation;
                true
            }
            None => false,
        }
    }
}
