//! A store that was restored: what a worker may keep of which it does not know waits for somebody who says
//! that nobody is missing.

use std::env;

use crate::place::{Cluster, LONG, wait_until};

const KEPT: &str =
    "version = 1\n[service.kept]\nrun = [\"sleep\", \"1000\"]\non_silence = \"keep\"\n";

/// One that a store without it must not start at once: somebody may have it.
const LATER: &str =
    "version = 1\n[service.later]\nrun = [\"sleep\", \"1000\"]\non_silence = \"keep\"\n";

#[test]
fn what_may_be_kept_waits_until_the_roster_is_declared_complete() {
    let cluster = Cluster::start("restored", &[]);
    assert!(cluster.answer(&["declare-complete"]).contains("was already so"));
    cluster.write("kept.toml", KEPT);
    cluster.answer(&["apply", "kept.toml"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "services"]).contains("1/1"));
    cluster.empty_store();
    // Nothing can be given, so it does not succeed; it says how it is all the same.
    let status = |args: &[&str]| {
        let said = cluster.sterna(args).stdout;
        String::from_utf8_lossy(&said).into_owned()
    };
    let is_recovered = || {
        let said: serde_json::Value =
            serde_json::from_str(&status(&["status", "--json"])).expect("a status");
        said["is_recovered"].clone()
    };
    assert_eq!(is_recovered(), true);
    assert!(status(&["status"]).contains("run `sterna declare-complete`"));
    cluster.write("later.toml", LATER);
    cluster.answer(&["apply", "later.toml"]);
    let why = || cluster.answer(&["why", "later/0"]);
    wait_until("it waits for the word", LONG, || why().contains("`sterna declare-complete`"));
    let declared = cluster.sterna(&["declare-complete"]);
    assert!(declared.status.success());
    assert_eq!(declared.stdout, b"the list of workers is declared complete\n");
    assert!(String::from_utf8_lossy(&declared.stderr).contains("it may now run twice"));
    assert_eq!(cluster.json(&["declare-complete"])["changed"], false, "it was so already");
    assert_eq!(is_recovered(), false);
    assert!(!why().contains("declare-complete"), "{}", why());
    let events = cluster.answer(&["events", "--kind", "roster-declared-complete"]);
    assert_eq!(events.lines().count(), 1, "{events}");
    if env::var_os("STERNA_LONG").is_some() {
        wait_until("the full wait is over, and it runs", LONG * 15, || {
            cluster.answer(&["ls", "instances"]).contains("running")
                && why().contains("as its spec wants it")
        });
    }
}
