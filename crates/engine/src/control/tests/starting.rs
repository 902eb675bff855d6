//! How many may start at a time, and what counts as starting.

use std::sync::Arc;

use sterna_model::{Constraints, Wants, spec::ServiceSpec};
use sterna_protocol::scheduler::{GoneBy, Settlement};

use super::play::{Mood, Play, incarnation, name, service_spec, task, task_spec, wants, web};
use crate::control::{Call, ServiceKey};

fn create(play: &mut Play, number: u8) {
    let (key, spec) = (task(&format!("t{number}")), Arc::new(task_spec()));
    play.ask(Call::CreateTask(key, incarnation(number), spec));
}

/// All that ran counted as starting under the next leader, until it ended.
#[test]
fn what_runs_does_not_count_as_starting_under_the_next_leader() {
    let mut play = Play::starting_at_most(2, 1);
    play.ask(Call::PutService(web(), service_spec(2)));
    create(&mut play, 1);
    let mut play = play.change_leader();
    play.gather();
    assert_eq!(play.control.registry.starting(), 0);
    create(&mut play, 2);
    assert_eq!(play.starts.last(), Some(&task("t2").into()));
}

#[test]
fn what_was_starting_counts_as_that_under_the_next_leader() {
    let mut play = Play::starting_at_most(2, 1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(Call::PutService(web(), service_spec(2)));
    let play = play.change_leader();
    assert_eq!(play.control.registry.starting(), 2);
}

/// It was woken when something had started, and by nothing else.
#[test]
fn what_waits_for_others_to_start_starts_when_they_are_gone() {
    let mut play = Play::starting_at_most(1, 2);
    play.moods.extend([(1, Mood::Dawdles), (2, Mood::Dawdles)]);
    play.ask(Call::PutService(web(), service_spec(1)));
    create(&mut play, 1);
    assert_eq!(play.starts.len(), 1);
    let spec = ServiceSpec { instances: 0, ..service_spec(1) };
    let run = play.run_of(0);
    play.call(Call::PutService(web(), spec));
    play.settle(run, Settlement::Gone(GoneBy::Deadline));
    assert_eq!(play.starts.last(), Some(&task("t1").into()));
}

fn apart(from: &[&str]) -> ServiceSpec {
    let apart_from = from.iter().map(|other| name(other)).collect();
    let constraints = Constraints { apart_from, ..Constraints::default() };
    let wants = Wants { constraints, ..wants(10).as_ref().clone() };
    ServiceSpec { wants: Arc::new(wants), ..service_spec(1) }
}

/// A plan that was only asked about kept others away, or let them come.
#[test]
fn to_ask_what_would_have_room_changes_nothing_for_others() {
    let other = ServiceKey { name: name("other"), ..web() };
    for (stands, asked, starts) in [(&["other"][..], &[][..], 1), (&[], &["other"], 2)] {
        let mut play = Play::with(1);
        play.ask(Call::PutService(web(), apart(stands)));
        let asked = apart(asked).wants;
        let now = play.now;
        assert_eq!(play.control.in_vain(now, &web().instance(0).to_work(), &asked), None);
        play.ask(Call::PutService(other.clone(), service_spec(1)));
        assert_eq!(play.starts.len(), starts, "{stands:?}");
    }
}
