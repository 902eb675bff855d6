//! Whom to dial, and when: one stream at a time, and longer and longer pauses while there is none.

use sterna_model::{BootTime, Span};
use sterna_protocol::message::StreamId;
use sterna_wire::Address;

/// The first pause; each is twice the one before.
const FIRST: Span = Span::from_millis(200);
/// No pause is longer.
const LAST: Span = Span::from_secs(5);
/// A stream on which a heartbeat has gone out, and nothing has come for so long, leads nowhere.
const PATIENCE: Span = Span::from_secs(5);

/// Keeps a worker at one stream.
#[derive(Clone, Debug)]
pub struct Dialer {
    servers: Vec<Address>,
    /// The next one to be tried.
    next: usize,
    /// Whom a server has called the leader.
    hint: Option<Address>,
    /// Attempts, and streams that said nothing, since one did.
    failures: u32,
    streams: u64,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting { until: BootTime },
    Dialling { stream: StreamId, address: Address },
    Open { stream: StreamId, address: Address, unanswered: Option<BootTime> },
}

/// How long to wait after so many failures in a row. Half of the pause is for everybody, and of the
/// other half `random` decides, so that a crowd that was cut off together does not come back as one.
pub const fn pause(failures: u32, random: u64) -> Span {
    let doublings = if failures > 16 { 16 } else { failures.saturating_sub(1) };
    let whole = FIRST.times(1 << doublings).as_millis();
    let whole = if whole < LAST.as_millis() { whole } else { LAST.as_millis() };
    let half = whole / 2;
    Span::from_millis(half + random % (half + 1))
}

impl Dialer {
    /// To dial these servers, the first one first; there must be one.
    pub const fn new(now: BootTime, servers: Vec<Address>) -> Self {
        let state = State::Waiting { until: now };
        Self { servers, next: 0, hint: None, failures: 0, streams: 0, state }
    }

    /// When [`Dialer::due`] or [`Dialer::is_silent`] may have something to say.
    pub fn deadline(&self) -> Option<BootTime> {
        match &self.state {
            State::Waiting { until } => Some(*until),
            State::Dialling { .. } => None,
            State::Open { unanswered, .. } => unanswered.map(|since| since.plus(PATIENCE)),
        }
    }

    /// Whom to dial now, and what the stream will be called.
    pub fn due(&mut self, now: BootTime) -> Option<(StreamId, Address)> {
        match &self.state {
            State::Waiting { until } if now >= *until => {}
            State::Waiting { .. } | State::Dialling { .. } | State::Open { .. } => return None,
        }
        let address = match self.hint.take() {
            Some(leader) => leader,
            None => {
                let address = self.servers.get(self.next)?.clone();
                self.next = (self.next + 1) % self.servers.len();
                address
            }
        };
        self.streams += 1;
        let stream = StreamId::new(self.streams);
        self.state = State::Dialling { stream, address: address.clone() };
        Some((stream, address))
    }

    /// The stream is there; gives whether it is the one that was wanted.
    pub fn opened(&mut self, opened: StreamId) -> bool {
        match &self.state {
            State::Dialling { stream, address } if *stream == opened => {
                let (stream, address) = (*stream, address.clone());
                self.state = State::Open { stream, address, unanswered: None };
                true
            }
            State::Dialling { .. } | State::Waiting { .. } | State::Open { .. } => false,
        }
    }

    /// There is no such stream, or none any more. Who is pointed to a leader goes there at once, but
    /// only the first time: two servers may point at each other.
    pub fn over(&mut self, now: BootTime, random: u64, over: StreamId, leader: Option<Address>) {
        if self.stream() != Some(over) {
            return;
        }
        let is_first = self.failures == 0;
        self.failures = self.failures.saturating_add(1);
        let pause = match (&leader, is_first) {
            (Some(_), true) => Span::ZERO,
            (Some(_), false) | (None, true | false) => pause(self.failures, random),
        };
        self.hint = leader;
        self.state = State::Waiting { until: now.plus(pause) };
    }

    /// A heartbeat went out.
    pub fn sent(&mut self, now: BootTime) {
        match &mut self.state {
            State::Open { unanswered, .. } => {
                unanswered.get_or_insert(now);
            }
            State::Waiting { .. } | State::Dialling { .. } => {}
        }
    }

    /// Something came.
    pub fn heard(&mut self, heard: StreamId) {
        match &mut self.state {
            State::Open { stream, unanswered, .. } if *stream == heard => {
                *unanswered = None;
                self.failures = 0;
            }
            State::Open { .. } | State::Waiting { .. } | State::Dialling { .. } => {}
        }
    }

    /// The open stream, if it leads nowhere.
    pub fn is_silent(&self, now: BootTime) -> Option<StreamId> {
        match &self.state {
            State::Open { stream, unanswered: Some(since), .. } if now >= since.plus(PATIENCE) => {
                Some(*stream)
            }
            State::Open { .. } | State::Waiting { .. } | State::Dialling { .. } => None,
        }
    }

    /// The stream that is open or being made.
    pub const fn stream(&self) -> Option<StreamId> {
        match &self.state {
            State::Waiting { .. } => None,
            State::Dialling { stream, .. } | State::Open { stream, .. } => Some(*stream),
        }
    }

    /// Whether a stream is open.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Where it leads, or is to lead.
    pub const fn address(&self) -> Option<&Address> {
        match &self.state {
            State::Waiting { .. } => None,
            State::Dialling { address, .. } | State::Open { address, .. } => Some(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootTime = BootTime::from_millis(1_000);

    fn address(port: u16) -> Address {
        format!("127.0.0.1:{port}").parse().unwrap()
    }

    fn dialer() -> Dialer {
        Dialer::new(START, vec![address(1), address(2)])
    }

    fn after(millis: u64) -> BootTime {
        START.plus(Span::from_millis(millis))
    }

    #[test]
    fn pauses_grow_to_a_bound_and_spread_over_their_second_half() {
        let ends = |failures| (pause(failures, 0).as_millis(), pause(failures, 100).as_millis());
        assert_eq!(ends(1), (100, 200));
        assert_eq!(ends(2), (200, 300));
        assert_eq!(pause(4, u64::MAX / 3 * 2).as_millis() / 800, 1);
        for failures in [6, 16, 17, u32::MAX] {
            for random in [0, 1, 12_345, u64::MAX] {
                let pause = pause(failures, random).as_millis();
                assert!((2_500..=5_000).contains(&pause), "{failures} {random}: {pause}");
            }
        }
    }

    #[test]
    fn servers_are_tried_in_turn() {
        let mut dialer = dialer();
        let (first, at) = dialer.due(START).unwrap();
        assert_eq!(at, address(1));
        assert_eq!(dialer.due(START), None, "one at a time");
        dialer.over(START, 0, first, None);
        assert_eq!(dialer.due(START), None, "not before the pause is over");
        assert_eq!(dialer.deadline(), Some(after(100)));
        let (second, at) = dialer.due(after(100)).unwrap();
        assert_eq!(at, address(2));
        assert!(second > first);
        dialer.over(after(100), 0, first, None);
        assert_eq!(dialer.stream(), Some(second), "the end of an earlier one is none of it");
    }

    #[test]
    fn who_is_pointed_to_the_leader_goes_there_at_once_and_only_once() {
        let mut dialer = dialer();
        let (first, _) = dialer.due(START).unwrap();
        dialer.over(START, 0, first, Some(address(9)));
        let (second, at) = dialer.due(START).unwrap();
        assert_eq!(at, address(9));
        dialer.over(START, 0, second, Some(address(1)));
        assert_eq!(dialer.due(START), None, "they may point at each other for ever");
        assert_eq!(dialer.due(after(200)).unwrap().1, address(1));
    }

    #[test]
    fn a_stream_that_answers_nothing_leads_nowhere() {
        let mut dialer = dialer();
        let (first, _) = dialer.due(START).unwrap();
        assert!(dialer.opened(first));
        assert_eq!(dialer.deadline(), None, "nothing was asked yet");
        dialer.sent(START);
        dialer.sent(after(3_000));
        assert_eq!(dialer.is_silent(after(4_999)), None);
        assert_eq!(dialer.is_silent(after(5_000)), Some(first), "counted from the first question");
        dialer.heard(first);
        assert_eq!(dialer.is_silent(after(50_000)), None);
    }

    #[test]
    fn a_stream_that_said_something_ends_the_back_off() {
        let mut dialer = dialer();
        let mut now = START;
        for _ in 0..6 {
            let (stream, _) = dialer.due(now).unwrap();
            dialer.over(now, 0, stream, None);
            now = dialer.deadline().unwrap();
        }
        let (stream, _) = dialer.due(now).unwrap();
        assert!(dialer.opened(stream));
        dialer.heard(stream);
        dialer.over(now, 0, stream, None);
        assert_eq!(dialer.deadline(), Some(now.plus(Span::from_millis(100))));
    }
}
