//! Rust text, split into code and comments, so that a word in a string is not taken for either.

/// The two halves. Both have the lines of the whole; what belongs to the other is blank.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) code: String,
    pub(super) comments: String,
}

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Code,
    Comment,
    /// A string or a character: neither.
    Literal,
}

impl Source {
    /// Splits `text`.
    pub(super) fn split(text: &str) -> Self {
        let mut source = Self { code: String::new(), comments: String::new() };
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, length) = first_piece(rest);
            let (taken, left) = rest.split_at(length);
            for c in taken.chars() {
                let blank = if c == '\n' { '\n' } else { ' ' };
                source.code.push(if piece == Piece::Code { c } else { blank });
                source.comments.push(if piece == Piece::Comment { c } else { blank });
            }
            rest = left;
        }
        source
    }

    /// The code up to the tests at the end of the file, which stand there by rule.
    pub(super) fn code_before_tests(&self) -> &str {
        let tests = self.code.match_indices("#[cfg(test)]").map(|(at, _)| at).find(|&at| {
            let after = self.code[at..].trim_start_matches("#[cfg(test)]").trim_start();
            after.starts_with("mod tests {")
        });
        &self.code[..tests.unwrap_or(self.code.len())]
    }
}

/// The 1-based line of the byte at `offset`.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Whether `c` may stand in a name.
pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The byte offsets at which `word` stands in `text` and is not part of a longer name.
pub(super) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let is_open = |inner: Option<char>, outer: Option<char>| {
            !(inner.is_some_and(is_name) && outer.is_some_and(is_name))
        };
        is_open(word.chars().next(), before) && is_open(word.chars().next_back(), after)
    })
}

/// What `text` begins with, and how many bytes of it; never zero.
fn first_piece(text: &str) -> (Piece, usize) {
    if text.starts_with("//") {
        return (Piece::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Piece::Comment, block_comment(text));
    }
    if text.starts_with('"') {
        return (Piece::Literal, quoted(text));
    }
    if text.starts_with('\'') {
        return character(text).map_or((Piece::Code, 1), |length| (Piece::Literal, length));
    }
    let name = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (prefix, after) = text.split_at(name);
    match prefix {
        "" => (Piece::Code, text.chars().next().map_or(1, char::len_utf8)),
        "b" | "c" if after.starts_with('"') => (Piece::Literal, name + quoted(after)),
        "r" | "br" | "cr" => match raw(after) {
            Some(length) => (Piece::Literal, name + length),
            None => (Piece::Code, name),
        },
        _ => (Piece::Code, name),
    }
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at.min(text.len())
}

fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A raw string after its `r`; `None` when it is a raw name such as `r#match`.
fn raw(text: &str) -> Option<usize> {
    let hashes = text.find(|c| c != '#')?;
    if !text[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = hashes + 1;
    Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()))
}

/// A character literal; `None` when the quote begins a lifetime or a label.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        // The escaped character may itself be a quote.
        chars.next()?;
        return chars.find(|&(_, c)| c == '\'').map(|(at, _)| at + 1);
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str, comments: &str) {
        let source = Source::split(text);
        let squeezed = |half: &str| half.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&source.code), code, "code of {text}");
        assert_eq!(squeezed(&source.comments), comments, "comments of {text}");
        assert_eq!(source.code.lines().count(), text.lines().count());
    }

    #[test]
    fn comments_are_not_code() {
        check(
            "a(); // one\n/* two /* three */ */ b();",
            "a(); b();",
            "// one /* two /* three */ */",
        );
    }

    #[test]
    fn strings_are_neither() {
        check(r#"f("// no", b"\"x", 'y', '\'', '"');"#, "f( , , , , );", "");
        check(r###"f(r"a\", r#"b"c"#, br"d", c"e"); g"###, "f( , , , ); g", "");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        check("fn f<'a>(x: &'a str) { r#match(x) }", "fn f<'a>(x: &'a str) { r#match(x) }", "");
    }

    #[test]
    fn an_unfinished_piece_ends_with_the_file() {
        check("a \"open", "a", "");
        check("a /* open", "a", "/* open");
    }

    #[test]
    fn words_are_whole() {
        let found: Vec<_> = words("match matches rematch match", "match").collect();
        assert_eq!(found, [0, 22]);
        assert_eq!(words("todo!() my_todo!()", "todo!").collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn tests_at_the_end_are_left_out() {
        let text = "fn a() {}\n\n#[cfg(test)]\nuse x;\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n";
        let source = Source::split(text);
        assert!(source.code_before_tests().ends_with("use x;\n"));
        assert_eq!(Source::split("fn a() {}").code_before_tests(), "fn a() {}");
    }
}
