//! How much there may be of what clients make.

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
        }
    }
}
