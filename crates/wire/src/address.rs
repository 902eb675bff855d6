//! Where a server is.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// The port of a server, unless another is said.
pub const DEFAULT_PORT: u16 = 7411;

/// Where a server is: `HOST`, `HOST:PORT`, `[::1]:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    host: String,
    port: u16,
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// There is no host in it.
    #[error("'{text}' is no address: write HOST or HOST:PORT, such as 127.0.0.1:{DEFAULT_PORT}")]
    NoHost {
        /// What was read.
        text: String,
    },
    /// It is a URL.
    #[error("'{text}' is a URL: write only HOST:PORT, such as 127.0.0.1:{DEFAULT_PORT}")]
    Url {
        /// What was read.
        text: String,
    },
    /// The port is no number from 1 to 65535.
    #[error("the port in '{text}' is no number from 1 to 65535")]
    Port {
        /// What was read.
        text: String,
    },
    /// It is another machine's, and there is no TLS yet.
    #[error(
        "{text} is not on this machine: links have no TLS yet and stay on loopback; \
         use 127.0.0.1, [::1] or localhost"
    )]
    Remote {
        /// What was read.
        text: String,
    },
}

impl Address {
    /// Its name or number.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let owned = || text.to_owned();
        if text.contains("://") {
            return Err(AddressError::Url { text: owned() });
        }
        let no_host = || AddressError::NoHost { text: owned() };
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(no_host)?;
            host.parse::<Ipv6Addr>().map_err(|_| no_host())?;
            match rest {
                "" => (host, None),
                _ => (host, Some(rest.strip_prefix(':').ok_or_else(no_host)?)),
            }
        } else if text.parse::<Ipv6Addr>().is_ok() {
            (text, None)
        } else {
            text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
        };
        let is_host = |host: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
            !host.is_empty() && host.chars().all(is_part)
        };
        if !is_host(host) {
            return Err(no_host());
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => match port.parse() {
                Ok(port) if port != 0 => port,
                Ok(_) | Err(_) => return Err(AddressError::Port { text: owned() }),
            },
        };
        if host.parse::<IpAddr>().is_ok_and(|ip| !ip.is_loopback()) {
            return Err(AddressError::Remote { text: owned() });
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_even_if_none_is_said() {
        for (text, shown) in [
            ("localhost", "localhost:7411"),
            ("localhost:80", "localhost:80"),
            ("127.0.0.1:7411", "127.0.0.1:7411"),
            ("::1", "[::1]:7411"),
            ("[::1]", "[::1]:7411"),
            ("[::1]:9", "[::1]:9"),
            ("leader.example:7411", "leader.example:7411"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.to_string().parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_to_write() {
        for (text, says) in [
            ("", "'' is no address: write HOST or HOST:PORT, such as 127.0.0.1:7411"),
            (":7411", "':7411' is no address: write HOST or HOST:PORT, such as 127.0.0.1:7411"),
            ("a b", "'a b' is no address: write HOST or HOST:PORT, such as 127.0.0.1:7411"),
            ("[::1", "'[::1' is no address: write HOST or HOST:PORT, such as 127.0.0.1:7411"),
            ("http://a", "'http://a' is a URL: write only HOST:PORT, such as 127.0.0.1:7411"),
            ("a:", "the port in 'a:' is no number from 1 to 65535"),
            ("a:0", "the port in 'a:0' is no number from 1 to 65535"),
            ("a:65536", "the port in 'a:65536' is no number from 1 to 65535"),
            (
                "10.0.0.1:7411",
                "10.0.0.1:7411 is not on this machine: links have no TLS yet and stay on loopback; \
                 use 127.0.0.1, [::1] or localhost",
            ),
        ] {
            assert_eq!(text.parse::<Address>().unwrap_err().to_string(), says);
        }
    }
}
