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

/// A worker that was declared dead is given nothing before the roster says that it is back: else
/// the next leader takes it for gone while it runs something.
#[test]
fn who_was_declared_dead_runs_nothing_before_the_roster_knows() {
    let mut world = World::of_two();
    let lock = world.machines[0].lock;
    let runs_there = |world: &World| world.table.alive().any(|container| container.machine == 0);
    world.machines[1].up_at = u64::MAX;
    while !runs_there(&world) {
        world.pass_moment().unwrap();
    }
    world.reboot(0, world.now + 1_000);
    world.declare_dead(0);
    // From when its next life stands in the roster, still as one declared dead, no commit applies.
    let before = world.store.roster[&lock].incarnation;
    while world.store.roster[&lock].incarnation == before {
        world.pass_moment().unwrap();
    }
    assert!(world.store.roster[&lock].is_declared_dead);
    world.leaders[0].alone_until = u64::MAX;
    world.store.lease_until = u64::MAX;
    let until = world.now + 6_000;
    while world.now < until {
        let lease = world.leaders[0].clock.at(world.now + 1_000);
        world.step_leader(0, Input::Lease(lease));
        world.pass_moment().unwrap();
    }
    // That leader is gone, its worker is cut off, and another worker comes.
    world.leaders[0].is_alive = false;
    world.store.lease_until = world.now;
    world.machines[0].cut_until = u64::MAX;
    world.net.cut(world.now, &mut super::rng::Rng::new(1), |stream| stream.machine == 0);
    world.machines[1].up_at = world.now;
    let until = world.now + 15_000;
    while world.now < until {
        world.pass_moment().unwrap();
    }
    assert!(world.store.term > 1, "nobody else was elected");
}
