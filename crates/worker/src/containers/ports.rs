//! Ports for containers, none given twice.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, TcpListener},
    ops::RangeInclusive,
};

/// Which ports are given, and which are tried next.
#[derive(Debug)]
pub(super) struct Ports {
    range: RangeInclusive<u16>,
    next: u16,
    given: BTreeSet<u16>,
}

impl Ports {
    pub(super) fn new(range: RangeInclusive<u16>) -> Self {
        Self { next: *range.start(), range, given: BTreeSet::new() }
    }

    /// As many ports as there are names, or none. A port that somebody else listens on is passed
    /// over; those given last come up again last.
    ///
    /// # Errors
    /// There are not enough.
    pub(super) fn take(&mut self, names: &[String]) -> Result<Vec<(String, u16)>, String> {
        let mut taken = Vec::new();
        for name in names {
            let Some(port) = self.free() else {
                self.give_back(&taken);
                return Err(format!(
                    "no port is free for '{name}': all of {}-{} are in use",
                    self.range.start(),
                    self.range.end()
                ));
            };
            self.given.insert(port);
            taken.push((name.clone(), port));
        }
        Ok(taken)
    }

    fn free(&mut self) -> Option<u16> {
        for _ in self.range.clone() {
            let port = self.next;
            self.next = if port >= *self.range.end() { *self.range.start() } else { port + 1 };
            if !self.given.contains(&port) && is_unused(port) {
                return Some(port);
            }
        }
        None
    }

    /// Those that an earlier worker gave.
    pub(super) fn adopt(&mut self, taken: &[(String, u16)]) {
        self.given.extend(taken.iter().map(|(_, port)| *port));
    }

    pub(super) fn give_back(&mut self, taken: &[(String, u16)]) {
        for (_, port) in taken {
            self.given.remove(port);
        }
    }
}

fn is_unused(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

/// How a port is called in the environment.
pub(super) fn variable(name: &str) -> String {
    let upper =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("PORT_{}", upper.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("p{number}")).collect()
    }

    #[test]
    fn no_port_is_given_twice_and_a_failure_takes_none() {
        let mut ports = Ports::new(28_100..=28_103);
        let first = ports.take(&names(3)).unwrap();
        assert!(ports.take(&names(2)).unwrap_err().contains("28100-28103"));
        let second = ports.take(&names(1)).unwrap();
        let all: BTreeSet<u16> = first.iter().chain(&second).map(|(_, port)| *port).collect();
        assert_eq!(all.len(), 4);
        ports.give_back(&first);
        assert_eq!(ports.take(&names(3)).unwrap().len(), 3);
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_passed_over() {
        let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(Ports::new(port..=port).take(&names(1)).is_err());
    }

    #[test]
    fn names_become_variables() {
        assert_eq!(variable("http"), "PORT_HTTP");
        assert_eq!(variable("admin-api"), "PORT_ADMIN_API");
    }
}
