//! The same world, asked for many things at once.

use std::sync::Arc;

use super::play::{Play, incarnation, service_spec, task, task_spec, web};
use crate::control::{Answer, Call};

#[test]
fn answers_come_in_the_order_of_the_calls() {
    let mut play = Play::with(1);
    play.is_storing = false;
    for number in 1..=20 {
        let key = task(&format!("t{number}"));
        play.call(Call::CreateTask(key, incarnation(number), Arc::new(task_spec())));
    }
    play.call(Call::CancelTask(task("nothing")));
    play.store_all();
    let ids: Vec<_> = play.answers.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (1..=21).collect::<Vec<_>>());
    assert_eq!(play.answers.last().unwrap().1, Answer::NotFound);
}

#[test]
fn no_worker_is_given_more_than_it_has() {
    let mut play = Play::with(3);
    play.ask(Call::PutService(web(), service_spec(50)));
    for worker in 1..=3 {
        assert_eq!(play.runs_on(worker).len(), 10, "100 bytes, 10 each");
    }
    play.join(4);
    assert_eq!(play.running.len(), 40);
}
