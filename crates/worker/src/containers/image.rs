//! How the commands of a run with an image are made: by a runtime, which the guardian starts.

use std::io;

use sterna_model::{
    RunId,
    payload::{Image, ProcessGroup, Work},
};

use super::prepare::{Ground, PATH, Prepared};
use crate::{
    cgroup::Kind,
    guardian::{Plan, RoleWord, RuntimeWord, StreamWord},
    oci::{self, Bounds, Opened, Start, Told},
    stop::StopSignal,
};

/// The image of one run.
#[derive(Debug)]
pub(super) struct InImage {
    pub(super) opened: Opened,
    /// The groups that the runtime is to make, from the top of each hierarchy.
    cgroup: String,
    counts_swap: bool,
}

impl InImage {
    /// Looks whether the image can be used here.
    ///
    /// # Errors
    /// It cannot; the sentence names what is wrong.
    pub(super) fn open(
        ground: Ground<'_>,
        run: RunId,
        work: &Work,
        image: &Image,
    ) -> Result<Self, String> {
        let runtime = ground.options.runtime.clone().ok_or_else(|| oci::MISSING.to_owned())?;
        let cgroup = ground.cgroups.below(&run.to_string()).ok_or(
            "a run with an image must be held by cgroups, which this worker has not: start it where \
             they may be written to",
        )?;
        match (work.signals.group, work.signals.death) {
            (ProcessGroup::Own, None) => {}
            (ProcessGroup::Shared, Some(_) | None) => {
                return Err("a command in an image leads a process group of its own: \
                            leave signals.group as it is"
                    .to_owned());
            }
            (ProcessGroup::Own, Some(_)) => {
                return Err("a command in an image is not told of its parent's death: \
                            leave out signals.death"
                    .to_owned());
            }
        }
        let opened = Opened::open(runtime, image, ground.layout.run(run).join("oci"))?;
        Ok(Self { opened, cgroup, counts_swap: ground.cgroups.counts_swap() })
    }

    /// How one command is run: a new one by `run`, one beside it by `exec`. What it is told is written
    /// to files first.
    pub(super) fn plan(
        &self,
        prepared: &Prepared,
        work: &Work,
        arguments: &[String],
        (part, role, streams): (u32, RoleWord, Vec<StreamWord>),
    ) -> Result<Plan, String> {
        // The home is that of the user, if the work names one.
        let mut defaults = vec!["PATH"];
        defaults.extend(work.user.is_none().then_some("HOME"));
        defaults.retain(|name| !work.env.contains_key(*name));
        let told = Told {
            arguments,
            environment: &prepared.environment,
            defaults: &defaults,
            directory: work.directory.as_deref().and_then(|path| path.to_str()),
            ids: prepared.ids.as_ref(),
            rlimits: &prepared.rlimits,
        };
        let (limits, counts_swap) = (&work.limits, self.counts_swap);
        let bounds = Bounds { cgroup: &self.cgroup, limits, counts_swap };
        let unwritten =
            |error: io::Error| format!("cannot write what the runtime must know: {error}");
        let (arguments, runtime) = match role {
            RoleWord::Setup | RoleWord::Main => {
                let has_status = streams.contains(&StreamWord::Status);
                let start = self.opened.start(part, &told, &bounds, &prepared.own, has_status);
                let Start { arguments, pid_file, log } = start.map_err(unwritten)?;
                (arguments, Some(RuntimeWord { pid_file, log }))
            }
            RoleWord::Probe => {
                let main = u32::try_from(work.setup.len()).unwrap_or(u32::MAX);
                (self.opened.join(main, &told).map_err(unwritten)?, None)
            }
        };
        Ok(Plan {
            program: self.opened.program(),
            arguments,
            environment: vec![("PATH".to_owned(), PATH.to_owned())],
            directory: "/".to_owned(),
            ids: None,
            rlimits: Vec::new(),
            own_group: true,
            death_signal: None,
            // It gives them up for the command, when it has done what needs them.
            no_new_privileges: false,
            streams,
            hold: prepared.group.hold().clone(),
            doors: prepared.group.doors(Kind::Image),
            stop: StopSignal::of(&work.signals),
            leaf: prepared.group.leaf().map(std::path::Path::to_owned),
            runtime,
            owner: prepared.owner(Some(self)),
            timeout_ms: None,
        })
    }
}
