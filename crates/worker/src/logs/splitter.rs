//! Cuts what a stream brings into lines.

use super::LINE_MAX;

/// A line, in two parts, and whether it was cut: no newline came after it.
pub(super) type Cut<'a> = ([&'a [u8]; 2], bool);

/// What one stream has brought since its last newline.
///
/// Invariant: lines, with a newline after each that is not cut, are the bytes that came; and without
/// [`Splitter::settle`] they do not depend on how the bytes were chopped.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    held: Vec<u8>,
}

impl Splitter {
    /// Gives every line that is whole now, and the parts of one that is too long.
    pub(super) fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(Cut<'_>)) {
        while !bytes.is_empty() {
            let room = LINE_MAX - self.held.len();
            // A newline after as much as fits still ends a whole line.
            let window = bytes.get(..=room).unwrap_or(bytes);
            let newline = window.iter().position(|byte| *byte == b'\n');
            let (length, skipped) = match newline {
                Some(at) => (at, 1),
                None if window.len() > room => (room, 0),
                None => {
                    self.held.extend_from_slice(bytes);
                    return;
                }
            };
            let (line, rest) = bytes.split_at(length);
            each(([&self.held, line], newline.is_none()));
            self.held.clear();
            bytes = rest.get(skipped..).unwrap_or_default();
        }
        if self.held.is_empty() {
            // A thousand quiet runs hold nothing.
            self.held = Vec::new();
        }
    }

    /// Gives what is held, as a line that was cut.
    pub(super) fn settle(&mut self, mut each: impl FnMut(Cut<'_>)) {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            each(([&held, b""], true));
        }
    }

    pub(super) const fn is_settled(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> Vec<(Vec<u8>, bool)> {
        let (mut splitter, mut lines) = (Splitter::default(), Vec::new());
        for chunk in chunks {
            splitter.take(chunk, |(parts, is_cut)| lines.push((parts.concat(), is_cut)));
        }
        splitter.settle(|(parts, is_cut)| lines.push((parts.concat(), is_cut)));
        assert!(splitter.is_settled());
        lines
    }

    #[test]
    fn lines_end_at_newlines_however_they_come() {
        let line = |text: &str, is_cut| (text.as_bytes().to_vec(), is_cut);
        assert_eq!(split(&[b"a\n", b"", b"b"]), [line("a", false), line("b", true)]);
        assert_eq!(split(&[b"a", b"b\r\n\n"]), [line("ab\r", false), line("", false)]);
    }

    #[test]
    fn a_long_line_is_cut_and_one_that_just_fits_is_not() {
        let long = vec![b'x'; LINE_MAX + 1];
        let fits = [&long[1..], b"\n"].concat();
        assert_eq!(split(&[&fits]), [(long[1..].to_vec(), false)]);
        assert_eq!(split(&[&fits[..LINE_MAX], b"\n"]), [(long[1..].to_vec(), false)]);
        let two = [(long[1..].to_vec(), true), (vec![b'x'], false)];
        assert_eq!(split(&[&long, b"\n"]), two);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_chopping_does_not_matter(
            runs in proptest::collection::vec((any::<bool>(), 0..LINE_MAX * 2), 0..6),
            cuts in proptest::collection::vec(1..LINE_MAX, 1..40),
        ) {
            let mut bytes = Vec::new();
            for (ends, length) in runs {
                bytes.extend(std::iter::repeat_n(b'z', length));
                bytes.extend(ends.then_some(b'\n'));
            }
            let mut chunks = Vec::new();
            let (mut rest, mut sizes) = (&bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
                chunks.push(chunk);
                rest = after;
            }
            let lines = split(&chunks);
            prop_assert_eq!(&lines, &split(&[&bytes]));
            prop_assert!(lines.iter().all(|(line, _)| line.len() <= LINE_MAX));
            let again: Vec<u8> = lines.iter().flat_map(|(line, is_cut)| {
                line.iter().copied().chain((!is_cut).then_some(b'\n'))
            }).collect();
            prop_assert_eq!(again, bytes);
        }
    }
}
