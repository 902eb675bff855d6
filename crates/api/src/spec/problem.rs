//! What is wrong with a spec, all of it, and how people are told.

use std::fmt;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::Value as Json;

use super::{Format, Source, tree::Spot};

/// So many are told; who has more has made one mistake many times.
const TOLD_MAX: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The character in it, counted from 1.
    pub column: usize,
    /// What stands there, as far as it stands in one line.
    pub text: String,
    /// Which field, such as `service.web.memory`; empty if it is the file as a whole.
    pub place: String,
    /// Why it cannot stay.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
    /// The whole line, and where in it the text begins, in bytes.
    shown: (String, usize),
}

/// Everything that is wrong, in the order of the files and of their lines. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    told: Vec<Problem>,
    /// How many there are beyond those.
    more: usize,
}

/// How problems are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// For files and pipes.
    Plain,
    /// For terminals.
    Coloured,
}

impl Problems {
    /// The first hundred of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.told.iter()
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.told.len() + self.more
    }

    /// For people: each with its line and a caret, and how many they are.
    pub fn draw(&self, look: Look) -> String {
        let renderer = match look {
            Look::Plain => Renderer::plain(),
            Look::Coloured => Renderer::styled(),
        };
        let drawn = self.told.iter().map(|problem| draw(problem, &renderer) + "\n\n");
        let mut text: String = drawn.collect();
        if self.more > 0 {
            text += &format!("... and {} more\n\n", self.more);
        }
        let plural = if self.count() == 1 { "" } else { "s" };
        text + &format!("{} problem{plural}; nothing was changed", self.count())
    }
}

fn draw(problem: &Problem, renderer: &Renderer) -> String {
    let title = if problem.place.is_empty() {
        problem.reason.clone()
    } else {
        format!("{}: {}", problem.place, problem.reason)
    };
    let (line, start) = &problem.shown;
    let marked = AnnotationKind::Primary.span(*start..*start + problem.text.len());
    let snippet = Snippet::source(line).line_start(problem.line).path(&problem.file);
    let group = Group::with_title(Level::ERROR.primary_title(title))
        .element(snippet.annotation(marked))
        .element(Level::HELP.message(&problem.remedy));
    renderer.render(&[group])
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.draw(Look::Plain))
    }
}

impl std::error::Error for Problems {}

/// The problems found so far, in the file that is being read.
#[derive(Debug)]
pub(super) struct Found<'a> {
    sources: &'a [Source<'a>],
    /// Which of them is being read.
    pub(super) file: usize,
    list: Vec<(usize, Spot, [String; 3])>,
}

impl<'a> Found<'a> {
    pub(super) const fn new(sources: &'a [Source<'a>]) -> Self {
        Self { sources, file: 0, list: Vec::new() }
    }

    /// What the file that is being read is in.
    pub(super) fn format(&self) -> Format {
        self.sources.get(self.file).map_or(Format::Toml, Source::format)
    }

    /// How an entry is written in that file; its value is a list, a text or a number in TOML.
    pub(super) fn line(&self, name: &str, value: &Json) -> String {
        match self.format() {
            Format::Toml => format!("{name} = {value}"),
            Format::Json => format!("\"{name}\": {value}"),
        }
    }

    /// Notes that what stands at `spot` of the file cannot stay.
    pub(super) fn add(
        &mut self,
        spot: &Spot,
        place: &str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let said = [place.to_owned(), reason.into(), remedy.into()];
        self.list.push((self.file, spot.clone(), said));
    }

    /// Where something stands, for another problem to speak of it.
    pub(super) fn whereabouts(&self, file: usize, spot: &Spot) -> String {
        let Some(source) = self.sources.get(file) else { return String::new() };
        let (line, column, ..) = locate(source.text, spot);
        format!("{}:{line}:{column}", source.name)
    }

    /// What was read, if nothing was wrong with it.
    pub(super) fn judge<T>(mut self, read: T) -> Result<T, Problems> {
        if self.list.is_empty() {
            return Ok(read);
        }
        self.list.sort_by_key(|(file, spot, _)| (*file, spot.start, spot.end));
        let more = self.list.len().saturating_sub(TOLD_MAX);
        let told = self.list.into_iter().take(TOLD_MAX).filter_map(|(file, spot, said)| {
            let source = self.sources.get(file)?;
            let (line, column, shown, text) = locate(source.text, &spot);
            let [place, reason, remedy] = said;
            let file = source.name.to_owned();
            Some(Problem { file, line, column, text, place, reason, remedy, shown })
        });
        Err(Problems { told: told.collect(), more })
    }
}

/// The line and the column of a spot, its first line with where it begins in that, and what of it
/// stands there.
fn locate(text: &str, spot: &Spot) -> (usize, usize, (String, usize), String) {
    // What is missing at the end is missing behind the last line that says something.
    let is_behind = text.get(spot.start..).unwrap_or_default().trim().is_empty();
    let start = if is_behind { text.trim_end().len() } else { spot.start };
    let before = text.get(..start).unwrap_or_default();
    let begin = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(begin..).unwrap_or_default().lines().next().unwrap_or_default();
    let until = spot.end.clamp(start, (begin + line.len()).max(start));
    let said = text.get(start..until).unwrap_or_default();
    let number = before.matches('\n').count() + 1;
    let column = before.chars().count() - text.get(..begin).unwrap_or_default().chars().count() + 1;
    (number, column, (line.to_owned(), start - begin), said.to_owned())
}
