//! `sterna bench store` on a real PostgreSQL server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[expect(dead_code, reason = "the store's own tests use the rest")]
#[path = "../../store/tests/support/postgres.rs"]
mod server;

use std::process::Command;

use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_postgresql_is_measured_beside_bare_updates() {
    let server = server::Server::start(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "store", "--rounds", "1", "--millis", "50", "--json", "--store"])
        .arg(server.url("measured"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["postgres_1", "postgres_64", "postgres_512"] {
        assert!(json["ratios"][key].as_f64().unwrap() > 0.0, "{json}");
    }
    assert!(json["floor"]["update_per_s_postgres"].as_f64().unwrap() > 0.0, "{json}");
    assert!(
        json["figures"]["watch_since_sent_ms_p99"]["postgres"].as_f64().unwrap() > 0.0,
        "{json}"
    );
    // What was put there is gone again, and so is the table of the floor.
    let left = "SELECT (SELECT count(*) FROM measured.items),
        (SELECT count(*) FROM pg_tables WHERE tablename LIKE 'bench_floor%')";
    let row = server.admin().await.query_one(left, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 0));
}

#[test]
fn a_check_says_which_promises_a_failover_breaks() {
    let primary = server::Server::start(&[]);
    let _standby = primary.start_standby("second");
    let check = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sterna"));
        command.args(["store", "check", &primary.url("checked")]).args(more).output().unwrap()
    };
    // A standby takes its time to come.
    let output = loop {
        let output = check(&[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        if String::from_utf8_lossy(&output.stdout).contains("failover") {
            break output;
        }
    };
    let told = "no commit waits for a standby (second): the last ones are lost if it takes over";
    let (text, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(text.contains(&format!("failover  {told}")), "{text}");
    assert!(said.contains(told), "{said}");
    for promise in ["P1", "P4", "P5", "P7"] {
        let line = text.lines().find(|line| line.contains(&format!("{promise} "))).unwrap();
        assert!(line.ends_with("can hold, but NOT over a failover"), "{line}");
    }
    let json: Value = serde_json::from_slice(&check(&["--json"]).stdout).unwrap();
    assert_eq!(json["promises"][0]["holds"], true, "{json}");
    assert_eq!(json["promises"][0]["holds_on_failover"], false, "{json}");
    assert!(json["failover"].as_str().unwrap().starts_with(told), "{json}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_moves_to_postgresql_but_not_while_it_is_led() {
    use std::sync::Arc;
    use sterna_model::{ClusterId, WallTime, WriteId};
    use sterna_store::{
        cluster,
        leader::{Candidate, Timing},
    };

    let server = server::Server::start(&[]);
    let (from, to) = (server.url("old"), server.url("new"));
    let store = sterna_store::open(&from).await.unwrap();
    let write_id = WriteId::from_parts(WallTime::EPOCH, [1; 10]);
    let id = ClusterId::from_parts(WallTime::EPOCH, [1; 10]);
    cluster::make(&*store, id, write_id).await.unwrap();
    let mut candidate = Candidate::start(Arc::clone(&store), Timing::default(), "server-1");
    candidate.elected().await;
    let sterna = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_sterna")).arg("store").args(arguments).output().unwrap()
    };

    let checked = sterna(&["check", &from]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let text = String::from_utf8(checked.stdout).unwrap();
    for word in ["PostgreSQL 1", "several servers may share it", "fsync: on", "server-1, term 1"] {
        assert!(text.contains(word), "{word} is missing in\n{text}");
    }
    assert!(!text.contains("secret"), "the password is shown:\n{text}");

    let led = sterna(&["copy", &from, &to]);
    let said = String::from_utf8_lossy(&led.stderr).into_owned();
    assert!(said.contains("server-1 leads this cluster; stop all its servers"), "{said}");
    candidate.resign().await;
    let moved = sterna(&["copy", &from, &to]);
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    let store = sterna_store::open(&to).await.unwrap();
    let named = cluster::read(&*store, None).await.unwrap().cluster.unwrap();
    assert_eq!((named.id, named.epoch.get()), (id, 2));
    // The next leader reigns after the last one, and at once.
    let mut candidate = Candidate::start(store, Timing::default(), "server-2");
    assert_eq!(candidate.elected().await.term.get(), 3);
    candidate.resign().await;
}
