//! Logs of the children of `dev`, which are put aside while those run.

use std::{
    fs::{self, OpenOptions},
    path::Path,
};

use crate::place::{Cluster, LONG, wait_until};

/// More than a log may have.
const LONG_LOG: u64 = 9 << 20;

/// Makes a log too long, and waits until it is put aside. What was there is zeros.
fn lengthen(log: &Path) {
    let file = OpenOptions::new().write(true).open(log).expect("the log is there");
    file.set_len(LONG_LOG).expect("it grows");
}

#[test]
fn a_child_that_runs_puts_its_long_log_aside_and_goes_on_in_another() {
    let cluster = Cluster::start("rotated", &[]);
    let data = cluster.path.join(".sterna");
    let before = [cluster.child("server"), cluster.child("worker")];
    for (name, child) in [("server.log", before[0]), ("worker-1.log", before[1])] {
        let (log, aside) = (data.join(name), data.join(format!("{name}.1")));
        assert!(!aside.exists(), "{name} is short");
        lengthen(&log);
        wait_until("it is put aside", LONG, || aside.exists());
        assert_eq!(fs::metadata(&aside).expect("it is there").len(), LONG_LOG, "{name}");
        wait_until("it goes on in another", LONG, || {
            fs::read_link(format!("/proc/{child}/fd/2")).is_ok_and(|open| open == log)
        });
        assert!(fs::metadata(&log).expect("there is another").len() < LONG_LOG, "{name}");
    }
    // What they say next is there, and the same processes say it: to be without a worker for a moment is
    // worth a line of each.
    let length = |name: &str| fs::metadata(data.join(name)).map_or(0, |log| log.len());
    let said = [length("server.log"), length("worker-1.log")];
    cluster.answer(&["run", "--detach", "--name", "waits", "--tag", "gpu", "--", "true"]);
    wait_until("the server says why", LONG, || {
        length("server.log") > said[0] && cluster.read(".sterna/server.log").contains("waits")
    });
    cluster.answer(&["drain", "worker-1"]);
    wait_until("the worker says so", LONG, || length("worker-1.log") > said[1]);
    assert_eq!([cluster.child("server"), cluster.child("worker")], before, "nobody died");
}
