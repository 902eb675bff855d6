//! What lies between a worker and its leader, and may be cut or hold everything up.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything goes through.
    Pass,
    /// Connections stand, new ones too, and nothing goes through; it does when they pass again.
    Stall,
    /// Connections are broken, and so is every new one.
    Cut,
}

struct Shared {
    mode: Mutex<Mode>,
    changed: Condvar,
    sockets: Mutex<Vec<TcpStream>>,
}

/// Ends with the test's process.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            mode: Mutex::new(Mode::Pass),
            changed: Condvar::new(),
            sockets: Mutex::new(Vec::new()),
        });
        let for_all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if *for_all.mode.lock().unwrap() == Mode::Cut {
                    continue;
                }
                let Ok(onward) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let mut sockets = for_all.sockets.lock().unwrap();
                sockets.extend([socket.try_clone().unwrap(), onward.try_clone().unwrap()]);
                drop(sockets);
                let ways =
                    [(socket.try_clone().unwrap(), onward.try_clone().unwrap()), (onward, socket)];
                for (from, to) in ways {
                    let shared = Arc::clone(&for_all);
                    std::thread::spawn(move || carry(&shared, from, to));
                }
            }
        });
        Self { port, shared }
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap() = mode;
        self.shared.changed.notify_all();
        if mode == Mode::Cut {
            for socket in self.shared.sockets.lock().unwrap().drain(..) {
                drop(socket.shutdown(Shutdown::Both));
            }
        }
    }
}

fn carry(shared: &Shared, mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mode = shared.mode.lock().unwrap();
        drop(shared.changed.wait_while(mode, |mode| *mode == Mode::Stall).unwrap());
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}
