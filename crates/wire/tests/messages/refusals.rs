//! What is refused names the field, and says what is wrong with it.

use std::error::Error;

use prost::Message;
use sterna_protocol::message::{FromLeader, FromWorker, Mandate, VERSION};
use sterna_wire::{Aside, Frame, FrameError};

use crate::samples::{Sample, all};

/// The version of the protocol.
const SPOKEN: u64 = VERSION as u64;

/// Fields by number, as they are: enough of a protobuf writer to say what is wrong on purpose.
#[derive(Clone, Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn number(mut self, field: u32, value: u64) -> Self {
        prost::encoding::uint64::encode(field, &value, &mut self.0);
        self
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        prost::encoding::bytes::encode(field, &value.to_vec(), &mut self.0);
        self
    }

    fn part(self, field: u32, part: &Self) -> Self {
        let bytes = part.0.clone();
        self.bytes(field, &bytes)
    }
}

fn run() -> Vec<u8> {
    crate::samples::run(1).as_bytes().to_vec()
}

fn lock() -> Fields {
    let incarnation = crate::samples::incarnation();
    Fields::default()
        .bytes(1, incarnation.lock.directory.as_bytes())
        .bytes(2, incarnation.lock.machine.as_bytes())
        .number(3, 7)
}

/// A frame of a worker with this in field 4 to 8.
fn worker(field: u32, saying: &Fields) -> Vec<u8> {
    Fields::default().number(1, SPOKEN).part(2, &lock()).part(field, saying).0
}

/// A frame of a leader with this in field 4 to 12.
fn leader(field: u32, order: &Fields) -> Vec<u8> {
    let cluster = crate::samples::mandate().cluster;
    let mandate = Fields::default().number(1, 1).number(2, 1).bytes(4, cluster.as_bytes());
    Fields::default().number(1, SPOKEN).part(2, &mandate).part(3, &lock()).part(field, order).0
}

/// Everything that an error says, cause after cause.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text += &format!(": {next}");
        cause = next.source();
    }
    text
}

fn of_worker(bytes: &[u8]) -> String {
    chain(&FromWorker::decode(bytes).unwrap_err())
}

fn of_leader(bytes: &[u8]) -> String {
    chain(&FromLeader::decode(bytes).unwrap_err())
}

#[test]
fn a_bad_frame_of_a_worker_names_the_field() {
    let none = Fields::default();
    let unsaid = "is missing, or says something that only a newer version knows";
    let heartbeat = none.clone().bytes(1, b"w1").bytes(4, &[1; 16]);
    let cases = [
        (none.clone().number(1, SPOKEN).part(2, &lock()).0, format!("field saying {unsaid}")),
        (worker(99, &none), format!("field saying {unsaid}")),
        (
            none.clone().number(1, SPOKEN).part(4, &heartbeat).0,
            format!("field incarnation {unsaid}"),
        ),
        (
            none.clone().number(1, SPOKEN).part(2, &none.clone().bytes(1, b"short")).part(4, &heartbeat).0,
            "field incarnation.directory has 5 bytes and must have 16".to_owned(),
        ),
        (
            worker(4, &none.clone().bytes(1, b"No Name").bytes(4, &[1; 16])),
            "field heartbeat.name is not valid".to_owned(),
        ),
        (
            worker(4, &none.clone().bytes(1, b"w1")),
            "field heartbeat.boot has 0 bytes and must have 16".to_owned(),
        ),
        (
            worker(5, &none.clone().part(1, &none.clone().bytes(2, &run()))),
            format!("field statuses[0].news {unsaid}"),
        ),
        (
            worker(5, &none.clone().part(1, &none.clone().bytes(2, &[0; 16]))),
            "field statuses[0].run is not valid".to_owned(),
        ),
        (
            worker(6, &none.clone().part(1, &none.clone().bytes(1, &run()))),
            format!("field running[0].key {unsaid}"),
        ),
        (
            worker(7, &none.clone().part(1, &none.clone().bytes(1, &run()).part(3, &none))),
            format!("field answers[0].refused.why {unsaid}"),
        ),
        (
            worker(
                7,
                &none.clone().part(
                    1,
                    &none.clone().bytes(1, &run()).part(3, &none.clone().number(1, 77)),
                ),
            ),
            "field answers[0].refused.why is 77, which is none of the values that this version knows"
                .to_owned(),
        ),
    ];
    for (bytes, says) in cases {
        let said = of_worker(&bytes);
        assert!(said.starts_with("a frame cannot be read: "), "{said}");
        assert!(said.contains(&says), "{said:?} does not say {says:?}");
    }
}

#[test]
fn a_bad_frame_of_a_leader_names_the_field() {
    let none = Fields::default();
    let key = none.clone().bytes(1, b"default").bytes(3, b"build");
    let cases = [
        (leader(5, &none.clone().number(3, 3)), "field confirmed.limits is missing"),
        (leader(5, &none), "field confirmed.verdict is missing"),
        (
            leader(5, &none.clone().number(3, 3).part(2, &none.clone().number(2, 1_000))),
            "field confirmed.limits is not valid: limit check_every is zero",
        ),
        (leader(6, &none), "field refused.why is missing"),
        (
            leader(6, &none.clone().number(3, 70_000)),
            "refused.wrong_version is 70000, which is out",
        ),
        (
            leader(9, &none.clone().part(1, &none.clone().part(4, &key))),
            "runs[0].contract is missing",
        ),
        (
            leader(9, &none.clone().part(1, &none.clone().part(4, &key).part(6, &none))),
            "field runs[0].contract.word is missing",
        ),
        (leader(10, &none.clone().bytes(2, b"x")), "field notify[0] has 1 bytes and must have 16"),
        (leader(11, &none.clone().bytes(1, &run())), "field kill.how is missing"),
        (
            none.clone()
                .number(1, SPOKEN)
                .part(2, &none.clone().number(1, 1))
                .part(3, &lock())
                .part(12, &none)
                .0,
            "field mandate.cluster has 0 bytes and must have 16",
        ),
    ];
    for (bytes, says) in cases {
        let said = of_leader(&bytes);
        assert!(said.contains(says), "{said:?} does not say {says:?}");
    }
}

#[test]
fn the_cause_of_a_bad_word_is_told() {
    let name = Fields::default().bytes(1, b"No Name").bytes(4, &[1; 16]);
    let said = of_worker(&worker(4, &name));
    assert!(said.contains("field heartbeat.name is not valid: "), "{said}");
    assert!(said.contains("No Name"), "{said}");
}

#[test]
fn bytes_that_are_no_message_are_no_frame() {
    let said = of_worker(b"\xff\xff\xff");
    assert!(said.starts_with("bytes on the link are no frame: "), "{said}");
    assert!(matches!(FromLeader::decode(b"\x0a"), Err(FrameError::Garbled(_))));
}

#[test]
fn another_version_is_named_before_what_it_means() {
    let newer = Fields::default().number(1, 9).part(99, &Fields::default());
    let said = of_leader(&newer.0);
    assert_eq!(
        said,
        "the other side speaks version 9 of the protocol, and this one 2: upgrade the older of the two"
    );
}

#[test]
fn fields_of_a_newer_version_are_passed_over() {
    for (name, sample) in all() {
        let newer = Fields::default().number(1_000, 5).bytes(1_001, b"new").0;
        let again = match &sample {
            Sample::Worker(frame) => {
                let bytes = [frame.encode().unwrap().to_vec(), newer].concat();
                Sample::Worker(FromWorker::decode(&bytes).unwrap())
            }
            Sample::Leader(frame) => {
                let bytes = [frame.encode().unwrap().to_vec(), newer].concat();
                Sample::Leader(FromLeader::decode(&bytes).unwrap())
            }
            Sample::Aside(aside) => {
                let bytes = [aside.encode().unwrap().to_vec(), newer].concat();
                Sample::Aside(Aside::decode(bytes.into()).unwrap())
            }
        };
        assert_eq!(again, sample, "{name}");
    }
}

/// Of another version, mandate or life it is not heard, in whichever part they differ.
#[test]
fn an_aside_is_of_one_version_mandate_and_life() {
    let (mandate, incarnation) = (crate::samples::mandate(), crate::samples::incarnation());
    let asked = Aside::question(mandate, incarnation, 1, bytes::Bytes::new());
    assert!(asked.is_of(&mandate, &incarnation));
    assert!(asked.answer(bytes::Bytes::new()).is_of(&mandate, &incarnation));
    assert!(!Aside { version: 1, ..asked.clone() }.is_of(&mandate, &incarnation));
    let next = sterna_model::Incarnation { life: incarnation.life + 1, ..incarnation };
    assert!(!asked.is_of(&mandate, &next));
    let term = sterna_model::Term::new(mandate.term.get() + 1);
    let nonce = sterna_model::Nonce::new(1);
    for other in [Mandate { term, ..mandate }, Mandate { nonce, ..mandate }] {
        assert!(!asked.is_of(&other, &incarnation));
    }
}

/// The writer above writes what prost reads.
#[test]
fn the_writer_of_this_test_writes_protobuf() {
    #[derive(Clone, PartialEq, Message)]
    struct Two {
        #[prost(uint64, tag = "1")]
        one: u64,
        #[prost(bytes = "vec", tag = "2")]
        two: Vec<u8>,
    }
    let bytes = Fields::default().number(1, 300).bytes(2, b"ab").0;
    assert_eq!(Two::decode(&bytes[..]).unwrap(), Two { one: 300, two: b"ab".to_vec() });
}
