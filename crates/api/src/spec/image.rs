//! The image of work, as its worker reads it.

use sterna_model::{
    payload::{self, Mount, Network, ProcessGroup, Root, Signals},
    quoted,
};

use super::{
    fields::{Fields, Said},
    problem::Found,
    schema::{IMAGE, MOUNT},
};

/// Where a worker puts the work directory in an image.
const WORK: &str = "/sterna";
/// What an image cannot do without, and finds there.
const KERNELS: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What is said of an image.
pub(super) struct Image {
    /// As its worker reads it; `None` if nobody can tell where it comes from.
    pub(super) work: Option<payload::Image>,
    /// Whether it may bring its own command.
    has_command: bool,
    /// Whether nothing reaches it over the network.
    is_alone: bool,
}

pub(super) fn read(fields: &Fields<'_>, found: &mut Found<'_>) -> Option<Image> {
    let said = fields.get("image")?;
    let table = said.form(&IMAGE, found)?;
    // tidy: not a table
    match (table.get("rootfs"), table.get("bundle")) {
        (Some(_), None) | (None, Some(_)) => {}
        (Some(_), Some(_)) | (None, None) => {
            let reason = "this must have exactly one of rootfs and bundle";
            said.refuse(reason, said.example(found), found);
        }
    }
    let mut root = |name: &str| table.get(name).and_then(|said| path(&said, ON_THE_MACHINE, found));
    let (rootfs, bundle) = (root("rootfs"), root("bundle"));
    let root = rootfs.map(|path| Root::Rootfs(path.into()));
    let root = root.or(bundle.map(|path| Root::Bundle(path.into())));
    let read_only = table.get("read_only").and_then(|said| said.flag(found)) == Some(true);
    let mounts = mounts(&table, found);
    let words = [("host", Network::Host), ("none", Network::None)];
    let network = table.get("network").and_then(|said| said.choice(&words, found));
    let work = root.map(|root| payload::Image { root, read_only, mounts, network });
    let has_command = table.get("bundle").is_some();
    Some(Image { work, has_command, is_alone: network == Some(Network::None) })
}

impl Image {
    pub(super) const fn has_command(&self) -> bool {
        self.has_command
    }

    /// Notes what work with an image cannot have.
    pub(super) fn check(&self, fields: &Fields<'_>, signals: &Signals, found: &mut Found<'_>) {
        let at = fields.get("signals");
        if let Some(said) = at.as_ref().filter(|_| signals.death.is_some()) {
            let reason = "a command in an image is not told of its parent's death";
            said.refuse(reason, "leave out 'death', or the image", found);
        }
        if let Some(said) = at.filter(|_| signals.group == ProcessGroup::Shared) {
            let reason = "a command in an image leads a process group of its own";
            said.refuse(reason, "leave out 'group', or the image", found);
        }
        let ports = fields.get("ports").filter(|said| said.has_items());
        if let Some(said) = ports.filter(|_| self.is_alone) {
            let reason = "no client can reach a port of an image without a network";
            said.refuse(reason, "leave out the ports, or network = \"none\"", found);
        }
    }
}

const ON_THE_MACHINE: &str = "it is looked for on the worker's machine";

fn mounts(table: &Fields<'_>, found: &mut Found<'_>) -> Vec<Mount> {
    let items = table.get("mounts").map(|said| said.items(found)).unwrap_or_default();
    let mut mounts = Vec::new();
    let mut targets: Vec<String> = Vec::new();
    for item in items {
        let Some(mount) = item.form(&MOUNT, found) else { continue };
        let source = mount.need("source", found);
        let source = source.and_then(|said| path(&said, ON_THE_MACHINE, found));
        let said = mount.need("target", found);
        let target = said.as_ref().and_then(|said| target(said, &targets, found));
        let read_only = mount.get("read_only").and_then(|said| said.flag(found));
        let (Some(source), Some(target)) = (source, target) else { continue };
        let read_only = read_only == Some(true);
        let (source, found_at) = (source.into(), target.as_str().into());
        mounts.push(Mount { source, target: found_at, read_only });
        targets.push(target);
    }
    mounts
}

/// Where something is mounted: nothing that the work would miss, and nothing twice.
fn target(said: &Said<'_>, known: &[String], found: &mut Found<'_>) -> Option<String> {
    let target = path(said, "it is where the work finds it", found)?;
    let bare = match target.trim_end_matches('/') {
        "" => "/",
        bare => bare,
    };
    let wrong = if bare == "/" {
        Some("this would hide the whole image")
    } else if bare == WORK {
        Some("this is where the work directory is found")
    } else if KERNELS.contains(&bare) {
        Some("this is where the kernel's own files are found")
    } else if known.iter().any(|other| other.trim_end_matches('/') == bare) {
        Some("something else is mounted there")
    } else {
        None
    };
    if let Some(reason) = wrong {
        said.refuse(reason, "write another path, such as \"/data\"", found);
        return None;
    }
    Some(target)
}

/// A whole path without steps back.
fn path(said: &Said<'_>, whose: &str, found: &mut Found<'_>) -> Option<String> {
    let text = said.text(found)?;
    if !text.starts_with('/') || text.contains('\0') {
        let reason = format!("{} is not an absolute path", quoted(text));
        said.refuse(reason, format!("begin it with '/': {whose}"), found);
        return None;
    }
    if text.split('/').any(|part| part == "..") {
        let reason = format!("{} steps back", quoted(text));
        said.refuse(reason, "write the path without '..'", found);
        return None;
    }
    Some(text.to_owned())
}
