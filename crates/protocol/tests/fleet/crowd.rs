//! Workers that join, sicken and die for ever, and those that must work beside them.

use sterna_model::BootTime;
use sterna_protocol::roster::Origin;

use super::world::World;

const GOOD: u64 = 20;
const LOOPING: u64 = 50;

/// A looping worker.
struct Looping {
    number: u64,
    life: u64,
    born: u64,
}

impl Looping {
    fn beat(&mut self, world: &mut World, second: u64) {
        if second < self.born {
            return;
        }
        if world.refused.contains(&(self.number, self.life)) {
            self.life += 1;
            self.born = second + 1;
        } else if self.number.is_multiple_of(5) {
            // It is heard, and its checks fail: nobody is told that it is silent.
            world.beat_checked(self.number, self.life, None);
        } else if second <= self.born + (self.number + self.life) % 4 {
            // Heard for one to four seconds: who is heard once has not even echoed a set.
            world.beat(self.number, self.life);
        }
    }
}

/// Everybody's seconds from `first` to `last`; the good ones are there from `come` on, and take work from
/// `come` and a bound on.
fn live(world: &mut World, looping: &mut [Looping], (first, last): (u64, u64), come: u64) {
    // At worst they wait until those inside have agreed, and then until they are agreed upon with the
    // crowd that comes in with them; each takes as long as to lose a worker.
    let bound = 2 * world.fleet.limits().time_to_loss().as_millis() / 1_000;
    for second in first..last {
        world.pass_time(BootTime::from_millis(second * 1_000));
        for one in looping.iter_mut() {
            one.beat(world, second);
        }
        if second >= come {
            for number in 0..GOOD {
                world.beat(1_000 + number, 1);
            }
        }
        if second >= come + bound {
            for number in 0..GOOD {
                assert!(world.takes_work(1_000 + number, 1), "w{number} at {second}");
            }
        }
    }
}

#[test]
fn fifty_that_join_sicken_and_die_for_ever_do_not_keep_twenty_good_ones_from_working() {
    let mut world = World::begin(1, BootTime::from_millis(0), Origin::Virgin, Vec::new());
    // One after the other, over the time in which one is lost.
    let born = |number: u64| number * 4 / 3;
    let looping = (0..LOOPING).map(|number| Looping { number, life: 1, born: born(number) });
    let mut looping: Vec<_> = looping.collect();
    live(&mut world, &mut looping, (0, 900), 300);
    let lives: u64 = looping.iter().map(|one| one.life).sum();
    assert!(lives > 5 * LOOPING, "the crowd did not loop: {lives} lives");
    let failing = looping.iter().filter(|one| one.number.is_multiple_of(5));
    assert!(failing.clone().all(|one| one.life > 3), "whose checks fail is not given up");
    // The next leader meets all of them at once, and must let the good ones work all the same.
    let mut next = world.followed(BootTime::from_millis(900_000));
    live(&mut next, &mut looping, (900, 1_500), 900);
    let more = looping.iter().map(|one| one.life).sum::<u64>() - lives;
    assert!(more > 2 * LOOPING, "the crowd did not loop any more: {more} lives");
}
