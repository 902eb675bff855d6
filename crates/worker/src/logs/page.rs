//! How a page is filled from the lines of a log. Pure.

use regex::bytes::Regex;
use sterna_model::RunId;

use super::{
    Entry, Gap, Line, Request,
    frame::{Frames, Lines, Piece},
};
use crate::sink::Stream;

/// A page that is being filled.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) entries: Vec<Entry>,
    streams: Vec<Stream>,
    matching: Option<Regex>,
    has_line: bool,
    entries_left: usize,
    bytes_left: usize,
    look_left: u64,
}

/// Why filling stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// There is nothing more in these frames.
    End,
    /// The page is full, or enough was looked at.
    Full,
}

/// Both, if one of them begins where the other ends.
fn joined(one: &Gap, other: &Gap) -> Option<Gap> {
    let (low, high) = if one.first <= other.first { (one, other) } else { (other, one) };
    let follows = low.run == high.run && low.last.is_some_and(|last| last + 1 == high.first);
    follows.then_some(Gap { run: low.run, first: low.first, last: high.last })
}

/// What became of one line.
enum Looked {
    Over,
    /// There is no room for it.
    NotTaken,
}

impl Filling {
    pub(super) fn new(request: &Request, matching: Option<Regex>) -> Self {
        Self {
            entries: Vec::new(),
            streams: request.streams.clone(),
            matching,
            has_line: false,
            entries_left: request.entries_max.max(1),
            bytes_left: request.bytes_max,
            look_left: request.look_max.max(1),
        }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.entries_left == 0 || self.look_left == 0
    }

    /// Tells of lines that are not there. They are none of those that were asked for, and what is
    /// missing without a break is told once.
    pub(super) fn gap(&mut self, gap: Gap) {
        self.look_left = self.look_left.saturating_sub(1);
        if let Some(Entry::Gap(last)) = self.entries.last_mut()
            && let Some(joined) = joined(last, &gap)
        {
            *last = joined;
        } else {
            self.entries.push(Entry::Gap(gap));
        }
    }

    /// Counts the work of going on to another run.
    pub(super) const fn charge(&mut self) {
        self.look_left = self.look_left.saturating_sub(256);
    }

    /// Goes on from before the line `*at` towards the end.
    pub(super) fn forward(&mut self, run: RunId, frames: &[u8], at: &mut u64) -> Stop {
        let start = *at;
        for lines in Frames::of(frames).lines().filter(|lines| lines.end() > start) {
            for (number, piece) in lines.pieces().skip_while(|(number, _)| *number < start) {
                if self.is_full() {
                    return Stop::Full;
                }
                if number > *at {
                    self.gap(Gap { run, first: *at, last: Some(number - 1) });
                    *at = number;
                    if self.is_full() {
                        return Stop::Full;
                    }
                }
                match self.look(run, number, &lines, piece) {
                    Looked::Over => *at = number + 1,
                    Looked::NotTaken => return Stop::Full,
                }
            }
        }
        Stop::End
    }

    /// Goes on from before the line `*at` towards the start.
    pub(super) fn backward(&mut self, run: RunId, frames: &[u8], at: &mut u64) -> Stop {
        let all: Vec<Lines<'_>> =
            Frames::of(frames).lines().filter(|lines| lines.first < *at).collect();
        for lines in all.iter().rev() {
            let pieces: Vec<_> = lines.pieces().take_while(|(number, _)| *number < *at).collect();
            for (number, piece) in pieces.into_iter().rev() {
                if self.is_full() {
                    return Stop::Full;
                }
                if number + 1 < *at {
                    self.gap(Gap { run, first: number + 1, last: Some(*at - 1) });
                    *at = number + 1;
                    if self.is_full() {
                        return Stop::Full;
                    }
                }
                match self.look(run, number, lines, piece) {
                    Looked::Over => *at = number,
                    Looked::NotTaken => return Stop::Full,
                }
            }
        }
        Stop::End
    }

    fn look(&mut self, run: RunId, number: u64, lines: &Lines<'_>, piece: Piece<'_>) -> Looked {
        let is_wanted = self.streams.contains(&piece.stream)
            && self.matching.as_ref().is_none_or(|matching| matching.is_match(piece.bytes));
        if is_wanted {
            if piece.bytes.len() > self.bytes_left && self.has_line {
                self.entries_left = 0;
                return Looked::NotTaken;
            }
            self.has_line = true;
            self.bytes_left = self.bytes_left.saturating_sub(piece.bytes.len());
            self.entries_left -= 1;
            let Piece { stream, is_cut, bytes } = piece;
            let (at, bytes) = (lines.at, bytes.to_vec());
            self.entries.push(Entry::Line(Line { run, number, at, stream, is_cut, bytes }));
        }
        self.look_left = self.look_left.saturating_sub(piece.bytes.len() as u64 + 1);
        Looked::Over
    }
}
