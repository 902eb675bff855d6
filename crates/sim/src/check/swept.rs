//! The sweep: between events it finds nothing, and so it does in every world, at any moment.

use super::{Checker, Fact, Promise, Sight};

#[derive(Debug)]
pub(crate) struct Nothing;

impl Checker for Nothing {
    const PROMISE: Promise = Promise::Swept;

    fn see(&mut self, _sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        let Fact::Swept { what } = fact else { return None };
        Some(format!("a sweep found {what}, to which no event had led"))
    }
}
