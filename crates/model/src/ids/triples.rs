//! Fences and event ids: three numbers, ordered across leaders and lives of the store.

use super::{Epoch, IdError, Term};
use crate::number;
use crate::text::text_face;
use std::fmt;
use std::str::FromStr;

/// Declares ids of the form `<epoch>.<term>.<number>`, ordered by the first that differs.
macro_rules! triples {
    ($($(#[$doc:meta])* $name:ident, $(#[$field_doc:meta])* $field:ident, $what:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// The life of the store that it belongs to.
            pub epoch: Epoch,
            /// The reign that it was given in.
            pub term: Term,
            $(#[$field_doc])*
            pub $field: u64,
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}.{}.{}", self.epoch.get(), self.term.get(), self.$field)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                match numbers(text) {
                    Some([epoch, term, $field]) => {
                        Ok(Self { epoch: Epoch::new(epoch), term: Term::new(term), $field })
                    }
                    None => Err(IdError::Mistyped {
                        text: text.to_owned(),
                        expected: concat!($what, ": write epoch, term and number, as in 1.3.42"),
                    }),
                }
            }
        }

        text_face! { $name reads with word, $what; }
    )+};
}

triples! {
    /// What a run shows to resources outside of the cluster (`STERNA_FENCE`), so that they can
    /// refuse whoever held its key before. Of two runs of one key the later has the greater
    /// fence, whatever worker it is on. Compare number by number: texts sort otherwise.
    Fence,
    /// From one counter of the leader for all its runs.
    number, "a fence";
    /// The id of one event; later events have greater ids.
    EventId,
    /// Its place among the events of that reign.
    sequence, "an event id";
}

/// Reads three plain numbers with dots between them.
fn numbers(text: &str) -> Option<[u64; 3]> {
    let mut parts = text.split('.').map(number::plain);
    let triple = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(triple)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fence(epoch: u64, term: u64, number: u64) -> Fence {
        Fence { epoch: Epoch::new(epoch), term: Term::new(term), number }
    }

    #[test]
    fn an_epoch_outweighs_a_term_and_a_term_outweighs_a_number() {
        let ordered = [fence(1, 1, 9), fence(1, 1, 10), fence(1, 2, 0), fence(2, 0, 0)];
        assert!(ordered.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn an_id_has_one_text() {
        for text in ["", "1", "1.2", "1.2.3.4", "1.2.", "01.2.3", "+1.2.3", "1.2.x", "1..3"] {
            let error = text.parse::<Fence>().unwrap_err().to_string();
            let remedy = "is not a fence: write epoch, term and number, as in 1.3.42";
            assert_eq!(error, format!("'{text}' {remedy}"));
        }
        let too_large = "1.2.18446744073709551616".parse::<EventId>().unwrap_err().to_string();
        assert_eq!(
            too_large,
            "'1.2.18446744073709551616' is not an event id: \
             write epoch, term and number, as in 1.3.42"
        );
    }

    proptest! {
        #[test]
        fn text_comes_back_as_the_same_id(epoch: u64, term: u64, sequence: u64) {
            let id = EventId { epoch: Epoch::new(epoch), term: Term::new(term), sequence };
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
