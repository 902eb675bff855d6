//! Health, played: `checked` and `heard` at that second, `known` and `given-up`, `judge` and, without
//! remembering it, `would` be judged, both by `CHECK GAP,HEARTBEAT GAP,LOSS` and the word `permitted`.

use sterna_model::Span;
use sterna_protocol::{
    health::{Permit, Vitals},
    limits::Terms,
};

use crate::{Player, words::*};

pub(crate) struct Played(Vitals);

impl Played {
    pub(crate) const fn new() -> Self {
        Self(Vitals::new(sterna_model::BootTime::from_millis(0)))
    }
}

fn terms(word: &str) -> Terms {
    let spans: Vec<Span> = word.split(',').map(seconds).collect();
    Terms { check_gap: spans[0], heartbeat_gap: spans[1], lose_after: Some(spans[2]) }
}

impl Player for Played {
    fn play(&mut self, at_ms: u64, words: &[&str]) -> Vec<String> {
        let now = at(at_ms);
        match words[0] {
            "checked" => self.0.check(now),
            "heard" => self.0.hear(now),
            "known" => self.0.settle(),
            "given-up" => self.0.give_up(),
            "judge" | "would" => {
                let is_permitted = words.contains(&"permitted");
                let permit = if is_permitted { Permit::Given } else { Permit::Withheld };
                let judged = self.0.judged(now, &terms(words[1]), permit);
                if words[0] == "judge" {
                    self.0.judge(now, &terms(words[1]), permit);
                }
                let blocked = judged.is_blocked.then(|| "blocked".to_owned());
                return [format!("{:?}", judged.health)].into_iter().chain(blocked).collect();
            }
            other => panic!("no input is called {other}"),
        }
        vec![format!("{:?}", self.0.health())]
    }
}
