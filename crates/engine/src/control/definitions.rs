//! Definitions: tasks that are stored and not started.
//!
//! A definition has a version, counted from 1. It is counted rather than made of what the definition
//! says, because a count says which of two is newer, and two contents can never have the same one.
//! What is stored again as it is keeps its version, and nothing is written. After a definition was
//! deleted its count begins anew.
//!
//! Invariant: there is one version of each, the newest: the commit that writes it removes the one before.
//! Nothing refers to a definition yet; what does later must keep the version that it refers to.

use std::{collections::BTreeMap, sync::Arc};

use sterna_model::{DefinitionKey, spec::Definition};

use super::{Answer, Control, Row};

/// All definitions, as they are going to stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions {
    newest: BTreeMap<DefinitionKey, (u64, Arc<Definition>)>,
}

/// What storing a definition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defines {
    /// There is none of this name.
    New,
    /// There is one, and it says something else.
    Other,
    /// It is stored as it is.
    Same,
}

impl Definitions {
    /// Takes over one that stands in the store.
    pub(super) fn load(&mut self, key: DefinitionKey, version: u64, definition: Arc<Definition>) {
        if self.newest.get(&key).is_none_or(|(known, _)| *known < version) {
            self.newest.insert(key, (version, definition));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.newest.len()
    }

    fn defines(&self, key: &DefinitionKey, next: &Definition) -> Defines {
        match self.newest.get(key) {
            None => Defines::New,
            Some((_, known)) if **known == *next => Defines::Same,
            Some(_) => Defines::Other,
        }
    }
}

impl Control {
    /// A definition and its version, as it is going to stand.
    pub fn definition(&self, key: &DefinitionKey) -> Option<(u64, &Definition)> {
        self.definitions.newest.get(key).map(|(version, known)| (*version, &**known))
    }

    /// What storing this would do.
    pub fn defines(&self, key: &DefinitionKey, next: &Definition) -> Defines {
        self.definitions.defines(key, next)
    }

    /// Stores a definition. Whether its contract can be kept is judged when it is started: the limits may
    /// be others by then.
    pub(super) fn put_definition(&mut self, key: DefinitionKey, next: Arc<Definition>) -> Answer {
        match self.defines(&key, &next) {
            Defines::Same => return Answer::Already,
            Defines::New | Defines::Other => {}
        }
        let before = self.definitions.newest.get(&key).map(|(version, _)| *version);
        let version = before.unwrap_or(0) + 1;
        // Only the new one may be large, and it is written first: so both are one commit.
        self.outbox.keep_together(2);
        self.outbox.write(Row::Definition(key.clone(), version, Some(Arc::clone(&next))));
        if let Some(before) = before {
            self.outbox.write(Row::Definition(key.clone(), before, None));
        }
        self.definitions.newest.insert(key, (version, next));
        Answer::Done
    }

    pub(super) fn delete_definition(&mut self, key: &DefinitionKey) -> Answer {
        let Some((version, _)) = self.definitions.newest.remove(key) else {
            return Answer::NotFound;
        };
        self.outbox.write(Row::Definition(key.clone(), version, None));
        Answer::Done
    }
}
