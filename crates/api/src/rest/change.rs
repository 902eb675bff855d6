//! What is applied, planned and explained.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Files of specs, and what is to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// The files, in the order in which their problems are reported.
    pub files: Vec<File>,
    /// Services that the files do not name and that are deleted when all of the files is done: those that a
    /// plan with `prune` has shown. One that is not there any more is passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<String>,
}

/// Files of specs of which it is asked what they would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanAsk {
    /// The files, in the order in which their problems are reported.
    pub files: Vec<File>,
    /// Whether services of the namespace that the files do not name are to be deleted: then each is among
    /// the services, with the change `delete`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prune: bool,
}

/// A file of specs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// What it is called; `.json` and `.toml` at its end say what it is in.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// What would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// Service by service.
    pub services: Vec<PlannedService>,
    /// Task by task.
    pub tasks: Vec<PlannedTask>,
    /// What would be waited for in vain, as the workers are now.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The planned changes of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedService {
    /// Its name.
    pub name: String,
    /// The changes in order; empty if there is nothing to change.
    pub changes: Vec<ChangeView>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangeView {
    /// `create`, `delete`, `in-place`, `start`, `stop`, `begin-again` or `restart`.
    pub kind: String,
    /// The same in words.
    pub text: String,
}

/// The plan for a task of a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedTask {
    /// Its name in the spec.
    pub name: String,
    /// What the task of this version is called.
    pub task: String,
    /// Whether it would be started: it is asked for, and this version was not started yet.
    pub starts: bool,
    /// What would become of its definition, if it is not to be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DefinitionChange>,
}

/// What becomes of the definition of a task that is not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DefinitionChange {
    /// There was none of its name.
    Created,
    /// It says something else than before.
    Changed,
    /// It is as it was.
    Same,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// The changes of services.
    pub services: Vec<PlannedService>,
    /// Tasks.
    pub tasks: Vec<AppliedTask>,
    /// What is waited for in vain, as the workers are now.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A task that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppliedTask {
    /// Its name in the spec.
    pub name: String,
    /// What the task of this version is called.
    pub task: String,
    /// Whether it was made now.
    pub started: bool,
    /// Whether it is not to be started, by its definition.
    #[serde(default)]
    pub is_only_defined: bool,
    /// What became of its definition, if it is not to be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DefinitionChange>,
}

/// Why something is not as its spec wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// What.
    pub key: String,
    /// Whether it is as its spec wants it; then there is no rule to explain.
    pub is_well: bool,
    /// The rule that keeps it, in a word.
    pub rule: String,
    /// The same in words, with the smallest change that would help.
    pub text: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What happens next, in words.
    pub next: String,
    /// When, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Why a service is not as its spec wants it: each instance that is not, page by page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceExplained {
    /// `NAMESPACE/service/NAME`.
    pub key: String,
    /// How many instances are wanted.
    pub wanted: u32,
    /// How many of those run that are wanted, and are not being ended.
    pub running: u32,
    /// Whether an update to another version is under way: until every instance runs that version.
    pub is_updating: bool,
    /// Whether it was deleted: what is still there ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_deleted: bool,
    /// Whether the whole service is as its spec wants it; on a later page, what that page covers.
    pub is_well: bool,
    /// How many instances up to `next` are where the spec wants them.
    pub well: u32,
    /// Those that are not, in the order of their indices.
    pub instances: Vec<Explained>,
    /// What to give as `after` to get the next page; none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The version that was rolled back because it failed, until the spec asks for another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back: Option<super::TakenBackView>,
}
