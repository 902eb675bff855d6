//! What is said of an image.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The file system that work finds instead of the machine's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Where it comes from.
    #[serde(flatten)]
    pub root: Root,
    /// Whether nothing may be written but to its work directory and to what is mounted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Directories and files of the machine that it finds, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// Which network it finds; if none, the machine's, or what a bundle says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
}

/// Where an image comes from: a directory on the machine of the worker, by its whole path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// An unpacked root file system.
    Rootfs(PathBuf),
    /// An OCI bundle: a root file system and a `config.json`. What the work says holds instead of what
    /// that says; without a command, the bundle's own is run.
    Bundle(PathBuf),
}

/// Something of the machine that work finds in its image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where it is on the machine.
    pub source: PathBuf,
    /// Where it is found.
    pub target: PathBuf,
    /// Whether nothing may be written there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// Which network work finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The machine's.
    Host,
    /// None but its own loopback.
    None,
}
