//! The one place where the output of runs is read: a thread that waits for all pipes.

use std::{
    cell::Cell,
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use sterna_model::{BootTime, RunId, Span};

use super::stored;
use crate::{
    clock::{boot_time, wall_time},
    directory::Layout,
    guardian::StreamWord,
    sink::{Flow, Origin, Sink, Sinks, Stream},
};

/// As much as is read at a time; one buffer serves all.
const CHUNK: usize = 64 * 1024;
/// A pipe holds no more, unless the machine was told otherwise.
const PIPE_MAX: usize = 1024 * 1024;
/// Of a status line, not more is kept.
const STATUS_MAX: usize = 65_000;
/// Whoever keeps a pipe open after everything of the run is gone got it from the run, and is none of
/// it. So long it is read on.
const FOREIGN: Span = Span::from_millis(500);
/// A sink that holds something back is told after so long that nothing came.
const SETTLE: Span = Span::from_millis(200);
/// Sinks are tended so often.
const TEND: Span = Span::from_secs(60);
const WAKE: u64 = u64::MAX;

/// What the thread is told. There are at most a few for each run, so the channel needs no bound.
#[derive(Debug)]
pub(super) enum Order {
    /// Read these, of a run of this origin.
    Add(RunId, Origin, Vec<(StreamWord, Arc<OwnedFd>)>),
    /// Write this line about the run.
    Say(RunId, String),
    /// Nothing of the run is left: read to the end, and tell.
    Finish(RunId),
    /// Let go of everything; runs go on.
    End,
}

/// A run whose pipes are closed, and the last line on its status pipe.
pub(super) type Drained = Box<dyn FnMut(RunId, Option<String>) + Send>;

/// The thread, and the way to tell it something.
pub(super) struct Output {
    sinks: SharedSinks,
    orders: Sender<Order>,
    wake: Arc<OwnedFd>,
    /// Whether something was said since the thread was woken.
    is_told: Cell<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Output {
    pub(super) fn start(
        sinks: Box<dyn Sinks>,
        layout: Layout,
        drained: Drained,
    ) -> io::Result<Self> {
        let (orders, receiver) = channel();
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(WAKE);
        epoll::add(&epoll, &*wake, data, epoll::EventFlags::IN)?;
        let sinks = Arc::new(Mutex::new(sinks));
        let reader = Reader {
            sinks: Arc::clone(&sinks),
            layout,
            drained,
            orders: receiver,
            wake: Arc::clone(&wake),
            epoll,
            pipes: BTreeMap::new(),
            runs: BTreeMap::new(),
            next: 0,
            tended: boot_time(),
            buffer: vec![0; CHUNK],
        };
        let thread =
            std::thread::Builder::new().name("output".to_owned()).spawn(|| reader.work())?;
        Ok(Self { sinks, orders, wake, is_told: Cell::new(false), thread: Some(thread) })
    }

    /// Says it with the next [`Output::flush`].
    pub(super) fn tell(&self, order: Order) {
        // The thread ends only when it is told to.
        drop(self.orders.send(order));
        self.is_told.set(true);
    }

    /// Wakes the thread, if anything was said since it was woken last.
    pub(super) fn flush(&self) {
        if self.is_told.take() {
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Output {
    /// Keeps what is to be said of a run that is over, if the thread has not heard of it and nothing
    /// has to be read for it; or gives back what the thread is to be told.
    pub(super) fn keep_silent(&self, orders: Vec<Order>) -> Result<(), Vec<Order>> {
        let is_silent = |order: &Order| match order {
            Order::Add(_, _, pipes) => are_silent(pipes),
            Order::Say(..) => true,
            Order::Finish(_) | Order::End => false,
        };
        if orders.is_empty() || !orders.iter().all(is_silent) {
            return Err(orders);
        }
        // The thread may have them for long: it is not waited for.
        let Ok(mut sinks) = self.sinks.try_lock() else { return Err(orders) };
        let mut sink: Option<Box<dyn Sink>> = None;
        for order in orders {
            match order {
                Order::Add(run, origin, _) => {
                    sink.get_or_insert_with(|| sinks.open(run, &origin));
                }
                Order::Say(run, line) => {
                    let sink = sink.get_or_insert_with(|| sinks.open(run, &Origin::default()));
                    let _flow = sink.write(wall_time(), Stream::Events, line.as_bytes());
                }
                Order::Finish(_) | Order::End => {}
            }
        }
        if let Some(sink) = sink {
            sink.end_soon(wall_time());
        }
        Ok(())
    }
}

/// Whether nothing is in these pipes, and nothing comes; of a status something may be known already.
fn are_silent(pipes: &[(StreamWord, Arc<OwnedFd>)]) -> bool {
    let mut fds: Vec<_> = pipes.iter().map(|(_, end)| PollFd::new(end, PollFlags::IN)).collect();
    let is_looked_at = poll(&mut fds, Some(&Timespec::default())).is_ok();
    let has_status = pipes.iter().any(|(stream, _)| *stream == StreamWord::Status);
    is_looked_at && !has_status && fds.iter().all(|fd| fd.revents() == PollFlags::HUP)
}

/// Whoever makes sinks: for the thread, and for what was said of a run that wrote nothing.
type SharedSinks = Arc<Mutex<Box<dyn Sinks>>>;

impl Drop for Output {
    fn drop(&mut self) {
        self.tell(Order::End);
        self.flush();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was shown when it happened.
            drop(thread.join());
        }
    }
}

struct Pipe {
    run: RunId,
    stream: StreamWord,
    end: Arc<OwnedFd>,
    /// Whether it is waited for.
    is_armed: bool,
}

struct Run {
    sink: Box<dyn Sink>,
    /// Its pipes that are not at their end.
    pipes: Vec<u64>,
    /// Not read before then.
    paused_until: Option<BootTime>,
    /// Nothing of it is left since then.
    gone_since: Option<BootTime>,
    /// What its sink holds back is to be settled then.
    settle_at: Option<BootTime>,
    status: LastLine,
}

struct Reader {
    sinks: SharedSinks,
    layout: Layout,
    drained: Drained,
    orders: Receiver<Order>,
    wake: Arc<OwnedFd>,
    epoll: OwnedFd,
    pipes: BTreeMap<u64, Pipe>,
    runs: BTreeMap<RunId, Run>,
    next: u64,
    /// When the sinks were last tended.
    tended: BootTime,
    buffer: Vec<u8>,
}

impl Reader {
    fn work(mut self) {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            let timeout = self.timeout();
            let room = rustix::buffer::spare_capacity(&mut events);
            // An interrupted wait is one without events.
            let _ = epoll::wait(&self.epoll, room, timeout.as_ref());
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        if !self.obey() {
                            return;
                        }
                    }
                    token => drop(self.read(token)),
                }
            }
            self.pass_time(boot_time());
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let now = boot_time();
        let due = self.runs.values().flat_map(|run| {
            [run.paused_until, run.gone_since.map(|since| since.plus(FOREIGN)), run.settle_at]
        });
        let first = due.flatten().chain([self.tended.plus(TEND)]).min()?;
        let wait = first.since(now).plus(Span::from_millis(1));
        Timespec::try_from(wait.as_duration()).ok()
    }

    /// Does what it was told; gives whether to go on.
    fn obey(&mut self) -> bool {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let mut new = Vec::new();
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Add(run, origin, pipes) => self.add(run, &origin, pipes, &mut new),
                Order::Say(run, line) => {
                    let run = self.run(run, &Origin::default());
                    // Events come however fast output may.
                    let _flow = run.sink.write(wall_time(), Stream::Events, line.as_bytes());
                }
                Order::Finish(id) => {
                    let run = self.run(id, &Origin::default());
                    run.gone_since = Some(boot_time());
                    run.paused_until = None;
                    // Of most runs their end is in the pipes by now, and nobody need wait for it.
                    let pipes = run.pipes.clone();
                    for token in pipes {
                        self.drain(token);
                        new.push(token);
                    }
                    self.finish(id);
                }
                Order::End => return false,
            }
        }
        new.into_iter().for_each(|token| self.arm(token));
        true
    }

    /// Reads what is in a pipe now; none holds more of what its run has written.
    fn drain(&mut self, token: u64) {
        for _ in 0..PIPE_MAX / CHUNK {
            match self.read(token) {
                Found::Bytes => {}
                Found::Nothing => break,
            }
        }
    }

    fn run(&mut self, run: RunId, origin: &Origin) -> &mut Run {
        let sinks = &self.sinks;
        self.runs.entry(run).or_insert_with(|| Run {
            sink: sinks.lock().unwrap_or_else(PoisonError::into_inner).open(run, origin),
            pipes: Vec::new(),
            paused_until: None,
            gone_since: None,
            settle_at: None,
            status: LastLine::default(),
        })
    }

    /// Takes the pipes of a run, to be armed when everything was heard that was said.
    fn add(
        &mut self,
        run: RunId,
        origin: &Origin,
        pipes: Vec<(StreamWord, Arc<OwnedFd>)>,
        new: &mut Vec<u64>,
    ) {
        self.run(run, origin);
        if pipes.iter().any(|(stream, _)| *stream == StreamWord::Status)
            && let Some(said) = stored::read_status(&self.layout.run(run))
        {
            // An earlier worker has read it.
            self.run(run, origin).status.take(&said);
        }
        for (stream, end) in pipes {
            // What cannot be read does not hold up its run for long.
            if rustix::io::ioctl_fionbio(&end, true).is_err() {
                continue;
            }
            let token = self.next;
            self.next += 1;
            self.run(run, origin).pipes.push(token);
            self.pipes.insert(token, Pipe { run, stream, end, is_armed: false });
            new.push(token);
        }
    }

    fn arm(&mut self, token: u64) {
        if let Some(pipe) = self.pipes.get_mut(&token).filter(|pipe| !pipe.is_armed) {
            let data = epoll::EventData::new_u64(token);
            pipe.is_armed =
                epoll::add(&self.epoll, &*pipe.end, data, epoll::EventFlags::IN).is_ok();
        }
    }

    fn read(&mut self, token: u64) -> Found {
        let Some(pipe) = self.pipes.get(&token) else { return Found::Nothing };
        let (id, stream) = (pipe.run, pipe.stream);
        let bytes = match rustix::io::read(&pipe.end, &mut *self.buffer) {
            Ok(length) if length > 0 => self.buffer.get(..length).unwrap_or_default(),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Found::Nothing,
            Ok(_) | Err(_) => {
                self.close(token);
                return Found::Nothing;
            }
        };
        let Some(run) = self.runs.get_mut(&id) else { return Found::Nothing };
        let stream = match stream {
            StreamWord::Stdout => Stream::Stdout,
            StreamWord::Stderr => Stream::Stderr,
            StreamWord::Status => {
                run.status.take(bytes);
                // What is not kept is known to this worker alone.
                drop(stored::write_status(&self.layout.run(id), &run.status.kept()));
                return Found::Bytes;
            }
        };
        let flow = run.sink.write(wall_time(), stream, bytes);
        run.settle_at = (!run.sink.is_settled()).then(|| boot_time().plus(SETTLE));
        match flow {
            Flow::More => {}
            // What a run of which nothing is left has in its pipes is little, and its end waits for it.
            Flow::Wait(_) if run.gone_since.is_some() => {}
            Flow::Wait(span) => {
                run.paused_until = Some(boot_time().plus(span));
                for token in &run.pipes {
                    if let Some(pipe) = self.pipes.get_mut(token) {
                        pipe.disarm(&self.epoll);
                    }
                }
            }
        }
        Found::Bytes
    }

    fn close(&mut self, token: u64) {
        let Some(mut pipe) = self.pipes.remove(&token) else { return };
        // The guardian has a copy, so that closing ours does not take it out of the poll.
        pipe.disarm(&self.epoll);
        if let Some(run) = self.runs.get_mut(&pipe.run) {
            run.pipes.retain(|known| *known != token);
        }
        self.finish(pipe.run);
    }

    /// Tells that a run is complete, if it is.
    fn finish(&mut self, id: RunId) {
        let is_over =
            self.runs.get(&id).is_some_and(|run| run.gone_since.is_some() && run.pipes.is_empty());
        if is_over && let Some(run) = self.runs.remove(&id) {
            run.sink.end(wall_time());
            (self.drained)(id, run.status.line());
        }
    }

    fn pass_time(&mut self, now: BootTime) {
        let (mut again, mut held) = (Vec::new(), Vec::new());
        if now >= self.tended.plus(TEND) {
            self.tended = now;
            let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
            sinks.tend(wall_time());
        }
        for run in self.runs.values_mut() {
            if run.settle_at.is_some_and(|at| now >= at) {
                run.settle_at = None;
                run.sink.settle(wall_time());
            }
            if run.paused_until.is_some_and(|until| now >= until) {
                run.paused_until = None;
                again.extend_from_slice(&run.pipes);
            } else if run.paused_until.is_none()
                && run.gone_since.is_some_and(|since| now >= since.plus(FOREIGN))
            {
                held.extend_from_slice(&run.pipes);
            }
        }
        for token in again {
            self.arm(token);
        }
        for token in held {
            // Whoever writes on is none of the run's.
            self.drain(token);
            self.close(token);
        }
    }
}

impl Pipe {
    fn disarm(&mut self, epoll: &OwnedFd) {
        if std::mem::take(&mut self.is_armed) {
            let _ = epoll::delete(epoll, &*self.end);
        }
    }
}

/// What was in a pipe.
enum Found {
    Bytes,
    Nothing,
}

/// The last line of a status pipe that is not empty, with or without its end; of a longer one the
/// beginning.
#[derive(Debug, Default)]
struct LastLine {
    whole: Vec<u8>,
    begun: Vec<u8>,
}

impl LastLine {
    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part {
                [text @ .., b'\n'] => (text, true),
                text => (text, false),
            };
            let room = STATUS_MAX - self.begun.len();
            self.begun.extend(text.iter().take(room));
            if ends && !self.begun.trim_ascii().is_empty() {
                self.whole = std::mem::take(&mut self.begun);
            } else if ends {
                self.begun.clear();
            }
        }
    }

    /// What must be taken again to come to the same.
    fn kept(&self) -> Vec<u8> {
        [self.whole.as_slice(), b"\n", self.begun.as_slice()].concat()
    }

    fn line(&self) -> Option<String> {
        let lines = [self.begun.trim_ascii(), self.whole.trim_ascii()];
        let last = lines.into_iter().find(|line| !line.is_empty())?;
        Some(String::from_utf8_lossy(last).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(parts: &[&[u8]]) -> Option<String> {
        let mut status = LastLine::default();
        for part in parts {
            status.take(part);
        }
        status.line()
    }

    #[test]
    fn only_pipes_that_are_closed_and_empty_need_not_be_read() {
        let pipe = || rustix::pipe::pipe().unwrap();
        let stdout = |end: OwnedFd| (StreamWord::Stdout, Arc::new(end));
        let (closed, _) = pipe();
        let (open, _writes_on) = pipe();
        let (full, writes) = pipe();
        rustix::io::write(&writes, b"x").unwrap();
        drop(writes);
        assert!(are_silent(&[]));
        let closed = stdout(closed);
        assert!(are_silent(std::slice::from_ref(&closed)));
        assert!(!are_silent(&[closed.clone(), stdout(open)]), "somebody may write on");
        assert!(!are_silent(&[closed.clone(), stdout(full)]), "something is to be read");
        assert!(!are_silent(&[(StreamWord::Status, closed.1)]), "a status is read from the disk");
    }

    #[test]
    fn the_last_line_wins_however_it_comes() {
        let done = Some("done".to_owned());
        assert_eq!(last(&[b"incom", b"plete\ndo", b"ne\n"]), done);
        assert_eq!(last(&[b"done\nno end"]), Some("no end".to_owned()));
        assert_eq!(last(&[b"done\n", b"\n", b"  \n"]), done, "empty lines say nothing");
        assert_eq!(last(&[b"\n\n"]), None);
    }

    #[test]
    fn a_line_that_is_too_long_hides_no_later_one() {
        let long = vec![b'x'; STATUS_MAX + 100];
        assert_eq!(last(&[&long, b"\n", b"done\n"]), Some("done".to_owned()));
        assert_eq!(last(&[&long, b"\ndo", b"ne"]), Some("done".to_owned()));
        assert_eq!(last(&[&long, &long]).map(|line| line.len()), Some(STATUS_MAX));
    }

    #[test]
    fn a_flood_of_lines_is_not_kept() {
        let mut status = LastLine::default();
        for _ in 0..1000 {
            status.take(&b"some line\n".repeat(100));
            status.take(&[b'x'; 1000]);
        }
        assert!(status.whole.len() + status.begun.len() <= 2 * STATUS_MAX);
    }
}
