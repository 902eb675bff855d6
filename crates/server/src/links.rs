//! The streams of workers: each has a task that reads it, and hands on what it hears.

use std::sync::Arc;

use sterna_protocol::message::StreamId;
use sterna_wire::{Arrived, Leadership, Links, Opened};
use tokio::sync::mpsc;

use crate::{
    desk::{Desk, News},
    shared::{Shared, Standing},
};

/// Streams that may be opened before the leader has heard of them.
const OPENING: usize = 256;

/// The service that takes links, and the task that hands them on.
pub(crate) fn serve(shared: &Arc<Shared>) -> Links {
    let (opened, mut opening) = mpsc::channel(OPENING);
    let desk = shared.desk.clone();
    tokio::spawn(async move {
        let mut streams = 0;
        while let Some(opened) = opening.recv().await {
            streams += 1;
            tokio::spawn(read(StreamId::new(streams), opened, desk.clone()));
        }
    });
    let shared = Arc::clone(shared);
    let leadership = move || match shared.standing() {
        Standing::Leads(_) => Leadership::Here,
        Standing::Follows(leader) => {
            Leadership::Elsewhere(leader.and_then(|leader| leader.parse().ok()))
        }
        Standing::NotReady(_) => Leadership::Elsewhere(None),
    };
    Links::new(leadership, opened)
}

/// Reads a stream until it is over.
async fn read(stream: StreamId, opened: Opened, desk: Desk) {
    let Opened { sender, mut receiver } = opened;
    if !desk.tell(News::Opened(stream, sender)).await {
        return;
    }
    while let Ok(Some(arrived)) = receiver.arrive().await {
        let news = match arrived {
            Arrived::Message(frame) => News::Frame(stream, frame),
            Arrived::Aside(aside) => News::Aside(aside),
        };
        if !desk.tell(news).await {
            return;
        }
    }
    desk.tell(News::Closed(stream)).await;
}
