use crate::tidy::{
    Finding,
    source::{Source, line_at, words},
    tree::Tree,
};

/// The comment that excuses a sleep on its line.
const EXCUSE: &str = "// why:";

/// No test sleeps: it would be slow when it is right, and wrong when the machine is slow.
///
/// Tests are `tests.rs`, everything in a folder `tests`, and a `mod tests` at the end of a file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let source = Source::split(&file.text);
        let first = if file.is_test() { 0 } else { source.code_before_tests().len() };
        for at in words(&source.code, "sleep(").filter(|&at| at >= first) {
            let line = line_at(&source.code, at);
            let comment = source.comments.lines().nth(line - 1).unwrap_or_default();
            let is_definition = source.code[..at].trim_end().ends_with("fn");
            if !is_definition && !comment.contains(EXCUSE) {
                let text = "a test sleeps; wait for what is to happen, or move a clock of your own \
                            (on the same line `// why:` excuses it)";
                findings.push(Finding::error(&file.path, line, text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    const SLEEP: &str = "fn a() {\n    thread::sleep(SECOND);\n}\n";

    #[test]
    fn a_test_that_sleeps_is_found() {
        let inline = format!("fn b() {{}}\n#[cfg(test)]\nmod tests {{\n{SLEEP}}}\n");
        let tree = Tree::of(&[
            ("a/src/inline.rs", &inline),
            ("a/src/tests.rs", "tokio::time::sleep(SECOND).await;\n"),
            ("a/tests/real.rs", SLEEP),
            ("b/tests/bare.rs", "use tokio::time::sleep;\nsleep(SECOND).await;\n"),
        ]);
        let places =
            ["a/src/inline.rs:5", "a/src/tests.rs:1", "a/tests/real.rs:2", "b/tests/bare.rs:2"];
        assert_places(&check(&tree), &places);
    }

    #[test]
    fn drivers_reasons_and_strings_pass() {
        let excused = "thread::sleep(MS); // why: the kernel gives no event for it\n";
        let tree = Tree::of(&[
            ("a/src/driver.rs", SLEEP),
            ("a/tests/real.rs", excused),
            ("a/tests/shell.rs", "run(\"sleep(1)\"); fn sleep() {}\nfn sleep(x: u8) {}\n"),
        ]);
        assert_eq!(check(&tree), []);
    }
}
