//! Words that other programs have for what Sterna does, each with one answer.

use clap::{
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// What is typed here for what is called so elsewhere.
fn ours(word: &str) -> Option<&'static str> {
    Some(match word {
        "get" | "list" | "ps" => "Sterna calls that `sterna ls`",
        "alloc" | "allocs" | "pod" | "pods" => "Sterna calls that `sterna ls instances`",
        "node" | "nodes" => "Sterna calls that `sterna ls workers`",
        "top" | "stats" => {
            "`sterna status` counts what runs, `sterna ls workers` says where there is room"
        }
        "describe" | "inspect" | "eval" | "explain" => "Sterna calls that `sterna why NAME`",
        "rm" | "remove" | "destroy" => "Sterna calls that `sterna delete NAME`",
        "exec" | "start" | "submit" | "dispatch" => {
            "`sterna run -- COMMAND` runs a command once; a service starts by `sterna apply SPEC`"
        }
        "create" | "job" | "deploy" | "rollout" | "replace" | "edit" => {
            "Sterna calls that `sterna apply SPEC`"
        }
        "scale" => "set `instances` in the spec, and `sterna apply SPEC`",
        "rollback" | "revert" => "`sterna apply SPEC` with the spec as it was before",
        "restart" => "`sterna stop NAME/INDEX` restarts one instance gracefully",
        "diff" => "Sterna calls that `sterna plan SPEC`",
        "cordon" => "Sterna calls that `sterna drain WORKER`",
        "uncordon" => "Sterna calls that `sterna undrain WORKER`",
        "up" | "agent" | "init" => "Sterna calls that `sterna dev`",
        "down" => "Ctrl-C ends `sterna dev`, and everything that it has started",
        "attach" | "tail" => "Sterna calls that `sterna logs --follow NAME`",
        "wait" => {
            "`sterna run -- COMMAND` waits for its end, `sterna events --follow` for anything"
        }
        "history" | "watch" => "Sterna calls that `sterna events`",
        "info" | "health" => "Sterna calls that `sterna status`",
        "join" => "Sterna calls that `sterna worker --join HOST:PORT`",
        "version" => "Sterna calls that `sterna --version`",
        _ => return None,
    })
}

/// Puts our word for a command in the place of one that only looks like it.
pub(crate) fn answer(error: &mut clap::Error) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let Some(tip) = ours(word) else { return };
    error.remove(ContextKind::SuggestedSubcommand);
    let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip.to_owned())]);
    error.insert(ContextKind::Suggested, tip);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Args;

    fn said(line: &[&str]) -> String {
        let mut error = Args::try_parse_from(line).unwrap_err();
        answer(&mut error);
        error.render().to_string()
    }

    #[test]
    fn a_word_of_other_programs_gets_one_answer() {
        let tips = |word: &str| {
            let said = said(&["sterna", word]);
            let tips = said.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
            tips.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(tips("cordon"), ["Sterna calls that `sterna drain WORKER`"]);
        assert_eq!(tips("scale"), ["set `instances` in the spec, and `sterna apply SPEC`"]);
        assert_eq!(tips("ps"), ["Sterna calls that `sterna ls`"]);
        for word in ["top", "exec", "start", "history", "deploy", "config-of-nothing"] {
            assert!(tips(word).len() <= 1, "{word}: {:?}", tips(word));
        }
        assert!(tips("top")[0].contains("sterna status"));
        // What is only misspelt is found all the same.
        assert_eq!(tips("logz"), ["a similar subcommand exists: 'logs'"]);
    }

    #[test]
    fn no_command_of_ours_is_said_to_be_of_others() {
        use clap::CommandFactory;
        for command in Args::command().get_subcommands() {
            assert_eq!(ours(command.get_name()), None, "{}", command.get_name());
        }
    }
}
