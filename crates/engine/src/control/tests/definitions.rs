//! Definitions: stored once, counted, and gone when somebody says so.

use std::sync::Arc;

use sterna_model::{DefinitionKey, Namespace, Span, spec::Definition};

use super::play::{Play, name, task_spec};
use crate::control::{Answer, Call, Defines, Row, RowKey};

fn key(text: &str) -> DefinitionKey {
    DefinitionKey { namespace: Namespace::default(), name: name(text) }
}

fn definition(after: u64) -> Arc<Definition> {
    let latest_start_after = Some(Span::from_secs(after));
    Arc::new(Definition { spec: Arc::new(task_spec()), latest_start_after })
}

fn put(text: &str, after: u64) -> Call {
    Call::PutDefinition(key(text), definition(after))
}

/// The versions of a definition that stand in the store, and what each says.
fn stored(play: &Play, text: &str) -> Vec<(u64, Arc<Definition>)> {
    let versions = play.store.values().filter_map(|row| {
        let Row::Definition(one, version, Some(stands)) = row else { return None };
        (*one == key(text)).then(|| (*version, Arc::clone(stands)))
    });
    versions.collect()
}

#[test]
fn a_definition_that_changes_has_another_version_and_the_one_before_goes() {
    let mut play = Play::with(1);
    assert_eq!(play.control.defines(&key("a"), &definition(1)), Defines::New);
    assert_eq!(play.ask(put("a", 1)), Answer::Done);
    assert_eq!(stored(&play, "a"), [(1, definition(1))]);
    assert_eq!(play.control.defines(&key("a"), &definition(2)), Defines::Other);
    assert_eq!(play.ask(put("a", 2)), Answer::Done);
    assert_eq!(stored(&play, "a"), [(2, definition(2))]);
    assert_eq!(play.ask(put("b", 1)), Answer::Done);
    assert_eq!(play.control.made().definitions, 2);
}

#[test]
fn what_is_stored_as_it_is_writes_nothing() {
    let mut play = Play::with(1);
    play.ask(put("a", 1));
    assert_eq!(play.control.defines(&key("a"), &definition(1)), Defines::Same);
    play.call(put("a", 1));
    assert_eq!(play.control.commit(), None);
    assert_eq!(stored(&play, "a"), [(1, definition(1))]);
}

/// A crash between the two would leave both, or none.
#[test]
fn a_version_and_the_end_of_the_one_before_are_one_commit_whatever_is_written_before() {
    for before in 0..200 {
        let mut play = Play::with(1);
        play.ask(put("a", 1));
        for number in 0..before {
            play.call(put(&format!("other-{number}"), 1));
        }
        play.call(put("a", 2));
        while let Some((parcel, rows)) = play.control.commit() {
            let has = |version| {
                let wanted = RowKey::Definition(key("a"), version);
                rows.iter().any(|row| row.key() == wanted)
            };
            assert_eq!(has(1), has(2), "after {before}");
            let input = crate::control::Input::Committed(parcel);
            play.control.step(play.now, input, &mut Vec::new());
        }
    }
}

#[test]
fn the_next_leader_knows_it_and_counts_on() {
    let mut play = Play::with(1);
    play.ask(put("a", 1));
    play.ask(put("a", 2));
    let mut play = play.change_leader();
    assert_eq!(play.control.definition(&key("a")), Some((2, &*definition(2))));
    assert_eq!(play.ask(put("a", 2)), Answer::Already);
    assert_eq!(play.ask(put("a", 3)), Answer::Done);
    assert_eq!(stored(&play, "a"), [(3, definition(3))]);
}

#[test]
fn one_that_is_deleted_is_gone_and_may_be_made_again() {
    let mut play = Play::with(1);
    assert_eq!(play.ask(Call::DeleteDefinition(key("a"))), Answer::NotFound);
    play.ask(put("a", 1));
    assert_eq!(play.ask(Call::DeleteDefinition(key("a"))), Answer::Done);
    assert_eq!((stored(&play, "a"), play.control.made().definitions), (vec![], 0));
    assert_eq!(play.control.adds(&put("a", 1)).definitions, 1);
    assert_eq!(play.ask(put("a", 1)), Answer::Done);
    assert_eq!(play.control.adds(&put("a", 2)).definitions, 0);
}
