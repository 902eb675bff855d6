//! Following the history: a hint wakes, and reading on from a position tells what there is.

use std::collections::VecDeque;

use futures_util::stream;
use sterna_model::Revision;
use tokio::sync::watch;

use super::{link::Link, reader};
use crate::{Changes, Limits, StoreError, Watch};

struct Position {
    link: Link,
    limits: Limits,
    hints: watch::Receiver<Revision>,
    prefix: String,
    after: Revision,
    /// What the last look brought and nobody asked for yet; at most one look's worth.
    ahead: VecDeque<Changes>,
}

/// Watches from `after`; `hints` must be subscribed to before this call.
pub(super) async fn watch(
    link: Link,
    limits: Limits,
    hints: watch::Receiver<Revision>,
    prefix: &str,
    after: Revision,
) -> Result<Watch, StoreError> {
    let prefix = prefix.to_owned();
    let mut position = Position { link, limits, hints, prefix, after, ahead: VecDeque::new() };
    // Asked once here, so that a watch from the future or the forgotten past fails at once.
    position.look().await?;
    Ok(Watch::new(stream::try_unfold(position, |mut position| async move {
        loop {
            if let Some(changes) = position.ahead.pop_front() {
                return Ok(Some((changes, position)));
            }
            // An empty look had reached the end, so there is nothing until somebody says so.
            if position.look().await? == 0 && position.hints.changed().await.is_err() {
                return Ok(None);
            }
        }
    })))
}

impl Position {
    async fn look(&mut self) -> Result<usize, StoreError> {
        // Marked as seen before reading: what comes during the reading wakes us again.
        self.hints.mark_unchanged();
        let look = reader::look(&self.link, &self.limits, &self.prefix, self.after).await?;
        self.after = look.up_to;
        self.ahead.extend(look.found);
        Ok(self.ahead.len())
    }
}
