//! `sterna store check` and `sterna store copy` on embedded stores.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../../store/tests/support/mod.rs"]
mod support;

use std::process::{Command, Output};

use serde_json::Value;
use sterna_model::{ClusterId, Epoch, WallTime, WriteId};
use sterna_store::{
    Commit, Embedded, Store,
    cluster::{self, CLUSTER_KEY, COPYING_KEY, ClusterError, Stage},
    scan_all,
};
use support::Folder;

fn sterna(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna")).arg("store").args(arguments).output().unwrap()
}

fn url(folder: &Folder) -> String {
    format!("file:{}", folder.path().display())
}

fn write_id(number: u8) -> WriteId {
    WriteId::from_parts(WallTime::EPOCH, [number; 10])
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A cluster with some hundred keys, more than one commit takes, and large values.
async fn filled() -> Folder {
    let folder = Folder::new("copied");
    let store = Embedded::open(folder.path()).unwrap();
    let id = ClusterId::from_parts(WallTime::EPOCH, [1; 10]);
    cluster::make(&store, id, write_id(1)).await.unwrap();
    for number in 0..250_u8 {
        let mut unique = [2; 10];
        unique[9] = number;
        let id = WriteId::from_parts(WallTime::EPOCH, unique);
        let value = vec![number; usize::from(number) * 100];
        drop(store.commit(Commit::new(id).put(format!("/v1/x/{number}"), value)).await.unwrap());
    }
    folder
}

#[test]
fn a_good_store_is_said_to_be_one() {
    let folder = Folder::new("checked");
    std::fs::create_dir_all(folder.path()).unwrap();
    let output = sterna(&["check", &url(&folder)]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["engine    embedded", "for one server", "latency   commit", "P5", "can hold"] {
        assert!(text.contains(word), "{word} is missing in\n{text}");
    }
    let json: Value =
        serde_json::from_slice(&sterna(&["check", "--json", &url(&folder)]).stdout).unwrap();
    assert_eq!(json["is_durable"], true);
    assert!(json["commit_ms"].as_f64().unwrap() > 0.0, "{json}");
    assert!(json["promises"].as_array().unwrap().iter().all(|promise| promise["holds"] == true));
}

#[test]
fn what_is_checked_and_not_there_is_not_made() {
    let folder = Folder::new("unmade");
    let path = folder.path().join("none");
    for scheme in ["file:", "file://"] {
        let url = format!("{scheme}{}", path.display());
        let other = format!("file:{}", folder.path().join("other").display());
        for arguments in [&["check", &url][..], &["copy", &url, &other]] {
            let output = sterna(arguments);
            assert_eq!(output.status.code(), Some(69), "{}", said(&output));
            assert!(said(&output).contains("there is no store at"), "{}", said(&output));
            assert!(!path.exists() && !folder.path().join("other").exists(), "{arguments:?}");
        }
    }
}

#[test]
fn a_store_on_which_promises_cannot_hold_fails_the_check() {
    let output = sterna(&["check", "memory:"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("write file:DIRECTORY for one that is kept"));
    assert!(
        String::from_utf8_lossy(&output.stdout)
            .contains("P5 what was acknowledged is never lost: VOID")
    );
    let output = sterna(&["check", "mysql://db"]);
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
}

#[tokio::test]
async fn a_copy_is_whole_and_the_old_store_is_marked() {
    let (from, to) = (filled().await, Folder::new("copy"));
    let output = sterna(&["copy", "--json", &url(&from), &url(&to)]);
    assert!(output.status.success(), "{}", said(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    // With the nonce of the term in which the copy led.
    assert_eq!((&json["keys"], &json["epoch"]), (&252.into(), &2.into()));

    let read = async |folder: &Folder| {
        let store = Embedded::open(folder.path()).unwrap();
        let (items, _) = scan_all(&store, "/v1/x/").await.unwrap();
        let cluster = cluster::read(&store, None).await.unwrap().cluster;
        let items: Vec<_> = items.into_iter().map(|item| (item.key, item.value)).collect();
        (items, cluster.unwrap())
    };
    let ((old, moved), (new, named)) = (read(&from).await, read(&to).await);
    assert_eq!(old, new);
    assert_eq!((moved.epoch, moved.stage), (Epoch::new(1), Stage::Moved));
    assert_eq!((named.id, named.epoch, named.stage), (moved.id, Epoch::new(2), Stage::Virgin));
}

#[tokio::test]
async fn a_copy_goes_only_into_an_empty_store() {
    let (from, to) = (filled().await, filled().await);
    let output = sterna(&["copy", &url(&from), &url(&to)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("the store to copy to is not empty, it holds /v1/-/cluster"));
    // Nothing was marked.
    let store = Embedded::open(from.path()).unwrap();
    let found = cluster::read(&store, None).await.unwrap().cluster.unwrap();
    assert_eq!(found.stage, Stage::Virgin);
}

#[tokio::test]
async fn a_cluster_is_moved_once() {
    let (from, to, other) = (filled().await, Folder::new("copy"), Folder::new("copy"));
    assert!(sterna(&["copy", &url(&from), &url(&to)]).status.success());
    let output = sterna(&["copy", &url(&from), &url(&other)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("was moved to another store already"), "{}", said(&output));
    // The same again finds its work done.
    let output = sterna(&["copy", &url(&from), &url(&to)]);
    assert!(said(&output).contains("was moved to another store already"), "{}", said(&output));
}

#[tokio::test]
async fn a_copy_that_was_cut_short_before_the_name_is_finished_by_the_same_command() {
    let (from, to) = (filled().await, Folder::new("copy"));
    assert!(sterna(&["copy", &url(&from), &url(&to)]).status.success());
    // As it was before the last commit.
    let (copy, named) = {
        let (old, new) = (Embedded::open(from.path()).unwrap(), Embedded::open(to.path()).unwrap());
        let moved = old.get("/v1/-/moved").await.unwrap().item.unwrap().value;
        let copy = std::str::from_utf8(&moved).unwrap().split(' ').nth(1).unwrap().to_owned();
        let named = cluster::read(&new, None).await.unwrap().cluster.unwrap();
        let undo = Commit::new(write_id(9))
            .put(COPYING_KEY, copy.clone())
            .delete(CLUSTER_KEY)
            .delete("/v1/-/leader/lease")
            .delete("/v1/-/leader/reign");
        drop(new.commit(undo).await.unwrap());
        let half = cluster::read(&new, None).await;
        assert!(matches!(half, Err(ClusterError::HalfCopied)), "{half:?}");
        (copy, named)
    };
    assert!(!copy.is_empty());
    let output = sterna(&["copy", &url(&from), &url(&to)]);
    assert!(output.status.success(), "{}", said(&output));
    let store = Embedded::open(to.path()).unwrap();
    assert_eq!(cluster::read(&store, None).await.unwrap().cluster, Some(named));
}

#[test]
fn a_mistyped_store_is_not_made() {
    let (from, to) = (Folder::new("nothing"), Folder::new("copy"));
    let output = sterna(&["copy", &url(&from), &url(&to)]);
    assert_eq!(output.status.code(), Some(69));
    assert!(said(&output).contains("there is no store at"), "{}", said(&output));
    assert!(!from.path().exists() && !to.path().exists());
    let output = sterna(&["copy", "memory:", &url(&to)]);
    assert!(said(&output).contains("there is no cluster in memory:"), "{}", said(&output));
}
