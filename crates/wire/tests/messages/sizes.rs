//! How large a frame may be, and what becomes of what is larger.

use sterna_model::Revision;
use sterna_protocol::message::{
    FromLeader, FromWorker, Held, News, Order, Run, RunAnswer, Saying, Status, StatusAnswer,
};
use sterna_wire::{FRAME_BYTES_MAX, Frame, FrameError};

use crate::samples::{Sample, all, heartbeat, orders, run, says};

fn held() -> Vec<Held> {
    let running = all().into_iter().find_map(|(_, sample)| match sample {
        Sample::Worker(FromWorker { saying: Saying::Running(held), .. }) => Some(held),
        Sample::Worker(_) | Sample::Leader(_) | Sample::Aside(_) => None,
    });
    running.unwrap()
}

fn a_run() -> Run {
    let runs = all().into_iter().find_map(|(_, sample)| match sample {
        Sample::Leader(FromLeader { order: Order::Run(runs), .. }) => Some(runs),
        Sample::Worker(_) | Sample::Leader(_) | Sample::Aside(_) => None,
    });
    runs.unwrap().remove(0)
}

fn bytes(count: usize) -> sterna_protocol::message::Payload {
    vec![7; count].into()
}

#[test]
fn a_frame_that_is_too_large_is_refused_with_its_size() {
    let mut heartbeat = heartbeat();
    heartbeat.facts = bytes(FRAME_BYTES_MAX);
    let error = says(Saying::Heartbeat(heartbeat)).encode_all().unwrap_err();
    let FrameError::TooLarge { bytes } = error else { panic!("{error}") };
    assert!(bytes > FRAME_BYTES_MAX);
    assert_eq!(
        error.to_string(),
        format!("a frame of {bytes} bytes is larger than the 16777216 that a link carries")
    );
    let error = FromWorker::decode(&vec![0; FRAME_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error, FrameError::TooLarge { .. }), "{error}");
}

#[test]
fn one_entry_that_is_too_large_is_refused() {
    let run = Run { work: bytes(FRAME_BYTES_MAX), ..a_run() };
    let error = orders(Order::Run(vec![a_run(), run])).encode_all().unwrap_err();
    assert!(matches!(error, FrameError::TooLarge { .. }), "{error}");
}

#[test]
fn many_runs_and_statuses_share_a_frame() {
    let runs = vec![a_run(); 10_000];
    assert_eq!(orders(Order::Run(runs)).encode_all().unwrap().len(), 1);
    let status = Status { number: 1, run: run(1), news: News::Ended(bytes(1_000)) };
    assert_eq!(says(Saying::Statuses(vec![status; 10_000])).encode_all().unwrap().len(), 1);
}

#[test]
fn a_list_that_is_too_long_goes_in_several_frames_in_its_order() {
    let each = |number: u64| Run {
        sequence: sterna_model::RunSequence::new(number),
        work: bytes(FRAME_BYTES_MAX / 3),
        ..a_run()
    };
    let runs: Vec<Run> = (1..=7).map(each).collect();
    let frames = orders(Order::Run(runs.clone())).encode_all().unwrap();
    assert!(frames.len() > 1);
    let mut heard = Vec::new();
    for frame in frames {
        let FromLeader { order: Order::Run(runs), .. } = FromLeader::decode(&frame).unwrap() else {
            panic!("not runs")
        };
        heard.extend(runs);
    }
    assert_eq!(heard, runs);
    let statuses: Vec<Status> = (1..=4)
        .map(|number| Status { number, run: run(1), news: News::Ended(bytes(FRAME_BYTES_MAX / 2)) })
        .collect();
    let frames = says(Saying::Statuses(statuses.clone())).encode_all().unwrap();
    let heard = frames.iter().flat_map(|frame| match FromWorker::decode(frame).unwrap().saying {
        Saying::Statuses(statuses) => statuses,
        Saying::Heartbeat(_) | Saying::Running(_) | Saying::Answers(_) | Saying::Noted(_) => {
            panic!("not statuses")
        }
    });
    assert_eq!(heard.collect::<Vec<_>>(), statuses);
}

/// Two halves of a list would be two lists, and the leader counts on the first one being whole.
#[test]
fn what_a_worker_runs_is_said_at_once_if_need_be_without_statuses() {
    let large = |mut held: Held| {
        held.status = Some(Status {
            number: 1,
            run: held.run,
            news: News::Ended(bytes(FRAME_BYTES_MAX / 2)),
        });
        held
    };
    let running: Vec<Held> = held().into_iter().map(large).collect();
    let frames = says(Saying::Running(running.clone())).encode_all().unwrap();
    assert_eq!(frames.len(), 1);
    let FromWorker { saying: Saying::Running(heard), .. } = FromWorker::decode(&frames[0]).unwrap()
    else {
        panic!("not what it runs")
    };
    let bare = |held: Held| Held { status: None, ..held };
    assert_eq!(heard, running.into_iter().map(bare).collect::<Vec<_>>());
}

/// Answers are small; a frame holds more of them than runs were ever sent in one.
#[test]
fn answers_are_cut_as_well() {
    let many = 800_000;
    let frames = says(Saying::Answers(vec![(run(1), RunAnswer::Started); many])).encode_all();
    assert!(frames.unwrap().len() > 1);
    let answers = vec![(run(1), u64::MAX, StatusAnswer::Recorded); many];
    assert!(orders(Order::Statuses(Revision::ZERO, answers)).encode_all().unwrap().len() > 1);
}
