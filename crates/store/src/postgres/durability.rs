//! How a server keeps what it acknowledges, and who else has it. Pure.

use crate::{About, Failover};

/// How the server keeps what it acknowledges, as it said when the store was opened.
///
/// ```
/// use sterna_store::postgres::Durability;
///
/// let careless = Durability {
///     version: "15.8".into(),
///     is_fsync_on: false,
///     are_full_pages_written: true,
///     synchronous_standbys: String::new(),
///     standbys: Vec::new(),
/// };
/// assert!(careless.warnings()[0].contains("set fsync = on"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// What it calls itself.
    pub version: String,
    /// Whether it waits for its disk.
    pub is_fsync_on: bool,
    /// Whether it can mend a torn page.
    pub are_full_pages_written: bool,
    /// Its setting `synchronous_standby_names`; empty when no standby confirms commits.
    pub synchronous_standbys: String,
    /// Who follows it.
    pub standbys: Vec<Standby>,
}

/// A server that follows another one and may take over from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    /// What it calls itself.
    pub name: String,
    /// What it has of a commit that was acknowledged.
    pub confirms: Confirms,
}

/// What a standby has of a commit that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirms {
    /// All of it: the commit waits for this one.
    Every,
    /// Perhaps all: the commit waits for some of several.
    Some,
    /// Nothing for certain.
    None,
    /// The server does not tell our user.
    Untold,
}

impl Confirms {
    /// By the server's word, `sync_state` of `pg_stat_replication`.
    pub(super) fn of(state: Option<&str>) -> Self {
        match state {
            Some("sync") => Self::Every,
            Some("quorum") => Self::Some,
            Some(_) => Self::None,
            None => Self::Untold,
        }
    }
}

impl Durability {
    /// What the store stands on.
    pub(super) fn about(&self) -> About {
        let switch = |is_on| if is_on { "on" } else { "off" }.to_owned();
        let standbys = match &*self.synchronous_standbys {
            "" => "none; needed if a standby may take over",
            standbys => standbys,
        };
        About {
            engine: format!("PostgreSQL {}", self.version),
            settings: vec![
                ("fsync", switch(self.is_fsync_on)),
                ("full_page_writes", switch(self.are_full_pages_written)),
                // Set so for our own connections, whatever the server's default is.
                ("synchronous_commit", switch(true)),
                ("synchronous_standby_names", standbys.to_owned()),
            ],
            is_durable: self.is_fsync_on && self.are_full_pages_written,
            is_shared: true,
            failover: self.failover(),
        }
    }

    /// What becomes of acknowledged commits if a standby takes over.
    pub fn failover(&self) -> Failover {
        let named = |confirms| {
            let standbys = self.standbys.iter().filter(|standby| standby.confirms == confirms);
            standbys.map(|standby| &*standby.name).collect::<Vec<_>>().join(", ")
        };
        let (every, some) = (named(Confirms::Every), named(Confirms::Some));
        if self.standbys.is_empty() && self.synchronous_standbys.is_empty() {
            Failover::Never
        } else if self.synchronous_standbys.is_empty() {
            let who = self.standbys.iter().map(|standby| &*standby.name).collect::<Vec<_>>();
            Failover::Loses(format!(
                "no commit waits for a standby ({}): the last ones are lost if it takes over; name \
                 it in synchronous_standby_names, or never promote it",
                who.join(", ")
            ))
        } else if !every.is_empty() {
            Failover::Keeps(format!("{every} has every commit; promote no other standby"))
        } else if !some.is_empty() {
            Failover::Keeps(format!(
                "every commit is with some of {some}; promote the one that is furthest"
            ))
        } else if self.standbys.iter().any(|standby| standby.confirms == Confirms::Untold) {
            Failover::Unclear(
                "the server does not tell our user which standby confirms commits; as an \
                 administrator: GRANT pg_monitor to the user of the URL"
                    .to_owned(),
            )
        } else {
            Failover::Keeps(self.missing())
        }
    }

    /// Which promises the server's settings void, and what to do about each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.is_fsync_on {
            warnings.push(
                "PostgreSQL runs with fsync = off: a crash of its machine loses or damages what \
                 it acknowledged; set fsync = on"
                    .to_owned(),
            );
        }
        if !self.are_full_pages_written {
            warnings.push(
                "PostgreSQL runs with full_page_writes = off: a crash of its machine may damage \
                 what it acknowledged; set full_page_writes = on"
                    .to_owned(),
            );
        }
        match self.failover() {
            Failover::Loses(why) => warnings.push(why),
            Failover::Keeps(why) if why == self.missing() => warnings.push(why),
            Failover::Keeps(_) | Failover::Never | Failover::Unclear(_) => {}
        }
        warnings
    }

    fn missing(&self) -> String {
        format!(
            "commits wait for a standby of synchronous_standby_names = '{}', and none is connected; \
             start it, or take it off that list",
            self.synchronous_standbys
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(names: &str, standbys: &[(&str, Option<&str>)]) -> Durability {
        let standby = |(name, state): &(&str, Option<&str>)| Standby {
            name: (*name).to_owned(),
            confirms: Confirms::of(*state),
        };
        Durability {
            version: "15.8".to_owned(),
            is_fsync_on: true,
            are_full_pages_written: true,
            synchronous_standbys: names.to_owned(),
            standbys: standbys.iter().map(standby).collect(),
        }
    }

    #[test]
    fn what_a_failover_keeps_depends_on_who_confirms() {
        let told = |durability: &Durability| match durability.failover() {
            Failover::Never => "never".to_owned(),
            Failover::Keeps(text) => format!("keeps: {text}"),
            Failover::Loses(text) => format!("loses: {text}"),
            Failover::Unclear(text) => format!("unclear: {text}"),
        };
        for (names, standbys, expected) in [
            ("", &[][..], "never"),
            (
                "",
                &[("a", Some("async")), ("b", None)],
                "loses: no commit waits for a standby (a, b)",
            ),
            ("a", &[("a", Some("sync")), ("b", Some("potential"))], "keeps: a has every commit"),
            (
                "ANY 1 (a, b)",
                &[("a", Some("quorum")), ("b", Some("quorum"))],
                "keeps: every commit is with some of a, b",
            ),
            ("a", &[("b", Some("async"))], "keeps: commits wait for a standby of"),
            ("a", &[], "keeps: commits wait for a standby of"),
            ("a", &[("", None)], "unclear: the server does not tell"),
        ] {
            let durability = followed(names, standbys);
            let told = told(&durability);
            assert!(told.starts_with(expected), "{names} {standbys:?}: {told}");
            let is_warned = told.starts_with("loses") || told.contains("none is connected");
            assert_eq!(durability.warnings().len(), usize::from(is_warned), "{told}");
            assert!(durability.about().is_durable);
        }
    }
}
