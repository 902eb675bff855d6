//! The store on a real etcd cluster: it keeps the contract, also when members are killed, paused,
//! cut off or silent.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../support/answers.rs"]
mod answers;
#[path = "../support/etcd.rs"]
mod cluster;
mod contract;
mod crashes;
#[path = "../support/killed.rs"]
mod killed;
#[path = "../support/ledger.rs"]
mod ledger;
mod messages;
mod network;
#[path = "../support/proxy.rs"]
mod proxy;
mod refusals;
#[path = "../support/two.rs"]
mod two;

use std::time::Duration;

use self::answers::{assert_silent, assert_unavailable, told, write_id};

/// By when every call must have been answered: the bound of all calls, and some for a busy machine.
const ANSWERED_BY: Duration = Duration::from_secs(18);

#[test]
fn a_killed_test_leaves_no_member() {
    let start = || cluster::Cluster::start(3, &[]);
    killed::assert_nothing_is_left(
        "a_killed_test_leaves_no_member",
        start,
        cluster::Cluster::folder,
    );
}
