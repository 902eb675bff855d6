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
    let wrong = |remedy| OpenError::Url { url: url.to_owned(), remedy };
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

/// The URL as it may be shown.
#[cfg(any(feature = "postgres", feature = "etcd"))]
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // A password may hold an @ that was not escaped; better to hide too much.
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let at = rest[..end].rfind('@').or_else(|| rest.rfind('@'));
    match at {
        Some(at) => {
            let user = rest[..at].split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:...{}", &rest[at..])
        }
        None => url.to_owned(),
    }
}
