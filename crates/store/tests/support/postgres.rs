//! A real PostgreSQL server of a test's own, in a temporary folder and on a free port.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use tokio_postgres::{Client, NoTls};

/// Its administrator, who may do everything.
pub(crate) const ADMIN: &str = "admin";
const PASSWORD: &str = "secret";

/// A server that runs until the test ends, however it ends.
pub(crate) struct Server {
    folder: PathBuf,
    binaries: PathBuf,
    port: u16,
    owner: Option<(u32, u32)>,
    /// Megabytes of the disk at [`Server::small`], if it has one.
    small_disk: Option<u32>,
    /// Waits for the end of its input, which also comes when this process is killed; then it ends
    /// the server and removes the folder.
    undertaker: Child,
}

impl Server {
    /// Makes and starts a server with these lines in its configuration.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::start_with(settings, None)
    }

    /// The same, with a disk of so many megabytes at [`Server::small`].
    pub(crate) fn start_with_small_disk(megabytes: u32) -> Self {
        Self::start_with(&[], Some(megabytes))
    }

    fn start_with(settings: &[&str], small_disk: Option<u32>) -> Self {
        let server = Self::of_no_files(small_disk);
        server.make(settings);
        server.up();
        server
    }

    /// A standby of this server, which follows it under that name.
    pub(crate) fn start_standby(&self, name: &str) -> Self {
        let standby = Self::of_no_files(None);
        let (host, port) = ("127.0.0.1", self.port);
        let mut copy = self.tool("pg_basebackup");
        copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--pgdata"]);
        copy.arg(standby.data()).arg("--dbname").arg(format!(
            "host={host} port={port} user={ADMIN} password={PASSWORD} application_name={name}"
        ));
        run(&mut copy);
        let path = standby.data().join("postgresql.auto.conf");
        let text = fs::read_to_string(&path).unwrap();
        let own = format!(
            "port = {}\nunix_socket_directories = '{}'\n",
            standby.port,
            standby.folder.display()
        );
        fs::write(path, text + &own).unwrap();
        standby.up();
        standby
    }

    /// A folder, a port and an undertaker.
    fn of_no_files(small_disk: Option<u32>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Not below the target directory: the server's user may not be able to get there.
        let name = format!("sterna-postgres-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let binaries = binaries();
        let owner = owner();
        fs::create_dir(&folder).unwrap();
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(&folder, Some(user), Some(group)).unwrap();
        }
        let script = format!(
            "read end; {}/pg_ctl stop --silent -m immediate -D {1}/data >/dev/null 2>&1; rm -rf {1}",
            binaries.display(),
            folder.display()
        );
        let mut undertaker = as_owner("sh", owner);
        undertaker.args(["-c", &script]).stdin(Stdio::piped());
        undertaker.stdout(Stdio::null()).stderr(Stdio::null());
        // In a group of its own: it must outlive the test when that is killed with all of its.
        let undertaker = undertaker.process_group(0).spawn();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let undertaker = undertaker.unwrap();
        Self { folder, binaries, port, owner, small_disk, undertaker }
    }

    fn make(&self, settings: &[&str]) {
        fs::write(self.folder.join("password"), PASSWORD).unwrap();
        let data = self.data();
        let arguments = ["--no-sync", "--locale=C", "--encoding=UTF8", "--auth=scram-sha-256"];
        let mut initdb = self.tool("initdb");
        initdb.args(arguments).arg(format!("--username={ADMIN}")).arg("--pgdata").arg(&data);
        initdb.arg(format!("--pwfile={}", self.folder.join("password").display()));
        run(&mut initdb);
        let mut text = fs::read_to_string(data.join("postgresql.conf")).unwrap();
        text += &format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\n\
             shared_buffers = '32MB'\nmax_connections = 60\n{}\n",
            self.port,
            self.folder.display(),
            settings.join("\n")
        );
        fs::write(data.join("postgresql.conf"), text).unwrap();
    }

    /// Starts it, and waits until it serves.
    pub(crate) fn up(&self) {
        let start = format!(
            "{}/pg_ctl start --silent --wait --timeout=60 -D {} -l {}/log",
            self.binaries.display(),
            self.data().display(),
            self.folder.display()
        );
        match self.small_disk {
            None => run(as_owner("sh", self.owner).args(["-c", &start])),
            Some(megabytes) => self.up_with_small_disk(&start, megabytes),
        }
    }

    /// Starts it in a namespace of its own, where a small file system is mounted.
    fn up_with_small_disk(&self, start: &str, megabytes: u32) {
        let small = self.small();
        let (namespace, mode, become_owner) = match self.owner {
            Some((user, group)) => (
                &["--mount"][..],
                format!("uid={user},gid={group},mode=0700"),
                format!("setpriv --reuid {user} --regid {group} --clear-groups"),
            ),
            None => (
                &["--user", "--map-current-user", "--keep-caps", "--mount"][..],
                "mode=0700".to_owned(),
                "exec".to_owned(),
            ),
        };
        let script = format!(
            "mkdir -p {0} && mount -t tmpfs -o size={megabytes}m,{mode} tmpfs {0} && \
             {become_owner} {start}",
            small.display()
        );
        run(Command::new("unshare").args(namespace).args(["sh", "-c", &script]).current_dir("/"));
    }

    /// The folder on the small disk; only the server sees what is in it.
    pub(crate) fn small(&self) -> PathBuf {
        self.folder.join("small")
    }

    /// Ends it as a crash of its machine's power would, but for what the disk held back.
    pub(crate) fn crash(&self) {
        let mut command = self.tool("pg_ctl");
        run(command.args(["stop", "--silent", "-m", "immediate", "-D"]).arg(self.data()));
    }

    /// Kills all of its processes at once, and waits until they are gone.
    pub(crate) fn kill(&self) {
        let first = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let first = first.lines().next().unwrap().to_owned();
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
        let all: Vec<_> = [&*first].into_iter().chain(children.split_whitespace()).collect();
        // One of them may have gone by itself meanwhile, which kill reports as a failure.
        Command::new("kill").arg("-9").args(&all).stderr(Stdio::null()).status().unwrap();
        while all.iter().any(|process| Path::new("/proc").join(process).exists()) {
            std::thread::yield_now();
        }
    }

    /// Adds a line to who may log in, before all others, and lets the server read it.
    pub(crate) fn permit(&self, line: &str) {
        let path = self.data().join("pg_hba.conf");
        let text = format!("{line}\n{}", fs::read_to_string(&path).unwrap());
        fs::write(path, text).unwrap();
        let mut command = self.tool("pg_ctl");
        run(command.args(["reload", "--silent", "-D"]).arg(self.data()));
    }

    /// Puts a file among the server's own, as it likes its keys.
    pub(crate) fn give(&self, name: &str, text: &str) {
        let path = self.data().join(name);
        fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&path, mode).unwrap();
        if let Some((user, group)) = self.owner {
            std::os::unix::fs::chown(&path, Some(user), Some(group)).unwrap();
        }
    }

    /// Stops it in good order.
    pub(crate) fn down(&self) {
        let mut command = self.tool("pg_ctl");
        run(command.args(["stop", "--silent", "-m", "fast", "-D"]).arg(self.data()));
    }

    /// Keeps a copy of all its files.
    pub(crate) fn back_up(&self) {
        self.down();
        run(Command::new("cp").arg("-a").args([self.data(), self.folder.join("backup")]));
        self.up();
    }

    /// Puts that copy in the place of what it has.
    pub(crate) fn restore(&self) {
        self.down();
        fs::remove_dir_all(self.data()).unwrap();
        run(Command::new("cp").arg("-a").args([self.folder.join("backup"), self.data()]));
        self.up();
    }

    /// Lets it come back as a standby, which is in recovery and takes no writes.
    pub(crate) fn demote(&self) {
        self.down();
        self.give("standby.signal", "");
        self.up();
    }

    /// Makes a standby the primary, and waits for it.
    pub(crate) fn promote(&self) {
        let mut command = self.tool("pg_ctl");
        run(command.args(["promote", "--silent", "--wait", "-D"]).arg(self.data()));
    }

    /// Where everything of it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its files are.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of a store in a schema of its own.
    pub(crate) fn url(&self, schema: &str) -> String {
        url_at(&self.address(), schema)
    }

    /// A connection to do things with that a store never would.
    pub(crate) async fn admin(&self) -> Client {
        let url = self.url("x").replace("?schema=x", "");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    fn tool(&self, name: &str) -> Command {
        let path = self.binaries.join(name);
        as_owner(path.to_str().unwrap(), self.owner)
    }
}

/// The URL of a store behind any address that leads to the server.
pub(crate) fn url_at(address: &str, schema: &str) -> String {
    format!("postgres://{ADMIN}:{PASSWORD}@{address}/postgres?schema={schema}")
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.undertaker.stdin.take());
        drop(self.undertaker.wait());
    }
}

/// Debian keeps the tools of each version in a folder of its own; elsewhere they are on `PATH`.
fn binaries() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.sort();
    folders.extend(std::env::split_paths(&path));
    // All of them: some put only a few elsewhere.
    let tools = ["initdb", "pg_ctl", "pg_basebackup"];
    folders.retain(|folder| tools.iter().all(|tool| folder.join(tool).is_file()));
    folders.pop().expect("PostgreSQL is not installed; on Debian: apt-get install postgresql")
}

/// The server refuses to run as root: then it runs as the user that the package made.
fn owner() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let mut fields = line.expect("there is no user postgres to run the server as").split(':');
    let user = fields.nth(2).unwrap().parse().unwrap();
    Some((user, fields.next().unwrap().parse().unwrap()))
}

fn as_owner(program: &str, owner: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command.current_dir("/").env("LC_ALL", "C");
    command
}

fn run(command: &mut Command) {
    // Not `output`: a server that goes on would keep the pipes open.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
