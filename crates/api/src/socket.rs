//! A socket of which what was answered is read, also if the peer takes no more.
//!
//! A server that refuses a large request answers before it has come whole, and closes. Whoever is still
//! writing then gets an error for that, and would never read why.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Takes as written what the peer no longer takes: the answer that is there, or the end, is read next.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    is_hung_up: bool,
}

impl Socket {
    pub(crate) const fn new(stream: TcpStream) -> Self {
        Self { stream, is_hung_up: false }
    }

    fn written(
        &mut self,
        length: usize,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Err(error)) if is_hang_up(&error) => {
                self.is_hung_up = true;
                Poll::Ready(Ok(length))
            }
            other @ (Poll::Ready(_) | Poll::Pending) => other,
        }
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_hung_up {
            return Poll::Ready(Ok(bytes.len()));
        }
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(bytes.len(), result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = parts.iter().map(|part| part.len()).sum();
        if self.is_hung_up {
            return Poll::Ready(Ok(length));
        }
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(length, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_hung_up {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
