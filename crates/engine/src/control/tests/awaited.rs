//! What is said of an update that waits is what it goes by, also where some find no room.

use sterna_model::{
    Span,
    spec::{ServiceSpec, UpdatePolicy},
};

use super::play::{Play, other_work, service_spec, wants, web};
use crate::control::{Awaited, Call, Next, Rule, Then};

/// As a spec that says nothing of updates, of such a size.
fn sized(instances: u32, memory: u64) -> ServiceSpec {
    let update = UpdatePolicy::default();
    ServiceSpec { update, wants: wants(memory), ..service_spec(instances) }
}

fn put(play: &mut Play, spec: ServiceSpec) {
    play.ask(Call::PutService(web(), spec));
}

fn why(play: &mut Play, index: u32) -> (Rule, Next) {
    let why = play.why(web().instance(index)).expect("it is kept");
    (why.rule, why.next)
}

/// The indices of those that run of this version.
fn of_version(play: &Play, version: u64) -> Vec<u32> {
    let is_it = |index: &u32| play.instance(*index).copy().is_some_and(|it| it.version == version);
    let count = u32::try_from(play.phases().len()).unwrap();
    (0..count).filter(is_it).collect()
}

/// It counted the one without room as missing, and named no moment.
#[test]
fn an_update_that_makes_room_waits_for_what_has_begun_and_names_the_moment() {
    let mut play = Play::with(2);
    put(&mut play, sized(5, 50));
    put(&mut play, other_work(&sized(5, 50), "v2"));
    let at = play.now.wall.plus(Span::from_secs(10));
    let begun = of_version(&play, 1);
    let [index] = begun[..] else { panic!("{begun:?}") };
    for old in of_version(&play, 0) {
        let (Rule::Outdated { awaits, .. }, next) = why(&mut play, old) else { panic!() };
        assert_eq!(next, Next::At(at));
        assert!(matches!(awaits, Some(Awaited::Settling { index: it, .. }) if it == index));
    }
    let (Rule::Settling(settling), _) = why(&mut play, index) else { panic!() };
    assert_eq!(settling.then, Then::Replaces { outdated: 3 });
    play.pass(9);
    assert_eq!(of_version(&play, 0).len(), 3, "not before");
    play.pass(1);
    assert_eq!(of_version(&play, 0).len(), 2);
}

#[test]
fn an_update_that_makes_no_room_says_so_and_not_that_it_waits_for_others() {
    let mut play = Play::with(2);
    put(&mut play, sized(3, 30));
    put(&mut play, ServiceSpec { wants: wants(500), ..sized(3, 30) });
    let old = of_version(&play, 0);
    assert_eq!(old.len(), 2);
    let (rule, next) = why(&mut play, old[0]);
    assert_eq!(next, Next::WhenThereIsRoom);
    let says = "it runs another version, like 1 other instance; 1 finds no room, at most 1 may be unavailable, and ending another one makes no room for it";
    assert_eq!(rule.to_string(), says);
    play.pass(3_600);
    assert_eq!(of_version(&play, 0), old, "and it does not go on");
}
