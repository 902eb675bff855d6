//! The token that every call must show, kept in a file for whoever may read that.

use std::{
    fmt::Write as _,
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use sterna_store::machine::random;

/// The file in the data directory.
pub const TOKEN_FILE: &str = "admin.token";

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The server's own.
    #[error("cannot read or make the token {}", path.display())]
    Own {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// One that was named.
    #[error("cannot read the token {}: name a file that holds one, as `admin.token` does", path.display())]
    Given {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// One that was named says nothing.
    #[error("{} is empty: write the token into it that all servers of this cluster have", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The token in a file that somebody else has made.
pub(crate) fn given(path: &Path) -> Result<String, TokenError> {
    let path = path.to_owned();
    match fs::read_to_string(&path) {
        Ok(text) if text.trim().is_empty() => Err(TokenError::Empty { path }),
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(TokenError::Given { path, source }),
    }
}

/// The token in this directory; made if there is none.
pub(crate) fn own(data: &Path) -> Result<String, TokenError> {
    let path = data.join(TOKEN_FILE);
    let failed = |source| TokenError::Own { path: path.clone(), source };
    match fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut token = String::new();
    for byte in random::<32>() {
        // Writing to a string does not fail.
        let _: Result<(), std::fmt::Error> = write!(token, "{byte:02x}");
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = || {
        let mut file = options.open(&path)?;
        writeln!(file, "{token}")?;
        file.sync_data()
    };
    written().map_err(failed)?;
    Ok(token)
}
