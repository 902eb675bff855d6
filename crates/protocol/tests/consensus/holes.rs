//! What the consensus alone concludes wrongly, word for word.
//!
//! The holes are closed by the roster (safety rules 19 and 20): a leader's initial wait ends only
//! when everybody on it is back or certainly gone, and in each story a worker on it is missing.

use sterna_protocol::consensus::{Agreement, Consensus, Held, Seat};

use super::{leader, worker};

/// A worker joins alone, learns the set with itself, and echoes it.
fn alone(leader: &mut Consensus, number: u64, held: &mut Held) -> Seat {
    let seat = leader.join(&worker(number), held.echo());
    for _ in 0..2 {
        leader.hear(seat, held.echo().as_ref());
        held.take(leader.answer(seat).unwrap());
    }
    leader.judge();
    seat
}

/// The worker was given up, but never heard of it, and its set names nobody else.
#[test]
fn hole_must_die_worker_agrees_with_itself_and_w2_is_not_waited_for() {
    let (mut w1, mut w2) = (Held::default(), Held::default());
    let mut first = leader(1);
    let seat = alone(&mut first, 1, &mut w1);
    // It falls silent and is given up; the word to die is lost.
    first.leave(seat);
    let seat = alone(&mut first, 2, &mut w2);
    assert!(first.permits_becoming_healthy(seat).is_granted(), "w2 works from here on");

    let mut second = leader(2);
    second.join(&worker(1), w1.echo());
    second.judge();
    // Wrong: w2 works and is missing.
    assert_eq!(second.agreement(), Agreement::Reached);
}

/// The worker was cut off through the whole reign of a leader that never heard of it.
#[test]
fn hole_unknown_worker_agrees_with_itself_and_w2_is_not_waited_for() {
    let (mut w1, mut w2) = (Held::default(), Held::default());
    let mut first = leader(1);
    alone(&mut first, 1, &mut w1);

    // The first leader falls at once. The second one waits in vain, and begins when it may.
    let mut second = leader(2);
    let seat = alone(&mut second, 2, &mut w2);
    assert!(second.permits_becoming_healthy(seat).is_granted(), "w2 works from here on");

    let mut third = leader(3);
    third.join(&worker(1), w1.echo());
    third.judge();
    // Wrong: w2 works and is missing.
    assert_eq!(third.agreement(), Agreement::Reached);
}

/// The worker was given up while it worked, and has time left before it must have stopped.
#[test]
fn hole_worker_given_up_at_work_is_left_out_by_the_others() {
    let (mut w1, mut w2) = (Held::default(), Held::default());
    let mut first = leader(1);
    let other = alone(&mut first, 1, &mut w1);
    let seat = first.join(&worker(2), None);
    for _ in 0..2 {
        for (seat, held) in [(other, &mut w1), (seat, &mut w2)] {
            first.hear(seat, held.echo().as_ref());
            held.take(first.answer(seat).unwrap());
        }
    }
    first.judge();
    assert!(first.permits_becoming_healthy(seat).is_granted(), "w2 works from here on");
    // MUST_DIE frees no key (safety rule 9), but it does change the set.
    first.leave(seat);
    w1.take(first.answer(other).unwrap());

    let mut second = leader(2);
    second.join(&worker(1), w1.echo());
    second.judge();
    // Wrong: w2 may still be at work, and is missing.
    assert_eq!(second.agreement(), Agreement::Reached);
}
