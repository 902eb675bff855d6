use super::*;
use proptest::array::uniform6;
use proptest::prelude::*;

/// `cpu memory disk containers gpu fpga`, in the smallest units.
fn amounts([cpu, memory, disk, containers, gpu, fpga]: [u64; 6]) -> Amounts {
    let named = [("gpu", gpu), ("fpga", fpga)];
    Amounts {
        cpu: Millicores::new(cpu),
        memory: Bytes::new(memory),
        disk: Bytes::new(disk),
        containers,
        countables: named.into_iter().map(|(n, count)| (Name::new(n).unwrap(), count)).collect(),
    }
}

#[test]
fn bytes_are_written_with_the_unit_that_leaves_the_smallest_number() {
    let cases = [
        ("0B", 0, "0B"),
        ("0GiB", 0, "0B"),
        ("1B", 1, "1B"),
        ("64MiB", 64 << 20, "64MiB"),
        ("1024MiB", 1 << 30, "1GiB"),
        ("1.5GiB", 3 << 29, "1536MiB"),
        ("500MB", 500_000_000, "500MB"),
        ("0.5kB", 500, "500B"),
        ("1KB", 1000, "1kB"),
        ("1024000B", 1_024_000, "1000KiB"),
        ("3PB", 3_000_000_000_000_000, "3PB"),
        ("2PiB", 2 << 50, "2PiB"),
        ("18446744073709551615B", u64::MAX, "18446744073709551615B"),
    ];
    for (text, bytes, canonical) in cases {
        let amount: Bytes = text.parse().unwrap();
        assert_eq!(amount.get(), bytes, "{text}");
        assert_eq!(amount.to_string(), canonical, "{text}");
    }
}

#[test]
fn refused_bytes_name_place_reason_and_remedy() {
    let units = "write B, kB, MB, GB, TB or PB for powers of 1000, \
                 KiB, MiB, GiB, TiB or PiB for powers of 1024";
    let example = "does not start with a number: write a number and a unit, such as 64MiB";
    let cases = [
        ("", format!("'' {example}")),
        ("lots", format!("'lots' {example}")),
        ("-1MiB", format!("'-1MiB' {example}")),
        ("1.2.3MiB", format!("'1.2.3MiB' {example}")),
        ("64", "'64' has no unit: write 64B, 64MiB or 64GiB".to_owned()),
        ("64M", format!("unknown unit 'M' at character 3: {units}")),
        ("64Mi", format!("unknown unit 'Mi' at character 3: {units}")),
        ("64 MiB", format!("unknown unit ' MiB' at character 3: {units}")),
        ("64mib", format!("unknown unit 'mib' at character 3: {units}")),
        ("0.5B", "'0.5B' is not a whole number of bytes: round it".to_owned()),
        ("0.3KiB", "'0.3KiB' is not a whole number of bytes: round it".to_owned()),
        ("16384PiB", "'16384PiB' is more than 18446744073709551615 bytes: write less".to_owned()),
    ];
    for (text, message) in cases {
        assert_eq!(text.parse::<Bytes>().unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn a_bare_number_of_bytes_in_json_is_told_its_units() {
    let error = serde_json::from_str::<Bytes>("64").unwrap_err().to_string();
    assert_eq!(error, "'64' has no unit: write 64B, 64MiB or 64GiB at line 1 column 2");
    assert_eq!(serde_json::to_string(&Bytes::new(1 << 20)).unwrap(), "\"1MiB\"");
}

#[test]
fn cores_are_written_in_three_ways() {
    let cases = [
        ("0", 0, "0"),
        ("2", 2000, "2"),
        ("0.5", 500, "0.5"),
        ("500m", 500, "0.5"),
        ("1500m", 1500, "1.5"),
        ("0.001", 1, "0.001"),
        ("1.0500", 1050, "1.05"),
        ("18446744073709551.615", u64::MAX, "18446744073709551.615"),
    ];
    for (text, millicores, canonical) in cases {
        let amount: Millicores = text.parse().unwrap();
        assert_eq!(amount.get(), millicores, "{text}");
        assert_eq!(amount.to_string(), canonical, "{text}");
    }
}

#[test]
fn cores_in_json_may_be_numbers() {
    let cases = [("2", 2000), ("0.5", 500), ("0.1", 100), ("1.001", 1001), ("\"500m\"", 500)];
    for (json, millicores) in cases {
        let amount: Millicores = serde_json::from_str(json).unwrap();
        assert_eq!(amount.get(), millicores, "{json}");
    }
    for json in ["-1", "-0.5", "1e300", "0.0001", "true"] {
        assert!(serde_json::from_str::<Millicores>(json).is_err(), "{json}");
    }
}

#[test]
fn refused_cores_name_place_reason_and_remedy() {
    let remedy = "write cores as 0.5, or millicores as 500m";
    let cases = [
        ("", format!("'' does not start with a number: {remedy}")),
        ("-1", format!("'-1' does not start with a number: {remedy}")),
        (".5", format!("'.5' does not start with a number: {remedy}")),
        ("2 cores", format!("unknown unit ' cores' at character 2: {remedy}")),
        ("0.0005", "'0.0005' is not a whole number of millicores: round it".to_owned()),
        ("0.5m", "'0.5m' is not a whole number of millicores: round it".to_owned()),
        (
            "18446744073709552",
            "'18446744073709552' is more than 18446744073709551615 millicores: write less"
                .to_owned(),
        ),
    ];
    for (text, message) in cases {
        assert_eq!(text.parse::<Millicores>().unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn none_of_a_countable_is_the_same_as_no_word_of_it() {
    assert_eq!(amounts([0; 6]), Amounts::default());
}

#[test]
fn a_shortage_names_every_resource_that_lacks_and_how_much() {
    let mut pool = Pool::new(amounts([500, 32 << 20, 1 << 30, 1, 1, 0]));
    let before = pool.clone();
    let shortage = pool.take(&amounts([2000, 64 << 20, 1 << 30, 2, 2, 1])).unwrap_err();
    assert_eq!(
        shortage.to_string(),
        "cpu: 2 asked, 0.5 free, 1.5 missing; \
         memory: 64MiB asked, 32MiB free, 32MiB missing; \
         containers: 2 asked, 1 free, 1 missing; \
         fpga: 1 asked, 0 free, 1 missing; \
         gpu: 2 asked, 1 free, 1 missing"
    );
    assert_eq!(pool, before);
}

#[test]
fn what_was_not_taken_is_not_given_back() {
    let mut pool = Pool::new(amounts([1000, 100, 0, 2, 0, 0]));
    pool.take(&amounts([500, 50, 0, 1, 0, 0])).unwrap();
    let before = pool.clone();
    let never_taken = [
        amounts([501, 0, 0, 0, 0, 0]),
        amounts([0, 0, 0, 0, 1, 0]),
        amounts([u64::MAX, 0, 0, 0, 0, 0]),
    ];
    for surplus in never_taken {
        assert!(pool.give_back(&surplus).is_err());
        assert_eq!(pool, before);
    }
}

proptest! {
    #[test]
    fn bytes_come_back_from_their_text(bytes: u64, shift in 0_u32..64) {
        for bytes in [Bytes::new(bytes), Bytes::new(bytes << shift)] {
            prop_assert_eq!(bytes.to_string().parse(), Ok(bytes));
        }
    }

    #[test]
    fn millicores_come_back_from_their_text(raw: u64) {
        let millicores = Millicores::new(raw);
        prop_assert_eq!(millicores.to_string().parse(), Ok(millicores));
    }

    #[test]
    fn what_fits_is_taken_and_what_lacks_is_not(
        total in uniform6(0..9_u64),
        asked in uniform6(0..9_u64),
    ) {
        let (total, asked) = (amounts(total), amounts(asked));
        let lacks = asked.lacks(&total);
        prop_assert_eq!(asked.fits(&total), lacks.is_empty());
        let expected = if lacks.is_empty() { Ok(()) } else { Err(Shortage { lacks }) };
        prop_assert_eq!(Pool::new(total).take(&asked), expected);
    }

    #[test]
    fn taking_and_giving_back_leaves_no_trace(total: [u64; 6], asked: [u64; 6]) {
        let mut pool = Pool::new(amounts(total));
        let before = pool.clone();
        if pool.take(&amounts(asked)).is_ok() {
            prop_assert_eq!(pool.give_back(&amounts(asked)), Ok(()));
        }
        prop_assert_eq!(pool, before);
    }

    #[test]
    fn a_pool_is_never_oversold(
        total in uniform6(0..20_u64),
        asks in proptest::collection::vec((uniform6(0..8_u64), any::<bool>()), 0..40),
    ) {
        let mut pool = Pool::new(amounts(total));
        let mut taken: Vec<[u64; 6]> = Vec::new();
        for (asked, gives_back) in asks {
            if gives_back && let Some(back) = taken.pop() {
                prop_assert_eq!(pool.give_back(&amounts(back)), Ok(()));
            } else if pool.take(&amounts(asked)).is_ok() {
                taken.push(asked);
            }
            // Free and taken together are all there is, resource by resource.
            let sum = std::array::from_fn(|i| taken.iter().map(|one| one[i]).sum());
            let mut rest = Pool::new(amounts(total));
            prop_assert_eq!(rest.take(&amounts(sum)), Ok(()));
            prop_assert_eq!(pool.free(), rest.free());
        }
    }
}

#[test]
fn a_countable_is_not_taken_for_a_resource_of_its_name() {
    let named = |name: &str| Resource::Countable(Name::new(name).unwrap()).to_string();
    assert_eq!(named("gpu"), "gpu");
    assert_eq!(named("cpu"), "countable cpu");
}

proptest! {
    #[test]
    fn what_is_taken_away_and_what_is_common_make_up_the_whole(
        a in uniform6(0..9_u64),
        b in uniform6(0..9_u64),
    ) {
        let (a, b) = (amounts(a), amounts(b));
        prop_assert_eq!(a.less(&b).plus(&a.at_most(&b)), a.clone());
        prop_assert_eq!(a.at_most(&b), b.at_most(&a));
        prop_assert!(a.at_most(&b).fits(&a) && a.at_most(&b).fits(&b));
        prop_assert_eq!(a.plus(&b).less(&b), a);
    }
}
