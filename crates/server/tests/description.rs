//! The description of the API that is committed is the one that the code gives.

use std::{env, fs, path::PathBuf};

#[test]
fn the_committed_description_is_what_the_code_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let said = sterna_server::description();
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &said).expect("docs can be written");
    }
    let kept = fs::read_to_string(&path).expect("docs/openapi.json is there");
    assert_eq!(said, kept, "UPDATE=1 writes docs/openapi.json anew");
}
