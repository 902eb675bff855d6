//! How a command says that it failed: in words, or with `--json` as one object on one line, the last of
//! standard error.

use std::fmt;

use serde_json::{Value, json};
use sterna_api::rest::Refused;

use crate::{exit, out};

/// What was refused, by a server or before one was asked; it reads as it is told to people.
#[derive(Debug)]
pub(crate) struct Refusal {
    refused: Refused,
    text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// What a server refused.
    pub(crate) fn new(refused: Refused) -> Self {
        let mut text = out::printable(&refused.message);
        for problem in &refused.problems {
            let said = format!(
                "{}:{}:{}: {}: {}; {}",
                problem.file,
                problem.line,
                problem.column,
                problem.place,
                problem.reason,
                problem.remedy
            );
            text += &format!("\n  {}", out::one_line(&said));
        }
        text += &format!("\n  remedy: {}", out::one_line(&refused.remedy));
        if let Some(resume) = &refused.resume {
            text += &format!("\n  the newest event: {resume}");
        }
        Self { refused, text }
    }

    /// The same, drawn in another way.
    pub(crate) const fn drawn(refused: Refused, text: String) -> Self {
        Self { refused, text }
    }
}

/// Whether answers are for programs; what comes after two dashes is another's.
pub(crate) fn is_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Says why a command failed.
pub(crate) fn tell(error: &anyhow::Error) {
    if !is_json() {
        return out::error(error);
    }
    if !error.to_string().is_empty() {
        out::note(&object(error).to_string());
    }
}

/// Says what is wrong with a command line, as JSON.
pub(crate) fn tell_usage(error: &clap::Error) {
    let text = error.render().to_string();
    out::note(&failed(exit::USAGE, text.trim()).to_string());
}

fn object(error: &anyhow::Error) -> Value {
    let code = exit::code(error);
    if let Some(Refusal { refused, .. }) = exit::of::<Refusal>(error) {
        let mut object = json!(refused);
        object["exit"] = json!(code);
        return object;
    }
    let causes: Vec<_> = error.chain().map(ToString::to_string).collect();
    failed(code, &out::plain(causes.join(": ")))
}

/// What no server refused, by what to do about it.
fn failed(exit: u8, message: &str) -> Value {
    let code = match exit {
        exit::USAGE => "usage",
        exit::SPEC => "bad-input",
        exit::UNREACHABLE => "unreachable",
        exit::TRY_AGAIN => "try-again",
        exit::DENIED => "denied",
        exit::INTERRUPTED | exit::UNREAD => "interrupted",
        _ => "failed",
    };
    let message = message.strip_prefix("error: ").unwrap_or(message);
    json!({ "code": code, "message": message, "exit": exit })
}

#[cfg(test)]
mod tests {
    use sterna_api::rest::Code;

    use super::*;

    #[test]
    fn what_was_refused_is_one_object_with_its_exit_code() {
        let refused =
            Refused { resume: Some("1.1.7".into()), ..Refused::new(Code::EventsGone, "a\u{7}b") };
        let refusal = Refusal::new(refused);
        let said = refusal.to_string();
        assert!(
            said.starts_with("a b\n  remedy: ") && said.ends_with("\n  the newest event: 1.1.7"),
            "{said}"
        );
        let object = object(&exit::coded(1)(refusal.into()));
        assert_eq!((&object["code"], &object["exit"]), (&json!("events-gone"), &json!(1)));
        assert_eq!(object["resume"], "1.1.7");
    }

    #[test]
    fn what_nobody_refused_is_one_too() {
        let error = anyhow::anyhow!("it does not answer").context("no server to ask");
        let object = object(&exit::coded(exit::UNREACHABLE)(error));
        let message = "no server to ask: it does not answer";
        assert_eq!(object, json!({ "code": "unreachable", "message": message, "exit": 69 }));
    }
}
