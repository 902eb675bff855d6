//! A store of keys with an atomic, conditional, many-key commit.
