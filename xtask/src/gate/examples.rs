use std::{collections::BTreeSet, path::PathBuf, process::Command, time::Duration};

use anyhow::Result;
use serde_json::Value;

use crate::gate::{
    counts::Counts,
    turn::{Outcome, Turn},
};

/// An example is there to be read; one that runs longer than this is none.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs every example of every package; each counts as a test.
pub(super) fn run(turn: &Turn<'_>) -> Result<Outcome> {
    // Cargo says where each program lies. `cargo run --package` would choose features anew, and
    // build everything again.
    let mut command =
        turn.cargo(["build", "--workspace", "--examples", "--all-features", "--locked"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let built = turn.silently(turn.patience(), command)?;
    if !built.is_success {
        let is_for_people = |line: &&str| !line.starts_with('{');
        built.output.lines().filter(is_for_people).for_each(|line| turn.screen.quote(line));
        return Ok(Outcome::of(false));
    }
    let mut counts = Counts::default();
    for program in programs(&built.output) {
        let mut command = Command::new(&program);
        command.current_dir(&turn.workspace.root);
        let finished = turn.silently(LIMIT, command)?;
        if !finished.is_success {
            turn.screen.quote(&format!("{} failed:", program.display()));
            turn.quote(&finished.output);
        }
        counts += Counts::one(finished.is_success);
    }
    Ok(Outcome::with(counts.failed == 0, counts))
}

/// The examples among the artifacts that cargo names, in a fixed order.
fn programs(messages: &str) -> BTreeSet<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| {
            message["target"]["kind"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind == "example"))
        })
        // A library example (`crate-type = ["lib"]`) has none, and is not run.
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_the_examples_that_can_run() {
        let messages = r#"
   Compiling sterna-store v0.1.0
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"commit"},"executable":"/t/examples/commit"}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"sterna_store"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"shared"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"sterna"},"executable":"/t/sterna"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(programs(messages), BTreeSet::from([PathBuf::from("/t/examples/commit")]));
    }
}
