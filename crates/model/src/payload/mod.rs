//! What servers and workers tell each other about work and machines: the JSON inside messages.
//!
//! | payload | written by | read by |
//! | --- | --- | --- |
//! | [`Work`] | the reader of specs | the worker that runs it; decisions read its [`WorkOutline`] |
//! | [`Progress`] | the worker | the leader, and the list of endpoints |
//! | [`RunReport`] | the worker | the leader and clients read its [`ReportWords`] |
//! | [`Facts`] | the worker | the leader, and people |
//!
//! Invariant: one value has one text. Keys are sorted, and what is as usual is left out of work. So equal
//! work has equal bytes, and an update can compare bytes.
//!
//! Invariant: fields are added, never changed. The samples in `tests/golden/` are read and written for
//! good: records in stores hold them.
//!
//! Invariant: a reader takes what it cannot read for as little as possible. It ignores unknown fields; a
//! field of the wrong type counts as absent; bytes that are no JSON object count as an empty one. Only
//! the worker refuses: it cannot run work that it cannot read.
//!
//! It does not know what is decided about any of this. Defaults and bounds of payloads stand here and
//! nowhere else.

mod facts;
mod image;
mod lenient;
mod outline;
mod progress;
mod report;
#[cfg(test)]
mod tests;
mod work;

pub use self::{
    facts::{FAILED_CHECK_BYTES_MAX, Facts, Gpu, Isolation},
    image::{Image, Mount, Network, Root},
    outline::{Readiness, WorkOutline},
    progress::{Endpoint, PROGRESS_BYTES_MAX, Progress, RunState},
    report::{
        CRASH_TEXT_BYTES_MAX, Cause, End, Exit, Failure, REPORT_BYTES_MAX, RESULT_BYTES_MAX,
        ReportWords, RunReport, RunResult, Usage,
    },
    work::{
        About, GRACE, LINGER, Limits, Logging, Monitor, Node, Probe, ProcessGroup, Signal, Signals,
        To, WORK_BYTES_MAX, WhenOver, WhenWorkerExits, Work,
    },
};

/// The text of a payload. Keys are sorted, because a JSON value keeps them so.
fn bytes<T: serde::Serialize>(payload: &T) -> Vec<u8> {
    let value = serde_json::to_value(payload)
        .expect("payloads hold nothing but texts, numbers and lists of them");
    value.to_string().into_bytes()
}

/// The beginning of a text, of at most so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}
