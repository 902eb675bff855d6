//! Every row of both tables, by its name: the container, the record, and what is done.

use std::fmt::Debug;

macro_rules! rows {
    ($($name:ident: $container:ident, $record:ident => $action:ident;)*) => {
        $(
            #[test]
            fn $name() {
                let (container, record) = (Container::$container, Record::$record);
                assert_eq!(stringify!($name), name(container, record, Action::$action));
                assert_eq!(reconcile(container, record), Action::$action);
            }
        )*

        #[test]
        fn every_pair_has_its_row() {
            let written = [$((Container::$container, Record::$record)),*];
            for container in Container::ALL {
                for record in Record::ALL {
                    let count = written.iter().filter(|row| **row == (container, record)).count();
                    assert_eq!(count, 1, "{container:?} {record:?}");
                }
            }
        }
    };
}

/// What the test of a row is called.
fn name(container: impl Debug, record: impl Debug, action: impl Debug) -> String {
    format!("{}_with_{}_gives_{}", words(container), words(record), words(action))
}

/// `ClaimedHere` as it stands in a name: `claimed_here`.
fn words(value: impl Debug) -> String {
    let mut words = String::new();
    for c in format!("{value:?}").chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(c.to_lowercase());
    }
    words
}

mod instance;
mod task;
