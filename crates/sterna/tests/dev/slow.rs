//! Readers of events that stop reading: they cost nothing, and are told where to go on.

use serde_json::{Value, json};
use sterna_api::rest::{Done, ServiceView};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::{
    crowd::{memory, until},
    place::LONG,
    storm::Place,
};

/// How many instances come and go at once, each with two events.
const INSTANCES: usize = 5_000;

/// Makes a service without workers and deletes it: twice as many events as it has instances.
async fn events(place: &Place, times: usize) {
    let name = "a-service-with-a-long-name-that-is-in-all-its-events";
    let path = format!("/v1/namespaces/default/services/{name}");
    let spec = json!({ "spec": { "run": ["true"], "instances": INSTANCES } });
    let mut client = place.client();
    for _ in 0..times {
        let made = client.call::<ServiceView>(http::Method::PUT, &path, Some(&spec)).await;
        made.expect("it is made");
        let gone = client.call::<Done>(http::Method::DELETE, &path, None::<&()>).await;
        gone.expect("it is deleted");
    }
}

/// A reader that has read nothing but the beginning of the answer. Its system takes little for it, so
/// that what is sent stays with the server.
async fn reader(place: &Place, query: &str, header: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a small one");
    let address = place.address.parse().expect("an address");
    let mut socket = socket.connect(address).await.expect("the server listens");
    let token = place.token();
    let request = format!(
        "GET /v1/events{query} HTTP/1.1\r\nHost: sterna\r\nAuthorization: Bearer {token}\r\n{header}\r\n"
    );
    socket.write_all(request.as_bytes()).await.expect("it reads");
    let mut head = [0; 12];
    timeout(LONG, socket.read_exact(&mut head)).await.expect("in time").expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    socket
}

/// How many stop reading.
const STALLED: u64 = 40;

/// If the server kept for each reader what that one has not read, it would grow by all events once more
/// for each: some 10 MB each, of which the system's own buffers take 4 MB at most.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_reader_does_not_read_is_kept_for_nobody() {
    let place = Place::new("stalled");
    let (kept, times) = ("40000", 4);
    let mut server = place.server_with(&["--keep-events", kept]);
    until(&place, |_| true).await;
    // The log is as long as it gets, and everything else that grows has grown.
    events(&place, times).await;
    let mut readers = Vec::new();
    for _ in 0..STALLED {
        readers.push(reader(&place, "", "").await);
    }
    let before = memory(server.id());
    events(&place, times).await;
    let grown = memory(server.id()).saturating_sub(before);
    // What a connection and one piece take, and what an allocator leaves lying about.
    let bound = STALLED * 128 + (32 << 10);
    assert!(grown < bound, "{grown} KiB more for {STALLED} readers that do not read");
    drop(readers);
    server.kill().expect("it runs");
    server.wait().expect("it ran");
}

/// What stands in a stream: the numbers of its events, and where to go on if it is said.
fn told(text: &str) -> (Vec<u64>, Option<String>) {
    let (mut numbers, mut resume, mut is_behind) = (Vec::new(), None, false);
    for line in text.lines() {
        if let Some(id) = line.strip_prefix("id: ") {
            let number = id.rsplit('.').next().and_then(|number| number.parse().ok());
            numbers.push(number.expect("the number of an event"));
        }
        is_behind |= line == "event: behind";
        if let Some(data) = line.strip_prefix("data: ").filter(|_| is_behind) {
            let data: Value = serde_json::from_str(data).expect("an object");
            resume = data["resume"].as_str().map(str::to_owned);
        }
    }
    (numbers, resume)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_falls_behind_what_is_kept_is_told_where_to_go_on() {
    let place = Place::new("behind");
    let mut server = place.server_with(&["--keep-events", "1000"]);
    until(&place, |_| true).await;
    let mut slow = reader(&place, "?after=0", "").await;
    events(&place, 3).await;
    let mut text = String::new();
    // It reads to the end: it is hung up on.
    let read = timeout(LONG, slow.read_to_string(&mut text)).await;
    read.expect("it is hung up on").expect("what was sent is whole");
    let (numbers, resume) = told(&text);
    let whole: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, whole, "none is lost before that, and none comes twice");
    let resume = resume.expect("it is told where to go on");
    let newest: u64 = resume.rsplit('.').next().and_then(|it| it.parse().ok()).expect("an id");
    assert!(newest > whole.len() as u64 + 1_000, "it has missed some: {newest}");
    let end = "event: behind\ndata: {\"resume\":\"";
    assert!(text.matches(end).count() == 1, "it is told once");
    // From there on it misses nothing.
    let mut again = reader(&place, "", &format!("Last-Event-ID: {resume}\r\n")).await;
    let domain = json!({ "for_s": 60 });
    let path = "/v1/domains/d";
    let put = place.client().call::<Done>(http::Method::PUT, path, Some(&domain)).await;
    put.expect("it is put");
    let mut text = Vec::new();
    let heard = async {
        while !text.windows(10).any(|it| it == b"domain-set") {
            let mut some = [0; 1_024];
            let count = again.read(&mut some).await.expect("the stream goes on");
            assert!(count > 0, "it was hung up on");
            text.extend_from_slice(&some[..count]);
        }
    };
    timeout(LONG, heard).await.expect("it is told");
    let (numbers, behind) = told(&String::from_utf8_lossy(&text));
    assert_eq!((numbers.first(), behind), (Some(&(newest + 1)), None));
    server.kill().expect("it runs");
    server.wait().expect("it ran");
}
