//! A thread that steps timekeepers and feeds a bounded queue. It decides nothing.

use std::{
    sync::mpsc::{
        Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    keeper::{Decision, Timekeeper},
    state::{Reading, Saved},
};
use crate::Zone;

/// When something is due within a second, or the queue is full: how long until the next look.
const MOMENT: Duration = Duration::from_millis(50);

/// One decision of one of the timekeepers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its place among those given to [`Runner::start`].
    pub keeper: usize,
    /// What is due, and what to do about it.
    pub decision: Decision,
}

/// What is left when a runner has stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// What to load next time, in the order given to [`Runner::start`].
    pub saved: Vec<Saved>,
    /// Decisions made, and no longer taken from the queue by anyone: they will not come again.
    pub undelivered: Vec<Due>,
}

enum Command {
    SetTimezone(Zone),
    Stop,
}

/// A running thread; stop it to get back what it remembers.
///
/// ```
/// use std::time::Duration;
/// use sterna_cron::{Reading, Runner, StatefulItem, Time, Timekeeper, Uptime, Zone};
///
/// // The caller brings the clocks, best a monotonic one that runs while the machine sleeps. These
/// // are half a minute further each time they are read, so that nobody has to wait.
/// let mut now = 1_000_000;
/// let mut clocks = move || {
///     now += 30;
///     Reading { system: Time::from_epoch(now), monotonic: Uptime::from_seconds(now) }
/// };
/// let item: StatefulItem = serde_json::from_str(
///     r#"{"epoch": {"period": 300},
///         "max_shift_seconds_for_unskip_and_do_not_repeat": 60}"#,
/// )?;
/// let keeper = Timekeeper::new(item, Zone::utc(), 60, clocks());
/// let (runner, queue) = Runner::start(vec![keeper], clocks, 100, Duration::from_millis(1));
/// let due = queue.recv()?;
/// assert!(due.decision.verdict.fires());
/// let stopped = runner.stop();
/// assert_eq!(stopped.saved.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Runner {
    commands: Sender<Command>,
    thread: Option<JoinHandle<Stopped>>,
}

impl Runner {
    /// Starts the thread; decisions come out of the receiver, in order for each timekeeper.
    ///
    /// When `queue_max` decisions wait there, the timekeepers wait too: what becomes due meanwhile
    /// is late, as after a suspension. When the receiver is dropped the thread ends. At least once
    /// in `poll` the clocks are read, so that a clock that is set does not go unnoticed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use sterna_cron::{Reading, Runner, Time, Uptime};
    /// let clocks = || Reading { system: Time::from_epoch(0), monotonic: Uptime::from_seconds(0) };
    /// let (runner, queue) = Runner::start(Vec::new(), clocks, 1, Duration::from_secs(60));
    /// assert!(queue.try_recv().is_err());
    /// assert!(runner.stop().saved.is_empty());
    /// ```
    pub fn start(
        keepers: Vec<Timekeeper>,
        clocks: impl FnMut() -> Reading + Send + 'static,
        queue_max: usize,
        poll: Duration,
    ) -> (Self, Receiver<Due>) {
        let (commands, orders) = channel();
        // Bounded: a consumer that does not keep up must not fill the memory.
        let (queue, decisions) = sync_channel(queue_max.max(1));
        let turner = Turner { keepers, clocks, orders, queue, poll };
        let thread = thread::spawn(|| turner.run());
        (Self { commands, thread: Some(thread) }, decisions)
    }

    /// Gives all timekeepers another zone; see [`Timekeeper::set_timezone`]. Does nothing when the
    /// thread has ended.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use sterna_cron::{Reading, Runner, Time, Uptime, Zone};
    /// # let clocks = || Reading { system: Time::from_epoch(0), monotonic: Uptime::from_seconds(0) };
    /// let (runner, _queue) = Runner::start(Vec::new(), clocks, 1, Duration::from_secs(60));
    /// runner.set_timezone("Asia/Tokyo".parse::<Zone>()?);
    /// # Ok::<(), sterna_cron::ZoneError>(())
    /// ```
    pub fn set_timezone(&self, zone: Zone) {
        // The thread ends by itself only when nobody listens any more.
        drop(self.commands.send(Command::SetTimezone(zone)));
    }

    /// Ends the thread and gives back what it remembers.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use sterna_cron::{Reading, Runner, Time, Uptime};
    /// # let clocks = || Reading { system: Time::from_epoch(0), monotonic: Uptime::from_seconds(0) };
    /// let (runner, queue) = Runner::start(Vec::new(), clocks, 1, Duration::from_secs(60));
    /// drop(queue);
    /// assert!(runner.stop().undelivered.is_empty());
    /// ```
    pub fn stop(mut self) -> Stopped {
        drop(self.commands.send(Command::Stop));
        let thread = self.thread.take().expect("only stop and drop take it");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        drop(self.commands.send(Command::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// What the thread owns.
struct Turner<C> {
    keepers: Vec<Timekeeper>,
    clocks: C,
    orders: Receiver<Command>,
    queue: SyncSender<Due>,
    poll: Duration,
}

impl<C: FnMut() -> Reading> Turner<C> {
    fn run(mut self) -> Stopped {
        loop {
            let (due, has_more) = self.step();
            let mut due = due.into_iter();
            while let Some(next) = due.next() {
                if let Err(next) = self.deliver(next) {
                    return self.stopped(std::iter::once(next).chain(due).collect());
                }
            }
            let pause = if has_more { Duration::ZERO } else { self.pause() };
            if self.obey(pause).is_none() {
                return self.stopped(Vec::new());
            }
        }
    }

    fn step(&mut self) -> (Vec<Due>, bool) {
        let reading = (self.clocks)();
        let mut all = Vec::new();
        let mut has_more = false;
        let mut decisions = Vec::new();
        for (at, keeper) in self.keepers.iter_mut().enumerate() {
            has_more |= keeper.step(reading, &mut decisions).has_more;
            all.extend(decisions.drain(..).map(|decision| Due { keeper: at, decision }));
        }
        (all, has_more)
    }

    /// Puts a decision into the queue, waiting while it is full; gives it back when told to stop.
    fn deliver(&mut self, mut due: Due) -> Result<(), Due> {
        loop {
            match self.queue.try_send(due) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(refused)) => return Err(refused),
                Err(TrySendError::Full(refused)) => due = refused,
            }
            if self.obey(MOMENT).is_none() {
                return Err(due);
            }
        }
    }

    /// How long until the next step: not beyond the next firing, nor beyond `poll`.
    fn pause(&mut self) -> Duration {
        let now = (self.clocks)().system;
        let next = self.keepers.iter().filter_map(Timekeeper::deadline).min();
        let Some(next) = next else { return self.poll };
        // Readings are whole seconds: the last one is crossed in small steps.
        match u64::try_from(next.seconds_since(now)) {
            Ok(seconds @ 2..) => Duration::from_secs(seconds - 1).min(self.poll),
            Ok(_) | Err(_) => MOMENT.min(self.poll),
        }
    }

    /// Waits for an order and follows it; none means to stop.
    fn obey(&mut self, pause: Duration) -> Option<()> {
        match self.orders.recv_timeout(pause) {
            Ok(Command::SetTimezone(zone)) => {
                self.keepers.iter_mut().for_each(|keeper| keeper.set_timezone(zone.clone()));
                Some(())
            }
            Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => Some(()),
        }
    }

    fn stopped(self, undelivered: Vec<Due>) -> Stopped {
        let saved = self.keepers.iter().map(|keeper| keeper.saved().clone()).collect();
        Stopped { saved, undelivered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StatefulItem, Time, Uptime};

    /// Clocks that are half a minute further each time they are read.
    fn racing() -> impl FnMut() -> Reading + Send + 'static {
        let mut now = 1_717_400_000;
        move || {
            now += 30;
            Reading { system: Time::from_epoch(now), monotonic: Uptime::from_seconds(now) }
        }
    }

    fn keeper() -> Timekeeper {
        let item: StatefulItem = serde_json::from_str(
            r#"{"epoch": {"period": 60},
                "max_shift_seconds_for_unskip_and_do_not_repeat": 3600}"#,
        )
        .unwrap();
        Timekeeper::new(item, Zone::utc(), 60, racing()())
    }

    #[test]
    fn every_minute_comes_once_and_in_order() {
        let poll = Duration::from_micros(100);
        let (runner, queue) = Runner::start(vec![keeper(), keeper()], racing(), 4, poll);
        let mut expected = [1_717_400_040_i64; 2];
        for due in queue.iter().take(100) {
            assert_eq!(due.decision.event.due.epoch(), expected[due.keeper]);
            expected[due.keeper] += 60;
        }
        assert_eq!(runner.stop().saved.len(), 2);
    }

    #[test]
    fn a_full_queue_does_not_stop_it_from_stopping() {
        let poll = Duration::from_micros(100);
        let (runner, queue) = Runner::start(vec![keeper()], racing(), 1, poll);
        let first = queue.recv().unwrap();
        let stopped = runner.stop();
        // What stands in the queue, and what no longer fitted, follow on without a gap.
        let rest = queue.try_iter().chain(stopped.undelivered);
        let mut expected = first.decision.event.due.epoch();
        for due in rest {
            expected += 60;
            assert_eq!(due.decision.event.due.epoch(), expected);
        }
    }
}
