//! The committed bytes of every sample, and the same for people.
//!
//! `UPDATE=1` writes what is missing, and the text of what is there. Bytes that are there are never
//! written again: other builds read and write them.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use sterna_protocol::message::{FromLeader, FromWorker};
use sterna_wire::{Aside, Frame};

use crate::samples::{Sample, all};

fn place() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn encode(sample: &Sample) -> Vec<u8> {
    let frame = match sample {
        Sample::Worker(frame) => frame.encode(),
        Sample::Leader(frame) => frame.encode(),
        Sample::Aside(aside) => aside.encode(),
    };
    frame.unwrap().to_vec()
}

fn decode(like: &Sample, bytes: &[u8]) -> Sample {
    match like {
        Sample::Worker(_) => Sample::Worker(FromWorker::decode(bytes).unwrap()),
        Sample::Leader(_) => Sample::Leader(FromLeader::decode(bytes).unwrap()),
        Sample::Aside(_) => Sample::Aside(Aside::decode(bytes.to_vec().into()).unwrap()),
    }
}

fn text(sample: &Sample) -> String {
    match sample {
        Sample::Worker(frame) => format!("{frame:#?}\n"),
        Sample::Leader(frame) => format!("{frame:#?}\n"),
        Sample::Aside(aside) => format!("{aside:#?}\n"),
    }
}

/// Sixteen bytes to a line.
fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.join(" ") + "\n"
    };
    bytes.chunks(16).map(line).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn every_sample_is_in_exactly_these_bytes() {
    let is_update = env::var_os("UPDATE").is_some();
    for (name, sample) in all() {
        let (bytes, shown) =
            (place().join(format!("{name}.hex")), place().join(format!("{name}.txt")));
        if is_update {
            if !bytes.exists() {
                fs::write(&bytes, hex(&encode(&sample))).unwrap();
            }
            fs::write(&shown, text(&sample)).unwrap();
        }
        let kept = fs::read_to_string(&bytes).unwrap_or_else(|_| panic!("no sample {name}.hex"));
        assert_eq!(hex(&encode(&sample)), kept, "{name} is said in other bytes");
        assert_eq!(decode(&sample, &unhex(&kept)), sample, "{name} is read as something else");
        let kept = fs::read_to_string(&shown).unwrap_or_else(|_| panic!("no sample {name}.txt"));
        assert_eq!(text(&sample), kept, "{name}.txt does not say what is in its bytes");
    }
}

#[test]
fn no_sample_is_left_without_its_message() {
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let files = fs::read_dir(place()).unwrap().map(|entry| stem(entry.unwrap().path()));
    let names = all().into_iter().map(|(name, _)| name.to_owned());
    assert_eq!(files.collect::<BTreeSet<_>>(), names.collect::<BTreeSet<_>>());
}
