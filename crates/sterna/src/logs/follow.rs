//! `sterna logs --follow`: lines as they come, of one log or of all instances of a service.

use std::collections::{BTreeMap, BTreeSet};

use sterna_api::{
    client::{Client, ClientError},
    rest::{Code, EventKind, EventView, InstanceView, LogLine, Refused, ServiceView},
};
use sterna_model::{Kind, Name, Target};
use tokio::sync::mpsc;

use super::{Args, Missing, Sheet, Source, is_of_one};
use crate::{out, patience::Patience, remote::all, run::after, show::escaped};

/// Logs that are followed.
pub(super) struct Following<'a, 'b> {
    args: &'a Args,
    sheet: &'a mut Sheet<'b>,
    /// The service whose instances they are of, where one is meant.
    service: Option<Name>,
    /// The instances that are followed now.
    now: BTreeSet<u32>,
    /// How far those were read that are not: one that comes again goes on there.
    before: BTreeMap<u32, String>,
    is_several: bool,
    sender: mpsc::Sender<Told>,
    told: mpsc::Receiver<Told>,
}

impl<'a, 'b> Following<'a, 'b> {
    pub(super) fn new(
        args: &'a Args,
        target: Option<&Target>,
        sheet: &'a mut Sheet<'b>,
    ) -> anyhow::Result<Self> {
        let (sender, told) = mpsc::channel(1_024);
        let service = match target {
            Some(Target::Whole { kind: Kind::Service, name }) => Some(name.clone()),
            Some(Target::Whole { .. } | Target::Part(_)) | None => None,
        };
        if let Some(name) = &service {
            let key = format!("{}/service/{name}", args.remote.namespace()?);
            tokio::spawn(watch(args.remote.client()?, key, sender.clone()));
        }
        let (now, before) = (BTreeSet::new(), BTreeMap::new());
        Ok(Self { args, sheet, service, now, before, is_several: false, sender, told })
    }

    fn follow(&mut self, mut source: Source) -> anyhow::Result<()> {
        if let Some(number) = source.number {
            if !self.now.insert(number) {
                return Ok(());
            }
            if let Some(after) = self.before.remove(&number) {
                source.after = after;
            }
        }
        self.is_several |= self.now.len() > 1 || source.index.is_some();
        let begin = if source.after.is_empty() { self.args.begin() } else { String::new() };
        let path = format!("{}?follow=true{}{begin}", source.path, self.args.query());
        tokio::spawn(follow_one(self.args.remote.client()?, source, path, self.sender.clone()));
        Ok(())
    }

    /// Shows lines of all logs as they come, until no more will.
    pub(super) async fn go_on(
        mut self,
        client: &mut Client,
        sources: Vec<Source>,
        missing: &mut Missing,
    ) -> anyhow::Result<()> {
        for source in sources {
            match source.number {
                Some(number) if source.is_read => drop(self.before.insert(number, source.after)),
                None if source.is_read => return Ok(()),
                Some(_) | None => self.follow(source)?,
            }
        }
        while let Some(told) = self.told.recv().await {
            let is_over = match told {
                Told::Line(number, line) => {
                    self.sheet.write(number.filter(|_| self.is_several), &line)?;
                    false
                }
                Told::Came(index) => {
                    self.came(client, index).await?;
                    // It may have been deleted, and all of it gone, before it was watched.
                    self.is_over(client).await?
                }
                Told::Deleted => self.is_over(client).await?,
                Told::Ended(source) => self.ended(client, &source).await?,
                Told::Missing(source, error) => {
                    missing.heard(&source, &error);
                    self.ended(client, &source).await?
                }
                Told::Failed(error) => return Err(error),
            };
            if is_over {
                break;
            }
        }
        Ok(())
    }

    /// Follows an instance that has come, or all that are new.
    async fn came(&mut self, client: &mut Client, index: Option<u32>) -> anyhow::Result<()> {
        let (Some(name), remote) = (self.service.clone(), &self.args.remote) else { return Ok(()) };
        if let Some(index) = index {
            return self.follow(Source::instance(remote, &name, index));
        }
        let path = remote.path(&format!("services/{name}/instances"));
        // If it is deleted that is heard, and if the server is away this is asked again.
        let instances = all::<InstanceView>(client, &path).await.unwrap_or_default();
        for InstanceView { index, .. } in instances {
            // Of what cannot be had it was said so; it is followed when it begins anew.
            if !self.before.contains_key(&index) {
                self.follow(Source::instance(remote, &name, index))?;
            }
        }
        Ok(())
    }

    /// Nothing more comes of one; gives whether nothing more comes at all.
    async fn ended(&mut self, client: &mut Client, source: &Source) -> anyhow::Result<bool> {
        if let Some(number) = source.number {
            self.now.remove(&number);
            self.before.insert(number, source.after.clone());
        }
        self.is_over(client).await
    }

    async fn is_over(&self, client: &mut Client) -> anyhow::Result<bool> {
        if !self.now.is_empty() {
            return Ok(false);
        }
        let Some(name) = &self.service else { return Ok(true) };
        let path = self.args.remote.path(&format!("services/{name}"));
        let service = client.get::<ServiceView>(&path).await;
        Ok(service.is_err_and(|error| error.code() == Some(Code::NotFound)))
    }
}

/// What is heard of logs that are followed.
enum Told {
    Line(Option<u32>, LogLine),
    /// It has come to its end.
    Ended(Source),
    /// It cannot be had, and others may be.
    Missing(Source, ClientError),
    /// An instance was begun; or there may be any others.
    Came(Option<u32>),
    /// The service is deleted.
    Deleted,
    Failed(anyhow::Error),
}

/// Tells of instances of a service that come, and when it goes.
async fn watch(mut client: Client, key: String, told: mpsc::Sender<Told>) {
    let mut patience = Patience::default();
    let path = format!("/v1/events?key={}&kind=instance-claimed,service-deleted", escaped(&key));
    loop {
        let error = match client.lines(&path).await {
            Ok(mut lines) => {
                // Some may have come before this was heard.
                let mut heard = Some(Told::Came(None));
                loop {
                    patience.heard();
                    if let Some(heard) = heard.take()
                        && told.send(heard).await.is_err()
                    {
                        return;
                    }
                    match lines.next().await {
                        Ok(Some(line)) => heard = of_event(&line, &key),
                        Ok(None) => break None,
                        Err(error) => break Some(error),
                    }
                }
            }
            Err(error) => Some(error),
        };
        // Who reads too slowly is hung up on, and begins anew.
        if let Some(error) = error
            && let Err(error) = patience.bear(error).await
        {
            // Whoever listened may have gone.
            drop(told.send(Told::Failed(error)).await);
            return;
        }
    }
}

/// What an event of a service, or of another one whose name begins so, tells.
fn of_event(line: &[u8], key: &str) -> Option<Told> {
    let event: EventView = serde_json::from_slice(line.strip_prefix(b"data: ")?).ok()?;
    let rest = event.key.strip_prefix(key)?;
    if event.kind == EventKind::ServiceDeleted && rest.is_empty() {
        return Some(Told::Deleted);
    }
    rest.strip_prefix('/')?.parse().ok().map(|index| Told::Came(Some(index)))
}

/// How a server says that it cannot go on with a log.
#[derive(serde::Deserialize)]
struct Ended {
    error: Refused,
}

/// Reads one log until no more will come; goes on where it was when the server is back.
async fn follow_one(
    mut client: Client,
    mut source: Source,
    path: String,
    told: mpsc::Sender<Told>,
) {
    let mut patience = Patience::default();
    loop {
        let error = match client.lines(&format!("{path}&after={}", source.after)).await {
            Ok(mut lines) => loop {
                patience.heard();
                match lines.next().await {
                    Ok(Some(line)) => match serde_json::from_slice::<LogLine>(&line) {
                        Ok(line) => {
                            source.after = after(&line);
                            if told.send(Told::Line(source.number, line)).await.is_err() {
                                return;
                            }
                        }
                        Err(_) => match serde_json::from_slice::<Ended>(&line) {
                            Ok(Ended { error }) => break error.into(),
                            Err(_) => out::warning(&String::from_utf8_lossy(&line)),
                        },
                    },
                    Ok(None) => {
                        // Whoever listened may have gone.
                        drop(told.send(Told::Ended(source)).await);
                        return;
                    }
                    Err(error) => break error,
                }
            },
            Err(error) => error,
        };
        let ended = if is_of_one(&source, &error) {
            Told::Missing(source, error)
        } else if let Err(error) = patience.bear(error).await {
            Told::Failed(error)
        } else {
            continue;
        };
        // Whoever listened may have gone.
        drop(told.send(ended).await);
        return;
    }
}
