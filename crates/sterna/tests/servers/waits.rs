//! Waiting for the end of a task at a server that does not lead.

use crate::{postgres, several::Servers};

/// It gave up after 30 s, whatever was asked for.
#[test]
fn who_waits_for_an_end_at_a_server_that_follows_may_wait_as_long_as_at_the_leader() {
    let store = postgres::Server::start(&[]);
    let servers = Servers::start("waits", &store.url("waits"));
    let (_, followers) = servers.ranks();
    servers.answer(followers[0], &["run", "--detach", "--name", "long", "--", "sleep", "33"]);
    let path = "/v1/namespaces/default/tasks/long?wait_s=60";
    let answer = servers.stream(followers[0], path);
    assert!(answer.is_ok(), "{}", answer.err().unwrap_or_default());
    let task = servers.ask(followers[0], "/v1/namespaces/default/tasks/long");
    assert!(task.contains("\"is_success\":true"), "it was told of the end: {task}");
}
