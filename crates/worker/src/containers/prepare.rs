//! What a run needs before its first command, and how each command is made from the work.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt, chown},
    path::{Path, PathBuf},
};

use sterna_model::{
    RunId,
    payload::{ProcessGroup, Work},
};

use super::{
    Options,
    image::InImage,
    ports,
    remove::remove_directory,
    result,
    spare::{self, Spares},
    users,
};
use crate::{
    cgroup::{Cgroups, Group, Kind},
    directory::Layout,
    guardian::{Plan, RoleWord, StreamWord},
    machine::Files,
    oci::WORK,
    stop::{StopSignal, number},
};

pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What runs are made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    pub(super) layout: &'a Layout,
    pub(super) cgroups: &'a Cgroups,
    pub(super) options: &'a Options,
}

/// Everything that was made for a run.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) group: Group,
    pub(super) ids: Option<(u32, u32, Vec<u32>)>,
    /// As whom it runs, as was found out when it began.
    pub(super) who: Option<users::Who>,
    pub(super) environment: Vec<(String, String)>,
    /// Where its commands begin, as they see it.
    directory: PathBuf,
    /// Its fresh work directory, as the machine sees it.
    pub(super) own: PathBuf,
    pub(super) rlimits: Vec<(u32, u64, u64)>,
    /// Its image, if it has one; or why that cannot be used.
    image: Option<Result<InImage, String>>,
}

impl Prepared {
    /// Makes what the run needs. If something cannot be made, the reason says what, and what was made
    /// is removed again.
    pub(super) fn make(
        ground: Ground<'_>,
        run: RunId,
        work: &Work,
        ports: &[(String, u16)],
        spares: &Spares,
    ) -> Result<Self, String> {
        let prepared = Self::describe(ground, run, work, ports, None)?;
        if let Some(Err(why)) = &prepared.image {
            return Err(why.clone());
        }
        let of_run = ground.layout.run(run);
        let is_there = is_plain(work) && spares.take(&of_run);
        if !is_there {
            let made = fs::DirBuilder::new().mode(0o711).create(&of_run);
            made.map_err(|error| format!("cannot make {}: {error}", of_run.display()))?;
        }
        let made = if is_there { Ok(()) } else { prepared.make_directory(work) };
        let made = made.and_then(|()| {
            let made = ground.cgroups.create(&run.to_string(), &work.limits, kind(work));
            made.map_err(|error| because(&error))
        });
        if made.is_err() {
            // The reason is what is told; a sweep finds what cannot be removed now.
            drop(remove_directory(&of_run));
        }
        made.map(|_| prepared)
    }

    /// What the run has, if everything is as [`Prepared::make`] left it; `known` is whose it was found
    /// to be then.
    pub(super) fn describe(
        ground: Ground<'_>,
        run: RunId,
        work: &Work,
        ports: &[(String, u16)],
        known: Option<users::Who>,
    ) -> Result<Self, String> {
        let image = work.image.as_ref().map(|image| InImage::open(ground, run, work, image));
        let (user, group) = (work.user.as_deref(), work.group.as_deref());
        let who = match (known, &image) {
            (Some(known), Some(_) | None) => Some(known),
            (None, None) => users::find(user, group, users::of_machine)?,
            (None, Some(Ok(image))) => users::find(user, group, |path| image.opened.text(path))?,
            (None, Some(Err(_))) => None,
        };
        let own = ground.layout.run(run).join(spare::WORK);
        let fresh = if image.is_some() { PathBuf::from(WORK) } else { own.clone() };
        let result = fresh.join(result::FILE);
        let directory = work.directory.clone().unwrap_or(fresh);
        let environment = environment(work, run, (&directory, &result), who.as_ref(), ports);
        Ok(Self {
            group: ground.cgroups.group(&run.to_string(), &work.limits, kind(work)),
            ids: who.as_ref().map(|who| (who.user, who.group, who.groups.clone())),
            who,
            environment,
            directory,
            own,
            rlimits: rlimits(work, ground.options.files)?,
            image,
        })
    }

    fn make_directory(&self, work: &Work) -> Result<(), String> {
        let image = self.image.as_ref().and_then(|image| image.as_ref().ok());
        match (&work.directory, image) {
            (Some(given), None) => is_directory(given)?,
            (Some(given), Some(image)) if !image.opened.has_directory(given) => {
                let given = given.display();
                return Err(format!(
                    "the work directory {given} is missing in the image: name another, or leave out \
                     directory"
                ));
            }
            (Some(_) | None, Some(_)) | (None, None) => {}
        }
        let fresh = &self.own;
        let made = fs::DirBuilder::new().mode(0o700).create(fresh);
        made.map_err(|error| {
            format!("cannot make the work directory {}: {error}", fresh.display())
        })?;
        let Some((user, group)) = self.owner(image) else { return Ok(()) };
        chown(fresh, Some(user), Some(group)).map_err(|error| not_given(work, fresh, &error))
    }

    /// Whose its directory and its pipes are, if it is not the worker's.
    pub(super) fn owner(&self, image: Option<&InImage>) -> Option<(u32, u32)> {
        let of_image = || image.and_then(|image| image.opened.user());
        self.ids.as_ref().map(|(user, group, _)| (*user, *group)).or_else(of_image)
    }

    /// How one command of the work is run.
    ///
    /// # Errors
    /// There is no such command.
    pub(super) fn plan(
        &self,
        work: &Work,
        command: &[String],
        part: u32,
        role: RoleWord,
    ) -> Result<Plan, String> {
        let image = self.image.as_ref().map(Result::as_ref).transpose().map_err(String::clone)?;
        let mut arguments: Vec<String> =
            command.iter().map(|word| expand(word, &self.environment)).collect();
        if let (RoleWord::Main, [], Some(image)) = (role, command, image) {
            arguments = image.opened.command();
        }
        let Some(name) = arguments.first().cloned() else {
            return Err("the command is empty: say in run what to run".to_owned());
        };
        let mut streams = vec![StreamWord::Stdout, StreamWord::Stderr];
        match role {
            RoleWord::Main => {
                if let Some(node) = &work.node {
                    let status = "/dev/fd/3".to_owned();
                    arguments.extend([node.name.clone(), status, node.json.clone()]);
                    streams.push(StreamWord::Status);
                }
            }
            RoleWord::Setup => {}
            RoleWord::Probe => streams.clear(),
        }
        if let Some(image) = image {
            return image.plan(self, work, &arguments, (part, role, streams));
        }
        Ok(Plan {
            program: find(&name, &self.environment, &self.directory)?,
            arguments,
            environment: self.environment.clone(),
            directory: self.directory.to_string_lossy().into_owned(),
            ids: self.ids.clone(),
            rlimits: self.rlimits.clone(),
            own_group: work.signals.group == ProcessGroup::Own,
            death_signal: work.signals.death.map(number),
            no_new_privileges: true,
            streams,
            hold: self.group.hold().clone(),
            doors: self.group.doors(Kind::Process),
            stop: StopSignal::of(&work.signals),
            leaf: None,
            runtime: None,
            owner: None,
            timeout_ms: None,
        })
    }
}

/// Whether a run has a directory as any other may have had: its own, and the worker's.
pub(super) const fn is_plain(work: &Work) -> bool {
    work.image.is_none() && work.directory.is_none() && work.user.is_none() && work.group.is_none()
}

/// Whether a run brings its own file system.
const fn kind(work: &Work) -> Kind {
    if work.image.is_some() { Kind::Image } else { Kind::Process }
}

/// Why a directory was not given to whoever the work runs as: that is found out first by who is not root.
fn not_given(work: &Work, directory: &Path, error: &io::Error) -> String {
    let asked = [("user", &work.user), ("group", &work.group)];
    let asked = asked
        .iter()
        .filter_map(|(field, value)| value.as_ref().map(|value| format!("{field} = {value:?}")));
    let asked: Vec<_> = asked.collect();
    if error.kind() != io::ErrorKind::PermissionDenied {
        return format!("cannot give the work directory {} away: {error}", directory.display());
    }
    let (whose, leave) = if asked.is_empty() {
        ("the user of the image".to_owned(), "")
    } else {
        (asked.join(", "), "leave it out, or ")
    };
    format!(
        "{whose}: only a worker that is root can run work as another user or group ({error}); {leave}start \
         the worker as root"
    )
}

fn is_directory(given: &Path) -> Result<(), String> {
    match fs::metadata(given) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!(
            "the work directory {} is not a directory: name another, or leave out directory",
            given.display()
        )),
        Err(error) => Err(format!(
            "the work directory {} is missing: {error}; make it, or leave out directory",
            given.display()
        )),
    }
}

fn because(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn environment(
    work: &Work,
    run: RunId,
    (directory, result): (&Path, &Path),
    who: Option<&users::Who>,
    ports: &[(String, u16)],
) -> Vec<(String, String)> {
    let about = &work.about;
    let directory = directory.to_string_lossy();
    let mut all = vec![
        ("PATH".to_owned(), PATH.to_owned()),
        (
            "HOME".to_owned(),
            who.and_then(|who| who.home.clone()).unwrap_or_else(|| directory.to_string()),
        ),
        ("STERNA_KEY".to_owned(), about.key.clone()),
        ("STERNA_RUN".to_owned(), run.to_string()),
        ("STERNA_WORKER".to_owned(), about.worker.clone()),
        ("STERNA_DIRECTORY".to_owned(), directory.to_string()),
        ("STERNA_RESULT".to_owned(), result.to_string_lossy().into_owned()),
    ];
    let optional = [
        ("USER", who.and_then(|who| who.name.clone())),
        // Nobody is to take an empty word for a fence that holds.
        ("STERNA_FENCE", Some(about.fence.clone()).filter(|fence| !fence.is_empty())),
        (
            "STERNA_ATTEMPT",
            Some(about.attempt).filter(|attempt| *attempt > 0).map(|attempt| attempt.to_string()),
        ),
        ("STERNA_INSTANCE_INDEX", about.index.map(|index| index.to_string())),
        ("STERNA_PREVIOUS_STATUS", about.previous_status.clone()),
        ("STERNA_NODE", work.node.as_ref().map(|node| node.name.clone())),
    ];
    all.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    all.extend(ports.iter().map(|(name, port)| (ports::variable(name), port.to_string())));
    // What the work says wins.
    all.retain(|(name, _)| !work.env.contains_key(name));
    all.extend(work.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}

/// Puts in what only the worker knows: `${PORT_…}` and `${STERNA_…}`. `$${` stands for `${`, and
/// everything else is left to whoever reads it.
fn expand(word: &str, environment: &[(String, String)]) -> String {
    let (mut expanded, mut rest) = (String::new(), word);
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = &after[2..];
            continue;
        }
        expanded.push_str(before);
        let name = after[2..].split('}').next().unwrap_or_default();
        let is_ours = name.starts_with("PORT_") || name.starts_with("STERNA_");
        let value = environment.iter().find(|(known, _)| is_ours && known == name);
        match value {
            Some((_, value)) => {
                expanded.push_str(value);
                rest = after[2 + name.len()..].strip_prefix('}').unwrap_or_default();
            }
            None => {
                expanded.push_str("${");
                rest = &after[2..];
            }
        }
    }
    expanded + rest
}

/// The file that a command means.
fn find(name: &str, environment: &[(String, String)], directory: &Path) -> Result<String, String> {
    if name.contains('/') {
        let path = directory.join(name);
        return match usable(&path) {
            Ok(()) => Ok(path.to_string_lossy().into_owned()),
            Err(Unusable::Absent) => Err(format!(
                "command not found: {} does not exist; name one that exists",
                path.display()
            )),
            Err(Unusable::NotExecutable) => Err(not_executable(&path)),
        };
    }
    let search = environment.iter().find(|(known, _)| known == "PATH");
    let search = search.map_or("", |(_, value)| value.as_str());
    let mut refused = None;
    for place in search.split(':').filter(|place| !place.is_empty()) {
        let path = directory.join(place).join(name);
        match usable(&path) {
            Ok(()) => return Ok(path.to_string_lossy().into_owned()),
            Err(Unusable::Absent) => {}
            Err(Unusable::NotExecutable) => refused = Some(path),
        }
    }
    match refused {
        Some(path) => Err(not_executable(&path)),
        None => Err(format!(
            "command not found: no '{name}' in {search}; install it, or give its whole path"
        )),
    }
}

fn not_executable(path: &Path) -> String {
    format!("not executable: {}: make it so by chmod +x, or name another", path.display())
}

enum Unusable {
    Absent,
    NotExecutable,
}

fn usable(path: &Path) -> Result<(), Unusable> {
    let found = fs::metadata(path).map_err(|_| Unusable::Absent)?;
    let is_executable = found.is_file() && found.permissions().mode() & 0o111 != 0;
    if is_executable { Ok(()) } else { Err(Unusable::NotExecutable) }
}

/// Of each process; what the work does not name is as it was for the worker when it started.
fn rlimits(work: &Work, files: Files) -> Result<Vec<(u32, u64, u64)>, String> {
    let mut all = vec![(libc::RLIMIT_NOFILE, files.soft, files.hard)];
    for (name, value) in &work.rlimits {
        let resource = match name.as_str() {
            "as" => libc::RLIMIT_AS,
            "core" => libc::RLIMIT_CORE,
            "cpu" => libc::RLIMIT_CPU,
            "data" => libc::RLIMIT_DATA,
            "fsize" => libc::RLIMIT_FSIZE,
            "memlock" => libc::RLIMIT_MEMLOCK,
            "nofile" => libc::RLIMIT_NOFILE,
            "nproc" => libc::RLIMIT_NPROC,
            "stack" => libc::RLIMIT_STACK,
            other => {
                return Err(format!(
                    "no resource limit is called '{other}': write as, core, cpu, data, fsize, \
                     memlock, nofile, nproc or stack"
                ));
            }
        };
        all.retain(|(known, ..)| *known != resource);
        all.push((resource, *value, *value));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_worker_knows_is_put_in() {
        let known = [("PORT_HTTP", "20001"), ("HOME", "/root")];
        let known = known.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (word, expected) in [
            ("--port=${PORT_HTTP}", "--port=20001"),
            ("${PORT_HTTP}${PORT_HTTP}", "2000120001"),
            ("$${PORT_HTTP}", "${PORT_HTTP}"),
            ("${HOME} $HOME $$ ${PORT_NONE}", "${HOME} $HOME $$ ${PORT_NONE}"),
            ("${PORT_HTTP", "20001"),
            ("${", "${"),
        ] {
            assert_eq!(expand(word, &known), expected, "{word}");
        }
    }

    #[test]
    fn a_command_that_cannot_be_run_is_named() {
        let path = [("PATH".to_owned(), "/usr/bin:/bin:/etc".to_owned())];
        let find = |name| find(name, &path, Path::new("/"));
        assert!(find("sh").is_ok());
        assert!(find("no-such-command").unwrap_err().contains("no 'no-such-command' in /usr/bin"));
        for (name, reason) in [
            ("passwd-", "not executable: /etc/passwd-: make it so"),
            ("/etc/passwd", "not executable: /etc/passwd: make it so"),
            ("./no/such", "command not found: /./no/such does not exist; name one"),
        ] {
            let said = find(name).unwrap_err();
            assert!(said.starts_with(reason), "{said}");
        }
    }
}
