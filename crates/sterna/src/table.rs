//! Tables for people: as wide as they must be, and no wider than the terminal.

use std::io;

/// Rows under headings.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|it| (*it).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// In lines; the last column gives way if the terminal is too narrow.
    pub(crate) fn draw(&self) -> String {
        self.draw_within(width())
    }

    fn draw_within(&self, room: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(wide).collect();
        let lines = self.rows.iter().map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            let line = line.trim_end();
            match room {
                Some(room) if line.chars().count() > room => {
                    line.chars().take(room.saturating_sub(1)).chain(['…']).collect()
                }
                Some(_) | None => line.to_owned(),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// How wide the terminal is; nothing if there is none.
fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_as_the_terminal() {
        let mut table = Table::new(&["NAME", "PHASE"]);
        table.row(["a".to_owned(), "running".to_owned()]);
        table.row(["longer".to_owned(), String::new()]);
        assert_eq!(table.draw_within(None), "NAME    PHASE\na       running\nlonger");
        assert_eq!(table.draw_within(Some(10)), "NAME    P…\na       r…\nlonger");
    }
}
