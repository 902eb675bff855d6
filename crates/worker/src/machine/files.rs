//! How many files a process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// What holds.
    pub soft: u64,
    /// What it may be raised to.
    pub hard: u64,
}

/// What a worker, or its guardian, has open for each run: pipes, a journal, processes, a group.
const EACH: u64 = 8;
/// What they have open beside that: logs, sockets, libraries.
const BESIDE: u64 = 128;

impl Files {
    /// Those of this process.
    pub fn own() -> Self {
        let own = getrlimit(Resource::Nofile);
        let unlimited = libc::RLIM_INFINITY;
        Self { soft: own.current.unwrap_or(unlimited), hard: own.maximum.unwrap_or(unlimited) }
    }

    /// Lets this process have as many as it may, and gives what held before: that is for the work.
    pub fn raise() -> Self {
        let before = Self::own();
        let hard = getrlimit(Resource::Nofile).maximum;
        // If it is refused, what holds is looked at, and named if it is too little.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
        before
    }

    /// Says so if they are too few for this many containers.
    pub(super) fn lack(self, containers: u64) -> Option<String> {
        let needed = containers.saturating_mul(EACH).saturating_add(BESIDE);
        let enough_for = self.soft.saturating_sub(BESIDE) / EACH;
        (self.soft < needed).then(|| {
            format!(
                "only {} files may be open, which is enough for {enough_for} of {containers} \
                 containers: raise the hard limit of open files to {needed}",
                self.soft
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_are_named_with_what_is_needed() {
        let files = |soft| Files { soft, hard: soft };
        assert_eq!(files(8_320).lack(1_024), None);
        let said = files(1_024).lack(1_024).unwrap();
        assert!(said.contains("enough for 112 of 1024") && said.contains("8320"), "{said}");
        assert_eq!(files(libc::RLIM_INFINITY).lack(u64::MAX), None);
    }
}
