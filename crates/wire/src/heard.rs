//! A connection whose first bytes are looked at, to tell a server of ours that went from somebody who
//! speaks something else.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Where the kind of a frame of HTTP/2 stands, and the kind that comes first.
const KIND: usize = 3;
const SETTINGS: u8 = 4;

/// What a connection has heard first.
#[derive(Clone, Debug)]
pub(crate) struct First(Arc<OnceLock<bool>>);

impl First {
    /// Whether it was something that nobody says who speaks HTTP/2; not if it was nothing.
    pub(crate) fn is_of_another(&self) -> bool {
        self.0.get().copied().unwrap_or(false)
    }
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Heard {
    socket: TcpStream,
    first: First,
}

impl Heard {
    pub(crate) fn of(socket: TcpStream) -> (Self, First) {
        let first = First(Arc::new(OnceLock::new()));
        (Self { socket, first: first.clone() }, first)
    }
}

impl AsyncRead for Heard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, into);
        let heard = &into.filled()[before..];
        if !heard.is_empty() {
            // Fewer bytes than a frame's head are too few to tell.
            self.first.0.get_or_init(|| heard.get(KIND).is_some_and(|kind| *kind != SETTINGS));
        }
        read
    }
}

impl AsyncWrite for Heard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
