//! A log that is read on as it is written, over runs, workers and reigns.

use std::{sync::Arc, time::Duration};

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header;
use sterna_api::rest::{Code, LogPage, Refused};
use sterna_model::WorkKey;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    AGAIN, TRIES, WAIT, Which, gone,
    place::{Look, Place, ask, look},
    written,
};
use crate::{
    http::{
        Api,
        chunks::{self, Chunks},
        seat::Seat,
    },
    shared::{Lead, Shared},
};

/// When to look again for a log that is not there yet.
const SOON: Duration = Duration::from_millis(20);

/// A log that is followed.
pub(super) struct Following {
    shared: Arc<Shared>,
    key: WorkKey,
    which: Which,
    /// The reign that tells.
    reign: Lead,
    after: Option<String>,
    /// In which log that place is, once one was read.
    at: Option<Place>,
    /// How often nobody answered, in a row.
    silent: u32,
    is_over: bool,
    /// Given back with it.
    _seat: Seat,
}

/// Lines of JSON as they come. A run that has not begun is waited for.
pub(super) fn follow(following: Following) -> Response {
    ([(header::CONTENT_TYPE, "application/x-ndjson")], chunks::body(following)).into_response()
}

impl Chunks for Following {
    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            // Another leader tells what comes next, or another reign of this server.
            if let Some(refused) = self.deposed() {
                return Some(self.give_up(&refused));
            }
            let mut change = self.shared.changed(&self.key);
            let look = look(&self.shared, &self.key)?;
            let Some(newest) = look.newest(&self.key, self.at.as_ref()) else {
                if look.is_over {
                    return None;
                }
                // It waits for a worker.
                self.waits(change).await;
                continue;
            };
            if let (None, Some(after), Some(over)) = (&self.at, &self.after, &look.over)
                && over.holds(after)
            {
                // Whoever reads on has come no further than that.
                self.at = Some(over.all(&self.key));
            }
            if let Some(left) = self.at.clone().filter(|at| *at != newest) {
                match self.rest(&left, newest).await {
                    Some(lines) => return Some(lines),
                    None => continue,
                }
            }
            self.at = Some(newest.clone());
            let place = self.which.begun(&newest, look.run, self.after.as_deref());
            let page = match self.next(&place, look.is_over, &mut change).await {
                Some(Ok(page)) => page,
                Some(Err(refused)) => match self.refused(refused, &look, change).await {
                    Next::Again => continue,
                    Next::Nothing => return None,
                    Next::Said(text) => return Some(text),
                },
                // Something has changed: look again.
                None => continue,
            };
            self.silent = 0;
            self.after = Some(page.next);
            self.is_over = page.more == "never" || look.is_over && page.more == "later";
            if !page.lines.is_empty() {
                return Some(written(&page.lines));
            }
        }
    }
}

impl Following {
    pub(super) fn new(shared: Api, key: WorkKey, which: Which, reign: Lead, _seat: Seat) -> Self {
        let after = which.after.clone();
        let (at, silent, is_over) = (None, 0, false);
        Self { shared, key, which, reign, after, at, silent, is_over, _seat }
    }

    /// What was written there before it began elsewhere: the last lines of a run say why it ended. When
    /// there is no more of it, or it cannot be had, it goes on with the newest.
    async fn rest(&mut self, left: &Place, newest: Place) -> Option<Bytes> {
        let question = self.which.question(left, self.after.as_deref(), Duration::ZERO);
        let page = ask(&self.shared, left.lock, question, Duration::ZERO).await.ok();
        let has_more = page.as_ref().is_some_and(|page| page.more == "now");
        if let Some(page) = &page {
            self.after = Some(page.next.clone());
        }
        if !has_more {
            let after = self.after.take().filter(|_| left.of == newest.of);
            self.after = after.map(|after| elsewhere(&after));
            self.at = Some(newest);
        }
        page.filter(|page| !page.lines.is_empty()).map(|page| written(&page.lines))
    }

    /// What follows when there is no page.
    async fn refused(
        &mut self,
        refused: Refused,
        look: &Look,
        mut change: oneshot::Receiver<()>,
    ) -> Next {
        // Its worker has not begun it, or keeps nothing of it.
        if refused.code == Code::NotFound {
            if look.is_over {
                return Next::Nothing;
            }
            // Its end is a change.
            drop(timeout(SOON, &mut change).await);
            return Next::Again;
        }
        // A link that is made anew, or a reign that has just begun: the log is where it was.
        let is_silent = matches!(refused.code, Code::WorkerSilent | Code::NotReady);
        if is_silent && self.silent < TRIES {
            self.silent += 1;
            sleep(AGAIN).await;
            return Next::Again;
        }
        // Nobody has it now: what its next run writes is waited for.
        if is_silent && look.place.is_none() {
            self.waits(change).await;
            return Next::Again;
        }
        Next::Said(self.give_up(&refused))
    }

    /// Waits until the key is something else; not longer than the reign lasts, for then it is told of
    /// nothing.
    async fn waits(&self, change: oneshot::Receiver<()>) {
        tokio::select! {
            _ = change => {}
            () = self.shared.is_over(&self.reign) => {}
        }
    }

    /// Why nothing more is told here, if the reign is over.
    fn deposed(&self) -> Option<Refused> {
        match self.shared.lead() {
            Ok(reign) if reign == self.reign => None,
            Ok(_) => Some(Refused::new(Code::NotReady, "another reign of this server has begun")),
            Err(refused) => Some(refused),
        }
    }

    fn give_up(&mut self, refused: &Refused) -> Bytes {
        self.is_over = true;
        gone(refused)
    }

    /// The next page; `None` if the key became something else first, or the reign was over.
    async fn next(
        &self,
        place: &Place,
        is_over: bool,
        change: &mut oneshot::Receiver<()>,
    ) -> Option<Result<LogPage, Refused>> {
        let wait = if is_over { Duration::ZERO } else { WAIT };
        let question = self.which.question(place, self.after.as_deref(), wait);
        let answer = ask(&self.shared, place.lock, question, wait);
        tokio::select! {
            page = answer => Some(page),
            _ = change, if !is_over => None,
            () = self.shared.is_over(&self.reign) => None,
        }
    }
}

/// What whoever follows does next.
enum Next {
    Again,
    Nothing,
    Said(Bytes),
}

/// A place for another worker, which has none of these runs: after all of them. It would say that their
/// lines are missing.
fn elsewhere(after: &str) -> String {
    let (places, time) = after.split_once('@').unwrap_or((after, ""));
    let runs = places.split(',').filter_map(|place| place.split_once(':'));
    let places: Vec<_> = runs.map(|(run, _)| format!("{run}:{}", u64::MAX)).collect();
    let time = if time.is_empty() { String::new() } else { format!("@{time}") };
    places.join(",") + &time
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use sterna_model::{DirectoryId, Lock, MachineId, WallTime};

    use super::*;
    use crate::{
        http::{logs::place::WITHIN, task_key},
        shared::{Standing, leading},
    };

    #[test]
    fn a_place_for_another_worker_is_after_all_runs_that_it_does_not_have() {
        let last = u64::MAX;
        assert_eq!(elsewhere("a:7"), format!("a:{last}"));
        assert_eq!(elsewhere("a:7,b:1@55"), format!("a:{last},b:{last}@55"));
        assert_eq!(elsewhere(""), "");
    }

    /// Its worker has a link to the leader of now: here nobody answers.
    #[tokio::test]
    async fn a_followed_log_ends_with_the_reign_in_which_it_was_asked_for() {
        let (shared, reign, inbox) = leading();
        let seat = Seat::take(&shared).unwrap();
        let key = task_key("default", "t").unwrap();
        let mut following =
            Following::new(Arc::clone(&shared), key.to_work(), Which::default(), reign, seat);
        let directory = DirectoryId::from_parts(WallTime::EPOCH, [1; 10]);
        let machine = MachineId::from_bytes(*directory.as_bytes()).unwrap();
        let lock = Lock { directory, machine };
        let place = Place { lock, of: Value::Null };
        let deposed = async {
            while inbox.posts.is_empty() {
                tokio::task::yield_now().await;
            }
            shared.stand(Standing::Follows(None));
        };
        let lines = async {
            let (_changes, mut change) = oneshot::channel();
            following.next(&place, false, &mut change).await
        };
        let both = async { tokio::join!(lines, deposed) };
        let (page, ()) = timeout(WITHIN, both).await.expect("it ends");
        assert!(page.is_none());
        let said = following.chunk().await.unwrap();
        assert!(String::from_utf8_lossy(&said).contains("not-leading"), "{said:?}");
        assert_eq!(following.chunk().await, None);
    }
}
