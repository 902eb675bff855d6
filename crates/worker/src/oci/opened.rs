//! One image, as a run has it: looked at before anything is made for the run.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use serde_json::{Value, json};
use sterna_model::payload::{Image, Root};

use super::{
    Runtime,
    config::{self, Bounds, Told},
};

/// Where a run finds its work directory in its image.
pub(crate) const WORK: &str = "/sterna";

/// An image that can be used.
#[derive(Debug)]
pub(crate) struct Opened {
    runtime: Runtime,
    image: Image,
    /// What the image says of itself.
    base: Value,
    root: File,
    /// Where what is made for the run lies.
    place: PathBuf,
}

/// The words that make a runtime do something, and where it tells what became of that.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) arguments: Vec<String>,
    /// The number of the command's first process.
    pub(crate) pid_file: PathBuf,
    /// What the runtime complains of.
    pub(crate) log: PathBuf,
}

impl Opened {
    /// Looks at an image. `place` is where files for the run are to be made.
    ///
    /// # Errors
    /// It cannot be used; the sentence names what is wrong.
    pub(crate) fn open(runtime: Runtime, image: &Image, place: PathBuf) -> Result<Self, String> {
        let base = match &image.root {
            Root::Rootfs(path) => config::of_rootfs(&whole(path)?),
            Root::Bundle(path) => of_bundle(&whole(path)?)?,
        };
        let path = base.pointer("/root/path").and_then(Value::as_str).unwrap_or_default();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty())
            .map_err(|error| format!("the image {path} is missing: {error}"))?;
        for mount in &image.mounts {
            let (source, target) = (mount.source.display(), &mount.target);
            fs::metadata(whole(&mount.source)?)
                .map_err(|error| format!("what is to be mounted, {source}, is missing: {error}"))?;
            whole(target)?;
        }
        Ok(Self { runtime, image: image.clone(), base, root: root.into(), place })
    }

    /// The text of a file of the image, which has no way out of it; nothing if there is none.
    pub(crate) fn text(&self, path: &str) -> String {
        let mut text = String::new();
        let opened = self.find(path, OFlags::RDONLY | OFlags::NONBLOCK);
        // What is no text has no users in it.
        let read = opened.and_then(|file| file.take(1 << 20).read_to_string(&mut text));
        if read.is_ok() { text } else { String::new() }
    }

    /// Whether a run finds a directory at this path.
    pub(crate) fn has_directory(&self, path: &Path) -> bool {
        let is_mounted = self.image.mounts.iter().any(|mount| path.starts_with(&mount.target));
        let found = path.to_str().map(|path| self.find(path, OFlags::PATH | OFlags::DIRECTORY));
        is_mounted || path.starts_with(WORK) || found.is_some_and(|found| found.is_ok())
    }

    /// The command that the image itself brings; a plain root file system brings none.
    pub(crate) fn command(&self) -> Vec<String> {
        let words = self.base.pointer("/process/args").and_then(Value::as_array);
        words.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The user and group that the image's commands have if nobody says otherwise.
    pub(crate) fn user(&self) -> Option<(u32, u32)> {
        let field = |name: &str| {
            let value = self.base.pointer("/process/user")?.get(name)?.as_u64()?;
            u32::try_from(value).ok()
        };
        Some((field("uid")?, field("gid")?))
    }

    fn find(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        let found = openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        Ok(found.into())
    }

    /// Writes what the runtime must know of a command, and says how it is told to start it. `number`
    /// tells the commands of a run apart; `work` is the work directory on the machine.
    pub(crate) fn start(
        &self,
        number: u32,
        told: &Told<'_>,
        bounds: &Bounds<'_>,
        work: &Path,
        has_status: bool,
    ) -> io::Result<Start> {
        let bundle = self.place.join(number.to_string());
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&bundle)?;
        let config = config::whole(&self.base, &self.image, told, bounds, work);
        write(&bundle.join("config.json"), &config)?;
        let (pid_file, log) = (bundle.join("pid"), bundle.join("log"));
        let mut arguments = self.words(&["--log", &text(&log), "--log-format", "json", "run"]);
        arguments.extend(["--detach", "--bundle", &text(&bundle)].map(str::to_owned));
        arguments.extend(["--pid-file", &text(&pid_file)].map(str::to_owned));
        if has_status {
            arguments.extend(["--preserve-fds", "1"].map(str::to_owned));
        }
        arguments.push(number.to_string());
        Ok(Start { arguments, pid_file, log })
    }

    /// The same for a command beside the one with this number.
    pub(crate) fn join(&self, number: u32, told: &Told<'_>) -> io::Result<Vec<String>> {
        let process = config::process(self.base.get("process"), told);
        // Every question of one kind is the same, and asked again and again.
        let digest = crc32fast::hash(&serde_json::to_vec(&process)?);
        let path = self.place.join(format!("beside-{digest:08x}.json"));
        if !path.exists() {
            write(&path, &process)?;
        }
        Ok(self.words(&["exec", "--process", &text(&path), &number.to_string()]))
    }

    /// The file that is run.
    pub(crate) fn program(&self) -> String {
        text(&self.runtime.program)
    }

    fn words(&self, rest: &[&str]) -> Vec<String> {
        let state = text(&self.place.join("state"));
        let first = [self.runtime.name.to_owned(), "--root".to_owned(), state];
        first.into_iter().chain(rest.iter().map(|word| (*word).to_owned())).collect()
    }
}

/// A path that means the same to everybody.
fn whole(path: &Path) -> Result<PathBuf, String> {
    if path.is_absolute() && path.to_str().is_some() {
        return Ok(path.to_owned());
    }
    Err(format!("{} is no whole path: begin it with /", path.display()))
}

fn of_bundle(bundle: &Path) -> Result<Value, String> {
    let shown = bundle.display();
    if let Err(error) = fs::metadata(bundle) {
        return Err(format!("the image {shown} is missing: {error}"));
    }
    let bytes = fs::read(bundle.join("config.json"))
        .map_err(|error| format!("the bundle {shown} has no config.json: {error}"))?;
    let mut base: Value = serde_json::from_slice(&bytes)
        .map_err(|error| format!("config.json of the bundle {shown} cannot be read: {error}"))?;
    let root = base.pointer("/root/path").and_then(Value::as_str);
    let root = root
        .map(|root| bundle.join(root))
        .ok_or_else(|| format!("config.json of the bundle {shown} names no root.path"))?;
    if let Some(path) = base.pointer_mut("/root/path") {
        *path = json!(root);
    }
    Ok(base)
}

/// Only the worker, and a runtime that it starts, can read it: environments hold secrets.
fn write(path: &Path, value: &Value) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&draft)?.write_all(&serde_json::to_vec(value)?)?;
    fs::rename(draft, path)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
