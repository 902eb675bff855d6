//! The pipes of a command. Whoever reads them makes them, and gives the guardian a copy of both ends: so
//! nothing is lost with a guardian that is killed before it could tell that the command has begun.

use std::{os::fd::OwnedFd, sync::Arc};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::guardian::StreamWord;

/// Read ends, each of its stream.
pub(super) type Pipes = Vec<(StreamWord, Arc<OwnedFd>)>;

/// A pipe for each stream: what is read here, and both ends of each for the guardian.
pub(super) fn make(streams: &[StreamWord]) -> Result<(Pipes, Vec<Arc<OwnedFd>>), String> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for stream in streams {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| {
            format!("cannot make a pipe: {error}; let the worker have more open files")
        })?;
        let read = Arc::new(read);
        ours.push((*stream, Arc::clone(&read)));
        theirs.extend([read, Arc::new(write)]);
    }
    Ok((ours, theirs))
}
