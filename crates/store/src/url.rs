//! Choosing a backend by its URL.

use std::sync::Arc;

use crate::{Embedded, Memory, OpenError, Store};

/// What to write instead.
const REMEDY: &str = "write file:DIRECTORY for an embedded store, memory: for one that is not \
                      kept, or, with the feature postgres, \
                      postgres://USER:PASSWORD@HOST/DATABASE for one on PostgreSQL, with the \
                      feature etcd, etcd://HOST,HOST,HOST/PREFIX for one on etcd";

/// Opens the store that a URL names: `file:DIRECTORY`, `memory:`, or, with the features of those
/// names, `postgres://USER:PASSWORD@HOST/DATABASE` and `etcd://USER:PASSWORD@HOST,HOST/PREFIX`.
///
/// # Errors
/// The URL names no store, or the store cannot be opened; each says what to do.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = sterna_store::open("memory:").await?;
/// let error = sterna_store::open("mysql://db").await.err().unwrap();
/// assert!(error.to_string().contains("write file:DIRECTORY"));
/// # Ok::<(), sterna_store::OpenError>(()) }).unwrap();
/// ```
pub async fn open(url: &str) -> Result<Arc<dyn Store>, OpenError> {
    let wrong = |remedy| OpenError::Url { url: shown(url), remedy };
    match url.split_once(':') {
        Some(("file", "" | "//")) => Err(wrong("name a directory: file:DIRECTORY")),
        Some(("file", path)) => {
            let path = path.strip_prefix("//").unwrap_or(path);
            if url.starts_with("file://") && !path.starts_with('/') {
                return Err(wrong("a file is never on another host: write file:DIRECTORY"));
            }
            Ok(Arc::new(Embedded::open(path)?))
        }
        Some(("memory", "")) => Ok(Arc::new(Memory::new())),
        #[cfg(feature = "etcd")]
        Some(("etcd", _)) => Ok(Arc::new(crate::Etcd::open(url).await?)),
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => Ok(Arc::new(crate::Postgres::open(url).await?)),
        Some(_) | None => Err(wrong(REMEDY)),
    }
}

/// A URL as it may be shown: without its password, wherever that stands.
///
/// ```
/// assert_eq!(sterna_store::shown("etcd://me:secret@one,two/work"), "etcd://me:...@one,two/work");
/// assert_eq!(sterna_store::shown("postgres://db/x?password=s"), "postgres://db/x?password=...");
/// ```
pub fn shown(url: &str) -> String {
    let start = url.find("://").map(|at| at + 3).or_else(|| url.find(':').map(|at| at + 1));
    let Some(start) = start.filter(|_| !url.starts_with("file:")) else { return url.to_owned() };
    let (scheme, rest) = url.split_at(start);
    // A password may hold an @, / or ? that was not escaped; better to hide too much.
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let at = rest[..end].rfind('@').or_else(|| rest.rfind('@')).unwrap_or(0);
    let (login, rest) = rest.split_at(at);
    let login = match login.split_once(':') {
        Some((user, _)) => format!("{user}:..."),
        None => login.to_owned(),
    };
    let mut shown = format!("{scheme}{login}{rest}");
    let mut from = 0;
    while let Some(found) = shown[from..].to_ascii_lowercase().find("password=") {
        let value = from + found + "password=".len();
        let end = shown[value..].find(['&', ' ']).map_or(shown.len(), |length| value + length);
        shown.replace_range(value..end, "...");
        from = value + 3;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_password_is_never_shown() {
        for (url, expected) in [
            ("file:data:x@y", "file:data:x@y"),
            ("somewhere", "somewhere"),
            ("postgres://db/x", "postgres://db/x"),
            ("postgres://me@db/x", "postgres://me@db/x"),
            ("postgres://me:s%40t@db:5432/x?schema=y", "postgres://me:...@db:5432/x?schema=y"),
            ("postgres://me:se/cr@et@db/x", "postgres://me:...@db/x"),
            ("postgres://H/db?user=u&password=p&x=1", "postgres://H/db?user=u&password=...&x=1"),
            ("postgres://H/db?Password=p", "postgres://H/db?Password=..."),
            ("Postgres://me:secret@db", "Postgres://me:...@db"),
            ("postgres:me:secret@db", "postgres:me:...@db"),
            ("mysql://x:secret@y/z", "mysql://x:...@y/z"),
            ("etcd://one:2379,two:2379", "etcd://one:2379,two:2379"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }
}
