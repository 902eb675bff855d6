//! Ports for containers, none given twice on this machine.
//!
//! Who gives a port first binds a name for it in the abstract namespace, which has no files and belongs
//! to the same network as the port does: whoever else gives ports there finds it taken. The guardian
//! keeps the name for as long as the run is, even if its worker goes.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpListener},
    ops::RangeInclusive,
    os::fd::OwnedFd,
    sync::Arc,
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use sterna_model::{BootTime, Span};

/// Which ports are given, and which are tried next.
#[derive(Debug)]
pub(super) struct Ports {
    range: RangeInclusive<u16>,
    next: u16,
    /// With their names, unless the guardian alone has them.
    given: BTreeMap<u16, Option<Arc<OwnedFd>>>,
    /// The names of those given back, and until when they are kept: for so long the guardian may have
    /// them still, of a run that is over, and nobody could take them anew.
    returned: BTreeMap<u16, (Arc<OwnedFd>, BootTime)>,
}

/// The guardian lets go of a run that is over long before.
const KEEP_RETURNED: Span = Span::from_secs(1);

impl Ports {
    pub(super) fn new(range: RangeInclusive<u16>) -> Self {
        Self { next: *range.start(), range, given: BTreeMap::new(), returned: BTreeMap::new() }
    }

    /// As many ports as there are names, or none. A port that somebody else listens on is passed
    /// over; those given last come up again last.
    ///
    /// # Errors
    /// There are not enough.
    pub(super) fn take(
        &mut self,
        now: BootTime,
        names: &[String],
    ) -> Result<Vec<(String, u16)>, String> {
        let mut taken = Vec::new();
        for name in names {
            let Some((port, claim)) = self.free() else {
                self.give_back(now, &taken);
                return Err(format!(
                    "no port is free for '{name}': all of {}-{} are in use; end something that has one",
                    self.range.start(),
                    self.range.end()
                ));
            };
            self.given.insert(port, Some(claim));
            taken.push((name.clone(), port));
        }
        Ok(taken)
    }

    fn free(&mut self) -> Option<(u16, Arc<OwnedFd>)> {
        for _ in self.range.clone() {
            let port = self.next;
            self.next = if port >= *self.range.end() { *self.range.start() } else { port + 1 };
            if !self.given.contains_key(&port)
                && is_unused(port)
                && let Some(claim) = self.claimed(port)
            {
                return Some((port, claim));
            }
        }
        None
    }

    /// The name of a port, if we have it still or nobody has it.
    fn claimed(&mut self, port: u16) -> Option<Arc<OwnedFd>> {
        let returned = self.returned.remove(&port).map(|(claim, _)| claim);
        returned.or_else(|| claim(port).map(Arc::new))
    }

    /// Those that an earlier worker gave.
    pub(super) fn adopt(&mut self, taken: &[(String, u16)]) {
        // The guardian has their names; after another one took over, nobody.
        let again = taken.iter().map(|(_, port)| (*port, claim(*port).map(Arc::new)));
        self.given.extend(again);
    }

    /// The names of these ports, for the guardian to keep.
    pub(super) fn claims(&mut self, taken: &[(String, u16)]) -> Vec<Arc<OwnedFd>> {
        let named = taken.iter().filter_map(|(_, port)| {
            let given = self.given.get_mut(port)?;
            if given.is_none() {
                // The guardian that had it alone may be gone.
                *given = claim(*port).map(Arc::new);
            }
            given.clone()
        });
        named.collect()
    }

    pub(super) fn give_back(&mut self, now: BootTime, taken: &[(String, u16)]) {
        for (_, port) in taken {
            if let Some(Some(claim)) = self.given.remove(port) {
                self.returned.insert(*port, (claim, now.plus(KEEP_RETURNED)));
            }
        }
    }

    /// When [`Ports::release`] has something to do.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.returned.values().map(|(_, until)| *until).min()
    }

    /// Lets others have what was given back a while ago.
    pub(super) fn release(&mut self, now: BootTime) {
        self.returned.retain(|_, (_, until)| now < *until);
    }
}

/// Takes the name of a port, unless somebody has it.
fn claim(port: u16) -> Option<OwnedFd> {
    let name = format!("sterna-port-{port}");
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).ok()?;
    bind(&socket, &address).ok().map(|()| socket)
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

    const NOW: BootTime = BootTime::from_millis(0);

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("p{number}")).collect()
    }

    #[test]
    fn no_port_is_given_twice_and_a_failure_takes_none() {
        let mut ports = Ports::new(28_100..=28_103);
        let first = ports.take(NOW, &names(3)).unwrap();
        assert!(ports.take(NOW, &names(2)).unwrap_err().contains("28100-28103"));
        let second = ports.take(NOW, &names(1)).unwrap();
        let all: std::collections::BTreeSet<u16> =
            first.iter().chain(&second).map(|(_, port)| *port).collect();
        assert_eq!(all.len(), 4);
        ports.give_back(NOW, &first);
        assert_eq!(ports.take(NOW, &names(3)).unwrap().len(), 3);
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_passed_over() {
        let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(Ports::new(port..=port).take(NOW, &names(1)).is_err());
    }

    #[test]
    fn two_that_give_ports_on_one_machine_give_none_twice() {
        let (mut one, mut other) = (Ports::new(28_110..=28_113), Ports::new(28_110..=28_113));
        let first = one.take(NOW, &names(2)).unwrap();
        let second = other.take(NOW, &names(2)).unwrap();
        let all = first.iter().chain(&second).map(|(_, port)| *port);
        assert_eq!(all.collect::<std::collections::BTreeSet<u16>>().len(), 4);
        // Whoever has a copy of the name keeps the port, whether or not the one that gave it lives.
        let kept = one.claims(&first);
        assert_eq!(kept.len(), 2);
        drop(one);
        assert!(other.take(NOW, &names(1)).is_err());
        drop(kept);
        assert_eq!(other.take(NOW, &names(2)).unwrap().len(), 2);
    }

    #[test]
    fn what_is_given_back_can_be_given_at_once_and_by_others_a_moment_later() {
        let (mut one, mut other) = (Ports::new(28_120..=28_120), Ports::new(28_120..=28_120));
        let first = one.take(NOW, &names(1)).unwrap();
        // The guardian keeps its name until it has heard that the run is over.
        let kept = one.claims(&first);
        one.give_back(NOW, &first);
        let again = one.take(NOW, &names(1)).unwrap();
        drop(kept);
        assert!(other.take(NOW, &names(1)).is_err());
        one.give_back(NOW, &again);
        one.release(NOW);
        assert!(other.take(NOW, &names(1)).is_err());
        one.release(one.deadline().unwrap());
        assert_eq!(one.deadline(), None);
        assert_eq!(other.take(NOW, &names(1)).unwrap().len(), 1);
    }

    #[test]
    fn what_the_guardian_alone_had_is_taken_anew_when_that_is_gone() {
        let mut range = [(); 3].map(|()| Ports::new(28_130..=28_130));
        let [one, next, other] = &mut range;
        let given = one.take(NOW, &names(1)).unwrap();
        let guardian = one.claims(&given);
        // The worker is killed, and the next one finds the guardian with the name.
        *one = Ports::new(28_131..=28_131);
        next.adopt(&given);
        assert!(next.claims(&given).is_empty(), "the guardian has it");
        drop(guardian);
        let replaced = next.claims(&given);
        assert_eq!(replaced.len(), 1);
        assert!(other.take(NOW, &names(1)).is_err(), "the run goes on");
    }

    #[test]
    fn names_become_variables() {
        assert_eq!(variable("http"), "PORT_HTTP");
        assert_eq!(variable("admin-api"), "PORT_ADMIN_API");
    }
}
