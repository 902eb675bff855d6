//! Lines as people read them: what a log holds in pieces is one line again.
//!
//! Invariant: a piece stands behind another one only if that goes on in it.

use std::io::{self, Write};

use anyhow::Context;
use sterna_api::rest::LogLine;

use super::Args;
use crate::{exit, run::unhex};

/// What was written last, where it is not the end of a line.
#[derive(Debug)]
struct Open {
    index: Option<u32>,
    run: String,
    stream: String,
}

/// Where lines are written to.
#[derive(Debug)]
pub(super) struct Sheet<'a> {
    pub(super) args: &'a Args,
    open: Option<Open>,
}

/// A line, and of which instance it is.
#[derive(serde::Serialize)]
struct Indexed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    #[serde(flatten)]
    line: &'a LogLine,
}

impl<'a> Sheet<'a> {
    pub(super) const fn new(args: &'a Args) -> Self {
        Self { args, open: None }
    }

    /// Whether what was written last goes on in this one.
    pub(super) fn goes_on_in(&self, index: Option<u32>, line: &LogLine) -> bool {
        self.open.as_ref().is_some_and(|open| {
            open.index == index && open.run == line.run && open.stream == line.stream
        })
    }

    pub(super) fn write(&mut self, index: Option<u32>, line: &LogLine) -> anyhow::Result<()> {
        if self.args.json {
            let mut text = serde_json::to_vec(&Indexed { index, line })?;
            text.push(b'\n');
            return put(&text);
        }
        let mut text = Vec::new();
        if !self.goes_on_in(index, line) {
            text.extend(self.open.take().map(|_| b'\n'));
            text.extend(index.map(|index| format!("[{index}] ")).unwrap_or_default().bytes());
            if self.args.times && line.missing.is_none() {
                text.extend(format!("{} ", line.at).bytes());
            }
        }
        if let Some(count) = line.missing {
            text.extend(format!("… {count} lines are missing here").bytes());
        } else {
            match &line.bytes {
                Some(digits) => text.extend(unhex(digits)),
                None => text.extend_from_slice(line.text.as_bytes()),
            }
        }
        // Of pieces that match nobody knows whether all between them were asked for.
        if line.is_cut && self.args.matching.is_none() {
            let (run, stream) = (line.run.clone(), line.stream.clone());
            self.open = Some(Open { index, run, stream });
        } else {
            self.open = None;
            text.push(b'\n');
        }
        put(&text)
    }

    /// Ends what has no end.
    pub(super) fn close(&mut self) -> anyhow::Result<()> {
        self.open.take().map_or(Ok(()), |_| put(b"\n"))
    }
}

fn put(text: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(exit::silent(0)),
        written => written.context("cannot write to standard output"),
    }
}
