//! How a command finds its server, and asks it.
//!
//! | what | first of these |
//! | --- | --- |
//! | server | `--server`, `STERNA_SERVER`, the `dev` of this directory or one above it |
//! | token | `STERNA_TOKEN`, `STERNA_TOKEN_FILE`, the same `dev`'s `admin.token` |

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use sterna_api::{
    client::{Client, ClientError},
    rest::{Page, Refused, ServiceView, TaskView},
};
use sterna_model::{Kind, Name, Namespace, SelectError, Selector, Target};

use crate::exit;

/// Where `dev` keeps everything, unless it is told otherwise.
pub(crate) const DEV: &str = ".sterna";
/// The file in which a server says where it listens.
pub(crate) const ADDRESS: &str = "address";

/// By what the environment names a server and shows who asks; whoever means its own cluster alone must
/// not leave these to what it starts.
pub(crate) const NAMED_BY: [&str; 3] = ["STERNA_SERVER", "STERNA_TOKEN", "STERNA_TOKEN_FILE"];

/// Whom to ask.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Remote {
    /// The server; else STERNA_SERVER names it, or it is the `dev` of this directory
    // Read by hand: clap shows an option as needed in every usage line if its variable is set.
    #[arg(long, value_name = "HOST:PORT", global = true)]
    server: Option<String>,
    /// Where names hold; `default` if none is named
    #[arg(long, value_name = "NAME", global = true)]
    namespace: Option<String>,
}

impl Remote {
    /// A connection to the server.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let dev = dev();
        let of_dev = |file: &str| {
            let text = fs::read_to_string(dev.as_ref()?.join(file)).ok()?;
            Some(text.trim().to_owned())
        };
        let named = env::var("STERNA_SERVER").ok().filter(|server| !server.is_empty());
        let server = self.server.clone().or(named).or_else(|| of_dev(ADDRESS)).context(
            "no server is named, and no `sterna dev` runs here: use --server HOST:PORT or \
             STERNA_SERVER, or start `sterna dev`",
        );
        let server = server.and_then(|server| address(&server));
        let server = server.map_err(exit::coded(exit::USAGE))?;
        self.namespace()?;
        // The token of a `dev` is for that `dev` alone.
        let is_dev = of_dev(ADDRESS).is_some_and(|address| address == server);
        let of_dev = || is_dev.then(|| of_dev(sterna_server::TOKEN_FILE)).flatten();
        let token = token()?.or_else(of_dev).unwrap_or_default();
        Ok(Client::new(server, token))
    }

    /// Where names hold.
    pub(crate) fn namespace(&self) -> anyhow::Result<Namespace> {
        let Some(named) = &self.namespace else { return Ok(Namespace::default()) };
        let namespace = Namespace::new(named).context("--namespace");
        namespace.map_err(exit::coded(exit::USAGE))
    }

    /// The namespace that was asked for, if one was.
    pub(crate) fn asked(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The path of something in the namespace.
    pub(crate) fn path(&self, rest: &str) -> String {
        let default = Namespace::default();
        let namespace = self.asked().unwrap_or(default.as_str());
        format!("/v1/namespaces/{namespace}/{rest}")
    }
}

/// Where a server is, out of how it was named.
fn address(given: &str) -> anyhow::Result<String> {
    let bare = given.strip_prefix("http://").unwrap_or(given);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    if given.starts_with("https://") {
        anyhow::bail!("{given}: there is no TLS yet; write HOST:PORT");
    }
    let is_address = bare.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']) && port.parse::<u16>().is_ok()
    });
    if !is_address {
        anyhow::bail!("{given:?} names no server; write HOST:PORT, such as 127.0.0.1:7411");
    }
    Ok(bare.to_owned())
}

fn token() -> anyhow::Result<Option<String>> {
    if let Ok(token) = env::var("STERNA_TOKEN") {
        return Ok(Some(token));
    }
    let Some(path) = env::var_os("STERNA_TOKEN_FILE").map(PathBuf::from) else { return Ok(None) };
    let text = fs::read_to_string(&path);
    let text = text.with_context(|| format!("STERNA_TOKEN_FILE: cannot read {}", path.display()));
    Ok(Some(text.map_err(exit::coded(exit::DENIED))?.trim().to_owned()))
}

/// The directory of the `dev` that runs, or ran, here or above.
pub(crate) fn dev() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    here.ancestors().map(|above| above.join(DEV)).find(|path| path.join(ADDRESS).is_file())
}

/// An error of the client with its exit code, and what to do.
pub(crate) fn failed(error: ClientError) -> anyhow::Error {
    let code = match &error {
        ClientError::Refused(refused) => refused.code.exit_code(),
        ClientError::Unreachable { .. } | ClientError::NoServer { .. } => exit::UNREACHABLE,
        ClientError::Broken { .. } | ClientError::Silent { .. } => exit::TRY_AGAIN,
    };
    let error = match error {
        ClientError::Refused(refused) => refusal(&refused),
        ClientError::Unreachable { .. } => {
            let remedy = "start one with `sterna dev`, or name another by --server";
            anyhow::Error::new(error).context(format!("no server to ask; {remedy}"))
        }
        other @ (ClientError::Broken { .. }
        | ClientError::Silent { .. }
        | ClientError::NoServer { .. }) => other.into(),
    };
    exit::coded(code)(error)
}

fn refusal(refused: &Refused) -> anyhow::Error {
    let mut text = refused.message.to_string();
    for problem in &refused.problems {
        text += &format!(
            "\n  {}:{}:{}: {}: {}; {}",
            problem.file,
            problem.line,
            problem.column,
            problem.place,
            problem.reason,
            problem.remedy
        );
    }
    anyhow::anyhow!("{text}\n  remedy: {}", refused.remedy)
}

/// The one thing that a selector means, by what there is.
pub(crate) async fn resolve(
    client: &mut Client,
    remote: &Remote,
    text: &str,
    kinds: &[Kind],
) -> anyhow::Result<Target> {
    let selector: Selector =
        text.parse().map_err(|error: SelectError| exit::coded(exit::USAGE)(error.into()))?;
    let mut names = Vec::new();
    let mut last: Option<(String, Kind, Name)> = None;
    if kinds.contains(&Kind::Task) {
        for task in all::<TaskView>(client, &remote.path("tasks")).await? {
            let name = Name::new(&task.name)?;
            if last.as_ref().is_none_or(|(made, ..)| *made < task.made) {
                last = Some((task.made, Kind::Task, name.clone()));
            }
            names.push((Kind::Task, name));
        }
    }
    if kinds.contains(&Kind::Service) {
        for service in all::<ServiceView>(client, &remote.path("services")).await? {
            names.push((Kind::Service, Name::new(&service.name)?));
        }
    }
    let last = last.as_ref().map(|(_, kind, name)| (*kind, name));
    let known = names.iter().map(|(kind, name)| (*kind, name));
    Ok(selector.resolve(&remote.namespace()?, last, known)?)
}

/// Everything in a list, page by page.
pub(crate) async fn all<T: serde::de::DeserializeOwned>(
    client: &mut Client,
    path: &str,
) -> anyhow::Result<Vec<T>> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let between = if path.contains('?') { '&' } else { '?' };
        let page: Page<T> = client
            .get(&format!("{path}{between}limit=1000&after={after}"))
            .await
            .map_err(failed)?;
        items.extend(page.items);
        match page.next {
            Some(next) => after = next,
            None => return Ok(items),
        }
    }
}

/// Runs something that waits for a server.
pub(crate) fn wait<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot wait for anything")?.block_on(future)
}

/// A directory that is made if it is not there.
pub(crate) fn directory(path: &Path) -> anyhow::Result<()> {
    let made = fs::create_dir_all(path);
    let is_denied =
        made.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    let made = made.with_context(|| format!("cannot make {}", path.display()));
    if is_denied { made.map_err(exit::coded(exit::DENIED)) } else { made }
}
