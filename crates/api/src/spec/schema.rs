//! Every field that a spec may have: the reader knows no other, and the reference is made of this.
//!
//! An example is TOML; in JSON files it is told as JSON.

/// One field.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) example: &'static str,
    pub(super) default: &'static str,
    pub(super) means: &'static str,
}

/// The fields of one kind of table.
pub(super) struct Form {
    /// What the table is, as in "a service has no such field".
    pub(super) what: &'static str,
    parts: &'static [&'static [Field]],
}

impl Form {
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.parts.iter().copied().flatten()
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.name == name)
    }
}

const fn field(
    name: &'static str,
    example: &'static str,
    default: &'static str,
    means: &'static str,
) -> Field {
    Field { name, example, default, means }
}

/// What a file can want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Service,
    Task,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Service, Self::Task];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Task => "task",
        }
    }

    pub(super) const fn form(self) -> &'static Form {
        match self {
            Self::Service => &SERVICE,
            Self::Task => &TASK,
        }
    }

    /// The forms of the other kinds.
    pub(super) fn others(self) -> Vec<&'static Form> {
        Self::ALL.into_iter().filter(|kind| *kind != self).map(Self::form).collect()
    }
}

pub(super) const FILE: Form = Form {
    what: "a spec",
    parts: &[&[
        field("version", "1", "required", "Version of the spec language."),
        field(
            "service",
            "{ web = { run = [\"./web\"] } }",
            "none",
            "Services by name, each as `[service.NAME]`.",
        ),
        field(
            "task",
            "{ build = { run = [\"make\"] } }",
            "none",
            "Tasks by name, each as `[task.NAME]`.",
        ),
    ]],
};

/// What the language knows and this version does not run.
pub(super) const NOT_YET: &[&str] = &["schedule", "forest", "batch"];

const SERVICE: Form = Form { what: "a service", parts: &[COMMON, OF_SERVICES] };
const TASK: Form = Form { what: "a task", parts: &[COMMON, OF_TASKS] };

const COMMON: &[Field] = &[
    field(
        "run",
        "[\"make\", \"release\"]",
        "required without a bundle",
        "The command and its arguments. The worker replaces `${PORT_NAME}` and `${STERNA_…}`; write `$${` for a literal `${`.",
    ),
    field(
        "setup",
        "[[\"npm\", \"ci\"], [\"npm\", \"run\", \"build\"]]",
        "none",
        "Commands to run before `run`, one after the other. Each must succeed.",
    ),
    field(
        "env",
        "{ LANG = \"C.UTF-8\" }",
        "none",
        "Environment variables, in addition to those that the worker sets. Names that begin with `STERNA_` are reserved for the worker.",
    ),
    field(
        "image",
        "{ rootfs = \"/var/lib/images/web\", read_only = true }",
        "the worker's machine",
        "Root file system of the work. Only workers that can run images get work with an image.",
    ),
    field(
        "directory",
        "\"/srv/web\"",
        "a new one",
        "Working directory: an absolute path on the worker or, with an image, in the image.",
    ),
    field(
        "user",
        "\"www-data\"",
        "the worker's",
        "User to run as: a name or a number. A user other than the worker's own needs a worker that runs as root.",
    ),
    field("group", "\"www-data\"", "the user's", "Group to run as: a name or a number."),
    field(
        "ports",
        "[\"http\"]",
        "none",
        "Names of the ports to allocate, at most 64. The work gets each port number as `PORT_<NAME>`.",
    ),
    field(
        "cpu",
        "\"500m\"",
        "none",
        "Processor time to reserve; also the limit. Cores or millicores, at least 10m.",
    ),
    field("memory", "\"64MiB\"", "none", "Memory to reserve; also the limit. At least 1MiB."),
    field("disk", "\"1GiB\"", "none", "Disk to reserve; also the limit for its working directory."),
    field("uses", "{ gpu = 1 }", "none", "Countable resources to reserve, by name."),
    field("limits", "{ pids = 100, rlimits = { nofile = 4096 } }", "none", "Further limits."),
    field("stack", "\"debian\"", "any", "Stack that the worker must have."),
    field(
        "tags",
        "[\"ssd\"]",
        "none",
        "Tags that the worker must have. A worker that requires a tag takes only work that names it.",
    ),
    field(
        "apart_from",
        "[\"db\"]",
        "none",
        "Services that must not share a worker with it. A task checks this only at its placement. A service's own name means at most one instance on each worker.",
    ),
    field(
        "on_silence",
        "\"stop\"",
        "services `replace`, tasks `stop`",
        "What to do when its worker falls silent: `replace` (services only; after 15s), `stop` (services after 2m, tasks after 10m), `keep`, or a table.",
    ),
    field("signals", "{ stop = \"INT\", grace = \"30s\" }", "TERM, 10s, KILL", "How to stop it."),
    field(
        "when_worker_exits",
        "\"keep\"",
        "`stop`",
        "`stop`: it ends when its worker exits. `keep`: the next worker takes it over. Under `sterna dev` everything ends.",
    ),
    field(
        "logs",
        "{ rate = \"1MiB\", when_over = \"drop\" }",
        "no rate limit",
        "How to keep its output.",
    ),
];

const OF_SERVICES: &[Field] = &[
    field("instances", "3", "1", "Number of instances to keep running, 0 to 100000."),
    field(
        "zones",
        "\"pinned\"",
        "`spread`",
        "How to distribute instances over zones: `spread` or `pinned`.",
    ),
    field(
        "monitor",
        "{ http = \"/\", interval = \"2s\" }",
        "none",
        "Probe that decides when an instance has started and when it has failed.",
    ),
    field(
        "readiness",
        "{ tcp = \"http\" }",
        "none",
        "Probe that decides whether an instance takes requests and counts as ready for updates and drains. A failure ends nothing.",
    ),
    field("crash", "{ give_up_at = 20 }", "see below", "How to handle crashes."),
    field(
        "update",
        "{ max_unavailable = 2, healthy_for = \"10s\" }",
        "see below",
        "How to roll out a new version.",
    ),
    field(
        "domain",
        "\"shop\"",
        "`default`",
        "Domain of the service. Unless the domain is fresh, Sterna stops nothing of it without an explicit request.",
    ),
    field("routes", "{ http = [\"shop.example\"] }", "none", "Stored for routers: any value."),
    field("annotation", "\"made by the shop team\"", "none", "Stored for people: any text."),
    field("metadata", "{ team = \"shop\" }", "none", "Stored for programs: strings by name."),
];

const OF_TASKS: &[Field] = &[
    field(
        "start",
        "true",
        "`false`",
        "`true`: run it once for each version that you apply. `false`: only define it.",
    ),
    field("timeout", "\"30m\"", "none", "Time limit for the whole run, setup included."),
    field(
        "when_full",
        "\"fail\"",
        "`wait`",
        "What to do when no worker has room: `wait` or `fail`.",
    ),
    field(
        "latest_start_after",
        "\"1h\"",
        "none",
        "The task ends if it has not started this long after its creation.",
    ),
    field(
        "callback",
        "\"https://shop.example/done\"",
        "none",
        "URL to call when it is over: http or https.",
    ),
];

pub(super) const IMAGE: Form = Form {
    what: "an image",
    parts: &[&[
        field(
            "rootfs",
            "\"/var/lib/images/web\"",
            "one of two",
            "Absolute path of an unpacked root file system on the worker's machine.",
        ),
        field(
            "bundle",
            "\"/var/lib/bundles/web\"",
            "one of two",
            "Absolute path of an OCI bundle (a directory with `config.json`) on the worker's machine. Without `run`, the bundle's command runs.",
        ),
        field(
            "read_only",
            "true",
            "`false`",
            "Make the image read-only, except for the working directory and the mounts.",
        ),
        field(
            "mounts",
            "[{ source = \"/srv/www\", target = \"/www\", read_only = true }]",
            "none",
            "Directories and files of the worker's machine to mount.",
        ),
        field(
            "network",
            "\"none\"",
            "the machine's, or the bundle's",
            "Network: `host`, or `none` (only a loopback of its own).",
        ),
    ]],
};

pub(super) const MOUNT: Form = Form {
    what: "a mount",
    parts: &[&[
        field("source", "\"/srv/www\"", "required", "Path on the worker's machine."),
        field("target", "\"/www\"", "required", "Path in the image."),
        field(
            "read_only",
            "true",
            "`false`",
            "Make the mount read-only, with everything mounted below it.",
        ),
    ]],
};

pub(super) const LIMITS: Form = Form {
    what: "'limits'",
    parts: &[&[
        field("pids", "100", "none", "Maximum number of processes and threads."),
        field(
            "rlimits",
            "{ nofile = 4096 }",
            "the worker's",
            "Resource limits of each process, by their kernel names: as, core, cpu, data, fsize, memlock, nofile, nproc, stack.",
        ),
    ]],
};

pub(super) const SIGNALS: Form = Form {
    what: "'signals'",
    parts: &[&[
        field(
            "stop",
            "\"INT\"",
            "`TERM`",
            "Stop signal: TERM, INT, QUIT, HUP, USR1, USR2 or KILL.",
        ),
        field(
            "grace",
            "\"30s\"",
            "10s",
            "Time between the stop signal and KILL. `0s`: KILL at once. `never`: KILL only at a deadline.",
        ),
        field(
            "linger",
            "\"5s\"",
            "1s with ports",
            "Time between its removal from the endpoints and the stop signal. Meanwhile it can still answer requests.",
        ),
        field(
            "to",
            "\"all\"",
            "`group`",
            "Which processes get the stop signal: `group` (its process group), `process` (the first process) or `all`.",
        ),
        field(
            "group",
            "\"shared\"",
            "`own`",
            "Process group: `own`, or `shared` with the guardian.",
        ),
        field("death", "\"TERM\"", "none", "Signal to send when the guardian dies."),
    ]],
};

pub(super) const LOGS: Form = Form {
    what: "'logs'",
    parts: &[&[
        field("rate", "\"1MiB\"", "none", "Bytes per second; also the largest burst."),
        field(
            "when_over",
            "\"drop\"",
            "`wait`",
            "Over the rate: `wait` makes the work wait, `drop` drops lines and counts them.",
        ),
    ]],
};

pub(super) const ON_SILENCE: Form = Form {
    what: "'on_silence'",
    parts: &[&[
        field(
            "replace_after",
            "\"30s\"",
            "15s",
            "Start a replacement after this much silence, at least 5s. Services only.",
        ),
        field(
            "stop_after",
            "\"5m\"",
            "services 2m, tasks 10m",
            "The worker stops it before the silence lasts this long. At least 1m29s with the default limits of a cluster.",
        ),
    ]],
};

pub(super) const MONITOR: Form = Form {
    what: "a monitor",
    parts: &[&[
        field(
            "http",
            "\"/\"",
            "one of three",
            "Succeeds if this path answers with status 200 to 399.",
        ),
        field(
            "tcp",
            "\"http\"",
            "one of three",
            "Succeeds if the port with this name accepts a connection.",
        ),
        field(
            "run",
            "[\"./check\"]",
            "one of three",
            "Succeeds if this command exits with 0. It runs where the work runs.",
        ),
        field("port", "\"http\"", "the only port", "For `http`: name of the port."),
        field(
            "interval",
            "\"2s\"",
            "30s",
            "Time between two probes once the instance is up, at least 100ms. Before that: 500ms, or `interval` if that is shorter.",
        ),
        field("timeout", "\"1s\"", "5s", "Time limit of one probe, at least 10ms."),
        field("start_timeout", "\"30s\"", "60s", "Time limit until the first success, or `never`."),
        field(
            "failures",
            "3",
            "3",
            "Number of failed probes in a row that mean failure, 1 to 1000.",
        ),
    ]],
};

pub(super) const CRASH: Form = Form {
    what: "'crash'",
    parts: &[&[
        field("wait_from", "3", "3", "Crash count from which restarts wait."),
        field("first_wait", "\"30s\"", "30s", "First wait. Each further wait is twice as long."),
        field("longest_wait", "\"16m\"", "16m", "Longest wait."),
        field(
            "give_up_at",
            "200",
            "200",
            "Crash count at which Sterna gives the instance up, or `never`.",
        ),
        field(
            "forgiven_after",
            "\"5m\"",
            "5m",
            "The count restarts after the instance has run this long.",
        ),
    ]],
};

pub(super) const UPDATE: Form = Form {
    what: "'update'",
    parts: &[&[
        field(
            "max_unavailable",
            "2",
            "1",
            "Number of instances that the update may take out of service at a time.",
        ),
        field(
            "healthy_for",
            "\"30s\"",
            "10s",
            "How long a new instance must run before the update replaces the next one, or is complete.",
        ),
        field(
            "revert_after",
            "3",
            "3",
            "Crashes of the new version after which Sterna rolls it back, or `never`. Not being ready for `start_timeout` counts as a crash.",
        ),
    ]],
};

/// Every form, with its title in the reference.
const FORMS: &[(&str, &Form)] = &[
    ("The file", &FILE),
    ("Services and tasks", &Form { what: "", parts: &[COMMON] }),
    ("Services only", &Form { what: "", parts: &[OF_SERVICES] }),
    ("Tasks only", &Form { what: "", parts: &[OF_TASKS] }),
    ("`monitor` and `readiness`", &MONITOR),
    ("`on_silence`, as a table: one of", &ON_SILENCE),
    ("`crash`", &CRASH),
    ("`update`", &UPDATE),
    ("`image`", &IMAGE),
    ("`image.mounts`: each", &MOUNT),
    ("`signals`", &SIGNALS),
    ("`limits`", &LIMITS),
    ("`logs`", &LOGS),
];

/// The reference of all fields, in Markdown.
pub fn reference() -> String {
    let mut text = String::new();
    for (title, form) in FORMS {
        text +=
            &format!("### {title}\n\n| field | example | default | |\n| --- | --- | --- | --- |\n");
        for Field { name, example, default, means } in form.fields() {
            text += &format!("| `{name}` | `{example}` | {default} | {means} |\n");
        }
        text += "\n";
    }
    text
}

/// Every field as `(form, field)`, the forms by their titles in the reference.
pub fn fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = |(title, form): &(&'static str, &Form)| {
        let title = *title;
        form.fields().map(move |field| (title, field.name)).collect::<Vec<_>>()
    };
    FORMS.iter().flat_map(of)
}
