//! Where everybody who wants something of the leader puts it, and waits for what comes of it.
//!
//! Invariant: every queue is bounded. Clients who find theirs full are told so at once; workers wait.

use bytes::Bytes;
use sterna_api::rest::{Code, Refused};
use sterna_engine::{
    Leader,
    control::{Answer, Call, Now},
};
use sterna_model::Lock;
use sterna_protocol::message::{FromLeader, FromWorker, StreamId};
use sterna_wire::{Aside, Sender};
use tokio::sync::{mpsc, oneshot};

/// Calls of clients that may wait for the leader.
pub(crate) const CALLS_WAITING: usize = 4_096;
/// Frames of workers that may wait for the leader.
const FRAMES_WAITING: usize = 8_192;

/// A question to the leader, answered at once by what it knows.
type Ask = Box<dyn FnOnce(&mut Leader, Now) + Send>;

/// What must be so, as the leader knows it, for a change to be made.
pub(crate) type OnlyIf = Box<dyn FnOnce(&Leader) -> bool + Send>;

/// What a client wants.
pub(crate) enum Post {
    /// A change, on a condition; answered when it stands in the store.
    Call(Call, Option<OnlyIf>, oneshot::Sender<Result<Answer, Refused>>),
    /// To know something.
    Ask(Ask),
    /// That the roster is complete although the store was restored; answered, when that is told, with
    /// whether anybody had waited for it.
    RosterIsComplete(oneshot::Sender<Result<bool, Refused>>),
    /// A question to the worker of this machine; dropped if it has no stream.
    Aside(Lock, Bytes, oneshot::Sender<Bytes>),
}

/// What a stream says.
pub(crate) enum News {
    Opened(StreamId, Sender<FromLeader>),
    Frame(StreamId, FromWorker),
    Aside(Aside),
    Closed(StreamId),
}

/// Where clients put what they want. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    posts: mpsc::Sender<Post>,
    news: mpsc::Sender<News>,
}

/// The other side of it.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) posts: mpsc::Receiver<Post>,
    pub(crate) news: mpsc::Receiver<News>,
}

/// A desk, and its other side.
pub(crate) fn desk() -> (Desk, Inbox) {
    let (posts, posted) = mpsc::channel(CALLS_WAITING);
    let (news, heard) = mpsc::channel(FRAMES_WAITING);
    (Desk { posts, news }, Inbox { posts: posted, news: heard })
}

impl Desk {
    /// Asks the leader for a change, and waits until it stands.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer, Refused> {
        self.call_if(None, call).await
    }

    /// Asks the leader for a change, if a condition holds.
    pub(crate) async fn call_if(
        &self,
        only_if: Option<OnlyIf>,
        call: Call,
    ) -> Result<Answer, Refused> {
        let (reply, answer) = oneshot::channel();
        self.post(Post::Call(call, only_if, reply))?;
        answer.await.map_err(|_| unanswered())?
    }

    /// Tells the leader that the roster is complete, by somebody who must know.
    pub(crate) async fn roster_is_complete(&self) -> Result<bool, Refused> {
        let (reply, answer) = oneshot::channel();
        self.post(Post::RosterIsComplete(reply))?;
        answer.await.map_err(|_| unanswered())?
    }

    /// Asks the leader what it knows.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Leader, Now) -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let (reply, answer) = oneshot::channel();
        // Who no longer waits needs no answer.
        let ask = move |leader: &mut Leader, now: Now| drop(reply.send(question(leader, now)));
        self.post(Post::Ask(Box::new(ask)))?;
        answer.await.map_err(|_| unanswered())
    }

    /// Asks the worker of a machine something beside the protocol.
    pub(crate) async fn aside(&self, lock: Lock, question: Bytes) -> Result<Bytes, Refused> {
        let (reply, answer) = oneshot::channel();
        self.post(Post::Aside(lock, question, reply))?;
        let silent = |_| Refused::new(Code::WorkerSilent, "its worker has no link, or broke it");
        answer.await.map_err(silent)
    }

    /// How many calls wait for the leader.
    pub(crate) fn waiting(&self) -> usize {
        CALLS_WAITING.saturating_sub(self.posts.capacity())
    }

    fn post(&self, post: Post) -> Result<(), Refused> {
        self.posts.try_send(post).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::new(
                Code::TooMuch,
                format!("{CALLS_WAITING} calls wait for the leader already"),
            ),
            mpsc::error::TrySendError::Closed(_) => unanswered(),
        })
    }

    /// Tells the leader something; waits while too much waits already. Gives whether it may still be
    /// heard.
    pub(crate) async fn tell(&self, news: News) -> bool {
        self.news.send(news).await.is_ok()
    }
}

/// The reign has ended before the answer: what was asked for may have been done.
fn unanswered() -> Refused {
    Refused::new(
        Code::NotReady,
        "the leader's reign ended before it answered; what was asked for may have been done",
    )
}
