//! What an `etcd://` URL says. Pure.

use std::path::PathBuf;

use crate::{
    OpenError,
    tls::{Identity, NOT_SHOWN, Trust},
    url::shown,
};

/// Begins all keys of a store, unless the URL says otherwise.
const PREFIX: &str = "sterna";
/// So that keys and prefix together stay within what etcd takes.
const PREFIX_BYTES_MAX: usize = 128;
/// Where etcd listens, unless the URL says otherwise.
const PORT: u16 = 2379;
/// What a URL looks like.
const FORM: &str = "write etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX, with %XX for special \
                    characters in user and password, and after ? the options sslmode, \
                    sslrootcert, sslcert and sslkey; all but the hosts may be left out";

/// Where the store is, and how to get there.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Never empty.
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) login: Option<Login>,
    pub(super) prefix: String,
    /// `None` for connections in the clear.
    pub(super) trust: Option<Trust>,
    pub(super) identity: Option<Identity>,
    /// For messages: `etcd://host:port,host:port/prefix`, without user and password.
    pub(super) server: String,
}

/// One member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Who we say we are.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

// By hand: a password has no place in a log.
impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("server", &self.server).finish_non_exhaustive()
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Target {
    /// Reads a URL.
    pub(super) fn read(url: &str) -> Result<Self, OpenError> {
        let wrong = |remedy| OpenError::Url { url: shown(url), remedy };
        let rest = url.strip_prefix("etcd://").ok_or_else(|| wrong(FORM))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, place) = match place.rsplit_once('@') {
            Some((login, place)) => (Some(Login::read(login).ok_or_else(|| wrong(FORM))?), place),
            None => (None, place),
        };
        let (hosts, prefix) = place.split_once('/').unwrap_or((place, PREFIX));
        let endpoints: Option<Vec<_>> = hosts.split(',').map(Endpoint::read).collect();
        let endpoints = endpoints.ok_or_else(|| wrong(FORM))?;
        let prefix = if prefix.is_empty() { PREFIX } else { prefix }.trim_end_matches('/');
        if !is_plain_name(prefix) {
            return Err(wrong(
                "a prefix is at most 128 of the characters a to z, A to Z, 0 to 9, _, -, . and /, \
                 and no / follows another",
            ));
        }
        let (mut mode, mut roots) = ("disable", None);
        let (mut certificate, mut key) = (None, None);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslmode", name)) => mode = name,
                Some(("sslrootcert", path)) => roots = Some(PathBuf::from(path)),
                Some(("sslcert", path)) => certificate = Some(PathBuf::from(path)),
                Some(("sslkey", path)) => key = Some(PathBuf::from(path)),
                Some(_) | None => return Err(wrong(FORM)),
            }
        }
        // tidy: not a table
        let trust = match (mode, roots) {
            ("disable", _) => None,
            // As libpq has it: with a root at hand, the certificate is checked against it.
            ("require", None) => Some(Trust::Anyone),
            ("require" | "verify-ca", roots) => Some(Trust::Issuer(roots)),
            ("verify-full", roots) => Some(Trust::Name(roots)),
            _ => return Err(wrong("write sslmode=disable, require, verify-ca or verify-full")),
        };
        let identity = Identity::of(certificate, key).map_err(wrong)?;
        if identity.is_some() && trust.is_none() {
            return Err(wrong(NOT_SHOWN));
        }
        let hosts: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
        let server = format!("etcd://{}/{prefix}", hosts.join(","));
        Ok(Self { endpoints, login, prefix: prefix.to_owned(), trust, identity, server })
    }

    /// For messages.
    pub(super) fn user(&self) -> String {
        self.login.as_ref().map_or("a caller without a name".to_owned(), |login| login.user.clone())
    }
}

impl Endpoint {
    fn read(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(""))?)
            }
            None => text.split_once(':').unwrap_or((text, "")),
        };
        let port = if port.is_empty() { PORT } else { port.parse().ok()? };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        let is_good = !host.is_empty() && host.chars().all(is_host);
        is_good.then(|| Self { host: host.to_owned(), port })
    }
}

impl Login {
    fn read(text: &str) -> Option<Self> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let (user, password) = (decoded(user)?, decoded(password)?);
        (!user.is_empty()).then_some(Self { user, password })
    }
}

/// The text that is meant by one with `%XX` in it.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Two slashes in a row end the prefix in a key. A prefix that held them, or ended with one, might
/// lie in the rooms of the store whose prefix it begins with.
fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let is_one_name = !name.contains("//") && !name.ends_with('/');
    (1..=PREFIX_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain) && is_one_name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        Target::read(url).unwrap_err().to_string()
    }

    #[test]
    fn a_url_says_where_and_how() {
        let url = "etcd://me:se%40cret@one:7000,two,[::1]:9/my/place?sslmode=require";
        let target = Target::read(url).unwrap();
        assert_eq!(target.server, "etcd://one:7000,two:2379,[::1]:9/my/place");
        assert_eq!(target.endpoints[2], Endpoint { host: "::1".into(), port: 9 });
        assert_eq!(target.prefix, "my/place");
        assert_eq!(target.trust, Some(Trust::Anyone));
        let login = target.login.unwrap();
        assert_eq!((&*login.user, &*login.password), ("me", "se@cret"));
    }

    #[test]
    fn a_short_url_means_the_usual() {
        let target = Target::read("etcd://db").unwrap();
        assert_eq!(target.server, "etcd://db:2379/sterna");
        assert!(target.login.is_none() && target.trust.is_none());
        assert_eq!(Target::read("etcd://db/").unwrap(), target);
    }

    #[test]
    fn a_root_makes_require_check_the_issuer() {
        let trust = |options: &str| Target::read(&format!("etcd://db?{options}")).unwrap().trust;
        let issuer = Some(Trust::Issuer(Some("/ca.pem".into())));
        assert_eq!(trust("sslmode=require&sslrootcert=/ca.pem"), issuer);
        assert_eq!(trust("sslmode=verify-ca&sslrootcert=/ca.pem"), issuer);
        assert_eq!(trust("sslmode=verify-full"), Some(Trust::Name(None)));
        assert_eq!(trust("sslmode=disable"), None);
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        assert_eq!(
            refused("etcd://me:secret@db/x?sslmode=prefer"),
            "etcd://me:...@db/x?sslmode=prefer is not the URL of a store; write sslmode=disable, \
             require, verify-ca or verify-full"
        );
        for url in ["etcd://", "etcd://a,,b", "etcd://a:port", "etcd://a?colour=red", "etcd://:x@a"]
        {
            assert!(refused(url).contains("write etcd://USER"), "{url}");
        }
        assert!(refused("etcd://a/what?ever/x y").contains("write etcd://USER"));
        for prefix in ["x y", "x//y", "//x", "/"] {
            assert!(refused(&format!("etcd://a/{prefix}")).contains("a prefix is"), "{prefix}");
        }
        assert_eq!(Target::read("etcd://a//x/y//").unwrap().prefix, "/x/y");
        assert!(refused("etcd://a?sslkey=/me.key").contains("write both sslcert=FILE and"));
        assert!(refused("etcd://a?sslcert=/a&sslkey=/b").contains("are shown only over TLS"));
    }

    #[test]
    fn a_password_is_not_shown() {
        let target = Target::read("etcd://me:secret@db").unwrap();
        assert!(!format!("{target:?}").contains("secret"));
    }
}
