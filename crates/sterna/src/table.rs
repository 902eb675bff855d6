//! Tables for people: as wide as they must be, and no wider than the terminal.

use std::{collections::BTreeSet, io};

use crate::out;

/// What stands between two columns.
const GAP: usize = 2;
/// No column is made narrower than this.
const NARROWEST: usize = 6;
/// What is no wider than this is a word, and says nothing if it is cut.
const WORD: usize = 12;
/// The heading of a column of names that are not the rows' own.
pub(crate) const WORKER: &str = "WORKER";

/// Rows under headings.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Headings of the columns that go first when there is no room.
    least: &'static [&'static str],
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|it| (*it).to_owned()).collect()], least: &[] }
    }

    /// Which columns say the least, in the order in which they go; then the last ones do.
    pub(crate) const fn least(mut self, headings: &'static [&'static str]) -> Self {
        self.least = headings;
        self
    }

    /// What would move the cursor is a space: a command can hold anything.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| out::one_line(&cell)).collect());
    }

    /// In lines; if the terminal is too narrow, the widest columns give way first.
    pub(crate) fn draw(&self) -> String {
        let paint = out::Paint::of(&io::stdout());
        let mut lines = self.lines(width());
        if let Some(headings) = lines.first_mut() {
            *headings = paint.bold(headings);
        }
        lines.join("\n")
    }

    fn lines(&self, room: Option<usize>) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let mut shown: Vec<usize> = (0..columns).collect();
        let widths = loop {
            let widths = self.fitted(&shown, room);
            match widths.filter(|widths| self.are_apart(&shown, widths)) {
                Some(widths) => break widths,
                None if shown.len() > 1 => drop(shown.remove(self.least_of(&shown))),
                // A name that looks like another one is worse than one that the terminal folds.
                None => break vec![usize::MAX],
            }
        };
        let line = |row: &Vec<String>| {
            let cells = shown.iter().zip(&widths).map(|(column, width)| {
                let cell = row.get(*column).map(String::as_str).unwrap_or_default();
                (cut(cell, *width), *width)
            });
            let mut line = String::new();
            for (at, (cell, width)) in cells.enumerate() {
                let gap = if at == 0 { 0 } else { GAP };
                line += &" ".repeat(gap);
                line += &cell;
                let rest = width.saturating_sub(cell.chars().count());
                line += &" ".repeat(if at + 1 == shown.len() { 0 } else { rest });
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| row.get(column).map(String::as_str))
    }

    /// Takes from the widest column, again and again, until these fit; none if they cannot. The first is
    /// what things are called, by which they can be asked for: it gives way last.
    fn fitted(&self, shown: &[usize], room: Option<usize>) -> Option<Vec<usize>> {
        let wide = |column: &usize| self.cells(*column).map(|it| it.chars().count()).max();
        let mut widths: Vec<_> = shown.iter().map(|it| wide(it).unwrap_or(0)).collect();
        let Some(room) = room else { return Some(widths) };
        let all =
            |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        // A column may give way so far.
        let least = widths.iter().map(|&it| if it > WORD { NARROWEST } else { it });
        let least: Vec<_> = least.collect();
        while all(&widths) > room {
            let is_left = |(at, width): &(usize, &mut usize)| least.get(*at) < Some(&**width);
            let others = widths.iter_mut().enumerate().skip(1);
            // Of equally wide ones the last: it says the least.
            let Some((_, widest)) = others.filter(is_left).max_by_key(|(_, width)| **width) else {
                break;
            };
            *widest -= 1;
        }
        let over = all(&widths).saturating_sub(room);
        // A name alone says too little: it gives way rather than the last that is said of it.
        match &mut widths[..] {
            [name] => *name = room.min(*name),
            [name, _] if over > 0 && *name > WORD + over => *name -= over,
            _ if over > 0 => return None,
            _ => {}
        }
        Some(widths)
    }

    /// Whether names that differ still do when they are cut.
    fn are_apart(&self, shown: &[usize], widths: &[usize]) -> bool {
        shown.iter().zip(widths).all(|(column, width)| {
            let heading = self.cells(*column).next();
            let is_name = *column == 0 || heading == Some(WORKER);
            let all: BTreeSet<_> = self.cells(*column).skip(1).collect();
            let cut: BTreeSet<_> = all.iter().map(|cell| cut(cell, *width)).collect();
            !is_name || cut.len() == all.len()
        })
    }

    /// Which of the columns that are shown goes first; never the first one.
    fn least_of(&self, shown: &[usize]) -> usize {
        let place = |heading: &&str| {
            shown.iter().position(|column| self.cells(*column).next() == Some(*heading))
        };
        let named = self.least.iter().find_map(place).filter(|at| *at > 0);
        named.unwrap_or(shown.len() - 1)
    }
}

/// So many characters at most; what is missing is marked. A name gives way in its middle: names that
/// differ often do so at their ends.
fn cut(text: &str, width: usize) -> String {
    let long = text.chars().count();
    if long <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let tail = if text.contains(' ') { 0 } else { kept / 2 };
    let head = text.chars().take(kept - tail);
    head.chain(['…']).chain(text.chars().skip(long - tail)).collect()
}

/// Lines that fit the terminal: a longer one goes on in the next, which begins so far to the right. What
/// is no terminal gets them whole.
pub(crate) fn folded(text: &str, indent: usize) -> String {
    match width() {
        Some(room) => folded_to(text, indent, room),
        None => text.to_owned(),
    }
}

fn folded_to(text: &str, indent: usize, room: usize) -> String {
    // A narrower one would show a word in each line.
    let indent = if room < 2 * indent { 2 } else { indent };
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut rest = line.to_owned();
        while let Some(at) = break_of(&rest, indent, room) {
            let next = rest.split_off(at);
            lines.push(rest.trim_end().to_owned());
            rest = " ".repeat(indent) + next.trim_start();
        }
        lines.push(rest);
    }
    lines.join("\n")
}

/// Where a line is broken: at the last space that fits, or else at the first one. A word that is longer
/// than the terminal stays whole, for whoever copies it.
fn break_of(line: &str, indent: usize, room: usize) -> Option<usize> {
    let end = line.char_indices().nth(room).map(|(at, _)| at)?;
    let begin = line.find(|letter| letter != ' ').unwrap_or(0).max(indent);
    let spaces = || line.match_indices(' ').map(|(at, _)| at).filter(|at| *at > begin);
    let is_fit = |at: &usize| *at <= end;
    let at = spaces().rfind(is_fit).or_else(|| spaces().next())?;
    (!line.get(at..)?.trim().is_empty()).then_some(at)
}

/// How wide the terminal is; nothing if there is none.
fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "PHASE", "COMMAND"]);
        table.row([
            "a".to_owned(),
            "running".to_owned(),
            "sh -c while true\ndo x; done".to_owned(),
        ]);
        table.row(["much-longer".to_owned(), String::new(), String::new()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let wide = "NAME         PHASE    COMMAND\na            running  sh -c while true do x; done\n\
                    much-longer";
        assert_eq!(table().lines(None).join("\n"), wide);
        assert_eq!(table().lines(Some(49)).join("\n"), wide);
    }

    #[test]
    fn the_widest_columns_give_way_and_no_line_is_wider_than_the_terminal() {
        let narrow = "NAME         PHASE    COMMAND\na            running  sh -c wh…\nmuch-longer";
        assert_eq!(table().lines(Some(31)).join("\n"), narrow);
        let narrower = "NAME         PHASE\na            running\nmuch-longer";
        assert_eq!(table().lines(Some(22)).join("\n"), narrower, "a name can be asked for");
        assert_eq!(table().lines(Some(8)).join("\n"), "NAME\na\nmuch…ger");
        for room in 1..60 {
            for line in table().lines(Some(room)) {
                assert!(line.chars().count() <= room, "{room}: {line:?}");
            }
        }
    }

    #[test]
    fn names_that_differ_stay_apart() {
        let mut table = Table::new(&["TASK", "PHASE", "WORKER", "COMMAND"]).least(&["PHASE"]);
        for number in [1, 2, 30] {
            let name = |what: &str| format!("{what}-with-a-rather-long-name-{number}");
            table.row([name("task"), "running".to_owned(), name("worker"), "sleep 5".to_owned()]);
        }
        for room in 24..130 {
            let lines = table.lines(Some(room));
            let apart: BTreeSet<_> = lines.iter().collect();
            assert_eq!(apart.len(), 4, "{room}: {lines:#?}");
            assert!(lines.iter().all(|line| line.chars().count() <= room), "{room}: {lines:#?}");
            let is_whole = lines[1].starts_with("task-with-a-rather-long-name-1 ");
            assert!(is_whole || room < 41, "{room}: {lines:#?}");
            assert!(lines[0].contains("WORKER") || room > 40, "{room}: {lines:#?}");
        }
        let narrow = table.lines(Some(50)).join("\n");
        assert!(narrow.contains("WORKER") && narrow.contains("…"), "{narrow}");
        assert!(!narrow.contains("PHASE"), "what says the least goes first: {narrow}");
        // Where no cut would keep them apart they are not cut.
        let mut alike = Table::new(&["TASK"]);
        for letter in ["x", "y"] {
            alike.row([format!("a-long-name-{letter}-that-differs-within")]);
        }
        let lines = alike.lines(Some(12));
        assert_eq!(lines[1], "a-long-name-x-that-differs-within");
    }

    #[test]
    fn a_line_that_is_too_long_goes_on_in_the_next() {
        let text = "leader    a b c d e f g h i\nstore     short";
        let wanted = "leader    a b c d e\n          f g h i\nstore     short";
        assert_eq!(folded_to(text, 10, 20), wanted);
        assert_eq!(folded_to(text, 10, 80), text);
        // A word that is longer than a line is left whole.
        let id = "cluster   cluster-0123456789abcdef (epoch 1)";
        let wanted = "cluster   cluster-0123456789abcdef\n          (epoch 1)";
        assert_eq!(folded_to(id, 10, 24), wanted);
        for room in 1..50 {
            let folded = folded_to(text, 10, room);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&folded), words(text), "{room}");
        }
    }

    #[test]
    fn what_would_move_the_cursor_is_a_space() {
        let mut table = Table::new(&["COMMAND"]);
        table.row(["a\u{1b}[2Jb\r".to_owned()]);
        assert_eq!(table.lines(None).join("\n"), "COMMAND\na [2Jb");
    }
}
