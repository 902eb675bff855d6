//! Watching a history that stays where it is.
//!
//! A watch holds a position, not a queue: each wake-up reads on from there. So a slow reader costs
//! nothing, and one that falls behind what is remembered is told so.

use std::sync::Arc;

use futures_util::stream;
use sterna_model::Revision;
use tokio::sync::watch;

use crate::{Changes, StoreError, Watch};

/// What a history holds after a position.
#[derive(Debug)]
pub enum Next {
    /// The first changes that match.
    Found(Changes),
    /// Nothing that matches, up to this revision.
    NoneUpTo(Revision),
}

/// A history to read on from.
pub(crate) trait Source: Send + Sync + 'static {
    /// The first commit after `after` that changed a key under `prefix`.
    fn next(&self, prefix: &str, after: Revision) -> Result<Next, StoreError>;
}

/// Watches `source`; `revisions` tells of its growth and must be subscribed to before this call.
pub(crate) fn follow(
    source: Arc<impl Source>,
    revisions: watch::Receiver<Revision>,
    prefix: String,
    after: Revision,
) -> Result<Watch, StoreError> {
    // Asked once here, so that a watch from the future or the forgotten past fails at once.
    source.next(&prefix, after)?;
    let start = (source, revisions, prefix, after);
    Ok(Watch::new(stream::try_unfold(
        start,
        |(source, mut revisions, prefix, mut after)| async move {
            loop {
                // Marked as seen before reading: what comes during the reading wakes us again.
                revisions.mark_unchanged();
                match source.next(&prefix, after)? {
                    Next::Found(changes) => {
                        after = changes.revision;
                        return Ok(Some((changes, (source, revisions, prefix, after))));
                    }
                    Next::NoneUpTo(revision) => after = revision,
                }
                if revisions.changed().await.is_err() {
                    return Ok(None);
                }
            }
        },
    )))
}
