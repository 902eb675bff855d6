//! Where reading begins, and in which file. Pure.

use sterna_model::{RunId, WallTime};

use super::{
    Cursor, Direction, From, Of, Position, Request,
    frame::Frames,
    names::KeyHash,
    shelf::{Segment, Shelf, Source, View},
};

/// A place in a run's log that may have to be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Line(u64),
    Time(WallTime),
    End,
}

impl At {
    /// Where a run is entered after another was left.
    pub(super) fn entering(time: Option<WallTime>, direction: Direction) -> Self {
        let whole = match direction {
            Direction::Forward => Self::Line(1),
            Direction::Backward => Self::End,
        };
        time.map_or(whole, Self::Time)
    }
}

/// The runs, and where in each, with which reading begins; and the time from which the others are read.
pub(super) fn begin(shelf: &Shelf, request: &Request, key: KeyHash) -> Begin {
    let time = match &request.from {
        From::Time(time) => Some(*time),
        From::Cursor(cursor) => cursor.time,
        From::Start | From::End | From::Line(_) => None,
    };
    let at = match &request.from {
        From::Cursor(cursor) if !cursor.positions.is_empty() => {
            let places = cursor.positions.iter();
            let mut places: Vec<_> = places.map(|at| (at.run, At::Line(at.line))).collect();
            match request.direction {
                Direction::Forward => {}
                // Older runs come by themselves.
                Direction::Backward => drop(places.drain(..places.len() - 1)),
            }
            return Begin { places, time };
        }
        From::Start => At::Line(1),
        From::Line(line) => At::Line(*line),
        From::End => At::End,
        From::Time(time) => At::Time(*time),
        From::Cursor(_) => At::entering(time, request.direction),
    };
    let of_key = |run: Option<RunId>| run.map(|run| (run, at)).into_iter().collect();
    let places = match (&request.of, request.direction) {
        (Of::Run(run), Direction::Forward | Direction::Backward) => vec![(*run, at)],
        (Of::Key(_), Direction::Forward) => match at {
            At::Line(_) | At::Time(_) => of_key(shelf.after(key, None)),
            At::End => shelf.open_ends(key).into_iter().map(|run| (run, at)).collect(),
        },
        (Of::Key(_), Direction::Backward) => match at {
            // Nothing is before the start of the first run.
            At::Line(_) => of_key(shelf.after(key, None)),
            At::Time(_) | At::End => of_key(shelf.before(key, None)),
        },
    };
    Begin { places, time }
}

/// See [`begin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) places: Vec<(RunId, At)>,
    pub(super) time: Option<WallTime>,
}

impl Begin {
    /// As a cursor, with these positions.
    pub(super) const fn cursor(&self, positions: Vec<Position>) -> Cursor {
        Cursor { positions, time: self.time }
    }
}

impl View {
    /// The segments that lines may be in; what is in none counts as one.
    pub(super) fn parts(&self) -> Vec<Segment> {
        match &self.source {
            Source::Own(_, segments) => segments.clone(),
            Source::Quiet(segment, spot) => {
                // It was kept when the run was over: its lines are older than the file may be.
                vec![Segment { first: 1, first_at: WallTime::MIN, bytes: spot.bytes, ..*segment }]
            }
            Source::Pending { frames, .. } => {
                let (first_at, last_at) = (WallTime::MIN, WallTime::MAX);
                vec![Segment { first: 1, first_at, last_at, bytes: frames.len() as u64 }]
            }
        }
    }
}

/// The part that a line is in, if it is in any.
pub(super) fn part_of_line(parts: &[Segment], line: u64) -> usize {
    parts.partition_point(|part| part.first <= line).saturating_sub(1)
}

/// The part that the first line of `time` or later is in, if the clock was not set back meanwhile.
pub(super) fn part_of_time(parts: &[Segment], time: WallTime) -> usize {
    parts.partition_point(|part| part.first_at < time).saturating_sub(1)
}

/// The first line of `time` or later in a part; the line after its last, if there is none.
pub(super) fn line_of_time(part: &Segment, frames: &[u8], time: WallTime) -> u64 {
    let found = Frames::of(frames).lines().find(|lines| lines.at >= time);
    found.map_or_else(|| end_of(part, frames), |lines| lines.first)
}

/// The line after the last of a part.
pub(super) fn end_of(part: &Segment, frames: &[u8]) -> u64 {
    Frames::of(frames).lines().last().map_or(part.first, |lines| lines.end())
}
