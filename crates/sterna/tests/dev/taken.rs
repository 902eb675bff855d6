//! Who says nothing is not waited for, and a name that was taken is told as that.

use std::{net::TcpStream, process::Child};

use serde_json::{Value, json};
use sterna_api::{
    client::ClientError,
    rest::{Code, Plan, TaskView},
};

use crate::{
    place::{LONG, wait_until},
    storm::{Place, block_on},
};

fn leading(place: &Place) -> Child {
    let server = place.server();
    let leads = || block_on(place.client().get::<Value>("/v1/status")).is_ok();
    wait_until("it leads", LONG, leads);
    server
}

/// Some hundred of them kept everybody else out for as long as they liked.
#[test]
fn who_connects_and_says_nothing_is_hung_up_on() {
    let place = Place::new("silence");
    let mut server = leading(&place);
    let mut silent = TcpStream::connect(&place.address).expect("it listens");
    silent.set_read_timeout(Some(LONG)).expect("a limit");
    let read = std::io::Read::read(&mut silent, &mut [0]).expect("the end, not a limit");
    assert_eq!(read, 0);
    server.kill().expect("it runs");
    server.wait().expect("it ran");
}

#[test]
fn a_name_that_was_started_and_deleted_is_planned_and_answered_as_taken() {
    let place = Place::new("taken");
    let mut server = leading(&place);
    let text = "version = 1\n[task.once]\nrun = [\"true\"]\nstart = true\n";
    let asked = json!({ "files": [{ "name": "once.toml", "text": text }] });
    block_on(async {
        let (mut client, post) = (place.client(), http::Method::POST);
        let planned = |plan: &Plan| {
            plan.tasks.iter().map(|task| (task.task.clone(), task.starts)).collect::<Vec<_>>()
        };
        let path = "/v1/namespaces/default/plan";
        let plan: Plan = client.call(post.clone(), path, Some(&asked)).await.expect("a plan");
        let [(task, true)] = &planned(&plan)[..] else { panic!("{plan:?}") };
        let _done: Value = client
            .call(post.clone(), "/v1/namespaces/default/apply", Some(&asked))
            .await
            .expect("it is applied");
        let path = format!("/v1/namespaces/default/tasks/{task}");
        let made: TaskView = client.get(&path).await.expect("it is there");
        let _done: Value = client
            .call(post.clone(), &format!("{path}/cancel"), None::<&()>)
            .await
            .expect("it is cancelled");
        let _done: Value =
            client.call(http::Method::DELETE, &path, None::<&()>).await.expect("it is deleted");
        let plan: Plan = client
            .call(post.clone(), "/v1/namespaces/default/plan", Some(&asked))
            .await
            .expect("a plan");
        assert_eq!(planned(&plan), [(task.clone(), false)], "apply does not start it either");
        let again =
            json!({ "name": task, "spec": { "run": ["true"] }, "incarnation": made.incarnation });
        let error =
            client.call::<TaskView>(post, "/v1/namespaces/default/tasks", Some(&again)).await;
        assert!(
            matches!(&error, Err(ClientError::Refused(refused)) if refused.code == Code::NameTaken),
            "{error:?}"
        );
    });
    server.kill().expect("it runs");
    server.wait().expect("it ran");
}
