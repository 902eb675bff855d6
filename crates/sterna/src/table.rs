//! Tables for people: as wide as they must be, and no wider than the terminal.

use std::io;

use crate::out;

/// What stands between two columns.
const GAP: usize = 2;
/// No column is made narrower than this while another is wider.
const NARROWEST: usize = 6;

/// Rows under headings.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|it| (*it).to_owned()).collect()] }
    }

    /// What would move the cursor is a space: a command can hold anything.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let plain = |cell: String| cell.replace(char::is_control, " ");
        self.rows.push(cells.into_iter().map(plain).collect());
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
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths = fitted((0..columns).map(wide).collect(), room);
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| {
                let cell = cut(cell, *width);
                format!("{cell:<width$}")
            });
            let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
            cut(line.trim_end(), room.unwrap_or(usize::MAX))
        };
        self.rows.iter().map(line).collect()
    }
}

/// Takes from the widest column, again and again, until all of them fit. The first is what things are
/// called, by which they can be asked for: it gives way last, when the last ones are gone.
fn fitted(mut widths: Vec<usize>, room: Option<usize>) -> Vec<usize> {
    let Some(room) = room else { return widths };
    let all =
        |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    while all(&widths) > room {
        // Of equally wide ones the last: it says the least.
        let widest = widths.iter_mut().skip(1).max_by_key(|width| **width);
        match widest {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            Some(_) => drop(widths.pop()),
            None => {
                widths = vec![room];
                break;
            }
        }
    }
    widths
}

/// So many characters at most; what is missing is marked.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
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
        let narrower = "NAME         PHASE\na            runni…\nmuch-longer";
        assert_eq!(table().lines(Some(22)).join("\n"), narrower, "a name can be asked for");
        assert_eq!(table().lines(Some(8)).join("\n"), "NAME\na\nmuch-lo…");
        for room in 1..60 {
            for line in table().lines(Some(room)) {
                assert!(line.chars().count() <= room, "{room}: {line:?}");
            }
        }
    }

    #[test]
    fn what_would_move_the_cursor_is_a_space() {
        let mut table = Table::new(&["COMMAND"]);
        table.row(["a\u{1b}[2Jb\r".to_owned()]);
        assert_eq!(table.lines(None).join("\n"), "COMMAND\na [2Jb");
    }
}
