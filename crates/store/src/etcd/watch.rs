//! Following the history: a watch of etcd, begun again elsewhere where it broke. What this process
//! has committed itself it knows before etcd tells it.

use std::{
    collections::VecDeque,
    future::{pending, ready},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream};
use sterna_model::Revision;
use tokio::{
    select,
    sync::{oneshot, watch},
    time::{Instant, sleep},
};
use tonic::Streaming;

use super::{
    gather::Gather,
    keys::revision,
    known::Known,
    link::{CALL_MAX, Link, PAUSE},
    reader::{check_after, first_of, unavailable},
    session::Session,
    trouble::{Next, Trouble},
    wire::{WatchCreate, WatchRequest, WatchResponse},
};
use crate::{Changes, StoreError, Watch, own::Known as Own};

/// How long a watch goes on trying before it says that it cannot.
const PATIENCE: Duration = CALL_MAX;

/// A watch and how far it is. It reads from its stream only when it is asked for more, so that a
/// reader who stops costs no more than what fits into the stream's window.
struct Position {
    link: Link,
    known: Arc<Known>,
    prefix: String,
    gather: Gather,
    own_commits: watch::Receiver<Revision>,
    /// What the last answer brought and nobody asked for yet.
    ahead: VecDeque<Changes>,
    stream: Option<Open>,
}

/// A stream, and the session that it lives on.
struct Open {
    session: Arc<Session>,
    answers: Streaming<WatchResponse>,
    /// Ends the requests when it is dropped. While they go on, the member keeps the watch and all
    /// that it has to tell, though nobody reads the answers any more.
    _requests: oneshot::Sender<()>,
}

/// Watches from `after`.
pub(super) async fn watch(
    link: Link,
    known: Arc<Known>,
    prefix: &str,
    after: Revision,
) -> Result<Watch, StoreError> {
    // Asked once here, so that a watch from the future or the forgotten past fails at once.
    check_after(&link, &known, after).await?;
    let own_commits = known.own_commits();
    let mut position = Position {
        link,
        own_commits,
        known,
        prefix: prefix.to_owned(),
        gather: Gather::after(after),
        ahead: VecDeque::new(),
        stream: None,
    };
    // Begun now, so that what is committed from now on is on its way before it is asked for. A
    // failure is met again, and told, by whoever asks.
    position.stream = position.open(Instant::now() + CALL_MAX).await.ok();
    Ok(Watch::new(stream::try_unfold(position, |mut position| async move {
        Ok(Some((position.next().await?, position)))
    })))
}

impl Position {
    async fn next(&mut self) -> Result<Changes, StoreError> {
        let mut until = None;
        loop {
            if let Some(changes) = self.ahead.pop_front() {
                return Ok(changes);
            }
            let trouble = match self.more(&mut until).await? {
                Ok(()) => continue,
                Err(trouble) => trouble,
            };
            self.stream = None;
            self.gather.begin_anew();
            let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
            if trouble.next() == Next::Nothing || Instant::now() >= until {
                return Err(unavailable(trouble));
            }
            sleep(PAUSE).await;
        }
    }

    /// Finds more, or waits for it. The outer error ends the watch, the inner one only its stream.
    async fn more(
        &mut self,
        until: &mut Option<Instant>,
    ) -> Result<Result<(), Trouble>, StoreError> {
        let open = match &mut self.stream {
            Some(open) => open,
            None => {
                // etcd lets a watch of the future wait, also if that was the past.
                self.known.reached.mark()?;
                match self.open(until.unwrap_or_else(|| Instant::now() + PATIENCE)).await {
                    Ok(open) => self.stream.insert(open),
                    Err(trouble) => return Ok(Err(trouble)),
                }
            }
        };
        // What is there already comes first: the member must not find its watch slow because all
        // was known here before. Then what this process has committed itself.
        let own = async {
            loop {
                self.own_commits.mark_unchanged();
                if let Some(known) = self.known.since(&self.prefix, self.gather.position()) {
                    return known;
                }
                if self.own_commits.changed().await.is_err() {
                    pending::<()>().await;
                }
            }
        };
        let answer = select! {
            biased;
            answer = open.answers.message() => answer,
            Own { found, up_to } = own => {
                self.gather.pass(up_to);
                self.ahead.extend(found);
                return Ok(Ok(()));
            }
        };
        let answer = match answer {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(tonic::Status::unavailable("the stream ended").into()),
            Err(status) => Err(Trouble::from(status)),
        };
        open.session.discard_after(&answer);
        match answer {
            Ok(answer) => {
                let taken = self.take(answer);
                if let Ok(Ok(())) = taken {
                    *until = None;
                }
                taken
            }
            Err(trouble) => Ok(Err(trouble)),
        }
    }

    fn take(&mut self, answer: WatchResponse) -> Result<Result<(), Trouble>, StoreError> {
        if answer.compact_revision > 0 {
            return Err(StoreError::Compacted { floor: revision(answer.compact_revision) });
        }
        if answer.canceled {
            // Its reason is a whole error in words; what etcd itself says stands at its end.
            let reason = &answer.cancel_reason;
            let said = reason.find("etcdserver: ").map_or(&**reason, |at| &reason[at..]);
            return Ok(Err(tonic::Status::unavailable(said).into()));
        }
        let goes_on = answer.fragment;
        self.ahead.extend(self.gather.take(&self.known.keys, answer.events, goes_on));
        Ok(Ok(()))
    }

    async fn open(&self, until: Instant) -> Result<Open, Trouble> {
        let session = self.link.session(until).await?;
        let bounds = self.known.keys.bounds(&self.prefix, None);
        let create = WatchCreate {
            key: bounds.first,
            range_end: bounds.end,
            // At the position and not behind it: what is asked for must not be compacted, and only
            // what comes behind it is handed on.
            start_revision: first_of(self.gather.position()),
            fragment: true,
        };
        let request = WatchRequest { create: Some(create) };
        // The end of the requests ends the watch.
        let (_requests, ended) = oneshot::channel::<()>();
        let until_dropped = stream::once(ended).filter_map(|_| ready(None));
        let answers = session.watch(stream::iter([request]).chain(until_dropped)).await?;
        Ok(Open { session, answers, _requests })
    }
}
