use super::*;
use proptest::prelude::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn any_name() -> impl Strategy<Value = Name> {
    "[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?".prop_map(|text| name(&text))
}

fn any_node() -> impl Strategy<Value = NodeName> {
    prop_oneof![
        proptest::collection::vec(any::<char>(), 1..60),
        proptest::collection::vec(prop_oneof![Just('%'), Just('/'), Just('2'), Just('F')], 1..9),
    ]
    .prop_map(|chars| NodeName::new(&chars.into_iter().collect::<String>()).unwrap())
}

fn any_key() -> impl Strategy<Value = WorkKey> {
    let work = prop_oneof![
        (any_name(), any::<u32>()).prop_map(|(service, index)| Work::Instance { service, index }),
        any_name().prop_map(Work::Task),
        (any_name(), any_node()).prop_map(|(batch, node)| Work::Node { batch, node }),
    ];
    (any_name(), work).prop_map(|(namespace, work)| work.within(&Namespace(namespace)))
}

#[test]
fn a_name_is_short_and_plain() {
    for text in ["a", "0", "web", "build-42", "a.b", "a--b..c", &"x".repeat(63)] {
        assert_eq!(name(text).as_str(), text);
    }
}

#[test]
fn a_refused_name_names_place_reason_and_remedy() {
    let holds = "a name holds a-z, 0-9, '.' and '-'";
    let ends = "a name starts and ends with a-z or 0-9";
    let cases = [
        ("", "name is empty: write 1 to 63 of a-z, 0-9, '.' and '-'".to_owned()),
        ("my_app", format!("character 3 of 'my_app' is '_': {holds} (try 'my-app')")),
        ("My App!", format!("character 1 of 'My App!' is 'M': {holds} (try 'my-app')")),
        ("web/3", format!("character 4 of 'web/3' is '/': {holds} (try 'web-3')")),
        ("a\n", format!(r"character 2 of 'a\n' is '\n': {holds} (try 'a')")),
        ("größe", format!("character 3 of 'größe' is 'ö': {holds} (try 'gr-e')")),
        ("名", format!("character 1 of '名' is '名': {holds}")),
        ("-web", format!("character 1 of '-web' is '-': {ends} (try 'web')")),
        ("web.", format!("character 4 of 'web.' is '.': {ends} (try 'web')")),
        ("-", format!("character 1 of '-' is '-': {ends}")),
    ];
    for (text, message) in cases {
        assert_eq!(Name::new(text).unwrap_err().to_string(), message, "{text}");
    }
    let long = format!("{}.{}", "x".repeat(62), "y".repeat(7));
    assert_eq!(
        Name::new(&long).unwrap_err().to_string(),
        format!("name is 70 bytes long: at most 63 are allowed (try '{}')", "x".repeat(62))
    );
}

#[test]
fn a_namespace_is_a_name_and_the_first_is_default() {
    assert_eq!(Namespace::default(), "default".parse().unwrap());
    assert!(Namespace::new("Team A").is_err());
}

#[test]
fn a_firing_is_named_by_its_moment() {
    assert_eq!(name("build").fired(1_794_730_020), Ok(name("build.1794730020")));
    assert_eq!(name("build").fired(0), Ok(name("build.0")));
    let longest = name(&"x".repeat(52)).fired(9_999_999_999).unwrap();
    assert_eq!(Name::new(longest.as_str()), Ok(longest));
}

#[test]
fn a_firing_without_a_name_says_what_to_change() {
    let long = "x".repeat(53);
    assert_eq!(
        name(&long).fired(0).unwrap_err().to_string(),
        format!("name '{long}' is 53 bytes long: what a schedule fires has at most 52, shorten it")
    );
    for due_s in [-1, 10_000_000_000, i64::MIN] {
        assert_eq!(
            name("build").fired(due_s).unwrap_err().to_string(),
            format!("moment {due_s} cannot be fired: it must lie between 1970 and 2286")
        );
    }
}

#[test]
fn a_node_is_escaped_in_keys_and_raw_in_json() {
    let cases = [
        ("db7", "db7"),
        ("Host_1:db@7=a,b~.-", "Host_1:db@7=a,b~.-"),
        ("a/b", "a%2Fb"),
        ("a+b;c", "a%2Bb%3Bc"),
        ("100%", "100%25"),
        ("ü \n", "%C3%BC%20%0A"),
    ];
    for (raw, escaped) in cases {
        let node = NodeName::new(raw).unwrap();
        assert_eq!(node.to_string(), escaped);
        assert_eq!(serde_json::to_value(&node).unwrap(), serde_json::json!(raw));
        assert_eq!(serde_json::from_value::<NodeName>(serde_json::json!(raw)).unwrap(), node);
    }
}

#[test]
fn a_node_typed_by_a_person_may_be_escaped_or_not() {
    for text in ["a b/c", "a%20b/c", "a b%2fc", "%61 b/c"] {
        assert_eq!(text.parse(), NodeName::new("a b/c"), "{text}");
    }
}

#[test]
fn a_refused_node_names_place_reason_and_remedy() {
    let escape = "starts no escape: write %25 for a percent sign";
    let long = "x".repeat(256);
    let cases = [
        ("", "node name is empty: write 1 to 255 bytes".to_owned()),
        (&long, "node name is 256 bytes long: at most 255 are allowed, shorten it".to_owned()),
        ("100%", format!("'%' at character 4 of a node name {escape}")),
        ("ü%2", format!("'%' at character 2 of a node name {escape}")),
        ("%+1", format!("'%' at character 1 of a node name {escape}")),
        ("%ü", format!("'%' at character 1 of a node name {escape}")),
        ("%FF", "escapes in node name '%FF' do not make UTF-8: escape its UTF-8 bytes".to_owned()),
    ];
    for (text, message) in cases {
        assert_eq!(text.parse::<NodeName>().unwrap_err().to_string(), message, "{text}");
    }
    assert!(NodeName::new(&"x".repeat(255)).is_ok());
}

#[test]
fn a_key_is_read_as_it_is_written() {
    let service = Work::Instance { service: name("web"), index: 3 };
    let node = Work::Node { batch: name("reindex"), node: NodeName::new("a/b").unwrap() };
    let cases = [
        ("default/service/web/3", service),
        ("default/task/build-42", Work::Task(name("build-42"))),
        ("default/batch/reindex/a%2Fb", node),
    ];
    for (text, work) in cases {
        let key = work.within(&Namespace::default());
        assert_eq!(text.parse(), Ok(key.clone()));
        assert_eq!(key.to_string(), text);
    }
}

#[test]
fn the_key_of_one_kind_is_read_and_one_of_another_kind_is_refused() {
    let task: TaskKey = "default/task/build".parse().unwrap();
    assert_eq!(task.to_work(), "default/task/build".parse::<WorkKey>().unwrap());
    assert_eq!(task.to_string(), "default/task/build");
    let instance: InstanceKey = "default/service/web/3".parse().unwrap();
    assert_eq!((instance.index, instance.to_string().as_str()), (3, "default/service/web/3"));
    let error = "default/service/web/3".parse::<TaskKey>().unwrap_err();
    let expected = "'default/service/web/3' is a key of another kind: write NAMESPACE/task/NAME";
    assert_eq!(error.to_string(), expected);
    assert!("default/task/build".parse::<InstanceKey>().is_err());
}

proptest! {
    /// Writes of a commit and lists of work are in this order.
    #[test]
    fn keys_are_in_the_order_of_namespace_then_kind_then_name(one in any_key(), other in any_key()) {
        let by_parts = |key: &WorkKey| (key.namespace().clone(), key.work());
        prop_assert_eq!(one.cmp(&other), by_parts(&one).cmp(&by_parts(&other)));
    }
}

#[test]
fn a_refused_key_names_place_reason_and_remedy() {
    let form = "write NAMESPACE/service/NAME/INDEX, NAMESPACE/task/NAME \
                or NAMESPACE/batch/NAME/NODE";
    let not_keys = [
        "",
        "web",
        "service/web/3",
        "default/service/web",
        "default/service/web/03",
        "default/service/web/4294967296",
        "default/service/web/-1",
        "default/task/build/1",
        "default/schedule/nightly",
        "default/batch/reindex",
        "default/batch/reindex/a/b",
        "/default/task/build",
    ];
    for text in not_keys {
        let message = text.parse::<WorkKey>().unwrap_err().to_string();
        assert_eq!(message, format!("'{text}' is not a key: {form}"));
    }
    let cases = [
        ("default/task/Build", "key 'default/task/Build' holds a bad name"),
        ("Default/task/build", "key 'Default/task/build' holds a bad name"),
        ("default/batch/b/%", "key 'default/batch/b/%' holds a bad node"),
        (
            "default/batch/b/a%2fb",
            "key 'default/batch/b/a%2fb' has another spelling: write 'default/batch/b/a%2Fb'",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(text.parse::<WorkKey>().unwrap_err().to_string(), message);
    }
}

#[test]
fn serde_tells_the_cause_of_a_bad_key() {
    let error = serde_json::from_str::<WorkKey>("\"default/task/Build\"").unwrap_err();
    assert_eq!(
        error.to_string(),
        "key 'default/task/Build' holds a bad name: character 1 of 'Build' is 'B': \
         a name holds a-z, 0-9, '.' and '-' (try 'build') at line 1 column 20"
    );
}

#[test]
fn a_kind_has_one_word() {
    for kind in Kind::ALL {
        assert_eq!(kind.as_str().parse(), Ok(kind));
    }
    let words = Kind::ALL.map(Kind::as_str);
    let (last, first) = words.split_last().unwrap();
    let list = format!("{} and {last}", first.join(", "));
    assert_eq!(
        "pod".parse::<Kind>().unwrap_err().to_string(),
        format!("unknown kind 'pod': kinds are {list}")
    );
}

#[test]
fn the_namespace_is_left_out_where_it_is_clear() {
    let key: WorkKey = "default/service/web/3".parse().unwrap();
    assert_eq!(key.short(&Namespace::default()).to_string(), "service/web/3");
    assert_eq!(key.short(&Namespace::new("other").unwrap()).to_string(), "default/service/web/3");
}

#[test]
fn records_stand_under_their_kind() {
    let namespace = Namespace::default();
    let path = record_path(&namespace, Kind::Service, &name("web"));
    assert_eq!(path, "/v1/default/service/web");
    assert!(path.starts_with(&record_prefix(&namespace, Kind::Service)));
    assert_eq!(record_prefix(&namespace, Kind::Forest), "/v1/default/forest/");
}

proptest! {
    #[test]
    fn a_name_is_what_the_grammar_says(text in "[a-zA-Z0-9_./-]{0,66}") {
        let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b);
        let is_outer = |b: Option<u8>| b.is_some_and(|b| is_inner(b) && !b".-".contains(&b));
        let is_name = text.bytes().all(is_inner)
            && is_outer(text.bytes().next())
            && is_outer(text.bytes().last())
            && text.len() <= 63;
        prop_assert_eq!(Name::new(&text).is_ok(), is_name);
    }

    #[test]
    fn a_suggested_name_is_a_name(text in any::<String>()) {
        if let Some(near) = nearest(&text) {
            prop_assert_eq!(Name::new(near.as_str()), Ok(near));
        }
    }

    #[test]
    fn escaping_is_reversible_and_keeps_out_slashes_and_controls(node in any_node()) {
        let escaped = node.to_string();
        prop_assert!(escaped.bytes().all(|b| b.is_ascii_graphic() && b != b'/'));
        prop_assert_eq!(escaped.parse(), Ok(node));
    }

    #[test]
    fn different_nodes_have_different_escapes(one in any_node(), other in any_node()) {
        prop_assert_eq!(one == other, one.to_string() == other.to_string());
    }

    #[test]
    fn text_comes_back_as_the_same_key(key in any_key()) {
        prop_assert_eq!(key.to_string().parse(), Ok(key));
    }

    #[test]
    fn a_key_that_is_read_has_the_text_it_was_read_from(
        text in "[a-b]/(task|batch)/[a-b](/[%2Ffa-b]{1,4})?",
    ) {
        if let Ok(key) = text.parse::<WorkKey>() {
            prop_assert_eq!(key.to_string(), text);
        }
    }
}

#[test]
fn no_node_is_a_way_to_another_folder() {
    for (name, shown) in [(".", "%2E"), ("..", "%2E%2E"), ("...", "..."), (".a", ".a")] {
        let node = NodeName::new(name).unwrap();
        assert_eq!(node.to_string(), shown);
        assert_eq!(shown.parse(), Ok(node));
    }
}
