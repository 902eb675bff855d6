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

    /// The form of the other kind.
    pub(super) const fn other(self) -> &'static Form {
        match self {
            Self::Service => &TASK,
            Self::Task => &SERVICE,
        }
    }
}

pub(super) const FILE: Form = Form {
    what: "a spec",
    parts: &[&[
        field("version", "1", "required", "The language of the file."),
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
        "required, but with a bundle",
        "The command and its arguments. `${PORT_NAME}` and `${STERNA_…}` are put in by the worker; `$${` stands for `${`.",
    ),
    field(
        "setup",
        "[[\"npm\", \"ci\"], [\"npm\", \"run\", \"build\"]]",
        "none",
        "Commands that come before it, one after the other; each must succeed.",
    ),
    field(
        "env",
        "{ LANG = \"C.UTF-8\" }",
        "none",
        "Its environment, beside what the worker says of the run; names with `STERNA_` are the worker's.",
    ),
    field(
        "image",
        "{ rootfs = \"/var/lib/images/web\", read_only = true }",
        "the worker's machine",
        "The file system that it finds; it goes only to workers that can run images.",
    ),
    field(
        "directory",
        "\"/srv/web\"",
        "a fresh one",
        "Where it begins, as an absolute path that the worker has, or its image.",
    ),
    field(
        "user",
        "\"www-data\"",
        "the worker's",
        "As whom it runs: a name or a number. Another than the worker's own needs one that is root.",
    ),
    field("group", "\"www-data\"", "the user's", "With which group: a name or a number."),
    field(
        "ports",
        "[\"http\"]",
        "none",
        "Names of the ports that it wants, at most 64; each is given as `PORT_<NAME>`.",
    ),
    field(
        "cpu",
        "\"500m\"",
        "none",
        "Processor time that is set aside for it, and the most that it gets: cores or millicores, at least 10m.",
    ),
    field(
        "memory",
        "\"64MiB\"",
        "none",
        "Memory that is set aside for it, and the most that it gets; at least 1MiB.",
    ),
    field(
        "disk",
        "\"1GiB\"",
        "none",
        "Disk that is set aside for it, and the most that its directory may hold.",
    ),
    field("uses", "{ gpu = 1 }", "none", "Countable things of the worker, by name."),
    field(
        "limits",
        "{ pids = 100, rlimits = { nofile = 4096 } }",
        "none",
        "What else it may use at most.",
    ),
    field("stack", "\"debian\"", "any", "The stack that its worker must have."),
    field("tags", "[\"ssd\"]", "none", "Tags that its worker must have."),
    field(
        "apart_from",
        "[\"db\"]",
        "none",
        "Services with which it shares no worker (a task: when it is placed; they may come later); a service's own name means one instance on each worker.",
    ),
    field(
        "on_silence",
        "\"stop\"",
        "services `replace`, tasks `stop`",
        "What happens when its worker falls silent: `replace` (services only; after 15s), `stop` (services after 2m, tasks after 10m) or `keep`; or a table.",
    ),
    field(
        "signals",
        "{ stop = \"INT\", grace = \"30s\" }",
        "TERM, 10s, KILL",
        "How it is asked to end.",
    ),
    field(
        "when_worker_exits",
        "\"keep\"",
        "`stop`",
        "Whether it ends with its worker, or is taken over by the next: `stop` or `keep`. With `sterna dev` everything ends.",
    ),
    field(
        "logs",
        "{ rate = \"1MiB\", when_over = \"drop\" }",
        "as fast as it comes",
        "How its output is kept.",
    ),
];

const OF_SERVICES: &[Field] = &[
    field("instances", "3", "1", "How many are kept running, 0 to 100000."),
    field("zones", "\"pinned\"", "`spread`", "How instances lie in zones: `spread` or `pinned`."),
    field(
        "monitor",
        "{ http = \"/\", interval = \"2s\" }",
        "none",
        "What decides that an instance is up, and that it has failed.",
    ),
    field(
        "readiness",
        "{ tcp = \"http\" }",
        "none",
        "What decides whether an instance takes requests, and is there for an update or a drain; it ends nothing.",
    ),
    field("crash", "{ give_up_at = 20 }", "see below", "How crashes are answered."),
    field(
        "update",
        "{ max_unavailable = 2, healthy_for = \"10s\" }",
        "see below",
        "How a new version comes about.",
    ),
    field(
        "domain",
        "\"shop\"",
        "`default`",
        "The domain that must be fresh for anything to be stopped that nobody asked to stop.",
    ),
    field("routes", "{ http = [\"shop.example\"] }", "none", "Kept for whoever routes: any value."),
    field("annotation", "\"made by the shop team\"", "none", "Kept for people: any text."),
    field("metadata", "{ team = \"shop\" }", "none", "Kept for programs: texts by name."),
];

const OF_TASKS: &[Field] = &[
    field(
        "start",
        "true",
        "`false`",
        "Whether it is run, once for each version that is applied; else it is only defined.",
    ),
    field("timeout", "\"30m\"", "none", "Within this everything of it must be over."),
    field(
        "when_full",
        "\"fail\"",
        "`wait`",
        "What becomes of it when no worker has room: `wait` or `fail`.",
    ),
    field(
        "latest_start_after",
        "\"1h\"",
        "none",
        "It ends when it was not started so long after it was made.",
    ),
    field(
        "callback",
        "\"https://shop.example/done\"",
        "none",
        "Whom to tell that it is over: an http or https address.",
    ),
];

pub(super) const IMAGE: Form = Form {
    what: "an image",
    parts: &[&[
        field(
            "rootfs",
            "\"/var/lib/images/web\"",
            "one of two",
            "An unpacked root file system, by its whole path on the worker's machine.",
        ),
        field(
            "bundle",
            "\"/var/lib/bundles/web\"",
            "one of two",
            "An OCI bundle: a directory with `config.json`, likewise. Without `run`, its own command is run.",
        ),
        field(
            "read_only",
            "true",
            "`false`",
            "Whether nothing may be written but to its directory and to what is mounted.",
        ),
        field(
            "mounts",
            "[{ source = \"/srv/www\", target = \"/www\", read_only = true }]",
            "none",
            "Directories and files of the worker's machine that it finds, too.",
        ),
        field(
            "network",
            "\"none\"",
            "the machine's, or the bundle's",
            "Which network it finds: `host`, or `none` but its own loopback.",
        ),
    ]],
};

pub(super) const MOUNT: Form = Form {
    what: "a mount",
    parts: &[&[
        field("source", "\"/srv/www\"", "required", "Where it is on the worker's machine."),
        field("target", "\"/www\"", "required", "Where the work finds it."),
        field(
            "read_only",
            "true",
            "`false`",
            "Whether nothing may be written there, nor to what is mounted below it.",
        ),
    ]],
};

pub(super) const LIMITS: Form = Form {
    what: "'limits'",
    parts: &[&[
        field("pids", "100", "none", "Processes and threads."),
        field(
            "rlimits",
            "{ nofile = 4096 }",
            "the worker's",
            "Limits of each process by the kernel's names: as, core, cpu, data, fsize, memlock, nofile, nproc, stack.",
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
            "What asks it to end: TERM, INT, QUIT, HUP, USR1, USR2 or KILL.",
        ),
        field(
            "grace",
            "\"30s\"",
            "10s",
            "Between that and KILL; `0s` is KILL at once, `never` only at a deadline.",
        ),
        field(
            "linger",
            "\"5s\"",
            "1s with ports",
            "How long it still answers before that, once it is no longer among the endpoints.",
        ),
        field(
            "to",
            "\"all\"",
            "`group`",
            "Who is asked to end: `group`, `process` (the first) or `all`.",
        ),
        field(
            "group",
            "\"shared\"",
            "`own`",
            "Whether it leads a process group: `own`, or `shared` with the guardian.",
        ),
        field("death", "\"TERM\"", "none", "Sent to it when the guardian dies."),
    ]],
};

pub(super) const LOGS: Form = Form {
    what: "'logs'",
    parts: &[&[
        field("rate", "\"1MiB\"", "none", "So much in a second, and as much at once."),
        field(
            "when_over",
            "\"drop\"",
            "`wait`",
            "What becomes of more: the work waits, or lines are dropped and counted: `wait` or `drop`.",
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
            "Another is started after so much silence; at least 5s. Services only.",
        ),
        field(
            "stop_after",
            "\"5m\"",
            "services 2m, tasks 10m",
            "Its worker has ended it before so much silence; at least 1m29s under the limits that a cluster begins with.",
        ),
    ]],
};

pub(super) const MONITOR: Form = Form {
    what: "a monitor",
    parts: &[&[
        field("http", "\"/\"", "one of three", "Good if this path answers with 200 to 399."),
        field(
            "tcp",
            "\"http\"",
            "one of three",
            "Good if the port of this name takes a connection.",
        ),
        field(
            "run",
            "[\"./check\"]",
            "one of three",
            "Good if this command exits with 0; it runs where the work runs.",
        ),
        field("port", "\"http\"", "the only port", "For `http`: the name of the port."),
        field(
            "interval",
            "\"2s\"",
            "30s",
            "Between two questions, once it is up; until then 500ms, or this if it is less. At least 100ms.",
        ),
        field("timeout", "\"1s\"", "5s", "Within this an answer must come; at least 10ms."),
        field(
            "start_timeout",
            "\"30s\"",
            "60s",
            "Within this the first good answer must come, or `never`.",
        ),
        field("failures", "3", "3", "So many bad answers in a row mean failure, 1 to 1000."),
    ]],
};

pub(super) const CRASH: Form = Form {
    what: "'crash'",
    parts: &[&[
        field("wait_from", "3", "3", "From this count on there is a wait."),
        field("first_wait", "\"30s\"", "30s", "The first wait; each further one is twice as long."),
        field("longest_wait", "\"16m\"", "16m", "The longest."),
        field("give_up_at", "200", "200", "At this count it is given up; or `never`."),
        field("forgiven_after", "\"5m\"", "5m", "Whoever ran so long has not crashed before."),
    ]],
};

pub(super) const UPDATE: Form = Form {
    what: "'update'",
    parts: &[&[
        field("max_unavailable", "2", "1", "How many instances may be missing for it at a time."),
        field(
            "healthy_for",
            "\"30s\"",
            "10s",
            "How long an instance of a new version must have run before the next is replaced, or the update is over.",
        ),
        field(
            "revert_after",
            "3",
            "3",
            "After so many crashes of the new version it is taken back; to be not ready for `start_timeout` counts as one; or `never`.",
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
