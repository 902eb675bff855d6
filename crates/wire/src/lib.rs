//! Links on the wire: protobuf and gRPC, and the only place where messages meet bytes.
//!
//! ```text
//!   worker ── dial ──▶ /sterna.link.v1.Link/Open ── Links ──▶ leader
//!          Sender<FromWorker> ═══ one stream, both ways ═══ Receiver<FromWorker>
//!          Receiver<FromLeader> ══════════════════════════ Sender<FromLeader>
//!                    words, convert: what each frame is in bytes
//! ```
//!
//! | room | what it is |
//! | --- | --- |
//! | `words` | the messages by field number; numbers are for ever |
//! | `convert` | from messages to words and back, with the field that is wrong |
//! | `frame` | one frame in bytes, how large it may be, and how many make a longer one |
//! | `aside` | what is said beside the protocol |
//! | `stream` | the two ends of a stream |
//! | `address`, `client`, `heard` | how a worker comes to a leader |
//! | `server` | how a leader comes to its workers |
//!
//! Invariant: a message that is read is valid in every part; what cannot be read names the field.
//!
//! Invariant: frames arrive whole and in order, or the stream is over.
//!
//! Invariant: what waits to be sent is bounded; a stream that does not take it is over.
//!
//! It decides nothing: what a message means is known to `sterna_protocol`, and what is in its
//! payloads to whoever made them. It has no TLS yet, so it dials this machine only.

mod address;
mod aside;
mod client;
pub mod convert;
mod frame;
mod heard;
mod server;
mod stream;
pub mod words;

pub use self::{
    address::{Address, AddressError, DEFAULT_PORT},
    aside::Aside,
    client::{DialError, dial},
    convert::FieldError,
    frame::{FRAME_BYTES_MAX, Frame, FrameError},
    server::{Leadership, Links, Opened, serve},
    stream::{Arrived, Receiver, SendError, Sender, StreamError},
};
