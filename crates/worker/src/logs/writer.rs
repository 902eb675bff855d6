//! The log of one run: takes what comes, and fills files.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    sync::{Arc, PoisonError},
};

use sterna_model::{RunId, Span, WallTime, payload::WhenOver};

use super::{
    frame::{Batch, Frames, put_begin},
    kept::{Shared, append, create},
    names::KeyHash,
    rate::Bucket,
    scan,
    seek::end_of,
    shelf::{Place, Segment, must_rotate},
    splitter::Splitter,
};
use crate::sink::{Flow, Origin, Sink, Stream};

/// What was said of a run that wrote nothing is kept in memory up to this; then it gets a file.
const PENDING_MAX: usize = 8 * 1024;

/// The log of one run.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    run: RunId,
    key: String,
    hash: KeyHash,
    streams: [Splitter; 2],
    live: Option<(File, Segment)>,
    /// The number of the next line.
    next: u64,
    at: WallTime,
    rate: Option<(Bucket, WhenOver)>,
    /// The last lines beyond the rate; they are dropped when others come.
    held: Held,
    dropped: Dropped,
    is_over: bool,
}

/// Frames that may still be written.
#[derive(Debug, Default)]
struct Held {
    frames: Vec<u8>,
    first: u64,
    lines: u64,
    bytes: u64,
}

/// What was not kept, and was not told yet.
#[derive(Debug, Default)]
struct Dropped {
    lines: u64,
    bytes: u64,
    why: String,
}

impl Writer {
    pub(super) fn open(shared: &Arc<Shared>, run: RunId, origin: &Origin) -> Self {
        let quiet = shared.quiet_log(run);
        let key = quiet.as_ref().map_or(&origin.key, |(key, ..)| key).clone();
        let last = shared.shelf().open(run, KeyHash::of(&key), &key);
        let hash = shared.shelf().hash(run).unwrap_or_else(|| KeyHash::of(&key));
        let rate = origin.logs.rate.map(|rate| (Bucket::new(rate), origin.logs.when_over));
        let mut writer = Self {
            shared: Arc::clone(shared),
            run,
            key,
            hash,
            streams: Default::default(),
            live: None,
            next: 1,
            at: WallTime::EPOCH,
            rate,
            held: Held::default(),
            dropped: Dropped::default(),
            is_over: false,
        };
        if let Some(last) = last {
            // Numbers are not used again, even if nobody knows how far they got: no line is shorter.
            writer.next = last.first + last.bytes;
            // What cannot be gone on with is left as it is, and another file follows.
            drop(writer.go_on(last));
        } else if let Some((_, frames, next)) = quiet {
            // The whole is kept again, with what is said now.
            writer.next = next;
            shared.shelf().pend(run, &frames, next);
        }
        writer
    }

    /// Goes on with what an earlier worker has begun, after its last whole frame.
    fn go_on(&mut self, mut last: Segment) -> io::Result<()> {
        let place = Place::Own(self.run, self.hash, last.first);
        let path = scan::path(&self.shared.place, place, last.first_at);
        let bytes = scan::read(&path, 0, last.bytes)?.ok_or(io::ErrorKind::NotFound)?;
        let mut file = OpenOptions::new().append(true).open(&path)?;
        let whole = Frames::of(&bytes).last().map_or(0, |(_, end)| end);
        file.set_len(whole as u64)?;
        let mut begin = Vec::new();
        if whole == 0 {
            put_begin(self.run, &self.key, &mut begin);
            append(&mut file, 0, &begin)?;
        }
        last.bytes = (whole + begin.len()) as u64;
        self.next = end_of(&last, &bytes);
        self.shared.shelf().grown(self.run, last.bytes, last.last_at, self.next);
        self.live = Some((file, last));
        Ok(())
    }

    /// What the run has written.
    fn output(&mut self, at: WallTime, stream: Stream, bytes: &[u8]) -> Flow {
        let over = self.rate.as_mut().map(|(bucket, over)| (bucket.wait(at), *over));
        let is_shed = match over {
            Some((wait, WhenOver::Drop)) => wait > Span::ZERO,
            Some((_, WhenOver::Wait)) | None => false,
        };
        if !is_shed {
            self.release(at);
        }
        let shared = Arc::clone(&self.shared);
        let mut scratch = shared.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.clear();
        let first = self.next;
        let mut batch = Batch::open(first, at, &mut scratch);
        let splitter = match stream {
            Stream::Stdout | Stream::Events => &mut self.streams[0],
            Stream::Stderr => &mut self.streams[1],
        };
        splitter.take(bytes, |(parts, is_cut)| batch.push(stream, is_cut, parts));
        let lines = u64::from(batch.close());
        self.next += lines;
        if is_shed {
            self.shed(&scratch, first, lines);
            return Flow::More;
        }
        self.put(at, &scratch, first);
        match &mut self.rate {
            None => Flow::More,
            Some((bucket, over)) => {
                bucket.take(bytes.len());
                let wait = bucket.wait(at);
                match over {
                    WhenOver::Wait if wait > Span::ZERO => Flow::Wait(wait),
                    WhenOver::Wait | WhenOver::Drop => Flow::More,
                }
            }
        }
    }

    /// Keeps only the newest of what is beyond the rate.
    fn shed(&mut self, frames: &[u8], first: u64, lines: u64) {
        if lines == 0 {
            return;
        }
        let Held { lines: before, bytes, .. } = self.held;
        if before > 0 {
            let rate = self.rate.as_ref().map(|(bucket, _)| bucket.rate()).unwrap_or_default();
            self.dropped.add(before, bytes, format!("more than {rate} a second"));
        }
        self.held.frames.clear();
        self.held.frames.extend_from_slice(frames);
        self.held = Held {
            frames: std::mem::take(&mut self.held.frames),
            first,
            lines,
            bytes: frames.len() as u64,
        };
    }

    /// Writes what was held, and tells what was dropped before it.
    fn release(&mut self, at: WallTime) {
        let held = std::mem::take(&mut self.held);
        self.put(at, &held.frames, held.first);
        if self.dropped.lines > 0 {
            let Dropped { lines, bytes, why } = &self.dropped;
            let text = serde_json::json!({ "event": "dropped", "lines": lines, "bytes": bytes, "why": why });
            let mut frames = Vec::new();
            let mut batch = Batch::open(self.next, at, &mut frames);
            batch.push(Stream::Events, false, [text.to_string().as_bytes(), b""]);
            let (first, _) = (self.next, batch.close());
            self.next += 1;
            match self.append(at, &frames, first) {
                Ok(()) => self.dropped = Dropped::default(),
                Err(_) => self.next -= 1,
            }
        }
    }

    /// What the worker says of the run.
    fn say(&mut self, at: WallTime, bytes: &[u8]) {
        self.release(at);
        let mut frames = Vec::new();
        let first = self.next;
        let mut batch = Batch::open(first, at, &mut frames);
        let mut splitter = Splitter::default();
        splitter.take(bytes, |(parts, is_cut)| batch.push(Stream::Events, is_cut, parts));
        splitter.settle(|(parts, _)| batch.push(Stream::Events, false, parts));
        self.next += u64::from(batch.close());
        if self.live.is_none() {
            let mut shelf = self.shared.shelf();
            let is_small = shelf.pending(self.run) + frames.len() <= PENDING_MAX;
            if is_small && shelf.is_gone(self.run) {
                shelf.pend(self.run, &frames, self.next);
                drop(shelf);
                self.shared.tell();
                return;
            }
        }
        self.put(at, &frames, first);
    }

    fn put(&mut self, at: WallTime, frames: &[u8], first: u64) {
        if frames.is_empty() {
            return;
        }
        let mut put = self.append(at, frames, first);
        // On a full disk the newest lines are worth more than the oldest.
        if put.as_ref().is_err_and(is_full) && self.shared.make_room(self.run) {
            put = self.append(at, frames, first);
        }
        if let Err(error) = put {
            let lines = Frames::of(frames).lines().map(|lines| lines.end() - lines.first).sum();
            self.dropped.add(lines, frames.len() as u64, error.to_string());
        }
    }

    /// Writes frames whose first line is `first`; the next one is known already.
    fn append(&mut self, at: WallTime, frames: &[u8], first: u64) -> io::Result<()> {
        let adding = frames.len() as u64;
        let limits = self.shared.limits;
        let is_full = |segment: &Segment| must_rotate(&limits, segment, adding, at);
        if let Some((file, segment)) = self.live.as_mut().filter(|(_, segment)| !is_full(segment)) {
            append(file, segment.bytes, frames)?;
            segment.bytes += adding;
            self.shared.shelf().grown(self.run, segment.bytes, at, self.next);
            self.shared.tell();
            return Ok(());
        }
        let pending = self.shared.shelf().take_pending(self.run);
        let begun = self.begin(at, frames, first, &pending);
        if begun.is_err() {
            self.shared.shelf().pend(self.run, &pending, self.next);
        }
        begun
    }

    /// Begins another file, with what was in none.
    fn begin(&mut self, at: WallTime, frames: &[u8], first: u64, pending: &[u8]) -> io::Result<()> {
        let (first, first_at) =
            Frames::of(pending).lines().next().map_or((first, at), |lines| (lines.first, lines.at));
        let place = Place::Own(self.run, self.hash, first);
        let path = scan::path(&self.shared.place, place, first_at);
        if self.live.is_none()
            && let Some(directory) = path.parent()
        {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let mut file = create(&path)?;
        let mut out = Vec::with_capacity(pending.len() + frames.len() + 128);
        put_begin(self.run, &self.key, &mut out);
        out.extend_from_slice(pending);
        out.extend_from_slice(frames);
        if let Err(error) = file.write_all(&out) {
            // Half a file is none.
            drop(fs::remove_file(&path));
            return Err(error);
        }
        let segment = Segment { first, first_at, last_at: at, bytes: out.len() as u64 };
        self.live = Some((file, segment));
        let mut shelf = self.shared.shelf();
        shelf.begun(self.run, segment);
        shelf.grown(self.run, segment.bytes, at, self.next);
        drop(shelf);
        self.shared.tell();
        self.shared.prune(at, Some(self.run));
        Ok(())
    }

    fn finish(&mut self, at: WallTime) {
        self.settle(at);
        self.is_over = true;
        if self.shared.shelf().is_gone(self.run) {
            let pending = self.shared.shelf().take_pending(self.run);
            if !pending.is_empty() {
                // A disk that is full has no room for it.
                drop(self.shared.keep_quiet(self.run, (&self.key, &pending, self.next), at));
            }
        }
        self.shared.shelf().over(self.run);
        self.shared.tell();
    }
}

/// Whether there is no room on the disk, or no more for this user.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Sink for Writer {
    fn write(&mut self, at: WallTime, stream: Stream, bytes: &[u8]) -> Flow {
        self.at = at;
        match stream {
            Stream::Stdout | Stream::Stderr => self.output(at, stream, bytes),
            Stream::Events => {
                self.say(at, bytes);
                Flow::More
            }
        }
    }

    fn is_settled(&self) -> bool {
        let is_told = self.held.lines == 0 && self.dropped.lines == 0;
        is_told && self.streams.iter().all(Splitter::is_settled)
    }

    fn settle(&mut self, at: WallTime) {
        self.release(at);
        let mut frames = Vec::new();
        let first = self.next;
        let mut batch = Batch::open(first, at, &mut frames);
        for (splitter, stream) in self.streams.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
            splitter.settle(|(parts, is_cut)| batch.push(stream, is_cut, parts));
        }
        self.next += u64::from(batch.close());
        self.put(at, &frames, first);
    }

    fn end(mut self: Box<Self>, at: WallTime) {
        self.finish(at);
        self.shared.prune(at, None);
    }

    fn end_soon(mut self: Box<Self>, at: WallTime) {
        self.finish(at);
    }
}

impl Drop for Writer {
    /// The worker ends, and the run may go on: what was read is kept. What was only said is said
    /// again to the next worker.
    fn drop(&mut self) {
        if !self.is_over {
            self.settle(self.at);
            self.shared.shelf().over(self.run);
        }
    }
}

impl Dropped {
    fn add(&mut self, lines: u64, bytes: u64, why: String) {
        self.lines += lines;
        self.bytes += bytes;
        self.why = why;
    }
}
