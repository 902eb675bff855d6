//! What a `postgres://` URL says.

use std::{path::PathBuf, time::Duration};

use tokio_postgres::{
    Config,
    config::{Host, SslMode, TargetSessionAttrs},
};

use crate::{
    OpenError,
    tls::{Identity, NOT_SHOWN, Trust},
    url::shown,
};

/// The schema that holds our tables, unless the URL names another.
const SCHEMA: &str = "sterna";
/// How long the schema's name may be: PostgreSQL cuts names off at 63 bytes.
const SCHEMA_BYTES_MAX: usize = 63;
/// What a URL looks like.
const FORM: &str = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special \
                    characters, and after ? the options schema, sslmode, sslrootcert, sslcert, \
                    sslkey or one that tokio-postgres knows";

/// Where the store is, and how to get there.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) schema: String,
    pub(super) trust: Trust,
    pub(super) identity: Option<Identity>,
    /// For messages: `postgres://host:port/database`, without user and password.
    pub(super) server: String,
}

impl Target {
    /// Reads a URL.
    pub(super) fn read(url: &str) -> Result<Self, OpenError> {
        let wrong = |remedy| OpenError::Url { url: shown(url), remedy };
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let mut schema = SCHEMA.to_owned();
        let (mut mode, mut roots) = ("prefer", None);
        let (mut certificate, mut key) = (None, None);
        let mut rest = Vec::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("schema", name)) => schema = name.to_owned(),
                Some(("sslmode", name)) => mode = name,
                Some(("sslrootcert", path)) => roots = Some(PathBuf::from(path)),
                Some(("sslcert", path)) => certificate = Some(PathBuf::from(path)),
                Some(("sslkey", path)) => key = Some(PathBuf::from(path)),
                Some(_) | None => rest.push(option),
            }
        }
        if !is_plain_name(&schema) {
            return Err(wrong("a schema's name is a to z, 0 to 9 and _, and begins with no digit"));
        }
        let mut config: Config =
            format!("{place}?{}", rest.join("&")).parse().map_err(|_| wrong(FORM))?;
        // tidy: not a table
        let (mode, trust) = match (mode, roots) {
            ("disable", _) => (SslMode::Disable, Trust::Anyone),
            ("prefer", _) => (SslMode::Prefer, Trust::Anyone),
            // As libpq has it: with a root at hand, the certificate is checked against it.
            ("require", None) => (SslMode::Require, Trust::Anyone),
            ("require" | "verify-ca", roots) => (SslMode::Require, Trust::Issuer(roots)),
            ("verify-full", roots) => (SslMode::Require, Trust::Name(roots)),
            _ => {
                return Err(wrong(
                    "write sslmode=disable, prefer, require, verify-ca or verify-full",
                ));
            }
        };
        let identity = Identity::of(certificate, key).map_err(wrong)?;
        if identity.is_some() && mode == SslMode::Disable {
            return Err(wrong(NOT_SHOWN));
        }
        config.ssl_mode(mode);
        if config.get_user().is_none() || config.get_hosts().is_empty() {
            return Err(wrong(FORM));
        }
        if config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_))) {
            return Err(wrong("sockets in the file system are not used; name a host and a port"));
        }
        if config.get_application_name().is_none() {
            config.application_name("sterna");
        }
        if config.get_hosts().len() > 1 {
            // Of several, the one that is the primary now.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        // A server that vanished without a word is noticed by the next call's deadline; this is
        // for connections on which nothing is called.
        config.keepalives_idle(Duration::from_secs(15));
        let server = name_of(&config);
        Ok(Self { config, schema, trust, identity, server })
    }

    /// A statement on the schema of this store.
    pub(super) fn sql(&self, text: &str) -> String {
        text.replace("{s}", &self.schema)
    }

    /// The database, which is named like the user unless the URL says otherwise.
    pub(super) fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default()
    }
}

fn is_plain_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_lowercase() || c == '_';
    name.starts_with(is_first)
        && name.len() <= SCHEMA_BYTES_MAX
        && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

fn name_of(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts: Vec<_> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(index, host)| {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            match host {
                // An address of many colons, apart from its port.
                Host::Tcp(host) if host.contains(':') => format!("[{host}]:{port}"),
                Host::Tcp(host) => format!("{host}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        })
        .collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        Target::read(url).unwrap_err().to_string()
    }

    #[test]
    fn a_url_says_where_and_how() {
        let target =
            Target::read("postgres://me:secret@db:7000/work?schema=a_1&sslmode=require").unwrap();
        assert_eq!(target.schema, "a_1");
        assert_eq!(target.server, "postgres://db:7000/work");
        assert_eq!(target.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(target.trust, Trust::Anyone);
    }

    #[test]
    fn a_short_url_means_the_usual() {
        let target = Target::read("postgresql://me@db").unwrap();
        assert_eq!(target.schema, "sterna");
        assert_eq!(target.server, "postgres://db:5432/me");
        assert_eq!(target.config.get_ssl_mode(), SslMode::Prefer);
        assert_eq!(target.database(), "me");
    }

    #[test]
    fn a_root_makes_require_check_the_issuer() {
        let target = Target::read("postgres://me@db?sslmode=require&sslrootcert=/ca.pem").unwrap();
        assert_eq!(target.trust, Trust::Issuer(Some("/ca.pem".into())));
        let target = Target::read("postgres://me@db?sslmode=verify-full").unwrap();
        assert_eq!(target.trust, Trust::Name(None));
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        assert_eq!(
            refused("postgres://me:se@cret@db/x?sslmode=maybe"),
            "postgres://me:...@db/x?sslmode=maybe is not the URL of a store; write \
             sslmode=disable, prefer, require, verify-ca or verify-full"
        );
        assert!(refused("postgres://me@db?schema=Robert';--").contains("a schema's name is"));
        assert!(refused("postgres://me@db?colour=red").contains("the options schema, sslmode"));
        assert!(refused("postgres://db").contains("write postgres://USER"));
        assert!(refused("postgres://me@%2Frun%2Fpg").contains("name a host and a port"));
        assert!(
            refused("postgres://me@db?sslcert=/me.pem").contains("write both sslcert=FILE and")
        );
        let both = "postgres://me@db?sslmode=disable&sslcert=/me.pem&sslkey=/me.key";
        assert!(refused(both).contains("are shown only over TLS"));
    }
}
