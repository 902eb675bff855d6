use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{cargo::cargo, run};

/// The packages of this project, as `cargo metadata` describes them.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// The members, by name.
    pub(crate) packages: Vec<Package>,
}

/// One member.
#[derive(Debug, Default)]
pub(crate) struct Package {
    /// The name in its manifest: `sterna-store`.
    pub(crate) name: String,
    /// The manifest, relative to the root, with forward slashes.
    pub(crate) manifest: String,
    /// The features that it declares, `default` among them.
    pub(crate) features: Vec<String>,
    /// The other members that its manifest names.
    pub(crate) siblings: Vec<Sibling>,
}

/// A dependency on another member.
#[derive(Debug)]
pub(crate) struct Sibling {
    /// The name of that member.
    pub(crate) name: String,
    /// What it is needed for.
    pub(crate) need: Need,
}

/// What a dependency is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To run.
    Run,
    /// To build.
    Build,
    /// To test.
    Test,
}

impl Workspace {
    /// Asks cargo. Only the members: resolving the rest is slow and hides features (see
    /// `tidy/graph.rs`).
    pub(crate) fn load() -> Result<Self> {
        let args = ["metadata", "--format-version", "1", "--no-deps", "--locked"];
        let text = run::capture(cargo(Path::new("."), args))?;
        Self::parse(&text).context("cargo metadata is not as expected")
    }

    /// Reads the answer of `cargo metadata --no-deps`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let root = PathBuf::from(string(&value, "workspace_root")?);
        let target = PathBuf::from(string(&value, "target_directory")?);
        let packages = array(&value, "packages")?
            .iter()
            .map(|package| parse_package(&root, package))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { root, target, packages })
    }

    /// The member of that name.
    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

fn parse_package(root: &Path, value: &Value) -> Result<Package> {
    let manifest = PathBuf::from(string(value, "manifest_path")?);
    let manifest = manifest.strip_prefix(root).unwrap_or(&manifest);
    let features = value["features"].as_object().context("no `features`")?;
    let siblings = array(value, "dependencies")?
        .iter()
        // Members are found by path; whatever comes from a registry has none.
        .filter(|dependency| dependency["path"].is_string())
        .map(parse_sibling)
        .collect::<Result<Vec<_>>>()?;
    Ok(Package {
        name: string(value, "name")?.to_owned(),
        manifest: manifest.to_string_lossy().replace('\\', "/"),
        features: features.keys().cloned().collect(),
        siblings,
    })
}

fn parse_sibling(value: &Value) -> Result<Sibling> {
    let need = match value["kind"].as_str() {
        None => Need::Run,
        Some("build") => Need::Build,
        Some("dev") => Need::Test,
        Some(other) => anyhow::bail!("unknown kind of dependency {other:?}"),
    };
    Ok(Sibling { name: string(value, "name")?.to_owned(), need })
}

fn string<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("no `{key}`"))
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("no `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/w", "target_directory": "/w/target",
        "packages": [{
            "name": "sterna-store", "manifest_path": "/w/crates/store/Cargo.toml",
            "features": {"default": [], "postgres": ["dep:x"]},
            "dependencies": [
                {"name": "sterna-model", "path": "/w/crates/model", "kind": null},
                {"name": "sterna-sim", "path": "/w/crates/sim", "kind": "dev"},
                {"name": "redb", "kind": null}
            ]
        }]
    }"#;

    #[test]
    fn members_are_read_with_features_and_siblings() {
        let workspace = Workspace::parse(METADATA).unwrap();
        let store = workspace.package("sterna-store").unwrap();
        assert_eq!(store.manifest, "crates/store/Cargo.toml");
        assert_eq!(store.features, ["default", "postgres"]);
        let siblings: Vec<_> = store.siblings.iter().map(|s| (s.name.as_str(), s.need)).collect();
        assert_eq!(siblings, [("sterna-model", Need::Run), ("sterna-sim", Need::Test)]);
    }

    #[test]
    fn a_missing_field_is_named() {
        let refusal = Workspace::parse("{}").expect_err("empty").to_string();
        assert!(refusal.contains("workspace_root"), "{refusal}");
    }
}
