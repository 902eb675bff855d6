//! Watching a history that stays where it is.
//!
//! A watch holds a position and one small batch, not a queue: each wake-up reads on from there. So a
//! slow reader costs nothing, and one that falls behind what is remembered is told so.

use std::{collections::VecDeque, sync::Arc};

use futures_util::stream;
use sterna_model::Revision;
use tokio::sync::watch;

use crate::{Changes, StoreError, Watch};

/// Commits read in one go, so that a busy history is not asked for each of them.
const BATCH: usize = 128;
/// Bytes after which a batch ends, so that a reader who stops costs no more than that.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// What a history holds after a position.
#[derive(Debug, PartialEq, Eq)]
pub struct Next {
    /// The first commits that match, oldest first.
    pub found: Vec<Changes>,
    /// Nothing else matches up to this revision.
    pub up_to: Revision,
}

/// A history to read on from.
pub(crate) trait Source: Send + Sync + 'static {
    /// The first commits after `after` that changed a key under `prefix`, at most `limit` of them.
    fn next(&self, prefix: &str, after: Revision, limit: usize) -> Result<Next, StoreError>;
}

/// Watches `source`; `revisions` tells of its growth and must be subscribed to before this call.
pub(crate) fn follow(
    source: Arc<impl Source>,
    revisions: watch::Receiver<Revision>,
    prefix: String,
    after: Revision,
) -> Result<Watch, StoreError> {
    // Asked once here, so that a watch from the future or the forgotten past fails at once.
    source.next(&prefix, after, 0)?;
    let reader = Reader { source, revisions, prefix, after, read: VecDeque::new() };
    Ok(Watch::new(stream::try_unfold(reader, |mut reader| async move {
        Ok(reader.next().await?.map(|changes| (changes, reader)))
    })))
}

struct Reader<S> {
    source: Arc<S>,
    revisions: watch::Receiver<Revision>,
    prefix: String,
    /// Everything up to here is in `read` or was delivered.
    after: Revision,
    read: VecDeque<Changes>,
}

impl<S: Source> Reader<S> {
    /// The next changes; `None` when the history is closed.
    async fn next(&mut self) -> Result<Option<Changes>, StoreError> {
        loop {
            if let Some(changes) = self.read.pop_front() {
                return Ok(Some(changes));
            }
            // Marked as seen before reading: what comes during the reading wakes us again.
            self.revisions.mark_unchanged();
            let next = self.source.next(&self.prefix, self.after, BATCH)?;
            self.after = next.up_to;
            self.read.extend(next.found);
            if self.read.is_empty() && self.revisions.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}
