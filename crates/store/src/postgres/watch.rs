//! Following the history: a hint wakes, and reading on from a position tells what there is. What
//! this process has committed itself is read from memory.

use std::{collections::VecDeque, sync::Arc};

use futures_util::stream;
use parking_lot::Mutex;
use sterna_model::Revision;
use tokio::sync::watch;

use super::{
    link::Link,
    reader::{self, Look},
};
use crate::{
    Changes, Limits, StoreError, Watch,
    own::{Known, Own},
};

/// Where to read, and to be woken.
pub(super) struct Source {
    pub(super) link: Link,
    pub(super) limits: Limits,
    /// Subscribed to before the watch begins.
    pub(super) hints: watch::Receiver<Revision>,
    pub(super) own: Arc<Mutex<Own>>,
}

struct Position {
    source: Source,
    prefix: String,
    after: Revision,
    /// What the last look brought and nobody asked for yet; at most one look's worth.
    ahead: VecDeque<Changes>,
    /// Whether the last look brought all there was.
    is_whole: bool,
}

/// Watches from `after`.
pub(super) async fn watch(
    source: Source,
    prefix: &str,
    after: Revision,
) -> Result<Watch, StoreError> {
    let prefix = prefix.to_owned();
    let mut position = Position { source, prefix, after, ahead: VecDeque::new(), is_whole: false };
    // Asked once here, of the server, so that a watch from the future or the forgotten past fails
    // at once.
    position.ask().await?;
    Ok(Watch::new(stream::try_unfold(position, |mut position| async move {
        loop {
            if let Some(changes) = position.ahead.pop_front() {
                return Ok(Some((changes, position)));
            }
            if position.is_whole && position.source.hints.changed().await.is_err() {
                return Ok(None);
            }
            position.look().await?;
        }
    })))
}

impl Position {
    async fn look(&mut self) -> Result<(), StoreError> {
        // Marked as seen before reading: what comes during the reading wakes us again.
        let hint = *self.source.hints.borrow_and_update();
        if self.is_whole && hint == self.after {
            return Ok(());
        }
        let known = self.source.own.lock().since(&self.prefix, self.after);
        match known {
            Some(Known { found, up_to }) => {
                // Behind a gap there may be more, of others, which the hint tells.
                self.take(Look { found, up_to, is_whole: up_to >= hint });
                Ok(())
            }
            None => self.ask().await,
        }
    }

    async fn ask(&mut self) -> Result<(), StoreError> {
        self.source.hints.mark_unchanged();
        let Source { link, limits, .. } = &self.source;
        let look = reader::look(link, limits, &self.prefix, self.after).await?;
        self.take(look);
        Ok(())
    }

    fn take(&mut self, look: Look) {
        self.after = look.up_to;
        self.is_whole = look.is_whole;
        self.ahead.extend(look.found);
    }
}
