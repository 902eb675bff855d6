//! A line of the log about what is not where its spec wants it. Pure.

use sterna_api::rest::Explained;
use sterna_engine::Line;

use crate::views;

/// The words of `why`, as everybody gets them who asks.
pub(super) fn line(line: &Line) -> String {
    let Line { key, others, why } = line;
    let Explained { key, rule, text, next, at, .. } = views::explained(key, Some(why));
    let others = match others {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        _ => format!(" and {others} others"),
    };
    let at = at.map(|at| format!(" ({at})")).unwrap_or_default();
    format!("why {key}{others}: {rule}: {text}; next: {next}{at}")
}

#[cfg(test)]
mod tests {
    use sterna_engine::control::{Crashed, Next, Rule, Why};
    use sterna_model::WallTime;

    use super::*;

    #[test]
    fn a_line_has_the_rule_and_the_words_of_why_and_counts_the_others() {
        let end = Some(r#"{"cause":"exited","exit":{"code":3}}"#.to_owned());
        let rule = Rule::Crashed(Crashed { count: 2, end });
        let why = Why { rule, since: None, next: Next::At(WallTime::EPOCH) };
        let key = "default/service/web/3".parse().unwrap();
        let mut told = Line { key, others: 0, why };
        let words = "crashed: it crashed 2 times in a row, last: exited with 3; it waits before it restarts; \
                     next: the leader tries it at that time (1970-01-01T00:00:00.000Z)";
        assert_eq!(line(&told), format!("why default/service/web/3: {words}"));
        told.others = 1;
        assert_eq!(line(&told), format!("why default/service/web/3 and 1 other: {words}"));
        told.others = 999;
        assert_eq!(line(&told), format!("why default/service/web/3 and 999 others: {words}"));
    }
}
