//! A server as a process of its own, that ends with this one.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::exit;

/// How long a server may take until it can be asked.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How long one that says no more may take to end.
const END_WITHIN: Duration = Duration::from_secs(1);

/// This same program, in a process group of its own: Ctrl-C is for this one alone. What it says goes to
/// a file of the data directory; it ends when its standard input does.
pub(crate) fn command(data: &Path, log: &str) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("this program cannot be found")?;
    let path = data.join(log);
    let log = fs::OpenOptions::new().create(true).append(true).open(&path);
    let log = log.with_context(|| format!("cannot write to {}", path.display()))?;
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stderr(log).process_group(0);
    Ok(command)
}

/// How long a log is: what stands in it already was said by others.
pub(crate) fn length(log: &Path) -> usize {
    fs::metadata(log).map_or(0, |log| usize::try_from(log.len()).unwrap_or(usize::MAX))
}

/// The end of what a child said, which began its log there: it says why it ends, and that is all there is
/// to say.
pub(crate) fn last_words(log: &Path, from: usize) -> String {
    let said = fs::read(log).unwrap_or_default();
    // A log that was begun anew since is shorter.
    let said = String::from_utf8_lossy(said.get(from..).unwrap_or(&said));
    let lines: Vec<_> = said.lines().collect();
    let last = lines.get(lines.len().saturating_sub(4)..).unwrap_or_default();
    last.join("\n  ")
}

/// How a server began.
#[derive(Debug)]
pub(crate) enum Began {
    /// It can be asked, there.
    There(Box<Child>, SocketAddr),
    /// Somebody killed it before: nothing is wrong with it.
    Killed(ExitStatus),
}

/// Starts a server that listens there, on a store of its own, and waits until it can be asked.
pub(crate) async fn server(
    data: &Path,
    listen: SocketAddr,
    options: &[String],
) -> anyhow::Result<Began> {
    let log = data.join("server.log");
    let from = length(&log);
    let mut command = command(data, "server.log")?;
    command.arg("server").arg("--make").arg("--data").arg(data);
    command.arg("--listen").arg(listen.to_string()).arg("--until-eof");
    command.args(options).stdout(Stdio::piped());
    let mut server = command.spawn().context("cannot start the server")?;
    let stdout = server.stdout.take().context("the server has no output")?;
    let mut said = String::new();
    let mut stdout = BufReader::new(stdout);
    let read = timeout(READY_WITHIN, stdout.read_line(&mut said)).await;
    if !matches!(read, Ok(Ok(1..))) {
        let why = last_words(&log, from);
        // It has ended by itself, or hangs.
        let ended = timeout(END_WITHIN, server.wait()).await;
        drop(server.kill().await);
        let ended = ended.ok().and_then(Result::ok);
        if let Some(how) = ended.filter(|how| how.code().is_none()) {
            return Ok(Began::Killed(how));
        }
        let code = ended.and_then(|ended| ended.code());
        let code = code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
        let error =
            anyhow::anyhow!("the server did not start; {} ends with\n  {why}", log.display());
        return Err(exit::coded(code.unwrap_or(exit::TRY_AGAIN))(error));
    }
    let address = said.trim().parse().context("the server does not say where it listens")?;
    Ok(Began::There(Box::new(server), address))
}
