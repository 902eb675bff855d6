use super::*;
use proptest::prelude::*;
use std::error::Error as _;

/// What exists in these tests: `(kind, name)`, oldest first.
const THERE: [(Kind, &str); 9] = [
    (Kind::Service, "web"),
    (Kind::Service, "task"),
    (Kind::Service, "both"),
    (Kind::Batch, "both"),
    (Kind::Batch, "reindex"),
    (Kind::Task, "build-42"),
    (Kind::Task, "build-43"),
    (Kind::Forest, "shards"),
    (Kind::Schedule, "reindex"),
];

/// Resolves `text` among `there`; the answer as a person sees it, causes included.
fn select(text: &str, there: &[(Kind, &str)]) -> String {
    let names: Vec<_> =
        there.iter().map(|(kind, name)| (*kind, Name::new(name).unwrap())).collect();
    let candidates = || names.iter().map(|(kind, name)| (*kind, name));
    let target = text
        .parse::<Selector>()
        .and_then(|s| s.resolve(&Namespace::default(), candidates().next_back(), candidates()));
    match target {
        Ok(target) => target.to_string(),
        Err(error) => match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

#[test]
fn a_clear_selector_means_one_thing() {
    let cases = [
        ("web", "service/web"),
        ("web/3", "service/web/3"),
        ("service/web/3", "service/web/3"),
        ("build-42", "task/build-42"),
        ("task/build-42", "task/build-42"),
        ("shards", "forest/shards"),
        ("batch/reindex", "batch/reindex"),
        ("schedule/reindex", "schedule/reindex"),
        // A schedule has no parts, so only the batch can be meant.
        ("reindex/db7", "batch/reindex/db7"),
        ("reindex/h 1", "batch/reindex/h%201"),
        ("batch/reindex/a%2Fb", "batch/reindex/a%2Fb"),
        // No instance is called db7, so only the batch can be meant.
        ("both/db7", "batch/both/db7"),
        ("task", "service/task"),
        ("service/task/3", "service/task/3"),
        ("last", "schedule/reindex"),
    ];
    for (text, target) in cases {
        assert_eq!(select(text, &THERE), target, "{text}");
    }
}

#[test]
fn an_ambiguous_selector_is_refused_with_all_that_it_may_mean() {
    assert_eq!(select("both", &THERE), "'both' is ambiguous: write service/both or batch/both");
    assert_eq!(
        select("both/3", &THERE),
        "'both/3' is ambiguous: write service/both/3 or batch/both/3"
    );
    let three = [(Kind::Service, "a"), (Kind::Task, "a"), (Kind::Forest, "a")];
    assert_eq!(select("a", &three), "'a' is ambiguous: write service/a, task/a or forest/a");
}

#[test]
fn the_word_for_a_kind_is_never_taken_for_a_name() {
    // There is a service called task, but this asks for the task called 3.
    assert_eq!(
        select("task/3", &THERE),
        "no 'task/3' in namespace default: sterna ls lists what there is"
    );
}

#[test]
fn what_is_not_there_brings_what_comes_near() {
    let cases = [
        ("wbe", "did you mean service/web?"),
        ("wbe/3", "did you mean service/web?"),
        ("task/web", "did you mean service/web?"),
        ("build", "did you mean task/build-42 or task/build-43?"),
        ("build-44", "did you mean task/build-42 or task/build-43?"),
        ("reidnex", "did you mean schedule/reindex or batch/reindex?"),
        ("zebra", "sterna ls lists what there is"),
    ];
    for (text, hint) in cases {
        let hint = format!("no '{text}' in namespace default: {hint}");
        assert_eq!(select(text, &THERE), hint);
    }
}

#[test]
fn a_hint_is_short() {
    let many = ["b1", "b2", "b3", "b4"].map(|name| (Kind::Task, name));
    assert_eq!(
        select("b9", &many),
        "no 'b9' in namespace default: did you mean task/b1, task/b2 or task/b3?"
    );
}

#[test]
fn last_of_nothing_is_refused() {
    assert_eq!(
        select("last", &[]),
        "no 'last' in namespace default: nothing was created there yet"
    );
}

#[test]
fn a_thing_called_last_is_reached_by_its_kind() {
    let there = [(Kind::Service, "last"), (Kind::Task, "build")];
    assert_eq!(select("last", &there), "task/build");
    assert_eq!(select("service/last", &there), "service/last");
    assert_eq!(select("last/0", &there), "service/last/0");
}

#[test]
fn a_part_of_something_that_has_none_is_refused() {
    let cases = [
        ("build-42/0", "'build-42/0' names a part, but a task has none: write task/build-42"),
        ("shards/h1", "'shards/h1' names a part, but a forest has none: write forest/shards"),
        (
            "schedule/reindex/1",
            "'schedule/reindex/1' names a part, but a schedule has none: write schedule/reindex",
        ),
        ("web/x", "'x' is not an index: instances of a service are numbered, write web/0"),
        ("web/03", "'03' is not an index: instances of a service are numbered, write web/0"),
        ("web/", "'' is not an index: instances of a service are numbered, write web/0"),
        ("reindex/", "'reindex/' holds a bad node: node name is empty: write 1 to 255 bytes"),
    ];
    for (text, message) in cases {
        assert_eq!(select(text, &THERE), message);
    }
}

#[test]
fn a_malformed_selector_names_place_reason_and_remedy() {
    let cases = [
        (
            "default/task/build-42",
            "'default/task/build-42' starts with 'default', which is no kind: write service, \
             task, schedule, batch, forest or definition there, and leave the namespace out",
        ),
        (
            "batch/reindex/a/b",
            "'batch/reindex/a/b' has too many parts: write [KIND/]NAME[/PART], \
             and a slash in a node as %2F",
        ),
        ("", "'' holds a bad name: name is empty: write 1 to 63 of a-z, 0-9, '.' and '-'"),
        (
            "Web",
            "'Web' holds a bad name: character 1 of 'Web' is 'W': \
             a name holds a-z, 0-9, '.' and '-' (try 'web')",
        ),
        (
            "service/",
            "'service/' holds a bad name: name is empty: write 1 to 63 of a-z, 0-9, '.' and '-'",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(select(text, &THERE), message);
    }
}

proptest! {
    #[test]
    fn every_thing_is_reached_by_its_kind_and_name(name in "[a-z0-9]{1,4}|last|task") {
        let there = Kind::ALL.map(|kind| (kind, name.as_str()));
        for kind in Kind::ALL {
            let address = format!("{kind}/{name}");
            prop_assert_eq!(select(&address, &there), address);
        }
    }

    #[test]
    fn the_short_text_of_work_selects_it(
        name in "[a-z]{1,4}|last|task",
        index: u32,
        node in "\\PC{1,9}",
    ) {
        let name = Name::new(&name).unwrap();
        let there = [(Kind::Service, name.as_str()), (Kind::Batch, name.as_str())];
        let node = NodeName::new(&node).unwrap();
        for work in [
            Work::Instance { service: name.clone(), index },
            Work::Node { batch: name.clone(), node },
        ] {
            prop_assert_eq!(select(&work.to_string(), &there), work.to_string());
        }
    }
}
