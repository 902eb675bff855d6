//! Reads logs, page by page.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, atomic::Ordering},
};

use regex::bytes::{Regex, RegexBuilder};
use sterna_model::{RunId, Span};

use super::{
    Cursor, Direction, Entry, Gap, Limits, Line, More, Of, Page, Position, Request,
    frame::{Frame, Frames},
    kept::Shared,
    names::{KeyHash, LOGS},
    page::{Filling, Stop},
    scan::{self, scan},
    seek::{At, Begin, begin, end_of, line_of_time, part_of_line, part_of_time},
    shelf::{Place, Segment, Source, View},
};

/// So many keys are told of at most in one answer.
const KEPT_MAX: usize = 1_000;

/// Reads the logs of a worker, from any thread.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing is kept of this run: it was never here, or retention has removed it.
    #[error("there is no log of {run} here: it did not run here, or its log was too old to keep")]
    Unknown {
        /// The run.
        run: RunId,
    },
    /// The pattern is none.
    #[error("not a regular expression that can be searched for: {pattern:?}")]
    Pattern {
        /// What was asked for.
        pattern: String,
        /// Why not.
        #[source]
        error: regex::Error,
    },
    /// A file cannot be read; it may be possible again.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// What is in a part of a log.
enum Loaded {
    Frames(Vec<u8>),
    /// It was removed.
    Gone,
    /// It is of another key.
    Foreign,
}

/// How far a run was read.
enum Read {
    Stopped(Stop),
    Foreign,
}

impl Reader {
    pub(super) const fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Reads what a worker has kept in a data directory until now, and nothing of what it adds later.
    pub fn open(data: &Path) -> Self {
        let place = data.join(LOGS);
        let shelf = scan(&place, |_| {});
        Self::of(Arc::new(Shared::new(place, Limits::default(), shelf)))
    }

    /// Answers a request.
    ///
    /// # Errors
    /// There is no such log, the pattern is none, or a file cannot be read.
    pub fn read(&self, request: &Request) -> Result<Page, ReadError> {
        let mut filling = Filling::new(request, pattern(request)?);
        let hash = hash(&request.of);
        let begin = begin(&self.shared.shelf(), request, hash);
        if let Of::Run(run) = request.of
            && !matches!(request.from, super::From::Cursor(_))
            && self.shared.shelf().view(run).is_none()
        {
            return Err(ReadError::Unknown { run });
        }
        let (next, more) = match request.direction {
            Direction::Forward => self.forward(request, begin, &mut filling)?,
            Direction::Backward => self.backward(request, begin, &mut filling)?,
        };
        Ok(Page { entries: filling.entries, next, more })
    }

    /// Those of some keys of which something is kept, and the last line of each.
    pub fn kept(&self, keys: impl Iterator<Item = String>) -> Vec<(String, Line)> {
        let hashes = self.shared.shelf().hashes();
        let last = |key: String| {
            let of = Of::Key(key.clone());
            let request = Request { from: super::From::End, entries_max: 1, ..Request::all(of) };
            // What cannot be read is not told of: whoever asks for it is told why.
            let page = self.read(&Request { direction: Direction::Backward, ..request }).ok()?;
            page.entries.into_iter().find_map(|entry| match entry {
                Entry::Line(line) => Some((key.clone(), line)),
                Entry::Gap(_) => None,
            })
        };
        let may_be = |key: &String| hashes.contains(&KeyHash::of(key));
        keys.filter(may_be).filter_map(last).take(KEPT_MAX).collect()
    }

    /// Waits until reading on from `cursor` may bring something, for `span` at most; gives whether it
    /// may.
    pub fn wait(&self, of: &Of, cursor: &Cursor, span: Span) -> bool {
        let hash = hash(of);
        self.shared.waiting.fetch_add(1, Ordering::SeqCst);
        let waited = self.shared.changed.wait_timeout_while(
            self.shared.shelf(),
            span.as_duration(),
            |shelf| !shelf.has_news(of, hash, cursor),
        );
        self.shared.waiting.fetch_sub(1, Ordering::SeqCst);
        let (shelf, _) = waited.unwrap_or_else(PoisonError::into_inner);
        shelf.has_news(of, hash, cursor)
    }

    fn forward(
        &self,
        request: &Request,
        begin: Begin,
        filling: &mut Filling,
    ) -> Result<(Cursor, More), ReadError> {
        let mut waiting = VecDeque::new();
        for (run, at) in &begin.places {
            waiting.push_back(Position { run: *run, line: self.resolve(request, *run, *at)? });
        }
        // Where reading goes on, and whether there the run is over and read to its end.
        let mut open: Vec<(Position, bool)> = Vec::new();
        let mut last = None;
        loop {
            let Some(mut at) = waiting.pop_front() else {
                let Some(run) = self.next(request, last) else { break };
                let entered = At::entering(begin.time, request.direction);
                filling.charge();
                waiting.push_back(Position { run, line: self.resolve(request, run, entered)? });
                continue;
            };
            last = Some(at.run);
            // A run that is done with is remembered only as long as there is no later one.
            open.retain(|(_, is_done)| !is_done);
            let (stop, is_done) = self.forward_run(request, &mut at, filling)?;
            open.push((at, is_done));
            match stop {
                Stop::End => {}
                Stop::Full => {
                    let rest = open.into_iter().map(|(at, _)| at).chain(waiting).collect();
                    return Ok((begin.cursor(rest), More::Now));
                }
            }
        }
        let more = match request.of {
            Of::Run(_) if open.iter().all(|(_, is_done)| *is_done) => More::Never,
            // A key may always have another run.
            Of::Run(_) | Of::Key(_) => More::Later,
        };
        Ok((begin.cursor(open.into_iter().map(|(at, _)| at).collect()), more))
    }

    /// Reads a run on; gives whether it is over, and read to its end.
    fn forward_run(
        &self,
        request: &Request,
        at: &mut Position,
        filling: &mut Filling,
    ) -> Result<(Stop, bool), ReadError> {
        if at.line == u64::MAX {
            return Ok((Stop::End, true));
        }
        let view = self.shared.shelf().view(at.run);
        let is_live = view.as_ref().is_some_and(|view| view.is_live);
        let mut is_lost = view.is_none();
        if let Some(view) = view {
            let parts = view.parts();
            let first = part_of_line(&parts, at.line);
            for (index, part) in parts.iter().enumerate().skip(first) {
                if filling.is_full() {
                    return Ok((Stop::Full, false));
                }
                match self.load(request, &view, part)? {
                    Loaded::Gone => is_lost = true,
                    Loaded::Foreign => return Ok((Stop::End, true)),
                    Loaded::Frames(frames) => {
                        if filling.forward(at.run, &frames, &mut at.line) == Stop::Full {
                            return Ok((Stop::Full, false));
                        }
                        let whole = Frames::of(&frames).last().map_or(0, |(_, end)| end);
                        is_lost = whole < frames.len() && index + 1 == parts.len();
                    }
                }
            }
        }
        // Of what came last, nobody knows how much it was.
        if is_lost && !is_live {
            if filling.is_full() {
                return Ok((Stop::Full, false));
            }
            filling.gap(Gap { run: at.run, first: at.line, last: None });
            at.line = u64::MAX;
        }
        Ok((Stop::End, !is_live))
    }

    fn backward(
        &self,
        request: &Request,
        begin: Begin,
        filling: &mut Filling,
    ) -> Result<(Cursor, More), ReadError> {
        let mut place = begin.places.last().copied();
        let mut last = None;
        while let Some((run, at)) = place {
            let mut at = Position { run, line: self.resolve(request, run, at)? };
            let stop = self.backward_run(request, &mut at, filling)?;
            last = Some(at);
            match stop {
                Stop::Full => return Ok((begin.cursor(vec![at]), More::Now)),
                Stop::End => {}
            }
            let before = match &request.of {
                Of::Run(_) => None,
                Of::Key(key) => self.shared.shelf().before(KeyHash::of(key), Some(run)),
            };
            filling.charge();
            place = before.map(|run| (run, At::entering(begin.time, request.direction)));
        }
        Ok((begin.cursor(last.into_iter().collect()), More::Never))
    }

    fn backward_run(
        &self,
        request: &Request,
        at: &mut Position,
        filling: &mut Filling,
    ) -> Result<Stop, ReadError> {
        match self.backward_parts(request, at, filling)? {
            Read::Foreign => return Ok(Stop::End),
            Read::Stopped(Stop::Full) => return Ok(Stop::Full),
            Read::Stopped(Stop::End) => {}
        }
        if at.line > 1 {
            if filling.is_full() {
                return Ok(Stop::Full);
            }
            let last = (at.line != u64::MAX).then(|| at.line - 1);
            filling.gap(Gap { run: at.run, first: 1, last });
            at.line = 1;
        }
        Ok(Stop::End)
    }

    fn backward_parts(
        &self,
        request: &Request,
        at: &mut Position,
        filling: &mut Filling,
    ) -> Result<Read, ReadError> {
        let Some(view) = self.shared.shelf().view(at.run) else {
            return Ok(Read::Stopped(Stop::End));
        };
        let parts = view.parts();
        let first = part_of_line(&parts, at.line);
        for (index, part) in parts.iter().enumerate().take(first + 1).rev() {
            if filling.is_full() {
                return Ok(Read::Stopped(Stop::Full));
            }
            match self.load(request, &view, part)? {
                Loaded::Gone => {}
                Loaded::Foreign => return Ok(Read::Foreign),
                Loaded::Frames(frames) => {
                    if index + 1 == parts.len() {
                        // Nothing is known of what lies beyond the end.
                        at.line = at.line.min(end_of(part, &frames));
                    }
                    if filling.backward(at.run, &frames, &mut at.line) == Stop::Full {
                        return Ok(Read::Stopped(Stop::Full));
                    }
                }
            }
        }
        Ok(Read::Stopped(Stop::End))
    }

    /// The run after this one.
    fn next(&self, request: &Request, run: Option<RunId>) -> Option<RunId> {
        match &request.of {
            Of::Run(_) => None,
            Of::Key(key) => self.shared.shelf().after(KeyHash::of(key), run),
        }
    }

    /// Looks for a place.
    fn resolve(&self, request: &Request, run: RunId, at: At) -> Result<u64, ReadError> {
        let time = match at {
            At::Line(line) => return Ok(line.max(1)),
            At::Time(time) => Some(time),
            At::End => None,
        };
        let Some(view) = self.shared.shelf().view(run) else { return Ok(1) };
        let parts = view.parts();
        let last = parts.len().saturating_sub(1);
        let index = time.map_or(last, |time| part_of_time(&parts, time));
        let Some(part) = parts.get(index) else { return Ok(view.next.unwrap_or(1)) };
        if let (None, Some(next)) = (time, view.next) {
            return Ok(next);
        }
        if let Some(time) = time {
            if part.first_at >= time {
                // All of it is later, even what is not there any more.
                return Ok(1);
            }
            if !view.is_live && index == last && part.last_at < time {
                return Ok(u64::MAX);
            }
        }
        let Loaded::Frames(frames) = self.load(request, &view, part)? else {
            return Ok(part.first);
        };
        Ok(time.map_or_else(|| end_of(part, &frames), |time| line_of_time(part, &frames, time)))
    }

    fn load(&self, request: &Request, view: &View, part: &Segment) -> Result<Loaded, ReadError> {
        let (path, offset, bytes) = match &view.source {
            Source::Own(key, _) => {
                let place = Place::Own(view.run, *key, part.first);
                (scan::path(&self.shared.place, place, part.first_at), 0, part.bytes)
            }
            Source::Quiet(segment, spot) => {
                let place = Place::Quiet(segment.first);
                let path = scan::path(&self.shared.place, place, segment.first_at);
                (path, spot.offset, spot.bytes)
            }
            Source::Pending { key, frames } => {
                return Ok(if is_of(&request.of, key.as_bytes()) {
                    Loaded::Frames(frames.clone())
                } else {
                    Loaded::Foreign
                });
            }
        };
        let found = scan::read(&path, offset, bytes);
        let found = found.map_err(|error| ReadError::Io { path, error })?;
        let Some(mut found) = found else { return Ok(Loaded::Gone) };
        match Frames::of(&found).next() {
            Some((Frame::Begin { key, .. } | Frame::Quiet { key, .. }, _))
                if !is_of(&request.of, key) =>
            {
                Ok(Loaded::Foreign)
            }
            Some((Frame::Quiet { frames, .. }, _)) => {
                let inner = frames.len();
                found.drain(..found.len() - inner);
                Ok(Loaded::Frames(found))
            }
            Some((Frame::Begin { .. } | Frame::Lines(_), _)) | None => Ok(Loaded::Frames(found)),
        }
    }
}

/// What stands for a key; whose run is named needs none.
fn hash(of: &Of) -> KeyHash {
    match of {
        Of::Run(_) => KeyHash::of(""),
        Of::Key(key) => KeyHash::of(key),
    }
}

fn is_of(of: &Of, key: &[u8]) -> bool {
    match of {
        Of::Run(_) => true,
        Of::Key(wanted) => wanted.as_bytes() == key,
    }
}

fn pattern(request: &Request) -> Result<Option<Regex>, ReadError> {
    let Some(pattern) = &request.matching else { return Ok(None) };
    // Whoever asks must not be able to take the worker's memory.
    let built = RegexBuilder::new(pattern).size_limit(1 << 20).dfa_size_limit(1 << 20).build();
    built.map(Some).map_err(|error| ReadError::Pattern { pattern: pattern.clone(), error })
}
