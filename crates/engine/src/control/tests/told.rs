//! What is said of work meanwhile: by `why`, and by the log, which looks at many at a time.

use std::sync::Arc;

use sterna_model::{Span, WorkKey, spec::TaskSpec};
use sterna_protocol::scheduler::Reach;

use super::play::{Play, incarnation, lock, task, task_spec, wants};
use crate::{
    auction::Reason,
    control::{Call, Next, Rule},
};

fn create(play: &mut Play, number: u8, memory: u64) -> WorkKey {
    let key = task(&format!("t{number}"));
    let spec = TaskSpec { wants: wants(memory), ..task_spec() };
    play.ask(Call::CreateTask(key.clone(), incarnation(number), Arc::new(spec)));
    key.to_work()
}

/// It was said to run until it ends.
#[test]
fn a_task_on_a_drained_worker_says_when_it_is_asked_to_end() {
    let mut play = Play::with(1);
    let key = create(&mut play, 1, 10);
    assert_eq!(play.why(&key), None);
    let deadline = play.now.wall.plus(Span::from_secs(600));
    play.ask(Call::Drain(lock(1), deadline));
    let why = play.why(&key).expect("it will not stay");
    let asked = deadline.minus(Span::from_secs(10));
    assert_eq!((why.rule.name(), why.next), ("draining", Next::AskedAt(asked)));
    play.ask(Call::Undrain(lock(1)));
    assert_eq!(play.why(&key), None);
}

/// What was found before any worker was there was told of all in one line.
#[test]
fn the_log_tells_why_work_waits_now_and_not_when_it_was_tried() {
    let mut play = Play::empty();
    let large = create(&mut play, 1, 1_000);
    let next = create(&mut play, 2, 60);
    let last = create(&mut play, 3, 60);
    play.join(1);
    let keys = [large, next, last];
    play.control.look_again_at(&keys);
    let reason = |key: &WorkKey| {
        let rule = play.control.rule(play.now, key, |_| Reach::Near)?;
        let Rule::Unplaced(unplaced) = rule else { panic!("{rule:?}") };
        let is_too_large = matches!(*unplaced.reason, Reason::TooLarge { .. });
        assert!(is_too_large || matches!(*unplaced.reason, Reason::Short { .. }), "{unplaced:?}");
        Some(if is_too_large { "too large" } else { "short" })
    };
    assert_eq!(keys.each_ref().map(reason), [Some("too large"), None, Some("short")]);
}
