//! `sterna events`.

use std::{collections::VecDeque, time::Duration};

use sterna_api::rest::EventView;
use sterna_model::WallTime;

use crate::{
    logs::since,
    out,
    patience::Patience,
    remote::{Remote, failed, wait},
    show::escaped,
    table::folded,
};

/// Show events in order
///
/// The events cover all namespaces, workers and the cluster; with --namespace, only that namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep printing new events
    #[arg(long, short)]
    follow: bool,
    /// Only events after this id, such as 1.3.42 [default: all that the server keeps]
    #[arg(long, value_name = "ID", value_parser = event)]
    after: Option<String>,
    /// Only the last COUNT events; with --follow, continue from there
    #[arg(long, value_name = "COUNT")]
    last: Option<usize>,
    /// Only events since this time, as in 10m or 2026-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<WallTime>,
    /// Print the id before each event, for use with --after
    #[arg(long)]
    ids: bool,
    /// Only keys with this prefix, such as default/task/
    #[arg(long, value_name = "PREFIX")]
    key: Option<String>,
    /// Only events of this kind, such as task-completed; a comma-separated list is allowed
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Print each event as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

/// As far as its form tells; only a server knows which there are.
fn event(text: &str) -> Result<String, String> {
    let is_number = |part: &str| part.parse::<u64>().is_ok();
    if text == "0" || (text.split('.').count() == 3 && text.split('.').all(is_number)) {
        return Ok(text.to_owned());
    }
    Err("write the id of an event, as 1.3.42, or 0 for all; `sterna events --ids` has them"
        .to_owned())
}

impl Args {
    /// How keys begin that are asked for: those of a namespace begin with it.
    fn keys(&self) -> Option<String> {
        let Some(space) = self.remote.asked() else { return self.key.clone() };
        let (space, key) = (format!("{space}/"), self.key.clone().unwrap_or_default());
        Some(if key.starts_with(&space) { key } else { space + &key })
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let after = args.after.clone().unwrap_or_else(|| "0".to_owned());
        let mut query = String::new();
        for (name, value) in [("key", &args.keys()), ("kind", &args.kind)] {
            if let Some(value) = value {
                query += &format!("&{name}={}", escaped(value));
            }
        }
        let mut patience = Patience::default();
        let mut shown = Shown::new(&args, after);
        loop {
            // The last ones are known when all that there are were read.
            let is_follow = args.follow && shown.last.is_none();
            let until = if is_follow { "" } else { "&until_now=true" };
            let path = format!("/v1/events?after={}{until}{query}", escaped(&shown.after));
            // What the stream before has not ended is of that one.
            shown.id = None;
            let error = match client.lines(&path).await {
                Ok(mut lines) => loop {
                    patience.heard();
                    match lines.next().await {
                        Ok(Some(line)) => {
                            if shown.take(&line)? == out::Heard::NoMore {
                                return Ok(());
                            }
                        }
                        // A server that leads no more, or hangs up on who is slow, says no more.
                        Ok(None) => break None,
                        Err(error) => break Some(error),
                    }
                },
                Err(error) => Some(error),
            };
            if error.is_none() && shown.flush()? == out::Heard::NoMore {
                return Ok(());
            }
            match (error, args.follow) {
                (Some(error), true) => patience.bear(error).await?,
                (Some(error), false) => return Err(failed(error)),
                (None, true) if !is_follow => {}
                (None, true) => tokio::time::sleep(AGAIN).await,
                (None, false) => return Ok(()),
            }
        }
    })
}

/// How long after a stream has ended it is asked for again.
const AGAIN: Duration = Duration::from_millis(200);

/// What is shown of what comes.
struct Shown<'a> {
    args: &'a Args,
    /// The last event that came, or was passed over, to go on from.
    after: String,
    /// What a block names that has not ended yet.
    id: Option<String>,
    /// Those that may be the last, until all that there are have come.
    last: Option<VecDeque<String>>,
}

impl<'a> Shown<'a> {
    fn new(args: &'a Args, after: String) -> Self {
        Self { args, after, id: None, last: args.last.map(|_| VecDeque::new()) }
    }

    /// Shows an event, if a line holds one.
    fn take(&mut self, line: &[u8]) -> anyhow::Result<out::Heard> {
        if let Some(id) = line.strip_prefix(b"id: ") {
            self.id = Some(String::from_utf8_lossy(id).into_owned());
        }
        // What broke off before its end did not come.
        if line.is_empty()
            && let Some(id) = self.id.take()
        {
            self.after = id;
        }
        let Some(data) = line.strip_prefix(b"data: ") else { return Ok(out::Heard::Yes) };
        let Ok(event) = serde_json::from_slice::<EventView>(data) else {
            let said: serde_json::Value = serde_json::from_slice(data).unwrap_or_default();
            if let Some(resume) = said["resume"].as_str().filter(|resume| !resume.is_empty()) {
                resume.clone_into(&mut self.after);
            }
            out::warning(&format!(
                "this reader was too slow, and has missed events; it continues after {}",
                self.after
            ));
            return Ok(out::Heard::Yes);
        };
        let at = event.at.parse::<WallTime>().ok();
        let is_early = self.args.since.zip(at).is_some_and(|(since, at)| at < since);
        let text = if self.args.json {
            String::from_utf8_lossy(data).into_owned()
        } else {
            let id = if self.args.ids { format!("{:<9} ", event.id) } else { String::new() };
            folded(&(id + &event_text(&event)), 4)
        };
        self.after = event.id;
        if is_early {
            return Ok(out::Heard::Yes);
        }
        let Some(last) = &mut self.last else { return out::answer(&text) };
        last.push_back(text);
        if last.len() > self.args.last.unwrap_or_default() {
            last.pop_front();
        }
        Ok(out::Heard::Yes)
    }

    /// All that there are have come.
    fn flush(&mut self) -> anyhow::Result<out::Heard> {
        for text in self.last.take().into_iter().flatten() {
            if out::answer(&text)? == out::Heard::NoMore {
                return Ok(out::Heard::NoMore);
            }
        }
        Ok(out::Heard::Yes)
    }
}

fn event_text(event: &EventView) -> String {
    let mut text = format!("{}  {:<20} {}", event.at, event.kind.as_str(), event.key);
    for (name, value) in &event.data {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text += &format!("  {name}={value}");
    }
    if let Some(reason) = &event.reason {
        text += &format!("  ({reason})");
    }
    out::one_line(&text)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// What others were told of went by: who has seen nothing of it goes on after it all the same.
    #[test]
    fn a_reader_goes_on_after_what_was_passed_over_but_not_after_half_a_block() {
        let args = Line::parse_from(["events"]).args;
        let mut shown = Shown::new(&args, "1.1.3".to_owned());
        let mut after = |lines: &[&str]| {
            for line in lines {
                assert_eq!(shown.take(line.as_bytes()).unwrap(), out::Heard::Yes);
            }
            shown.after.clone()
        };
        assert_eq!(after(&[": still here", ""]), "1.1.3");
        assert_eq!(after(&[": still here", "id: 1.1.9", ""]), "1.1.9");
        assert_eq!(after(&["id: 1.1.12", "event: task-created"]), "1.1.9", "it broke off");
    }
}
