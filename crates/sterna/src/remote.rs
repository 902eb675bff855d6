//! How a command finds its server, and asks it.
//!
//! | what | first of these |
//! | --- | --- |
//! | server | `--server`, `STERNA_SERVER`, `sterna.toml`, the `dev` of this directory or one above it |
//! | token | `STERNA_TOKEN`, `STERNA_TOKEN_FILE`, `token_file` of `sterna.toml`, the `dev`'s `admin.token` |
//!
//! Invariant: a token is shown to no other server than the one that the same source names.
//!
//! Invariant: a file that is wrong is passed over by who knows server and token without it, and by nobody
//! else: what it was to name comes before what comes after it, and must not be guessed.

use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
    sync::{Once, OnceLock},
};

use anyhow::Context;
use sterna_api::{
    client::{Client, ClientError},
    rest::{Code, Page},
};
use sterna_model::{Kind, Name, Namespace, SelectError, Selector, Target, nearest_word};

use crate::{
    config::{self, Config, Wrong},
    dev::holding,
    exit, out,
    refusal::Refusal,
};

/// Where `dev` keeps everything, unless it is told otherwise.
pub(crate) const DEV: &str = ".sterna";
/// The file in which a server says where it listens.
pub(crate) const ADDRESS: &str = "address";

/// By what the environment names a server and shows who asks; whoever means its own cluster alone must
/// not leave these to what it starts.
pub(crate) const NAMED_BY: [&str; 3] = ["STERNA_SERVER", "STERNA_TOKEN", "STERNA_TOKEN_FILE"];

/// Whom to ask.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Remote {
    /// Address of the server [default: STERNA_SERVER, sterna.toml, or the `dev` of this directory]
    // Read by hand: clap shows an option as needed in every usage line if its variable is set.
    #[arg(long, value_name = "HOST:PORT", global = true)]
    server: Option<String>,
    /// Namespace [default: default]
    #[arg(long, value_name = "NAME", global = true)]
    namespace: Option<String>,
}

/// Who named a server, or gave a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// `--server`.
    Option,
    /// A variable of the environment.
    Variable(&'static str),
    /// A file of this user, or of this machine.
    File(PathBuf),
    /// The `dev` that has this directory.
    Dev(PathBuf),
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Option => f.write_str("--server"),
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => path.display().fmt(f),
            Self::Dev(path) => write!(f, "the dev in {}", path.display()),
        }
    }
}

/// Whom a command asks, and what it shows.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) server: String,
    pub(crate) server_by: By,
    pub(crate) token: String,
    /// `None` if there is none to show.
    pub(crate) token_by: Option<By>,
}

/// Whom this command asks, for who is not let in.
static ASKED: OnceLock<String> = OnceLock::new();

impl Chosen {
    /// Whom, and what was shown.
    fn asked(&self) -> String {
        let Self { server, server_by, token_by, .. } = self;
        let token = match token_by {
            Some(by) if by == server_by => "and so is the token".to_owned(),
            Some(by) => format!("the token by {by}"),
            None => "and no token for it is configured".to_owned(),
        };
        format!("{server} was asked, named by {server_by}, {token}")
    }
}

impl Remote {
    /// A connection to the server.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let chosen = self.choose()?;
        self.namespace()?;
        // The first one stays: a command asks one server.
        drop(ASKED.set(chosen.asked()));
        Ok(Client::new(chosen.server, chosen.token))
    }

    /// Whom to ask, and what to show.
    pub(crate) fn choose(&self) -> anyhow::Result<Chosen> {
        let (dev, named) = (OfDev::find(), variable("STERNA_SERVER"));
        let typed = self.server.clone().map(|server| (server, By::Option));
        let named = || named.clone().map(|server| (server, By::Variable("STERNA_SERVER")));
        let files = config::files();
        let named = match typed.or_else(named) {
            Some(named) => Some(named),
            None => in_files(&files)?,
        };
        let (server, server_by) = match (named, &dev) {
            (Some(named), Some(_) | None) => named,
            (None, Some(dev)) => (dev.live()?.to_owned(), By::Dev(dev.path.clone())),
            (None, None) => return Err(usage()(anyhow::anyhow!(NOBODY))),
        };
        let server = address(&server).map_err(usage())?;
        let token = match in_environment(&server)? {
            Some(token) => Some(token),
            None => beside_server(&server, &files, dev)?,
        };
        let (token, token_by) = token.map_or((String::new(), None), |(it, by)| (it, Some(by)));
        Ok(Chosen { server, server_by, token, token_by })
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

    /// What `last` means.
    pub(crate) async fn newest_task(&self, client: &mut Client) -> anyhow::Result<Option<Name>> {
        let tasks: Page<Named> = client.get(&self.path("tasks?last=true")).await.map_err(failed)?;
        Ok(tasks.items.into_iter().next().map(|task| task.name))
    }

    /// The path of something in the namespace.
    pub(crate) fn path(&self, rest: &str) -> String {
        let default = Namespace::default();
        let namespace = self.asked().unwrap_or(default.as_str());
        format!("/v1/namespaces/{namespace}/{rest}")
    }
}

const NOBODY: &str = "no server is named, and no `sterna dev` runs here: use --server HOST:PORT, \
                      STERNA_SERVER or sterna.toml, or start `sterna dev`";

fn usage() -> impl FnOnce(anyhow::Error) -> anyhow::Error {
    exit::coded(exit::USAGE)
}

/// A variable that says something.
fn variable(name: &str) -> Option<String> {
    // One that is no text is set, and whoever reads it refuses it.
    let value = env::var_os(name)?.to_string_lossy().into_owned();
    Some(value).filter(|value| !value.is_empty())
}

/// Where a server is, out of how it was named.
pub(crate) fn address(given: &str) -> anyhow::Result<String> {
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

/// A token in the environment: for the server that the environment names, or for any if it names none.
fn in_environment(server: &str) -> anyhow::Result<Option<(String, By)>> {
    let named = variable("STERNA_SERVER").and_then(|named| address(&named).ok());
    if named.is_some_and(|named| named != server) {
        return Ok(None);
    }
    if let Some(token) = variable("STERNA_TOKEN") {
        return Ok(Some((check_token("STERNA_TOKEN", token)?, By::Variable("STERNA_TOKEN"))));
    }
    let path = env::var_os("STERNA_TOKEN_FILE").filter(|path| !path.is_empty());
    let Some(path) = path.map(PathBuf::from) else { return Ok(None) };
    let token = read_token("STERNA_TOKEN_FILE", &path)?;
    Ok(Some((token, By::Variable("STERNA_TOKEN_FILE"))))
}

/// The server of the first file that names one.
fn in_files(files: &[Result<Config, Wrong>]) -> anyhow::Result<Option<(String, By)>> {
    for file in files {
        let file = file.as_ref().map_err(|wrong| {
            wrong.needed("name the server by --server or STERNA_SERVER, and give its token")
        })?;
        if let Some(server) = &file.server {
            return Ok(Some((server.clone(), By::File(file.path.clone()))));
        }
    }
    Ok(None)
}

/// The token beside who names this server: the first file that does, or the `dev` here.
fn beside_server(
    server: &str,
    files: &[Result<Config, Wrong>],
    dev: Option<OfDev>,
) -> anyhow::Result<Option<(String, By)>> {
    let (mut wrong, mut found) = (None, None);
    for file in files {
        match file {
            Err(it) => wrong = wrong.or(Some(it)),
            Ok(file) if file.names(server) => {
                found = Some(file);
                break;
            }
            Ok(_) => {}
        }
    }
    let token = match found {
        Some(Config { path, token_file: Some(token), .. }) => {
            let token = read_token(&format!("{}: token_file", path.display()), token)?;
            Some((token, By::File(path.clone())))
        }
        Some(Config { token_file: None, .. }) | None => dev.and_then(|dev| dev.token(server)),
    };
    match (token, wrong) {
        (token @ (Some(_) | None), None) => Ok(token),
        (None, Some(wrong)) => {
            let unless = format!("give the token of {server} by STERNA_TOKEN or STERNA_TOKEN_FILE");
            Err(wrong.needed(&unless))
        }
        (Some(token), Some(wrong)) => {
            // A command may look for its server again and again.
            static TOLD: Once = Once::new();
            let text = &wrong.text;
            TOLD.call_once(|| {
                out::warning(&format!(
                    "{text}; it is passed over, for server and token are known without it"
                ));
            });
            Ok(Some(token))
        }
    }
}

fn read_token(named_by: &str, path: &Path) -> anyhow::Result<String> {
    let read = |file: fs::File| {
        let mut bytes = Vec::new();
        file.take(TOKEN_MAX as u64).read_to_end(&mut bytes).map(|_| bytes)
    };
    let bytes = fs::File::open(path).and_then(read);
    let bytes = bytes.with_context(|| format!("{named_by}: cannot read {}", path.display()));
    let text =
        String::from_utf8_lossy(&bytes.map_err(exit::coded(exit::DENIED))?).trim().to_owned();
    check_token(&format!("{named_by}: {}", path.display()), text)
}

/// No token is so long.
const TOKEN_MAX: usize = 4_096;

/// A token that cannot be sent is none: nobody is asked with it.
fn check_token(named_by: &str, token: String) -> anyhow::Result<String> {
    let is_token = token.len() < TOKEN_MAX && token.bytes().all(|it| it.is_ascii_graphic());
    if !is_token {
        let error = anyhow::anyhow!(
            "{named_by}: this is no token: a token is one word; give the first line of `admin.token`"
        );
        return Err(exit::coded(exit::DENIED)(error));
    }
    Ok(token)
}

/// The `dev` of this directory.
struct OfDev {
    path: PathBuf,
    address: String,
    /// Where one was that was killed, anybody may listen now.
    is_there: bool,
}

impl OfDev {
    fn find() -> Option<Self> {
        let path = dev()?;
        let address = fs::read_to_string(path.join(ADDRESS)).ok()?.trim().to_owned();
        let is_there = holding::is_held(&path);
        Some(Self { path, address, is_there })
    }

    /// Where it listens, if it does.
    fn live(&self) -> anyhow::Result<&str> {
        if self.is_there {
            return Ok(&self.address);
        }
        let path = self.path.display();
        let gone = anyhow::anyhow!(
            "no `sterna dev` runs here: the one in {path} was killed, and the process that listens at {} is not \
             asked; start it again with `sterna dev`, or name a server by --server or STERNA_SERVER",
            self.address
        );
        Err(exit::coded(exit::UNREACHABLE)(gone))
    }

    /// The token of a `dev` is for that `dev` alone.
    fn token(self, server: &str) -> Option<(String, By)> {
        let token = fs::read_to_string(self.path.join(sterna_server::TOKEN_FILE)).ok();
        let token = token.filter(|_| self.is_there && self.address == server)?;
        Some((token.trim().to_owned(), By::Dev(self.path)))
    }
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
        ClientError::Refused(mut refused) => {
            if let (Code::Unauthorized, Some(asked)) = (refused.code, ASKED.get()) {
                refused.message = format!("{}; {asked}", refused.message).into();
            }
            Refusal::new(refused).into()
        }
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

/// The one thing that a selector means, by what there is.
pub(crate) async fn resolve(
    client: &mut Client,
    remote: &Remote,
    text: &str,
) -> anyhow::Result<Target> {
    let selector: Selector =
        text.parse().map_err(|error: SelectError| exit::coded(exit::USAGE)(error.into()))?;
    let (mut names, mut last) = (Vec::new(), None);
    match name_in(text).map(Name::new).transpose()? {
        None => {
            last = remote.newest_task(client).await?;
        }
        Some(name) => {
            let places = listed(text);
            for Listed { kind, list, known_by } in places.iter().copied() {
                if is_there(client, &remote.path(&format!("{list}/{name}{known_by}"))).await? {
                    names.push((kind, name.clone()));
                }
            }
            if names.is_empty() && client.get::<Named>(&worker(&name)).await.is_ok() {
                anyhow::bail!(
                    "{name} is a worker, and no task or service; `sterna ls workers {name}` says how it is"
                );
            }
            let definition = remote.path(&format!("definitions/{name}"));
            let is_meant = places.iter().any(|place| place.kind == Kind::Definition);
            if names.is_empty() && !is_meant && client.get::<Named>(&definition).await.is_ok() {
                anyhow::bail!(
                    "{name} is a definition, and no task or service; write definition/{name} if you mean it"
                );
            }
            // Nothing is called so: what comes near is looked for among the first of each kind.
            if names.is_empty() {
                for Listed { kind, list, .. } in places.iter().copied() {
                    let path = remote.path(&format!("{list}?limit={LOOKED_AT}"));
                    let page: Page<Named> = client.get(&path).await.map_err(failed)?;
                    names.extend(page.items.into_iter().map(|item| (kind, item.name)));
                }
            }
        }
    }
    let last = last.as_ref().map(|name| (Kind::Task, name));
    let known = names.iter().map(|(kind, name)| (*kind, name));
    Ok(selector.resolve(&remote.namespace()?, last, known)?)
}

fn worker(name: &Name) -> String {
    format!("/v1/workers/{name}")
}

/// What is not there, with what comes near among the first of its list.
pub(crate) async fn with_nearest(
    client: &mut Client,
    error: ClientError,
    list: &str,
    name: &Name,
) -> anyhow::Error {
    if error.code() != Some(Code::NotFound) {
        return failed(error);
    }
    let ClientError::Refused(mut refused) = error else { return failed(error) };
    let is_said = refused.message.contains("did you mean");
    if let (false, Ok(page)) =
        (is_said, client.get::<Page<Named>>(&format!("{list}?limit={LOOKED_AT}")).await)
        && let Some(near) =
            nearest_word(name.as_str(), page.items.iter().map(|item| item.name.as_str()))
    {
        refused.message = format!("{}: did you mean {near}?", refused.message).into();
    }
    failed(refused.into())
}

/// The name in a selector, which was read; `None` if it is `last`.
fn name_in(selector: &str) -> Option<&str> {
    let mut parts = selector.split('/');
    let first = parts.next().filter(|_| selector != "last")?;
    // A word for a kind is a name if nothing comes after it.
    let is_kind = first.parse::<Kind>().is_ok();
    Some(parts.next().filter(|_| is_kind).unwrap_or(first))
}

/// The name that a selector has, if it has one.
pub(crate) fn named(selector: &str) -> Option<Name> {
    name_in(selector).and_then(|name| Name::new(name).ok())
}

/// Where things of one kind are listed.
#[derive(Clone, Copy)]
struct Listed {
    kind: Kind,
    /// The list, in the paths of the API.
    list: &'static str,
    /// What answers if there is something of a name, after the name. A service that was deleted is there
    /// as long as an instance of it still ends.
    known_by: &'static str,
}

/// Where to look for what a selector names, in this order. A definition is meant only where its kind is
/// written, because a task may have the same name.
fn listed(selector: &str) -> Vec<Listed> {
    let is_definition =
        selector.split_once('/').is_some_and(|(kind, _)| kind == Kind::Definition.as_str());
    let place = |kind: Kind| {
        let (list, known_by) = match kind {
            Kind::Task if !is_definition => ("tasks", ""),
            Kind::Service if !is_definition => ("services", "/instances?limit=1"),
            Kind::Definition if is_definition => ("definitions", ""),
            Kind::Task | Kind::Service | Kind::Definition => return None,
            // This version has none.
            Kind::Schedule | Kind::Batch | Kind::Forest => return None,
        };
        Some(Listed { kind, list, known_by })
    };
    let mut all: Vec<Listed> = Kind::ALL.into_iter().filter_map(place).collect();
    // What is typed most comes first.
    all.sort_by_key(|place| place.kind != Kind::Task);
    all
}

/// Among so many names of each kind one is looked for that comes near.
const LOOKED_AT: u32 = 1_000;

/// Of an item in a list, what it is called.
#[derive(serde::Deserialize)]
struct Named {
    name: Name,
}

async fn is_there(client: &mut Client, path: &str) -> anyhow::Result<bool> {
    match client.get::<serde_json::Value>(path).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(Code::NotFound) => Ok(false),
        Err(error) => Err(failed(error)),
    }
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
