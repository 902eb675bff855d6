//! Questions over the network to work on this machine, each on a short-lived thread of its own.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use sterna_model::Span;

use super::live::Live;
use crate::clock::boot_time;

impl Live {
    /// The number of one of its ports.
    pub(super) fn port(&self, name: &str) -> Option<u16> {
        self.ports.iter().find(|(known, _)| known == name).map(|(_, port)| *port)
    }
}

/// Good if the port takes a connection.
pub(super) fn tcp(port: Option<u16>, timeout: Span, answer: impl FnOnce(bool) + Send + 'static) {
    ask(answer, move || connect(port?, timeout).map(drop));
}

/// Good if the answer's status is 200 to 399.
pub(super) fn http(
    port: Option<u16>,
    path: &str,
    timeout: Span,
    answer: impl FnOnce(bool) + Send + 'static,
) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ask(answer, move || {
        let until = boot_time().plus(timeout);
        let mut stream = connect(port?, timeout)?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut head = Vec::new();
        // The status line is all that matters; a little more does no harm.
        while head.len() < 1024 && !head.contains(&b'\n') {
            let left = until.since(boot_time()).as_duration();
            // Whoever answers a byte at a time does not answer in time.
            stream.set_read_timeout(Some(left).filter(|left| !left.is_zero())).ok()?;
            if left.is_zero() {
                return None;
            }
            let mut bytes = [0; 256];
            match stream.read(&mut bytes).ok()? {
                0 => break,
                length => head.extend_from_slice(&bytes[..length]),
            }
        }
        let line = String::from_utf8_lossy(&head);
        let status: u16 = line.split(' ').nth(1)?.parse().ok()?;
        (200..400).contains(&status).then_some(())
    });
}

fn connect(port: u16, timeout: Span) -> Option<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let timeout = timeout.as_duration().max(Duration::from_millis(1));
    let stream = TcpStream::connect_timeout(&address, timeout).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    stream.set_write_timeout(Some(timeout)).ok()?;
    Some(stream)
}

/// One for each container at a time, and none for longer than its timeout; a late answer is dropped.
fn ask(
    answer: impl FnOnce(bool) + Send + 'static,
    question: impl FnOnce() -> Option<()> + Send + 'static,
) {
    let thread = std::thread::Builder::new().name("probe".to_owned()).stack_size(64 * 1024);
    // One that cannot be asked is answered by its timeout.
    drop(thread.spawn(move || answer(question().is_some())));
}
