use super::*;

fn at(seconds: u64) -> BootTime {
    BootTime::from_millis(seconds * 1_000)
}

fn terms(check_gap: u64, heartbeat_gap: u64, lose_after: u64) -> Terms {
    Terms {
        heartbeat_gap: Span::from_secs(heartbeat_gap),
        check_gap: Span::from_secs(check_gap),
        lose_after: Some(Span::from_secs(lose_after)),
    }
}

/// Known, checked at 1, heard at 2, unhealthy since 0.
fn known(health: Health, has_been_healthy: bool) -> Vitals {
    let (heard, checked) = (Some(at(2)), Some(at(1)));
    Vitals { health, heard, checked, unhealthy_since: at(0), has_been_healthy, woke: None }
}

#[test]
fn scenario_01_the_table_of_health() {
    use Health::{Healthy, MustDie, New, Unhealthy};
    use Permit::{Given, Withheld};
    // (was, has been healthy), now, (check gap, heartbeat gap, lose after), permit => health, blocked
    let table = [
        ((Unhealthy, false), 3, (5, 5, 3), Withheld, Unhealthy, true),
        ((Unhealthy, false), 5, (5, 5, 1), Withheld, Unhealthy, true),
        ((Unhealthy, false), 5, (5, 2, 1), Given, MustDie, false),
        ((Unhealthy, false), 3, (5, 5, 1), Given, Healthy, false),
        ((Unhealthy, true), 3, (5, 5, 1), Withheld, Healthy, false),
        ((Healthy, true), 5, (5, 2, 1), Withheld, Unhealthy, false),
        ((Unhealthy, true), 5, (5, 2, 10), Withheld, Unhealthy, false),
        ((Unhealthy, true), 5, (5, 2, 1), Withheld, MustDie, false),
        ((MustDie, true), 3, (5, 5, 9), Given, MustDie, false),
        ((New, false), 3, (5, 5, 9), Given, New, false),
        ((New, false), 3, (5, 5, 1), Given, MustDie, false),
    ];
    for (row, ((was, has_been), now, (check, heartbeat, lose), permit, health, is_blocked)) in
        table.into_iter().enumerate()
    {
        let terms = terms(check, heartbeat, lose);
        let judged = known(was, has_been).judged(at(now), &terms, permit);
        assert_eq!(judged, Judgement { health, is_blocked }, "row {row}");
    }
}

#[test]
fn gaps_are_exceeded_only_when_more_than_they_has_passed() {
    let terms = terms(100, 5, 100);
    let mut vitals = known(Health::Healthy, true);
    assert_eq!(vitals.judge(at(7), &terms, Permit::Given), None);
    let later = BootTime::from_millis(7_001);
    assert_eq!(vitals.judge(later, &terms, Permit::Given), Some(Health::Healthy));
    assert_eq!(vitals.health(), Health::Unhealthy);
}

#[test]
fn loss_takes_two_judgements_in_a_row() {
    let terms = terms(100, 5, 10);
    let mut vitals = known(Health::Healthy, true);
    // Judged for the first time long after it fell silent: sick since this judgement.
    vitals.judge(at(60), &terms, Permit::Given);
    assert_eq!(vitals.health(), Health::Unhealthy);
    vitals.judge(at(70), &terms, Permit::Given);
    assert_eq!(vitals.health(), Health::Unhealthy);
    vitals.judge(at(71), &terms, Permit::Given);
    assert_eq!(vitals.health(), Health::MustDie);
}

#[test]
fn scenario_04_lack_of_consensus_alone_never_loses_a_worker() {
    let terms = terms(5, 5, 10);
    let mut vitals = known(Health::Unhealthy, false);
    for second in 1..100 {
        vitals.hear(at(second));
        vitals.check(at(second));
        vitals.judge(at(second), &terms, Permit::Withheld);
        assert_eq!(vitals.health(), Health::Unhealthy, "at {second}");
    }
    // With any other fault it is lost at once, since it has been unhealthy all along.
    vitals.judge(at(106), &terms, Permit::Withheld);
    assert_eq!(vitals.health(), Health::MustDie);
}

#[test]
fn a_leader_that_slept_excuses_everybody() {
    let terms = terms(100, 5, 10);
    let mut vitals = known(Health::Healthy, true);
    vitals.excuse(Span::from_secs(500));
    vitals.judge(at(506), &terms, Permit::Given);
    assert_eq!(vitals.health(), Health::Healthy);
}

#[test]
fn what_is_given_up_stays_so() {
    let terms = terms(100, 100, 100);
    let mut vitals = known(Health::Healthy, true);
    vitals.give_up();
    vitals.hear(at(3));
    vitals.settle();
    assert_eq!(vitals.judge(at(3), &terms, Permit::Given), None);
    assert_eq!(vitals.health(), Health::MustDie);
}
