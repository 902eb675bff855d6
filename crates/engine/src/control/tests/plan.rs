//! What another spec would change, and that it then does.

use sterna_model::{
    Contract,
    spec::{ServiceSpec, UpdatePolicy},
};

use super::play::{Play, other_work, service_spec, wants, web};
use crate::control::{Call, Change, Tense};

fn plan(play: &Play, next: Option<&ServiceSpec>) -> Vec<Change> {
    play.control.plan(&web(), next).changes
}

#[test]
fn a_new_service_is_made_and_an_old_one_goes() {
    let mut play = Play::with(2);
    assert_eq!(plan(&play, None), []);
    assert_eq!(plan(&play, Some(&service_spec(3))), [Change::Create { instances: 3 }]);
    play.ask(Call::PutService(web(), service_spec(3)));
    assert_eq!(plan(&play, Some(&service_spec(3))), []);
    assert_eq!(plan(&play, None), [Change::Delete { ends: vec![0, 1, 2] }]);
}

#[test]
fn changes_are_told_in_their_order_with_what_restarts() {
    let mut play = Play::with(2);
    play.ask(Call::PutService(web(), service_spec(3)));
    let update = UpdatePolicy { max_unavailable: 2, ..UpdatePolicy::default() };
    let next = ServiceSpec { instances: 5, update, ..other_work(&service_spec(3), "v2") };
    let told = plan(&play, Some(&next));
    let words: Vec<_> = told.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "would change in place: update",
            "would start 2 more instances, from index 3 on",
            "would restart 3 instances, 2 at a time, because of its command or its settings"
        ]
    );
    let fewer = ServiceSpec { contract: Contract::Keep, wants: wants(20), ..service_spec(1) };
    let told = plan(&play, Some(&fewer));
    let words: Vec<_> = told.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "would end 2 instances",
            "would restart 1 instance, 1 at a time, because of memory, on_silence"
        ]
    );
}

#[test]
fn what_changes_is_named_as_the_spec_names_it() {
    let mut play = Play::with(2);
    let work = r#"{"run":["a"],"env":{"A":"1"},"user":"x","limits":{"memory":1,"pids":3}}"#;
    let notes = r#"{"annotation":"x","routes":{"http":1}}"#.into();
    let old = ServiceSpec { notes, ..other_work(&service_spec(1), work) };
    play.ask(Call::PutService(web(), old.clone()));
    let work = r#"{"run":["b"],"env":{"A":"1"},"limits":{"memory":2,"pids":4},"rlimits":{}}"#;
    let notes = r#"{"metadata":{},"routes":{"http":1}}"#.into();
    let mut wants = (*wants(20)).clone();
    wants.constraints.tags.insert(super::play::name("ssd"));
    let next = ServiceSpec { notes, wants: wants.into(), ..other_work(&old, work) };
    let told = plan(&play, Some(&next));
    let words: Vec<_> = told.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "would change in place: annotation, metadata",
            "would restart 1 instance, 1 at a time, because of run, user, limits, memory, tags"
        ]
    );
}

#[test]
fn what_is_planned_to_restart_is_what_restarts() {
    let mut play = Play::with(2);
    play.ask(Call::PutService(web(), service_spec(3)));
    let before: Vec<_> = (0..3).map(|index| play.run_of(index)).collect();
    let next = other_work(&service_spec(3), "v2");
    let told = plan(&play, Some(&next));
    let [Change::Restart { indices, .. }] = &told[..] else { panic!("{told:?}") };
    play.ask(Call::PutService(web(), next));
    let restarted: Vec<_> = (0..3).filter(|index| !before.contains(&play.run_of(*index))).collect();
    assert_eq!(&restarted, indices);
}

#[test]
fn a_plan_changes_nothing() {
    let mut play = Play::with(2);
    play.ask(Call::PutService(web(), service_spec(3)));
    let store = play.store.clone();
    plan(&play, None);
    plan(&play, Some(&service_spec(9)));
    play.pass(1);
    assert_eq!(play.store, store);
}

#[test]
fn what_was_made_is_told_in_another_tense_than_what_is_planned() {
    let fields = || vec!["run"];
    let changes = [
        (Change::Create { instances: 1 }, "created, with 1 instance"),
        (Change::Delete { ends: Vec::new() }, "deleted; no instance is running"),
        (Change::Delete { ends: vec![0, 1] }, "deleted; ending 2 instances"),
        (Change::InPlace { fields: fields() }, "changed in place: run"),
        (Change::Start { from: 2, to: 3 }, "starting 1 more instance, from index 2 on"),
        (Change::Stop { ends: vec![4] }, "ending 1 instance"),
        (
            Change::Restart { fields: fields(), indices: vec![0, 1, 2], at_a_time: 1 },
            "restarting 3 instances, 1 at a time, because of run",
        ),
        (Change::BeginAgain { indices: vec![0] }, "restarting 1 crashed instance"),
    ];
    for (change, made) in changes {
        assert_eq!(change.text(Tense::Made), made);
        assert!(change.text(Tense::Planned).starts_with("would "), "{change}");
    }
}
