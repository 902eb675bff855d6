use std::{collections::BTreeMap, fs, io, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::run;

/// A larger file is not text that anyone wrote, and is not read.
pub(super) const LARGEST_BYTES: u64 = 512 * 1024;

/// The project's own files: what git tracks, and what it would if it were added now.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, File>,
}

/// One file.
#[derive(Debug)]
pub(super) struct File {
    /// Relative to the root, with forward slashes.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// Empty when it is too large or no text.
    pub(super) text: String,
}

impl File {
    /// The name without folders: `mod.rs`.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The folders that lead to it, outermost first.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        let folders = self.path.rsplit_once('/').map_or("", |(folders, _)| folders);
        folders.split('/').filter(|folder| !folder.is_empty())
    }

    /// Whether it holds nothing but tests.
    pub(super) fn is_test(&self) -> bool {
        self.name() == "tests.rs" || self.folders().any(|folder| folder == "tests")
    }
}

impl Tree {
    /// Reads the files under `root`.
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut git = Command::new("git");
        // In a container the checkout often belongs to somebody else, and git then refuses.
        git.args(["-c", "safe.directory=*", "ls-files", "-z"]);
        git.args(["--cached", "--others", "--exclude-standard"]).current_dir(root);
        let mut files = BTreeMap::new();
        for path in run::capture(git)?.split_terminator('\0') {
            let metadata = match fs::symlink_metadata(root.join(path)) {
                Ok(metadata) => metadata,
                // Deleted here and not yet in the index.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| format!("cannot look at {path}")),
            };
            let is_readable = metadata.is_file() && metadata.len() <= LARGEST_BYTES;
            let content = if is_readable { fs::read(root.join(path))? } else { Vec::new() };
            let text = String::from_utf8(content).unwrap_or_default();
            let file = File { path: path.to_owned(), bytes: metadata.len(), text };
            files.insert(path.to_owned(), file);
        }
        Ok(Self { files })
    }

    /// All files, by path.
    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// The Rust sources.
    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files().filter(|file| file.path.ends_with(".rs"))
    }

    /// The file at `path`.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// Whether there is a file or a folder at `path`.
    pub(super) fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files().any(|file| file.path.starts_with(&folder))
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|&(path, text)| {
            let bytes = u64::try_from(text.len()).unwrap();
            (path.to_owned(), File { path: path.to_owned(), bytes, text: text.to_owned() })
        });
        Self { files: files.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_found() {
        let tree = Tree::of(&[("docs/guide/start.md", "")]);
        assert!(tree.contains("docs/guide/start.md") && tree.contains("docs/guide"));
        assert!(!tree.contains("docs/gui") && !tree.contains("docs/guide/end.md"));
    }

    #[test]
    fn tests_are_told_from_other_code() {
        let tree = Tree::of(&[("a/src/tests.rs", ""), ("a/src/x.rs", ""), ("a/tests/y/z.rs", "")]);
        let tests: Vec<_> = tree.rust().filter(|f| f.is_test()).map(|f| f.path.as_str()).collect();
        assert_eq!(tests, ["a/src/tests.rs", "a/tests/y/z.rs"]);
    }
}
