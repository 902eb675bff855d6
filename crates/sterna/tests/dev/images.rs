//! Work in images, as people write it into files.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use crate::place::{Cluster, LONG, wait_until};

/// A root file system with a shell and whatever else is in busybox, and a file that no machine has.
fn root_file_system(path: &Path) {
    for part in ["bin", "etc", "proc", "dev", "sys", "sterna"] {
        fs::create_dir_all(path.join(part)).expect("a directory of the image");
    }
    let listed = Command::new("busybox").arg("--list").output();
    let listed = listed.expect("this test needs busybox-static");
    let found = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|at| Path::new(at).exists());
    let bin = path.join("bin");
    fs::copy(found.expect("busybox is there"), bin.join("busybox")).expect("a copy of it");
    for name in String::from_utf8_lossy(&listed.stdout).lines().filter(|name| *name != "busybox") {
        symlink("busybox", bin.join(name)).expect("a name of it");
    }
    fs::write(path.join("etc/sterna-image"), "the image of the test\n").expect("a file of it");
}

/// What is told of a task when it is over.
fn end(cluster: &Cluster, name: &str) -> serde_json::Value {
    let mut task = serde_json::Value::Null;
    wait_until("the task is over", LONG, || {
        let all = cluster.json(&["ls", "tasks"]);
        let all = all["tasks"].as_array().cloned().unwrap_or_default();
        let is_it = |it: &serde_json::Value| {
            let key = it["key"].as_str().or(it["name"].as_str()).unwrap_or_default();
            key.contains(name) && it["phase"] == "completed"
        };
        task = all.into_iter().find(is_it).unwrap_or_default();
        !task.is_null()
    });
    task
}

#[test]
fn a_task_in_an_image_finds_the_files_of_the_image_and_what_is_mounted() {
    let cluster = Cluster::start("image", &[]);
    let root = cluster.path.join("rootfs");
    root_file_system(&root);
    cluster.write("mounted", "what is mounted\n");
    let here = cluster.path.to_string_lossy().into_owned();
    let spec = "version = 1\n[task.shown]\nstart = true\n\
        run = [\"sh\", \"-c\", \"cat /etc/sterna-image /data; ls /; touch /x || echo read-only\"]\n\
        [task.shown.image]\nrootfs = \"$HERE/rootfs\"\nread_only = true\nnetwork = \"none\"\n\
        mounts = [{ source = \"$HERE/mounted\", target = \"/data\", read_only = true }]\n";
    cluster.write("image.toml", &spec.replace("$HERE", &here));
    cluster.answer(&["apply", "image.toml"]);
    let task = end(&cluster, "shown");
    let name = task["name"].as_str().expect("a name").to_owned();
    let said = cluster.answer(&["logs", &name]);
    assert!(said.contains("the image of the test\nwhat is mounted\n"), "{task} {said}");
    assert!(said.contains("sterna\n") && said.contains("read-only\n"), "{said}");
    assert!(!said.contains("home\n"), "nothing else of the machine is there: {said}");
}

#[test]
fn a_missing_image_ends_the_task_with_a_reason_that_names_it() {
    let cluster = Cluster::start("image-missing", &[]);
    let spec = "version = 1\n[task.none]\nstart = true\nrun = [\"true\"]\n\
        image = { rootfs = \"/no/such/image\" }\n";
    cluster.write("image.toml", spec);
    cluster.answer(&["apply", "image.toml"]);
    let task = end(&cluster, "none");
    let text = task["end"]["text"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("/no/such/image is missing"), "{task}");
}
