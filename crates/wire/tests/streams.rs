//! Streams over real sockets: both ways, in order, and how they end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "messages/samples.rs"]
#[expect(dead_code, reason = "the other test has more use for it")]
mod samples;

use std::time::Duration;

use samples::{orders, says};
use sterna_model::NotifySequence;
use sterna_protocol::message::{FromLeader, Order, Saying};
use sterna_wire::{
    Address, DialError, Leadership, Links, Opened, Receiver, SendError, StreamError, dial, serve,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
    task::JoinHandle,
};

const LIMIT: Duration = Duration::from_secs(10);

/// A server that hands out its streams.
struct Server {
    address: Address,
    opened: mpsc::Receiver<Opened>,
    task: JoinHandle<()>,
}

async fn server(leadership: Leadership) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let (sender, opened) = mpsc::channel(8);
    let links = Links::new(move || leadership.clone(), sender);
    let task = tokio::spawn(async move {
        let mut served = tokio::task::JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let links = links.clone();
            served.spawn(async move { drop(serve(socket, links).await) });
        }
    });
    Server { address, opened, task }
}

fn noted(number: u64) -> Saying {
    Saying::Noted(NotifySequence::new(number))
}

#[tokio::test]
async fn frames_arrive_both_ways_and_in_order() {
    let mut server = server(Leadership::Here).await;
    let (sender, mut receiver) = dial(&server.address, LIMIT).await.unwrap();
    let mut opened = server.opened.recv().await.unwrap();
    for number in 0..2_000 {
        sender.send(says(noted(number))).unwrap();
        opened
            .sender
            .send(orders(Order::NotifyIfNotRunning(NotifySequence::new(number), Vec::new())))
            .unwrap();
    }
    for number in 0..2_000 {
        assert_eq!(opened.receiver.next().await.unwrap().unwrap().saying, noted(number));
        let FromLeader { order: Order::NotifyIfNotRunning(heard, _), .. } =
            receiver.next().await.unwrap().unwrap()
        else {
            panic!("something else")
        };
        assert_eq!(heard.get(), number);
    }
}

#[tokio::test]
async fn either_side_may_end_a_stream() {
    let mut server = server(Leadership::Here).await;
    let (sender, mut receiver) = dial(&server.address, LIMIT).await.unwrap();
    let opened = server.opened.recv().await.unwrap();
    opened.sender.send(orders(Order::Die)).unwrap();
    drop(opened);
    // What was sent before is still heard.
    assert_eq!(receiver.next().await.unwrap().unwrap().order, Order::Die);
    assert!(matches!(receiver.next().await, Ok(None) | Err(StreamError::Broken(_))));
    drop((sender, receiver));
    let (sender, receiver) = dial(&server.address, LIMIT).await.unwrap();
    let mut opened = server.opened.recv().await.unwrap();
    drop((sender, receiver));
    assert!(matches!(opened.receiver.next().await, Ok(None) | Err(StreamError::Broken(_))));
}

#[tokio::test]
async fn a_server_that_goes_breaks_the_stream() {
    let mut server = server(Leadership::Here).await;
    let (_sender, mut receiver) = dial(&server.address, LIMIT).await.unwrap();
    let _opened = server.opened.recv().await.unwrap();
    server.task.abort();
    let error = receiver.next().await.unwrap_err();
    assert!(error.to_string().starts_with("the stream broke: "), "{error}");
}

#[tokio::test]
async fn who_does_not_lead_says_who_does() {
    let leader: Address = "127.0.0.1:7500".parse().unwrap();
    let server = server(Leadership::Elsewhere(Some(leader.clone()))).await;
    let error = dial(&server.address, LIMIT).await.unwrap_err();
    let says = format!("the server at {} does not lead", server.address);
    assert_eq!(error.to_string(), says);
    assert_eq!(error.leader(), Some(&leader));
}

#[tokio::test]
async fn nobody_there_is_told_from_somebody_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let web = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            drop(socket.read(&mut [0; 1_000]).await);
            drop(socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
            // As web servers do, so that the answer is not lost with the connection.
            while socket.read(&mut [0; 1_000]).await.is_ok_and(|count| count > 0) {}
        }
    });
    let error = dial(&address, LIMIT).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{address} answers, but not as a server of Sterna does"));
    web.abort();
    drop(web.await);
    let error = dial(&address, LIMIT).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{address} cannot be reached"));
}

#[tokio::test]
async fn who_closes_the_connection_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let closing = tokio::spawn(async move {
        for round in 0..10 {
            let (mut socket, _) = listener.accept().await.unwrap();
            if round % 2 == 0 {
                drop(socket.read(&mut [0; 1_000]).await);
            }
        }
    });
    for _ in 0..10 {
        let error = dial(&address, LIMIT).await.unwrap_err();
        assert!(matches!(error, DialError::NotReached { .. }), "{error:?}");
    }
    closing.await.unwrap();
}

#[tokio::test]
async fn a_silent_server_is_waited_for_no_longer_than_said() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let error = dial(&address, Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error, DialError::Silent { .. }), "{error}");
    drop(listener);
}

/// Nobody reads: what is sent waits up to a bound, and then the stream is over.
#[tokio::test]
async fn a_stream_that_takes_nothing_is_over() {
    let mut server = server(Leadership::Here).await;
    let (_sender, receiver) = dial(&server.address, LIMIT).await.unwrap();
    let opened = server.opened.recv().await.unwrap();
    let run = sterna_model::RunId::from_parts(sterna_model::WallTime::EPOCH, [1; 10]);
    let large = || orders(Order::NotifyIfNotRunning(NotifySequence::new(1), vec![run; 400_000]));
    let mut sent = 0;
    let error = loop {
        match opened.sender.send(large()) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 100, "nothing bounds what waits");
    };
    assert!(matches!(error, SendError::Over), "{error}");
    drop::<Receiver<FromLeader>>(receiver);
}
