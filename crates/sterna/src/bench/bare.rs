//! Many who write bare keys at the same time: the timed loop that the floors of servers share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::bail;

use super::store::{KEYS_EACH, VALUE_BYTES, key};
use crate::clock;

/// How many write at the same time.
pub(super) const WRITERS: usize = 64;

/// A connection that writes a key if it is as it was left.
pub(super) trait Link: Send + Sync + 'static {
    /// Writes a key that was last written at `revision`, 0 for never or since the measurement began;
    /// gives its new revision, or `None` if it was not so.
    fn write(
        &self,
        key: &str,
        revision: i64,
        value: Vec<u8>,
    ) -> impl Future<Output = anyhow::Result<Option<i64>>> + Send;
}

/// What every write carries.
pub(super) fn value() -> Vec<u8> {
    vec![b'x'; VALUE_BYTES]
}

/// Writes for so long over these connections; gives how often in a second.
pub(super) async fn measure<L: Link>(links: &[Arc<L>], span: Duration) -> anyhow::Result<f64> {
    let start = clock::instant();
    let count = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let link = Arc::clone(&links[writer % links.len()]);
            tokio::spawn(write_loop(link, writer, start, span, Arc::clone(&count)))
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    Ok(count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

async fn write_loop(
    link: Arc<impl Link>,
    writer: usize,
    start: Instant,
    span: Duration,
    count: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let mut revisions = [0_i64; KEYS_EACH];
    for index in 0.. {
        if start.elapsed() >= span {
            break;
        }
        let revision = &mut revisions[index % KEYS_EACH];
        let key = key("/bench/", writer, index % KEYS_EACH);
        match link.write(&key, *revision, value()).await? {
            Some(now) => *revision = now,
            None => bail!("{key} is written by somebody else too"),
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
