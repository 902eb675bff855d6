//! What is refused, as an answer.

use axum::{
    Json,
    extract::rejection::{JsonRejection, PathRejection, QueryRejection},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use sterna_api::{
    rest::{Code, Done, Refused, SpecProblem, phase_word},
    spec::Problems,
};
use sterna_engine::control::Answer;
use sterna_model::record::Illegal;

/// Where to see what a body is to be.
pub(super) const DESCRIBED: &str =
    "the message names the field; /openapi.json describes every body";

/// What the libraries say that read bodies, paths and queries, and the same in words of JSON: nobody who
/// sends a request knows our types.
const WORDS: [(&str, &str); 28] = [
    (
        "Expected request with `Content-Type: application/json`",
        "what was sent is not said to be JSON",
    ),
    ("Failed to deserialize the JSON body into the target type: ", ""),
    ("Failed to parse the request body as JSON: ", "the body is no JSON: "),
    ("Failed to deserialize query string: ", ""),
    ("Invalid URL: ", ""),
    ("invalid type: sequence", "it is an array"),
    ("invalid type: map", "it is an object"),
    ("invalid type: null", "it is null"),
    ("invalid type: integer", "it is the number"),
    ("invalid type: floating point", "it is the number"),
    ("invalid type: string", "it is the text"),
    ("invalid type: boolean", "it is"),
    ("invalid value: integer", "it is the number"),
    ("invalid length 0", "it is an empty array"),
    (", expected a sequence", ", and must be an array"),
    (", expected a map", ", and must be an object"),
    (", expected a string", ", and must be a text"),
    (", expected a boolean", ", and must be true or false"),
    (", expected u8", WHOLE),
    (", expected u16", WHOLE),
    (", expected u32", WHOLE),
    (", expected u64", WHOLE),
    (", expected i64", WHOLE),
    ("invalid digit found in string", "it is no whole number"),
    ("cannot parse integer from empty string", "it is empty, and must be a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("provided string was not `true` or `false`", "it is neither true nor false"),
    ("EOF while parsing", "it ends within"),
];
const WHOLE: &str = ", and must be a whole number from 0 on";

fn in_our_words(text: &str) -> String {
    let mut text =
        WORDS.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours));
    // Types of ours have names that nobody else knows.
    for theirs in [", expected struct ", ", expected internally tagged enum "] {
        while let Some(at) = text.find(theirs) {
            let name = text.get(at + theirs.len()..).unwrap_or_default();
            let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
            let long = name.find(|letter| !is_name(letter)).unwrap_or(name.len());
            text.replace_range(at..at + theirs.len() + long, ", and must be an object");
        }
    }
    text
}

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
        let refused = Refused::new(code, in_our_words(&rejection.body_text()));
        let remedy = match rejection {
            JsonRejection::MissingJsonContentType(_) => {
                "send JSON with its content type: -H 'content-type: application/json'"
            }
            JsonRejection::JsonSyntaxError(_) => {
                "send complete JSON: the message says where it is wrong"
            }
            JsonRejection::JsonDataError(_) => DESCRIBED,
            JsonRejection::BytesRejection(_) | _ => return Self(refused),
        };
        Self(Refused { remedy: remedy.into(), ..refused })
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self(Refused::new(Code::BadRequest, in_our_words(&rejection.body_text())))
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self(Refused::new(Code::BadRequest, in_our_words(&rejection.body_text())))
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
            refused(Code::NameTaken, format!("the name of {what} is taken by another one, {by}"))
        }
        Answer::Conflict(Illegal { event, phase }) => refused(
            Code::WrongPhase,
            format!("{what} is {}: it does not allow {event}", phase_word(phase)),
        ),
        Answer::BadLimits(why) => refused(Code::BadRequest, why),
        Answer::BadSpec(why) => refused(Code::BadSpec, why),
    }
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use sterna_api::rest::{Apply, CreateTask, DrainAsk};

    use super::*;

    fn said<T: serde::de::DeserializeOwned + std::fmt::Debug>(body: &str) -> String {
        let rejection = Json::<T>::from_bytes(body.as_bytes()).unwrap_err();
        Refusal::from(rejection).0.message.into()
    }

    #[test]
    fn what_is_wrong_with_a_body_is_said_in_words_of_json() {
        let all = [
            said::<Apply>(r#"{"files": [7]}"#),
            said::<Apply>(r#"{"files": {}}"#),
            said::<Apply>(r#"{"files": [{"name": 5, "text": ""}]}"#),
            said::<CreateTask>(r#"{"name": null}"#),
            said::<CreateTask>(r#"{"nam": "a"}"#),
            said::<CreateTask>("{"),
            said::<DrainAsk>(r#"{"within_s": -1}"#),
            said::<DrainAsk>(r#"{"within_s": "5"}"#),
            said::<DrainAsk>(r#"{"within_s": 1.5}"#),
        ];
        let wanted = [
            "files[0]: it is the number `7`, and must be an object at line 1 column 12",
            "files: it is an object, and must be an array at line 1 column 10",
            "files[0].name: it is the number `5`, and must be a text at line 1 column 21",
            "name: it is null, and must be a text at line 1 column 13",
            "nam: unknown field `nam`, expected one of `name`, `spec`, `incarnation` at line 1 column 6",
            "the body is no JSON: it ends within an object at line 1 column 1",
            "within_s: it is the number `-1`, and must be a whole number from 0 on at line 1 column 15",
            "within_s: it is the text \"5\", and must be a whole number from 0 on at line 1 column 16",
            "within_s: it is the number `1.5`, and must be a whole number from 0 on at line 1 column 16",
        ];
        assert_eq!(all, wanted);
    }
}
