//! How much there may be of what clients make.

use rustix::process::{Resource, getrlimit};

/// How much there may be at a time: beyond that the next is refused, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Tasks that are not over.
    pub tasks: usize,
    /// Streams of events, logs and endpoints that are open.
    pub streams: u64,
    /// Requests that are being answered.
    pub requests: u64,
    /// Events that are kept; the oldest go without a word.
    pub events: usize,
    /// Services.
    pub services: usize,
    /// Instances of them.
    pub instances: usize,
    /// Domains.
    pub domains: usize,
    /// Definitions.
    pub definitions: usize,
    /// Machines on the roster.
    pub workers: usize,
    /// Bytes that specs of services, of definitions, and of tasks that are not over, take together, about.
    pub specs_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            tasks: 100_000,
            streams: 4_096,
            requests: 8_192,
            events: 100_000,
            services: 20_000,
            instances: 500_000,
            domains: 10_000,
            definitions: 10_000,
            workers: 20_000,
            specs_bytes: 1 << 30,
        }
    }
}

/// Bytes of bodies that may be on their way in, and as many of answers that are not read yet.
pub(crate) const ON_THE_WAY_MAX: u64 = 256 << 20;

/// So many connections more are taken, only to say that there are too many, or how the server is.
const SPARE_MAX: usize = 64;
/// So many connections to the server that leads are enough for any server.
const FORWARDS_MAX: usize = 1 << 16;

/// So many are left for the store and for itself, which has 15 when nobody asks for anything: without those
/// it could neither lead nor follow.
const OWN: usize = 24;

/// How the files that this process may open are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// Connections that are answered.
    pub(crate) connections: usize,
    /// Connections that are only told that there are too many.
    pub(crate) spare: usize,
    /// Connections to the server that leads, while this one follows.
    pub(crate) forwards: usize,
}

impl Files {
    /// As many as there are now.
    pub(crate) fn of_process() -> Self {
        Self::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of(files: u64) -> Self {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let (connections, spare) = (files / 4 * 3, (files / 16).min(SPARE_MAX));
        let left = (files - connections - spare).saturating_sub(OWN);
        Self { connections, spare, forwards: (files / 8).min(left).clamp(1, FORWARDS_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_files_are_left_for_the_store_whatever_clients_do() {
        for files in [200, 256, 1_000, 1_024, 4_096, 1 << 20, u64::from(u32::MAX)] {
            let Files { connections, spare, forwards } = Files::of(files);
            let all = connections + spare + forwards + OWN;
            assert!(all as u64 <= files, "{files}: {all}");
            assert!(spare > 0 && forwards > 0, "{files}");
        }
        assert_eq!(Files::of(200), Files { connections: 150, spare: 12, forwards: 14 });
        assert_eq!(Files::of(1_024), Files { connections: 768, spare: 64, forwards: 128 });
        assert_eq!(Files::of(u64::MAX).forwards, FORWARDS_MAX, "where there is no limit");
        assert_eq!(Files::of(16).forwards, 1, "with so few it fails, and says so");
    }
}
