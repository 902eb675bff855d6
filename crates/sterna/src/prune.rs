//! `--prune` of `sterna apply`: services of the namespace that the files no longer name are deleted. Never by
//! surprise: those go that were shown, and only if somebody agrees.

use std::io::{self, BufRead, IsTerminal};

use sterna_api::rest::{ChangeView, Plan};

use crate::{exit, out};

/// What the kind of the change is called by which a service goes.
pub(crate) const DELETE: &str = "delete";

/// Whether somebody has agreed already, or can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// They have said `--yes`.
    Given,
    /// They sit at a terminal.
    CanBeAsked,
    /// Nobody is there.
    Missing,
}

impl Consent {
    /// `is_read` if standard input holds a spec.
    pub(crate) fn of(is_given: bool, is_read: bool) -> Self {
        let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        match (is_given, is_terminal && !is_read) {
            (true, true | false) => Self::Given,
            (false, true) => Self::CanBeAsked,
            (false, false) => Self::Missing,
        }
    }
}

/// The services that would go by a plan, and how that is said.
pub(crate) fn doomed(plan: &Plan) -> Vec<(String, String)> {
    let goes = |change: &&ChangeView| change.kind == DELETE;
    let all = plan.services.iter().filter_map(|service| {
        let change = service.changes.iter().find(goes)?;
        Some((service.name.clone(), out::one_line(&change.text)))
    });
    all.collect()
}

/// Asks whether these services may go.
///
/// # Errors
/// They may not, or nobody can be asked; nothing was changed.
pub(crate) fn agree(doomed: &[(String, String)], consent: Consent) -> anyhow::Result<()> {
    if doomed.is_empty() || consent == Consent::Given {
        return Ok(());
    }
    let count = doomed.len();
    let these =
        if count == 1 { "this service".to_owned() } else { format!("these {count} services") };
    let names: Vec<_> = doomed.iter().map(|(name, _)| name.as_str()).collect();
    if consent == Consent::Missing {
        let names = names.join(", ");
        return Err(exit::coded(exit::USAGE)(anyhow::anyhow!(
            "--prune would delete {these}, which the files do not name: {names}; nothing was changed. \
             Add --yes to agree without a terminal; `sterna plan --prune` shows what would be deleted"
        )));
    }
    for (name, text) in doomed {
        out::note(&format!("service {name}: {text}"));
    }
    out::ask(&format!("delete {these}, which the files do not name? [y/N] "));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    anyhow::ensure!(is_yes(&answer), "nothing was changed: you did not confirm the deletion");
    Ok(())
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use sterna_api::rest::PlannedService;

    use super::*;

    fn plan() -> Plan {
        let service = |name: &str, kind: &str| PlannedService {
            name: name.to_owned(),
            changes: vec![ChangeView {
                kind: kind.to_owned(),
                text: "would delete, and end 1 instance".into(),
            }],
        };
        let services = vec![service("new", "create"), service("old", DELETE)];
        Plan { services, tasks: Vec::new(), warnings: Vec::new() }
    }

    #[test]
    fn only_what_a_plan_deletes_goes_and_only_if_somebody_agrees() {
        let doomed = doomed(&plan());
        assert_eq!(doomed, [("old".to_owned(), "would delete, and end 1 instance".to_owned())]);
        assert!(agree(&doomed, Consent::Given).is_ok());
        assert!(agree(&[], Consent::Missing).is_ok(), "there is nothing to agree to");
        let error = agree(&doomed, Consent::Missing).unwrap_err();
        assert_eq!(exit::code(&error), exit::USAGE);
        let said = error.to_string();
        assert!(said.contains("this service") && said.contains("old") && said.contains("--yes"));
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        assert!(["y\n", "YES\n", " yes "].iter().all(|answer| is_yes(answer)));
        assert!(!["", "\n", "n\n", "yep\n", "no\n", "y n"].iter().any(|answer| is_yes(answer)));
    }
}
