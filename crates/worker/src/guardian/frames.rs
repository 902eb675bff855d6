//! Messages over a Unix socket: a length, a count of descriptors, JSON; the descriptors come along.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::Shutdown,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::Arc,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Serialize, de::DeserializeOwned};

/// No message is longer; a command's words and environment have 2 MiB at most.
pub(crate) const LENGTH_MAX: usize = 8 << 20;
/// No message brings more descriptors.
pub(crate) const FDS_MAX: usize = 8;
const HEAD: usize = 5;

/// One end of a connection. It never blocks.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: UnixStream,
    input: Vec<u8>,
    /// How much of `input` was taken.
    taken: usize,
    /// Descriptors, and where in `input` the message stands that they came with.
    fds: VecDeque<(usize, Vec<OwnedFd>)>,
    /// What was not sent yet. It is bounded by what there is to tell of the runs that are held.
    output: VecDeque<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    sent: usize,
    /// Go with the first byte.
    fds: Vec<Arc<OwnedFd>>,
}

/// Something that is said over a channel.
pub(crate) trait Word: DeserializeOwned {
    /// What a message means of which too little is understood, if it must be answered all the same.
    fn of_unread(_body: &[u8]) -> Option<Self> {
        None
    }
}

/// A message that the other end would not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Whether the other end is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Open,
    Closed,
}

impl Channel {
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            input: Vec::new(),
            taken: 0,
            fds: VecDeque::new(),
            output: VecDeque::new(),
        })
    }

    /// Reads whatever has come. A read ends at every message with descriptors; one that is short for no
    /// such reason was the last.
    ///
    /// # Errors
    /// The connection is of no use any more.
    pub(crate) fn fill(&mut self) -> io::Result<Line> {
        self.input.drain(..self.taken);
        for (at, _) in &mut self.fds {
            *at = at.saturating_sub(self.taken);
        }
        self.taken = 0;
        loop {
            let mut bytes = [0; 16 * 1024];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let slices = &mut [IoSliceMut::new(&mut bytes)];
            let received = match recvmsg(&self.socket, slices, &mut control, flags) {
                Ok(received) => received,
                Err(rustix::io::Errno::AGAIN) => return Ok(Line::Open),
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::CONNRESET) => return Ok(Line::Closed),
                Err(error) => return Err(error.into()),
            };
            let before = self.fds.len();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    self.fds.push_back((self.input.len(), fds.collect()));
                }
            }
            if received.bytes == 0 {
                return Ok(Line::Closed);
            }
            self.input.extend_from_slice(&bytes[..received.bytes]);
            if received.bytes < bytes.len() && self.fds.len() == before {
                return Ok(Line::Open);
            }
        }
    }

    fn head(&self) -> Option<(usize, usize)> {
        let head: &[u8; HEAD] = self.input.get(self.taken..)?.first_chunk()?;
        let [a, b, c, d, fds] = *head;
        let length = u32::from_le_bytes([a, b, c, d]);
        Some((usize::try_from(length).ok()?, usize::from(fds)))
    }

    /// The next whole message, with its descriptors; `None` if there is none yet. One that is not
    /// understood, as of a later version, is passed over.
    ///
    /// # Errors
    /// What came is no message: whoever sends it is not one of us.
    pub(crate) fn next<T: Word>(&mut self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        loop {
            let Some((length, fds)) = self.head() else { return Ok(None) };
            if length > LENGTH_MAX || fds > FDS_MAX {
                return Err(io::Error::other("what came over the guardian's socket is no message"));
            }
            let Some(body) = self.input.get(self.taken + HEAD..self.taken + HEAD + length) else {
                return Ok(None);
            };
            let message = serde_json::from_slice(body).ok().or_else(|| T::of_unread(body));
            // They came with this message, or with what stands before it.
            let of_this = fds > 0 && self.fds.front().is_some_and(|(at, _)| *at <= self.taken);
            let came = if of_this { self.fds.pop_front() } else { None };
            let came = came.map(|(_, fds)| fds).unwrap_or_default();
            if came.len() != fds {
                // The kernel cuts them off where no more may be open. They are told again over the
                // next connection; to go on would be to take one for another.
                return Err(io::Error::other("descriptors were lost: too many files are open"));
            }
            self.taken += HEAD + length;
            if let Some(message) = message {
                return Ok(Some((message, came)));
            }
        }
    }

    /// Takes a message of ours that is never too long, to be sent by [`Channel::flush`].
    pub(crate) fn push<T: Serialize>(&mut self, message: &T, fds: Vec<Arc<OwnedFd>>) {
        let _is_taken = self.try_push(message, fds);
    }

    /// Takes a message to be sent by [`Channel::flush`], unless it is longer than the other end takes.
    ///
    /// # Errors
    /// It is too long, and nothing of it is sent.
    pub(crate) fn try_push<T: Serialize>(
        &mut self,
        message: &T,
        fds: Vec<Arc<OwnedFd>>,
    ) -> Result<(), TooLong> {
        let count = u8::try_from(fds.len()).unwrap_or(u8::MAX);
        if !fds.is_empty() || self.output.is_empty() {
            self.output.push_back(Chunk { bytes: Vec::new(), sent: 0, fds });
        }
        let Some(chunk) = self.output.back_mut() else { return Ok(()) };
        let start = chunk.bytes.len();
        chunk.bytes.extend_from_slice(&[0; HEAD]);
        // Our own words always have a form as JSON.
        let written = serde_json::to_writer(&mut chunk.bytes, message);
        let length = chunk.bytes.len() - start - HEAD;
        match (written, u32::try_from(length)) {
            (Ok(()), Ok(word)) if length <= LENGTH_MAX => {
                chunk.bytes[start..start + 4].copy_from_slice(&word.to_le_bytes());
                chunk.bytes[start + 4] = count;
                Ok(())
            }
            (Ok(()) | Err(_), Ok(_) | Err(_)) => {
                chunk.bytes.truncate(start);
                chunk.bytes.shrink_to(start);
                if start == 0 {
                    // Its descriptors would go with the next message.
                    self.output.pop_back();
                }
                Err(TooLong)
            }
        }
    }

    /// Ends the connection. What is pushed from now on waits for the next one.
    pub(crate) fn hang_up(&mut self) {
        // The other end may be gone.
        drop(self.socket.shutdown(Shutdown::Both));
        self.input.clear();
        self.taken = 0;
        self.fds.clear();
        self.output.clear();
    }

    /// Sends after its own what waits in another one, which has ended.
    pub(crate) fn take_over(&mut self, mut other: Self) {
        self.output.append(&mut other.output);
    }

    /// Whether something waits until the other end has read.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends what it can.
    ///
    /// # Errors
    /// The other end is gone.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(chunk) = self.output.front_mut() {
            while chunk.sent < chunk.bytes.len() {
                let fds: Vec<BorrowedFd<'_>> = chunk.fds.iter().map(|fd| fd.as_fd()).collect();
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !fds.is_empty() {
                    control.push(SendAncillaryMessage::ScmRights(&fds));
                }
                let slices = [IoSlice::new(&chunk.bytes[chunk.sent..])];
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                match sendmsg(&self.socket, &slices, &mut control, flags) {
                    Ok(sent) => {
                        chunk.sent += sent;
                        chunk.fds.clear();
                    }
                    Err(rustix::io::Errno::AGAIN) => return Ok(()),
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.output.pop_front();
        }
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read, io::Write};

    use super::*;

    impl Word for String {}

    fn pair() -> (Channel, Channel) {
        let (a, b) = UnixStream::pair().unwrap();
        (Channel::new(a).unwrap(), Channel::new(b).unwrap())
    }

    fn all(channel: &mut Channel) -> Vec<(String, Vec<OwnedFd>)> {
        let mut messages = Vec::new();
        channel.fill().unwrap();
        while let Some(message) = channel.next().unwrap() {
            messages.push(message);
        }
        messages
    }

    #[test]
    fn descriptors_come_with_their_message() {
        let (mut one, mut other) = pair();
        let (read, write) = rustix::pipe::pipe().unwrap();
        File::from(write).write_all(b"hello").unwrap();
        one.push(&"first", Vec::new());
        one.push(&"second", vec![Arc::new(read)]);
        one.push(&"third", Vec::new());
        one.flush().unwrap();
        let mut messages = all(&mut other);
        let words: Vec<&str> = messages.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(words, ["first", "second", "third"]);
        let mut text = String::new();
        File::from(messages.remove(1).1.remove(0)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn descriptors_that_were_cut_off_are_not_taken_from_the_next_message() {
        let (mut one, mut other) = pair();
        let pipe = || Arc::new(rustix::pipe::pipe().unwrap().0);
        one.push(&"first", vec![pipe(), pipe()]);
        one.push(&"second", vec![pipe(), pipe()]);
        one.flush().unwrap();
        other.fill().unwrap();
        // As the kernel does when this process may open no more files.
        other.fds[0].1.pop();
        assert!(other.next::<String>().is_err());
    }

    #[test]
    fn large_messages_arrive_in_pieces() {
        let (mut one, mut other) = pair();
        let long = "x".repeat(3 << 20);
        one.push(&long, Vec::new());
        let mut messages = Vec::new();
        while messages.is_empty() {
            one.flush().unwrap();
            messages = all(&mut other);
        }
        assert_eq!(messages[0].0, long);
    }

    #[test]
    fn what_is_too_long_is_refused_and_the_line_stays_good() {
        let (mut one, mut other) = pair();
        let (read, _write) = rustix::pipe::pipe().unwrap();
        let long = "x".repeat(LENGTH_MAX);
        assert_eq!(one.try_push(&long, vec![Arc::new(read)]), Err(TooLong));
        one.push(&"first", Vec::new());
        assert_eq!(one.try_push(&long, Vec::new()), Err(TooLong));
        one.push(&"second", Vec::new());
        one.flush().unwrap();
        let messages = all(&mut other);
        let words: Vec<(&str, usize)> =
            messages.iter().map(|(word, fds)| (word.as_str(), fds.len())).collect();
        assert_eq!(words, [("first", 0), ("second", 0)]);
    }

    #[test]
    fn what_is_not_understood_is_passed_over_and_nonsense_is_refused() {
        let (mut one, mut other) = pair();
        one.push(&7, Vec::new());
        one.push(&"word", Vec::new());
        one.flush().unwrap();
        assert_eq!(all(&mut other)[0].0, "word");
        one.socket.write_all(&[0xff; 64]).unwrap();
        other.fill().unwrap();
        assert!(other.next::<String>().is_err());
    }

    #[test]
    fn what_is_pushed_after_the_end_waits_for_the_next_line_and_nothing_from_before() {
        let (mut one, mut other) = pair();
        one.push(&"before", Vec::new());
        one.hang_up();
        assert_eq!(other.fill().unwrap(), Line::Closed, "though its socket is still open");
        one.push(&"after", Vec::new());
        let (mut next, mut other) = pair();
        next.push(&"first", Vec::new());
        next.take_over(one);
        next.flush().unwrap();
        let words: Vec<String> = all(&mut other).into_iter().map(|(word, _)| word).collect();
        assert_eq!(words, ["first", "after"]);
    }

    #[test]
    fn the_end_of_the_line_is_seen() {
        let (one, mut other) = pair();
        drop(one);
        assert_eq!(other.fill().unwrap(), Line::Closed);
    }
}
