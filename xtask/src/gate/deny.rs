use anyhow::Result;

use crate::{
    cargo::has_subcommand,
    gate::turn::{Outcome, Turn},
};

/// What cargo-deny says about known weaknesses in the crates we use.
#[derive(Debug, PartialEq, Eq)]
enum Advisories {
    /// There are none.
    Clean,
    /// There is at least one.
    Found,
    /// The database could not be had. That is the network's failure and not the change's.
    OutOfReach,
}

/// Checks the rules of `deny.toml`.
pub(super) fn run(turn: &Turn<'_>) -> Result<Outcome> {
    if !has_subcommand(&turn.workspace.root, "deny") {
        turn.screen.loud(
            "cargo-deny is absent: licences, bans, sources and advisories are NOT checked; \
             `cargo install --locked cargo-deny` brings it",
        );
        return Ok(Outcome::skipped());
    }
    let deny = ["deny", "--workspace", "--all-features", "--locked", "check"];
    let mut rules = turn.cargo(deny);
    rules.args(["licenses", "bans", "sources"]);
    let are_rules_kept = turn.quietly(rules)?.is_success;

    let mut advisories = turn.cargo(deny);
    advisories.arg("advisories");
    let finished = turn.silently(turn.patience(), advisories)?;
    let is_safe = match read_advisories(finished.is_success, &finished.output) {
        Advisories::Clean => true,
        Advisories::Found => {
            turn.quote(&finished.output);
            false
        }
        Advisories::OutOfReach => {
            turn.screen.loud("the database of advisories is out of reach: it was NOT asked");
            true
        }
    };
    Ok(Outcome::of(are_rules_kept && is_safe))
}

fn read_advisories(is_success: bool, output: &str) -> Advisories {
    if is_success {
        Advisories::Clean
    } else if output.contains("advisory database") && !output.contains("error[") {
        // "failed to fetch advisory database", and the same with open and load. An advisory that
        // applies is a diagnostic with a code, `error[vulnerability]`.
        Advisories::OutOfReach
    } else {
        Advisories::Found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_out_of_reach_is_no_advisory() {
        let unreachable = "[ERROR] failed to fetch advisory database: error sending request";
        let found = "error[vulnerability]: a weakness\n   ┌─ Cargo.lock:12:1\n";
        assert_eq!(read_advisories(true, ""), Advisories::Clean);
        assert_eq!(read_advisories(false, unreachable), Advisories::OutOfReach);
        assert_eq!(read_advisories(false, found), Advisories::Found);
        // Whatever else fails is not waved through.
        assert_eq!(read_advisories(false, "unknown option"), Advisories::Found);
    }
}
