use crate::tidy::{
    Finding,
    source::{Source, line_at, words},
    tree::Tree,
};

/// Marks of work left undone in a comment; they need the number of an issue: `TODO(#12)`.
const MARKS: &[&str] = &["TODO", "FIXME"];

/// What must not stand in code, and what to do instead.
const UNDONE: &[(&str, &str)] = &[
    ("todo!", "do it, or return an error that says it is not done"),
    ("unimplemented!", "do it, or return an error that says it is not done"),
    ("#[ignore", "mend the test or delete it; a slow one plays more rounds under STERNA_LONG"),
];

/// Work that is left undone is either written down where it will be found, or not there.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let source = Source::split(&file.text);
        for (word, advice) in UNDONE {
            for at in words(&source.code, word) {
                let text = format!("`{word}` in code; {advice}");
                findings.push(Finding::error(&file.path, line_at(&source.code, at), text));
            }
        }
        for mark in MARKS {
            for at in words(&source.comments, mark) {
                if !has_issue(&source.comments[at + mark.len()..]) {
                    let text = format!("{mark} that nobody will find; write `{mark}(#12)`");
                    findings.push(Finding::error(&file.path, line_at(&source.comments, at), text));
                }
            }
        }
    }
    findings
}

fn has_issue(after: &str) -> bool {
    after.strip_prefix("(#").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    fn found(text: &str) -> Vec<Finding> {
        check(&Tree::of(&[("a.rs", text)]))
    }

    #[test]
    fn undone_work_is_found() {
        assert_places(&found("fn a() {\n    todo!()\n}\n"), &["a.rs:2"]);
        assert_places(&found("unimplemented!(\"later\");\n"), &["a.rs:1"]);
        assert_places(&found("#[test]\n#[ignore = \"slow\"]\nfn a() {}\n"), &["a.rs:2"]);
        assert_places(&found("#[ignore]\n"), &["a.rs:1"]);
    }

    #[test]
    fn a_mark_needs_an_issue() {
        assert_places(&found("// TODO: later\n/// FIXME(me)\n"), &["a.rs:1", "a.rs:2"]);
        assert_eq!(found("// TODO(#12): later\n"), []);
    }

    #[test]
    fn words_in_strings_and_longer_names_pass() {
        assert_eq!(found("let a = \"TODO todo!() #[ignore]\"; // METODO\nmy_todo!();\n"), []);
    }
}
