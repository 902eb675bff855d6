//! `config.json`: what a runtime is told of one command. Pure.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::WORK;
use sterna_model::payload::{Image, Limits, Network};

/// What a root account in an image may do: enough to set up and serve, nothing to the machine.
const CAPABILITIES: [&str; 14] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// Length of a period of processor time, in microseconds.
const PERIOD_US: u64 = 100_000;

/// What one command is told, whatever the image says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    /// The command; none for the bundle's own.
    pub(crate) arguments: &'a [String],
    pub(crate) environment: &'a [(String, String)],
    /// The names in it that nobody has asked for: what the image says of them stays.
    pub(crate) defaults: &'a [&'a str],
    /// Where it begins; where the image says if none, or else in its work directory.
    pub(crate) directory: Option<&'a str>,
    /// User, group and other groups; the image's if none.
    pub(crate) ids: Option<&'a (u32, u32, Vec<u32>)>,
    /// Number of the resource, soft and hard limit.
    pub(crate) rlimits: &'a [(u32, u64, u64)],
}

/// Where it is held, and what it may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    /// The path of its groups, the same in every hierarchy.
    pub(crate) cgroup: &'a str,
    pub(crate) limits: &'a Limits,
    /// Whether swap can be limited.
    pub(crate) counts_swap: bool,
}

/// What holds for an unpacked root file system, which says nothing itself. The processes are those of
/// the machine: as the first process of a namespace, a command that does not care about TERM would not
/// even be ended by it.
pub(super) fn of_rootfs(root: &Path) -> Value {
    let mount = |target: &str, kind: &str, options: &[&str]| json!({ "destination": target, "type": kind, "source": kind, "options": options });
    let strict = ["nosuid", "noexec", "nodev"];
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "capabilities": {
                "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES,
            },
        },
        "root": { "path": root },
        "mounts": [
            mount("/proc", "proc", &strict),
            mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
            mount("/dev/pts", "devpts", &[
                "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5",
            ]),
            mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
            mount("/dev/mqueue", "mqueue", &strict),
            mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        ],
        "linux": {
            "namespaces": [{ "type": "mount" }, { "type": "ipc" }, { "type": "uts" }],
            "resources": { "devices": [{ "allow": false, "access": "rwm" }] },
            "maskedPaths": [
                "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
                "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
            ],
            "readonlyPaths": [
                "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
            ],
        },
    })
}

/// The whole of it: what the image says, and over it what the work says. `work` is the directory on
/// the machine that is found as the work directory.
pub(super) fn whole(
    base: &Value,
    image: &Image,
    told: &Told<'_>,
    bounds: &Bounds<'_>,
    work: &Path,
) -> Value {
    let mut config = base.clone();
    let process = process(base.get("process"), told);
    let mut mounts = list(base.get("mounts"));
    mounts.push(bind(work, Path::new(WORK), false));
    mounts.extend(image.mounts.iter().map(|it| bind(&it.source, &it.target, it.read_only)));
    let linux = linux(base.get("linux"), image.network, bounds);
    put(&mut config, "process", process);
    put(&mut config, "mounts", Value::Array(mounts));
    put(&mut config, "linux", linux);
    if image.read_only {
        let mut root = base.get("root").cloned().unwrap_or_default();
        put(&mut root, "readonly", Value::Bool(true));
        put(&mut config, "root", root);
    }
    config
}

/// One command, as it stands in `config.json`, and alone for a command in an image that runs already.
pub(super) fn process(base: Option<&Value>, told: &Told<'_>) -> Value {
    let mut process = base.cloned().unwrap_or_else(|| json!({}));
    put(&mut process, "terminal", Value::Bool(false));
    if let Some(fields) = process.as_object_mut() {
        fields.remove("consoleSize");
    }
    if !told.arguments.is_empty() {
        put(&mut process, "args", json!(told.arguments));
    }
    let mut environment = list(process.get("env"));
    let is_of = |known: &Value, name: &str| {
        known.as_str().and_then(|known| known.split('=').next()) == Some(name)
    };
    let mut ours: Vec<&(String, String)> = told.environment.iter().collect();
    ours.retain(|(name, _)| {
        let is_default = told.defaults.contains(&name.as_str());
        !(is_default && environment.iter().any(|known| is_of(known, name)))
    });
    environment.retain(|known| !ours.iter().any(|(name, _)| is_of(known, name)));
    environment.extend(ours.iter().map(|(name, value)| json!(format!("{name}={value}"))));
    put(&mut process, "env", Value::Array(environment));
    let own = process.get("cwd").and_then(Value::as_str).unwrap_or(WORK);
    let directory = told.directory.unwrap_or(own).to_owned();
    put(&mut process, "cwd", json!(directory));
    if let Some((user, group, groups)) = told.ids {
        let user = json!({ "uid": user, "gid": group, "additionalGids": groups });
        put(&mut process, "user", user);
    }
    let mut rlimits = list(process.get("rlimits"));
    for (resource, soft, hard) in told.rlimits {
        let Some(name) = rlimit_name(*resource) else { continue };
        rlimits.retain(|known| known.get("type").and_then(Value::as_str) != Some(name));
        rlimits.push(json!({ "type": name, "soft": soft, "hard": hard }));
    }
    put(&mut process, "rlimits", Value::Array(rlimits));
    put(&mut process, "noNewPrivileges", Value::Bool(true));
    process
}

fn linux(base: Option<&Value>, network: Option<Network>, bounds: &Bounds<'_>) -> Value {
    let mut linux = base.cloned().unwrap_or_else(|| json!({}));
    put(&mut linux, "cgroupsPath", json!(bounds.cgroup));
    let mut namespaces = list(linux.get("namespaces"));
    let is_network = |known: &Value| known.get("type").and_then(Value::as_str) == Some("network");
    match network {
        None => {}
        Some(Network::Host) => namespaces.retain(|known| !is_network(known)),
        Some(Network::None) => {
            namespaces.retain(|known| !is_network(known));
            namespaces.push(json!({ "type": "network" }));
        }
    }
    put(&mut linux, "namespaces", Value::Array(namespaces));
    let Limits { cpu, memory, pids, disk: _ } = bounds.limits;
    let mut resources = linux.get("resources").cloned().unwrap_or_else(|| json!({}));
    if let Some(cpu) = cpu {
        let quota = cpu.get().saturating_mul(PERIOD_US) / 1_000;
        put(&mut resources, "cpu", json!({ "quota": quota, "period": PERIOD_US }));
    }
    if let Some(memory) = memory {
        let mut limit = json!({ "limit": memory.get() });
        if bounds.counts_swap {
            // Memory and swap together: no swap.
            put(&mut limit, "swap", json!(memory.get()));
        }
        put(&mut resources, "memory", limit);
    }
    if let Some(pids) = pids {
        put(&mut resources, "pids", json!({ "limit": pids }));
    }
    put(&mut linux, "resources", resources);
    linux
}

fn bind(source: &Path, target: &Path, is_read_only: bool) -> Value {
    // For what is mounted below it, too.
    let options: &[&str] = if is_read_only { &["rbind", "ro", "rro"] } else { &["rbind", "rw"] };
    json!({ "destination": target, "type": "bind", "source": source, "options": options })
}

fn put(object: &mut Value, name: &str, value: Value) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

fn list(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).cloned().unwrap_or_default()
}

fn rlimit_name(resource: u32) -> Option<&'static str> {
    let names = [
        (libc::RLIMIT_AS, "RLIMIT_AS"),
        (libc::RLIMIT_CORE, "RLIMIT_CORE"),
        (libc::RLIMIT_CPU, "RLIMIT_CPU"),
        (libc::RLIMIT_DATA, "RLIMIT_DATA"),
        (libc::RLIMIT_FSIZE, "RLIMIT_FSIZE"),
        (libc::RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK"),
        (libc::RLIMIT_NOFILE, "RLIMIT_NOFILE"),
        (libc::RLIMIT_NPROC, "RLIMIT_NPROC"),
        (libc::RLIMIT_STACK, "RLIMIT_STACK"),
    ];
    names.into_iter().find(|(known, _)| *known == resource).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use sterna_model::{Bytes, Millicores};

    use super::*;
    use sterna_model::payload::{Mount, Root};

    fn image(network: Option<Network>, read_only: bool) -> Image {
        let mount = Mount { source: "/srv".into(), target: "/data".into(), read_only: true };
        Image { root: Root::Rootfs("/image".into()), read_only, mounts: vec![mount], network }
    }

    fn build(base: &Value, image: &Image, limits: &Limits) -> Value {
        let environment = [("PATH", "/bin"), ("HOME", "/sterna"), ("NEW", "1")]
            .map(|(name, value)| (name.into(), value.into()));
        let told = Told {
            arguments: &["true".to_owned()],
            environment: &environment,
            defaults: &["HOME"],
            directory: None,
            ids: Some(&(33, 34, vec![34, 40])),
            rlimits: &[(libc::RLIMIT_NOFILE, 64, 64)],
        };
        let bounds = Bounds { cgroup: "/ours/run/oci", limits, counts_swap: false };
        whole(base, image, &told, &bounds, Path::new("/runs/1/work"))
    }

    #[test]
    fn everything_that_work_asks_for_is_told() {
        let limits = Limits {
            cpu: Some(Millicores::new(500)),
            memory: Some(Bytes::new(1 << 20)),
            pids: Some(7),
            disk: None,
        };
        let config = build(&of_rootfs(Path::new("/image")), &image(None, true), &limits);
        assert_eq!(config["root"], json!({ "path": "/image", "readonly": true }));
        let process = &config["process"];
        assert_eq!(process["args"], json!(["true"]));
        assert_eq!(process["env"], json!(["PATH=/bin", "HOME=/sterna", "NEW=1"]));
        assert_eq!(process["user"], json!({ "uid": 33, "gid": 34, "additionalGids": [34, 40] }));
        assert_eq!(process["cwd"], "/sterna");
        let files = json!([{ "type": "RLIMIT_NOFILE", "soft": 64, "hard": 64 }]);
        assert_eq!((&process["rlimits"], &process["noNewPrivileges"]), (&files, &json!(true)));
        let resources = &config["linux"]["resources"];
        assert_eq!(resources["cpu"], json!({ "quota": 50_000, "period": 100_000 }));
        assert_eq!(resources["memory"], json!({ "limit": 1 << 20 }));
        assert_eq!(resources["pids"], json!({ "limit": 7 }));
        assert_eq!(config["linux"]["cgroupsPath"], "/ours/run/oci");
        let targets: Vec<&str> = config["mounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mount| mount["destination"].as_str().unwrap())
            .collect();
        assert!(targets.ends_with(&["/sterna", "/data"]), "{targets:?}");
    }

    #[test]
    fn what_a_bundle_says_stays_where_the_work_says_nothing() {
        let bundle = json!({
            "ociVersion": "1.0.0",
            "process": {
                "terminal": true, "consoleSize": { "height": 1, "width": 1 }, "args": ["serve"],
                "env": ["PATH=/other", "HOME=/its", "LANG=C"], "cwd": "/srv",
                "rlimits": [{ "type": "RLIMIT_NOFILE", "soft": 1, "hard": 1 },
                            { "type": "RLIMIT_CORE", "soft": 0, "hard": 0 }],
            },
            "root": { "path": "/bundle/rootfs" },
            "hooks": { "poststop": [] },
            "linux": {
                "namespaces": [{ "type": "pid" }, { "type": "network" }],
                "resources": { "memory": { "limit": 5 } }, "seccomp": { "defaultAction": "x" },
            },
        });
        let config = build(&bundle, &image(None, false), &Limits::default());
        assert_eq!((&config["hooks"], &config["root"]), (&bundle["hooks"], &bundle["root"]));
        assert_eq!(config["process"]["env"], json!(["HOME=/its", "LANG=C", "PATH=/bin", "NEW=1"]));
        assert_eq!(
            (&config["process"]["terminal"], &config["process"]["cwd"]),
            (&json!(false), &json!("/srv"))
        );
        assert_eq!(config["process"].get("consoleSize"), None);
        assert_eq!(config["process"]["rlimits"].as_array().unwrap().len(), 2);
        assert_eq!(config["linux"]["seccomp"], bundle["linux"]["seccomp"]);
        assert_eq!(config["linux"]["resources"], bundle["linux"]["resources"]);
        assert_eq!(config["linux"]["namespaces"], bundle["linux"]["namespaces"]);
    }

    #[test]
    fn the_network_is_as_asked() {
        let has_network = |network| {
            let base = of_rootfs(Path::new("/image"));
            let config = build(&base, &image(network, false), &Limits::default());
            config["linux"]["namespaces"].to_string().contains("network")
        };
        assert!(!has_network(None));
        assert!(!has_network(Some(Network::Host)));
        assert!(has_network(Some(Network::None)));
    }
}
