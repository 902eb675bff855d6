use crate::tidy::{
    Finding,
    tree::{File, Tree},
};

/// Relative links in the documents (at the root, in `docs/` and in `adr/`) lead to files of ours.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| is_document(file)) {
        for (line, target) in links(&file.text) {
            let Some(path) = resolve(&file.path, target) else {
                let text = format!("`{target}` leads out of the project; link inside it");
                findings.push(Finding::error(&file.path, line, text));
                continue;
            };
            if !tree.contains(&path) {
                let text = format!("`{target}` leads to {path}, which is not there; mend the link");
                findings.push(Finding::error(&file.path, line, text));
            }
        }
    }
    findings
}

fn is_document(file: &File) -> bool {
    let is_here = file.folders().next().is_none_or(|folder| matches!(folder, "docs" | "adr"));
    is_here && file.path.ends_with(".md")
}

/// The relative targets, each with its line; code is left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            let targets = inline_targets(line).into_iter().chain(defined_target(start));
            let relative = targets.filter_map(relative_part);
            found.extend(relative.map(|target| (index + 1, target)));
        }
    }
    found
}

/// The targets of `[text](target "title")`.
fn inline_targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    // Every second piece between backticks is code. In [`name`](target) the target begins the
    // prose after it, and is found there.
    for prose in line.split('`').step_by(2) {
        for piece in prose.split("](").skip(1) {
            targets.extend(piece.split([')', ' ']).next());
        }
    }
    targets
}

/// The target of `[name]: target`.
fn defined_target(line: &str) -> Option<&str> {
    let (_, target) = line.strip_prefix('[')?.split_once("]: ")?;
    target.split_whitespace().next()
}

/// The path in a link to a file of ours; `None` for a link elsewhere, or within the same page.
fn relative_part(target: &str) -> Option<&str> {
    let target = target.trim_start_matches('<').trim_end_matches('>');
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    let path = target.split('#').next().unwrap_or_default();
    (!is_elsewhere && !path.is_empty()).then_some(path)
}

/// Where `target` in the document at `from` leads; `None` above the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    fn found(path: &str, text: &str) -> Vec<Finding> {
        check(&Tree::of(&[
            (path, text),
            ("README.md", ""),
            ("docs/guide/start.md", ""),
            ("crates/store/src/lib.rs", ""),
        ]))
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[a](../README.md) ![b](guide/start.md#here \"title\") [`c`](../crates/store/)\n\
                    [d](#below) [e](https://example.org/x) <mailto:a@b.c>\n\
                    [f]: /README.md\n";
        assert_eq!(found("docs/page.md", text), []);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "fine\n[a](guide/end.md) and [b](../readme.md)\n[`c`](gone.md)\n[d]: lost.md\n";
        let page = |line: usize| format!("docs/page.md:{line}");
        let places = [page(2), page(2), page(3), page(4)];
        let places: Vec<_> = places.iter().map(String::as_str).collect();
        assert_places(&found("docs/page.md", text), &places);
    }

    #[test]
    fn links_out_of_the_project_are_found() {
        assert_places(&found("docs/page.md", "[a](../../x.md)\n"), &["docs/page.md:1"]);
    }

    #[test]
    fn code_and_other_folders_are_left_out() {
        assert_eq!(found("docs/page.md", "```\n[a](gone.md)\n```\n`[b](gone.md)`\n"), []);
        assert_eq!(found("crates/store/notes.md", "[a](gone.md)\n"), []);
    }
}
