//! What is refused, as an answer.

use axum::{
    Json,
    extract::rejection::{JsonRejection, PathRejection, QueryRejection},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use sterna_api::{
    rest::{Code, Done, Refused, SpecProblem},
    spec::Problems,
};
use sterna_engine::control::Answer;
use sterna_model::record::Illegal;

/// A refusal, as it is answered.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) Refused);

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        Self(refused)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self.0)).into_response();
        if self.0.code == Code::TooMuch || self.0.code == Code::NotReady {
            response.headers_mut().insert(http::header::RETRY_AFTER, 1.into());
        }
        response
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        let code = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
            _ => Code::BadRequest,
        };
        let refused = Refused::new(code, rejection.body_text());
        let remedy = match rejection {
            JsonRejection::MissingJsonContentType(_) => {
                "send JSON, and say so: -H 'content-type: application/json'"
            }
            JsonRejection::JsonSyntaxError(_) => {
                "send whole JSON: the message says where it breaks off or goes wrong"
            }
            JsonRejection::JsonDataError(_) => {
                "the message names the field; /openapi.json describes every body"
            }
            JsonRejection::BytesRejection(_) | _ => return Self(refused),
        };
        Self(Refused { remedy: remedy.into(), ..refused })
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self(Refused::new(Code::BadRequest, rejection.body_text()))
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self(Refused::new(Code::BadRequest, rejection.body_text()))
    }
}

impl From<&Problems> for Refusal {
    fn from(problems: &Problems) -> Self {
        let all: Vec<SpecProblem> = problems.iter().map(SpecProblem::from).collect();
        let message = match &all[..] {
            [one] => format!("{}: {}", one.place, one.reason),
            _ => format!("the spec has {} problems", problems.count()),
        };
        Self(Refused { problems: all, ..Refused::new(Code::BadSpec, message) })
    }
}

/// What was done, or why nothing was.
pub(super) fn done(answer: Answer, what: &str) -> Result<Json<Done>, Refusal> {
    let begins_again = answer == Answer::BeginsAgain;
    Ok(Json(Done { changed: changed(answer, what)?, begins_again }))
}

/// Whether a change was made, or why not.
pub(super) fn changed(answer: Answer, what: &str) -> Result<bool, Refusal> {
    let refused = |code, message: String| Err(Refusal(Refused::new(code, message)));
    match answer {
        Answer::Done | Answer::BeginsAgain => Ok(true),
        Answer::Already => Ok(false),
        Answer::NotFound => refused(Code::NotFound, format!("there is no {what}")),
        Answer::Taken(by) => {
            refused(Code::NameTaken, format!("the name of {what} belongs to another one, {by}"))
        }
        Answer::Conflict(Illegal { event, phase }) => {
            refused(Code::WrongPhase, format!("{what} is {phase}: {event} is not for that"))
        }
        Answer::BadLimits(why) => refused(Code::BadRequest, why),
        Answer::BadSpec(why) => refused(Code::BadSpec, why),
    }
}
