//! What a file says of whom to ask: `sterna.toml`, the user's before the machine's.
//!
//! ```toml
//! server = "127.0.0.1:7411"
//! token_file = "admin.token"
//! ```
//!
//! Invariant: a token is for the server that the same file names, and for no other.
//!
//! Invariant: what is wrong with a file is told where the file is needed, and stops nobody else.

use std::{
    env, fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::exit;

/// Of the whole machine.
const OF_MACHINE: &str = "/etc/sterna/sterna.toml";

/// What one file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) path: PathBuf,
    /// As it is written.
    pub(crate) server: Option<String>,
    /// Where the token is; a relative path is one beside the file.
    pub(crate) token_file: Option<PathBuf>,
}

impl Config {
    /// Whether it names this server, however it writes it.
    pub(crate) fn names(&self, server: &str) -> bool {
        let named = self.server.as_deref().and_then(|it| super::remote::address(it).ok());
        named.is_some_and(|named| named == server)
    }
}

/// What is wrong with a file: which, where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) text: String,
    code: u8,
}

impl Wrong {
    /// It is needed, unless somebody does what is named.
    pub(crate) fn needed(&self, unless: &str) -> anyhow::Error {
        exit::coded(self.code)(anyhow::anyhow!("{}; mend it, or {unless}", self.text))
    }
}

/// Every file that there is, in the order in which they count.
pub(crate) fn files() -> Vec<Result<Config, Wrong>> {
    let of_user = of_user(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME"));
    let all = of_user.into_iter().chain([PathBuf::from(OF_MACHINE)]);
    all.filter_map(|path| read(&path)).collect()
}

/// A path that is not absolute is none, as everywhere.
fn of_user(
    config: Option<std::ffi::OsString>,
    home: Option<std::ffi::OsString>,
) -> Option<PathBuf> {
    let absolute =
        |path: std::ffi::OsString| Some(PathBuf::from(path)).filter(|it| it.is_absolute());
    let folder = config.and_then(absolute);
    let folder = folder.or_else(|| Some(home.and_then(absolute)?.join(".config")));
    folder.map(|folder| folder.join("sterna/sterna.toml"))
}

fn read(path: &Path) -> Option<Result<Config, Wrong>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if is_absent(&error) => return None,
        Err(error) => {
            let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
            let code = if is_denied { exit::DENIED } else { 1 };
            return Some(Err(Wrong {
                text: format!("cannot read {}: {error}", path.display()),
                code,
            }));
        }
    };
    Some(parse(path, &text))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn parse(path: &Path, text: &str) -> Result<Config, Wrong> {
    let wrong = |spot: Range<usize>, why: String| {
        let (line, column) = place(text, spot.start);
        let text = format!("{}:{line}:{column}: {why}", path.display());
        Wrong { text, code: exit::SPEC }
    };
    let table = DeTable::parse(text).map_err(|error| {
        wrong(error.span().unwrap_or(0..0), format!("this is not TOML: {}", error.message()))
    })?;
    let mut config = Config { path: path.to_owned(), ..Config::default() };
    let mut token_at = None;
    for (key, value) in table.get_ref() {
        let (name, field): (&str, &Spanned<DeValue<'_>>) = (key.get_ref(), value);
        let text = || {
            let DeValue::String(text) = field.get_ref() else {
                let why = format!("{name}: it must be a text in \"quotes\"");
                return Err(wrong(field.span(), why));
            };
            Ok(text.to_string())
        };
        match name {
            "server" => {
                let server = text()?;
                super::remote::address(&server)
                    .map_err(|error| wrong(field.span(), format!("server: {error}")))?;
                config.server = Some(server);
            }
            "token_file" => {
                let folder = path.parent().unwrap_or_else(|| Path::new(""));
                config.token_file = Some(folder.join(text()?));
                token_at = Some(key.span());
            }
            other => {
                let near = sterna_model::nearest_word(other, ["server", "token_file"]);
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                let why = format!("there is no field {other:?}, only server and token_file{near}");
                return Err(wrong(key.span(), why));
            }
        }
    }
    if let (Some(spot), None) = (token_at, &config.server) {
        let why = "token_file: it is shown to the server that this file names, and there is none; add \
                   server = \"HOST:PORT\"";
        return Err(wrong(spot, why.to_owned()));
    }
    Ok(config)
}

/// Line and column, both from 1 on.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        match parse(Path::new("/c/sterna.toml"), text) {
            Ok(config) => format!("{:?} {:?}", config.server, config.token_file),
            Err(wrong) => wrong.text,
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_column() {
        for (text, wanted) in [
            ("", "None None"),
            ("server = \"h:1\"\ntoken_file = \"t\"\n", "Some(\"h:1\") Some(\"/c/t\")"),
            ("server = \"h:1\"\ntoken_file = \"/t\"\n", "Some(\"h:1\") Some(\"/t\")"),
            (
                "# ours\n  servr = \"h:1\"\n",
                "/c/sterna.toml:2:3: there is no field \"servr\", only server and token_file; did you mean server?",
            ),
            ("server = 7411\n", "/c/sterna.toml:1:10: server: it must be a text in \"quotes\""),
            (
                "server = \"nowhere\"\n",
                "/c/sterna.toml:1:10: server: \"nowhere\" names no server; write HOST:PORT, such as 127.0.0.1:7411",
            ),
            (
                "token_file = \"t\"\n",
                "/c/sterna.toml:1:1: token_file: it is shown to the server that this file names, and there is \
                 none; add server = \"HOST:PORT\"",
            ),
        ] {
            assert_eq!(said(text), wanted);
        }
        assert!(said("server = \n").starts_with("/c/sterna.toml:1:"), "{}", said("server = \n"));
    }

    #[test]
    fn the_file_of_a_user_is_where_xdg_says() {
        let path = |config: Option<&str>, home: Option<&str>| {
            of_user(config.map(Into::into), home.map(Into::into)).map(|it| it.display().to_string())
        };
        assert_eq!(path(Some("/x"), Some("/h")).unwrap(), "/x/sterna/sterna.toml");
        assert_eq!(path(None, Some("/h")).unwrap(), "/h/.config/sterna/sterna.toml");
        assert_eq!(path(Some("x"), Some("/h")).unwrap(), "/h/.config/sterna/sterna.toml");
        assert_eq!((path(None, None), path(Some(""), Some(""))), (None, None));
    }
}
