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
        // Heard for one to four seconds: who is heard once has not even echoed a set.
        if second <= self.born + (self.number + self.life) % 4 {
            world.beat(self.number, self.life);
        } else if world.refused.contains(&(self.number, self.life)) {
            self.life += 1;
            self.born = second + 1;
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
    let good_come_at = 300;
    // At worst they wait until those inside have agreed, and then until they are agreed upon with the
    // crowd that comes in with them; each takes as long as to lose a worker.
    let bound = 2 * world.fleet.limits().time_to_loss().as_millis() / 1_000;
    for second in 0..900 {
        world.pass_time(BootTime::from_millis(second * 1_000));
        for one in &mut looping {
            one.beat(&mut world, second);
        }
        if second >= good_come_at {
            for number in 0..GOOD {
                world.beat(1_000 + number, 1);
            }
        }
        if second >= good_come_at + bound {
            for number in 0..GOOD {
                assert!(world.is_healthy(1_000 + number, 1), "w{number} at {second}");
            }
        }
    }
    let lives: u64 = looping.iter().map(|one| one.life).sum();
    assert!(lives > 5 * LOOPING, "the crowd did not loop: {lives} lives");
}
