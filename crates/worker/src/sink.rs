//! Where the output of runs goes: the seam between whoever reads pipes and whoever keeps logs.
//!
//! Whose are the pipes? The worker makes them before it asks for the run, and so loses nothing with a
//! guardian that is killed. The guardian gets both ends, and keeps the read ends open for as long as the
//! run lives, so that a run that outlives its worker neither gets SIGPIPE nor loses a byte: it waits
//! when a pipe is full. The guardian never reads. The next worker gets copies of the read ends when it
//! adopts the run; one thread of the worker reads them all and hands the bytes to the run's [`Sink`]. Of a run that was over before that thread heard
//! of it, and wrote nothing, whoever drives containers keeps what was said of it.
//!
//! Invariant: the bytes of one stream arrive whole, once and in order, over all workers that adopt
//! the run. Only what a worker had read and not written when it was killed is lost.
//!
//! Invariant: no sink is asked by two threads at a time, and none holds back the control of
//! containers: a slow one delays only other output.

use sterna_model::{RunId, Span, WallTime, payload::Logging};

/// What must be known of a run to keep its output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// What it is a run of.
    pub key: String,
    /// How its output is kept.
    pub logs: Logging,
}

/// Which stream of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// What it writes to its standard output.
    Stdout,
    /// What it writes to its standard error.
    Stderr,
    /// What the worker says of it, a line at a time.
    Events,
}

/// Whether more may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// At once.
    More,
    /// Not before so long: nothing is read from the run meanwhile, so that it waits when its pipe is
    /// full. Events still come.
    Wait(Span),
}

/// Takes the output of one run.
pub trait Sink: Send {
    /// Takes all of `bytes`, which were read at `at`; they need not end with a line.
    fn write(&mut self, at: WallTime, stream: Stream, bytes: &[u8]) -> Flow;

    /// Whether nothing is held back that more output may complete, such as a line without its end.
    fn is_settled(&self) -> bool {
        true
    }

    /// Nothing has come for a moment: what is held back is not to wait any longer.
    fn settle(&mut self, _at: WallTime) {}

    /// Takes note that nothing more comes: the run is complete, and its pipes are closed.
    fn end(self: Box<Self>, at: WallTime);

    /// The same, by somebody who cannot wait: what else there is to do is left to [`Sinks::tend`].
    fn end_soon(self: Box<Self>, at: WallTime) {
        self.end(at);
    }
}

/// Makes a [`Sink`] for each run.
pub trait Sinks: Send {
    /// The sink of this run; the same log goes on when an earlier worker had begun it.
    fn open(&mut self, run: RunId, origin: &Origin) -> Box<dyn Sink>;

    /// Is called every minute or so, whatever happens.
    fn tend(&mut self, _at: WallTime) {}
}
