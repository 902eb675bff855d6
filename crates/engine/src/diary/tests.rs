use std::sync::Arc;

use sterna_model::record::TaskOutcome;

use super::*;
use crate::{
    auction::Reason,
    control::{Crashed, KnownEnd, Unplaced},
};

/// The diary, and what holds of each key by now.
struct Book {
    diary: Diary,
    now: BootTime,
    rules: BTreeMap<WorkKey, Rule>,
    lines: Vec<(u64, String, usize)>,
    looks: usize,
}

fn key(index: u32) -> WorkKey {
    let namespace = sterna_model::Namespace::default();
    let web = sterna_model::ServiceKey { namespace, name: Name::new("web").unwrap() };
    web.instance(index).into()
}

fn crashed() -> Rule {
    Rule::Crashed(Crashed { count: 1, end: None })
}

fn given_up() -> Rule {
    Rule::GivenUp(Crashed { count: 3, end: None })
}

fn starting() -> Rule {
    Rule::Starting { worker: None, is_monitored: false, before: None, is_awaited: false }
}

fn silent() -> Rule {
    let contract = Contract::Keep;
    Rule::OutOfReach { worker: None, contract, is_task: false }
}

impl Book {
    fn new() -> Self {
        let now = BootTime::from_millis(0);
        let diary = Diary::new(now, BTreeSet::new());
        let mut book = Self { diary, now, rules: BTreeMap::new(), lines: Vec::new(), looks: 0 };
        // After what a new leader looks at first.
        book.until(10);
        book
    }

    fn set(&mut self, index: u32, rule: Option<Rule>) {
        match rule {
            Some(rule) => drop(self.rules.insert(key(index), rule)),
            None => drop(self.rules.remove(&key(index))),
        }
        self.diary.note(self.now, BTreeSet::from([key(index)]));
    }

    /// Time passes, to this second: at each deadline, and a little later, something is looked at.
    fn until(&mut self, second: u64) {
        let end = BootTime::from_millis(second * 1_000);
        while let Some(at) = self.diary.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let due = self.diary.due(self.now);
            self.looks += due.len();
            for key in due {
                let rule = self.rules.get(&key);
                self.diary.found(self.now, key, rule);
            }
            let second = self.now.as_millis() / 1_000;
            for (key, others) in self.diary.lines(self.now) {
                let rule = self.rules[&key].name();
                self.lines.push((second, format!("{key} {rule}"), others));
            }
        }
        self.now = end;
    }

    /// When something was told, what of which, and of how many others.
    fn told(&self) -> Vec<(u64, &str, usize)> {
        self.lines.iter().map(|(at, line, others)| (*at, line.as_str(), *others)).collect()
    }
}

#[test]
fn what_is_kept_is_told_once_and_not_while_nothing_changes() {
    let mut book = Book::new();
    book.set(3, Some(crashed()));
    book.until(11);
    assert_eq!(book.told(), [(11, "default/service/web/3 crashed", 0)]);
    for second in 12..600 {
        book.set(3, Some(crashed()));
        book.until(second);
    }
    assert_eq!(book.lines.len(), 1);
}

#[test]
fn another_rule_is_told() {
    let mut book = Book::new();
    book.set(3, Some(crashed()));
    book.until(20);
    book.set(3, Some(given_up()));
    book.until(30);
    let expected =
        [(11, "default/service/web/3 crashed", 0), (21, "default/service/web/3 given-up", 0)];
    assert_eq!(book.told(), expected);
}

fn unplaced(reason: Reason) -> Rule {
    let (withheld, apart) = (None, Vec::new());
    let unplaced = Unplaced { reason: Arc::new(reason), withheld, apart, copy: None, pinned: None };
    Rule::Unplaced(Box::new(unplaced))
}

fn no_stack(stack: &str) -> Rule {
    unplaced(Reason::NoStack { stack: Name::new(stack).unwrap(), known: BTreeSet::new() })
}

#[test]
fn each_reason_is_told_and_those_of_the_same_reason_are_counted() {
    let mut book = Book::new();
    book.set(1, Some(unplaced(Reason::NoWorker)));
    book.set(2, Some(unplaced(Reason::NoWorker)));
    book.set(3, Some(no_stack("arm")));
    book.set(4, Some(no_stack("gpu")));
    book.until(60);
    let mut told = book.told();
    told.sort_unstable();
    let expected = [
        (11, "default/service/web/1 unplaced", 1),
        (11, "default/service/web/3 unplaced", 0),
        (11, "default/service/web/4 unplaced", 0),
    ];
    assert_eq!(told, expected);
}

#[test]
fn many_reasons_of_one_rule_are_told_a_few_at_a_time() {
    let mut book = Book::new();
    (0..20).for_each(|index| book.set(index, Some(no_stack(&format!("s{index}")))));
    book.until(11);
    assert_eq!(book.lines.len(), 8);
    book.until(60);
    assert_eq!(book.lines.len(), 20, "and none is left out");
}

#[test]
fn what_is_well_or_over_is_not_told() {
    let mut book = Book::new();
    book.set(1, None);
    let end = KnownEnd { outcome: TaskOutcome::Failed, text: "exited".to_owned() };
    book.set(2, Some(Rule::Over { end: end.clone() }));
    book.set(3, Some(Rule::Untold { end }));
    book.until(600);
    assert!(book.lines.is_empty() && book.diary.pages.is_empty(), "{:?}", book.lines);
}

#[test]
fn a_thousand_at_once_are_one_line_with_a_count() {
    let mut book = Book::new();
    (0..5_000).for_each(|index| book.set(index, Some(crashed())));
    (5_000..5_010).for_each(|index| book.set(index, Some(given_up())));
    book.until(60);
    let expected = [
        (11, "default/service/web/0 crashed", 4_999),
        (11, "default/service/web/5000 given-up", 9),
    ];
    assert_eq!(book.told(), expected);
}

#[test]
fn a_leader_that_was_just_elected_tells_everything_together() {
    let now = BootTime::from_millis(0);
    let diary = Diary::new(now, (0..3).map(key).collect());
    let mut book = Book { diary, ..Book::new() };
    book.now = now;
    (0..3).for_each(|index| book.set(index, Some(crashed())));
    book.until(60);
    assert_eq!(book.told(), [(5, "default/service/web/0 crashed", 2)]);
}

#[test]
fn what_mostly_passes_by_itself_is_told_when_it_has_held_for_a_while() {
    let mut book = Book::new();
    book.set(0, Some(starting()));
    book.set(1, Some(starting()));
    book.set(2, Some(silent()));
    book.set(3, Some(silent()));
    book.until(14);
    assert!(book.lines.is_empty());
    book.set(0, None);
    book.set(2, None);
    book.until(200);
    let expected =
        [(17, "default/service/web/3 out-of-reach", 0), (72, "default/service/web/1 starting", 0)];
    assert_eq!(book.told(), expected);
}

#[test]
fn lines_of_one_rule_are_apart_and_lose_nobody() {
    let mut book = Book::new();
    for index in 0..60 {
        book.set(index, Some(crashed()));
        book.until(11 + u64::from(index));
    }
    book.until(200);
    let times: Vec<_> = book.lines.iter().map(|(at, ..)| *at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{times:?}");
    let keys: usize = book.lines.iter().map(|(.., others)| others + 1).sum();
    assert_eq!(keys, 60);
}

#[test]
fn a_key_that_comes_and_goes_does_not_fill_the_log() {
    let mut book = Book::new();
    for second in 0..3_600_u64 {
        let rule = match second % 4 {
            0 => Some(crashed()),
            2 => Some(given_up()),
            _ => None,
        };
        book.set(7, rule);
        book.until(11 + second);
    }
    // An hour and a minute.
    let most = 3 * 61;
    assert!((2..=most).contains(&book.lines.len()), "{} lines", book.lines.len());
    assert!(book.diary.later.len() <= 1 && book.diary.pages.len() <= 1);
}

#[test]
fn what_comes_back_after_a_while_is_told_again() {
    let mut book = Book::new();
    book.set(0, Some(crashed()));
    book.until(20);
    book.set(0, None);
    book.until(200);
    assert!(book.diary.pages.is_empty(), "nothing is kept of what is well");
    book.set(0, Some(crashed()));
    book.until(300);
    assert_eq!(book.lines.len(), 2);
}

/// However much happens meanwhile, a round comes to its end.
#[test]
fn a_busy_cluster_does_not_keep_anything_from_being_told() {
    let mut book = Book::new();
    (0..3_000).for_each(|index| book.set(index, Some(crashed())));
    for moment in 0..200_u32 {
        book.set(10_000 + moment, None);
        book.now = book.now.plus(Span::from_millis(10));
        let due = book.diary.due(book.now);
        for key in due {
            let rule = book.rules.get(&key);
            book.diary.found(book.now, key, rule);
        }
        let lines = book.diary.lines(book.now);
        if !lines.is_empty() {
            assert_eq!(lines, [(key(0), 2_999)]);
            return;
        }
    }
    panic!("nothing was told");
}
