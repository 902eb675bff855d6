//! What was found once, by itself.

use sterna_protocol::{message::Kill, scheduler::Input};

use super::World;

/// A kill that is asked for while the leader is mute is said when it may speak again.
#[test]
fn a_kill_that_was_asked_of_a_mute_leader_is_said_later() {
    let mut world = World::new(7, false);
    world.be_calm();
    let is_running = |world: &World| world.table.alive().next().map(|container| container.run);
    let run = loop {
        world.pass_moment().unwrap();
        if let Some(run) = is_running(&world) {
            break run;
        }
    };
    let is_mute = |world: &World| {
        let leader = &world.leaders[0];
        leader.fleet.is_mute(leader.clock.at(world.now))
    };
    // It is kept from the store for just so long that it is mute, and nobody else leads yet.
    world.leaders[0].alone_until = u64::MAX;
    while !is_mute(&world) {
        world.pass_moment().unwrap();
    }
    world.step_leader(0, Input::Kill(run, Kill::Now));
    world.leaders[0].alone_until = 0;
    let until = world.now + 5_000;
    while world.now < until {
        world.pass_moment().unwrap();
    }
    assert_eq!(world.leaders.len(), 1, "another was elected");
    assert!(world.table.alive().all(|container| container.run != run), "it lives");
}
