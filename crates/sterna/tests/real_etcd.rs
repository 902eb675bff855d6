//! `sterna bench store` on a real etcd cluster.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[expect(dead_code, reason = "the store's own tests use the rest")]
#[path = "../../store/tests/support/etcd.rs"]
mod cluster;

use std::process::Command;

use serde_json::Value;

#[test]
fn a_store_on_etcd_is_measured_beside_bare_puts() {
    let cluster = cluster::Cluster::start(3, &[]);
    let output = Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "store", "--rounds", "1", "--millis", "50", "--json", "--store"])
        .arg(cluster.url("measured"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["etcd_1", "etcd_64", "etcd_512"] {
        assert!(json["ratios"][key].as_f64().unwrap() > 0.0, "{json}");
    }
    assert!(json["floor"]["put_per_s_etcd"].as_f64().unwrap() > 0.0, "{json}");
    // A process hands on its own commits as they are answered, so that may be no time at all after the
    // answer; after the sending it is some, and the longer of the two.
    let late = |figure: &str| json["figures"][figure]["etcd"].as_f64().unwrap();
    let (answered, sent) = (late("watch_ms_p99"), late("watch_since_sent_ms_p99"));
    assert!(sent > 0.0 && (0.0..=sent).contains(&answered), "{json}");
    // What was put there is gone again, and so are the keys of the floor.
    for room in ["measured//k/", "measured//b/"] {
        let address = cluster.address(0);
        let (is_good, left) =
            cluster.ctl(&["get", "--prefix", "--keys-only", room, "--endpoints", &address]);
        assert!(is_good && left.trim().is_empty(), "{left}");
    }
}
