//! A guardian that is killed, and one that outlives its worker.

use std::time::Duration;

use serde_json::json;

use crate::worker::{
    KILL_WAIT, LONG, Place, Runtime, Worker, assert_gone, is_alive, run, signal, wait_until,
};

const KEEP: &str = "keep";

fn a_guardian_that_is_killed_is_replaced_and_its_runs_live_on_supervised(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        worker.start_run(
            &place,
            1,
            &["sh", "-c", "echo up; sleep 2; echo still; exit 5"],
            json!({}),
        );
        worker.start_run(&place, 2, &["sleep", "1000"], json!({}));
        worker.start_run(&place, 3, &["sleep", "1000"], json!({ "stop_after": "4s" }));
        for number in 1..=3 {
            worker.wait_for_state(number, "Running");
        }
        wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
        let (before, alive) = (place.guardian().unwrap(), place.marked());
        signal(before, "KILL");
        wait_until("there is another guardian", LONG, || {
            place.guardian().is_some_and(|guardian| guardian != before)
        });
        assert!(alive.iter().all(|pid| is_alive(*pid)), "{isolation}: runs must live on");
        worker.tell(&json!({ "ping": { "number": 7 } }));
        worker.hear("that the guardian is well", |said| said["pong"] == 7);
        // Its output is still read, and its end is seen; how it ended is told by newer kernels.
        let end = worker.end(1);
        assert_eq!(end["completed"], "Exited", "{isolation}");
        assert_eq!(place.output(&run(1), "stdout"), "up\nstill\n", "{isolation}");
        if *isolation != "tree" {
            assert_eq!(end["exit"], "Code(5)", "{isolation}: this kernel does not tell (6.15)");
        }
        // Deadlines go on, from what was kept; and so do orders.
        assert_eq!(worker.end(3)["completed"], "Deadline", "{isolation}");
        worker.tell(&json!({ "stop": { "run": run(2), "grace": "1s" } }));
        let end = worker.end(2);
        assert_eq!(end["completed"], "Request", "{isolation}");
        if *isolation != "tree" {
            assert_eq!(end["exit"], "Signal(15)", "{isolation}: its group was not asked to end");
        }
        // New work begins as before.
        worker.start_run(&place, 4, &["true"], json!({}));
        assert_eq!(worker.end(4)["exit"], "Code(0)");
        worker.end_by("TERM");
        assert_gone(&place, isolation);
    }
}

/// How a command finds its guardian: in a tree a process of ours stands between them, and in an image
/// one of its runtime, which leaves. Until its journal says so, nobody could take it over (ADR 13).
fn kills_its_guardian(runtime: Runtime, isolation: &str, then: &str) -> String {
    let parent = "$(cut -d' ' -f4 /proc/$$/stat)";
    let who = match (runtime, isolation) {
        (Runtime::Process, "tree") => "$(cut -d' ' -f4 /proc/$PPID/stat)",
        (Runtime::Process, _) => "$PPID",
        (Runtime::Oci, _) => parent,
    };
    let wait = match runtime {
        Runtime::Process => "",
        Runtime::Oci => {
            "until grep -qs made \"$STERNA_TEST_MARK/runs/$STERNA_RUN/journal\"; do :; done; "
        }
    };
    format!("{wait}kill -9 {who}; {then}")
}

/// The guardian has not even told that the command has begun.
fn a_command_loses_nothing_when_its_guardian_is_killed_as_soon_as_it_has_begun(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        for number in 1..=2 {
            let then = "echo one; sleep 0.3; echo two >&2; echo three; exit 5";
            let program = kills_its_guardian(runtime, isolation, then);
            worker.start_run(&place, number, &["sh", "-c", &program], json!({}));
            let end = worker.end(number);
            assert_eq!(end["completed"], "Exited", "{isolation}");
            assert_eq!(place.output(&run(number), "stdout"), "one\nthree\n", "{isolation}");
            assert_eq!(place.output(&run(number), "stderr"), "two\n", "{isolation}");
            if *isolation != "tree" {
                assert_eq!(end["exit"], "Code(5)", "{isolation}: this kernel does not tell (6.15)");
            }
            assert_is_whole(&place, isolation, number);
        }
        worker.end_by("TERM");
        assert_gone(&place, isolation);
    }
}

/// Nobody is left to be taken over when the next guardian comes.
fn a_command_that_ends_while_it_has_no_guardian_is_over_and_loses_nothing(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        for number in 1..=3 {
            let program = kills_its_guardian(runtime, isolation, "echo hello; exit 0");
            worker.start_run(&place, number, &["sh", "-c", &program], json!({}));
            assert_eq!(worker.end(number)["completed"], "Exited", "{isolation}");
            assert_eq!(place.output(&run(number), "stdout"), "hello\n", "{isolation}");
            assert_is_whole(&place, isolation, number);
        }
        worker.end_by("TERM");
        assert_gone(&place, isolation);
    }
}

/// Its log tells when it began, as whom, that it got another guardian, and that it ended.
fn assert_is_whole(place: &Place, isolation: &str, number: u32) {
    let events = place.output(&run(number), "events");
    let count = |event: &str| events.matches(&format!("\"event\":\"{event}\"")).count();
    for event in ["started", "guardian_replaced", "exited"] {
        assert_eq!(count(event), 1, "{isolation}: {event} in {events}");
    }
    assert!(events.contains("\"pid\":") && !events.contains("\"pid\":0}"), "{isolation}: {events}");
}

/// Its end had begun when the guardian was killed that knew why; no worker was there.
fn why_a_run_ends_is_known_after_its_guardian_was_killed_too(runtime: Runtime) {
    let stubborn = "trap 'echo heard >\"$HEARD\"' TERM; echo up; while :; do sleep 0.02; done";
    let cases = [
        (json!({ "when_worker_exits": KEEP, "stop_after": "1500ms" }), "Deadline"),
        (json!({}), "WorkerExit"),
        (json!({ "when_worker_exits": KEEP }), "Request"),
    ];
    for (more, cause) in cases {
        let place = Place::with(runtime);
        let mut worker = Worker::start(&place);
        let heard = place.path.join("heard");
        let mut more = more;
        more["env"] = json!({ "HEARD": heard, "STERNA_TEST_MARK": place.path });
        worker.start_run(&place, 1, &["sh", "-c", stubborn], more);
        wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
        if cause == "Request" {
            worker.tell(&json!({ "stop": { "run": run(1), "grace": "3s" } }));
            wait_until("it was asked to end", LONG, || heard.exists());
        }
        worker.kill();
        wait_until("it was asked to end", LONG, || heard.exists());
        signal(place.guardian().unwrap(), "KILL");
        let mut next = Worker::start(&place);
        assert_eq!(next.end(1)["completed"], cause);
        next.end_by("TERM");
        assert_gone(&place, cause);
    }
}

/// Whoever tidies up when it is asked to end has its grace for that, whatever becomes of its guardian.
fn a_run_keeps_its_grace_when_its_guardian_is_killed_meanwhile(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        let program = "trap 'echo heard; sleep 3; echo tidy; exit 0' TERM; echo up; \
                       while :; do sleep 0.02; done";
        worker.start_run(&place, 1, &["sh", "-c", program], json!({}));
        wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
        worker.tell(&json!({ "stop": { "run": run(1), "grace": "10s" } }));
        wait_until("it was asked", LONG, || place.output(&run(1), "stdout").contains("heard"));
        signal(place.guardian().unwrap(), "KILL");
        let end = worker.end(1);
        assert_eq!(place.output(&run(1), "stdout"), "up\nheard\ntidy\n", "{isolation}");
        assert_eq!(end["completed"], "Request", "{isolation}");
        if *isolation != "tree" {
            assert_eq!(end["exit"], "Code(0)", "{isolation}: this kernel does not tell (6.15)");
        }
        worker.end_by("TERM");
        assert_gone(&place, isolation);
    }
}

/// Who ends for memory under the next guardian is told as that, though its end is seen only when
/// somebody else has taken it.
fn what_runs_out_of_memory_after_its_guardian_was_killed_is_told_so(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start_so(&place, "cgroup2", &["rare-looks"]);
    let program =
        kills_its_guardian(runtime, "cgroup2", "sleep 0.5; x=a; while :; do x=$x$x$x$x; done");
    let limits = json!({ "limits": { "memory": "32MiB" } });
    worker.start_run(&place, 1, &["sh", "-c", &program], limits);
    let end = worker.end(1);
    assert_eq!((&end["completed"], &end["exit"]), (&json!("Exited"), &json!("OutOfMemory")));
    worker.end_by("TERM");
}

/// A journal with its first line alone is of a guardian that was killed before it let anything go.
fn what_no_guardian_has_let_go_is_told_as_not_started(runtime: Runtime) {
    for setup in [json!([]), json!([["true"], ["sleep", "1000"]])] {
        let place = Place::with(runtime);
        let mut worker = Worker::start(&place);
        let work = json!({ "setup": setup, "when_worker_exits": KEEP });
        worker.start_run(&place, 1, &["sleep", "1000"], work);
        wait_until("it is there", LONG, || !place.marked().is_empty());
        signal(worker.pid(), "STOP");
        signal(place.guardian().unwrap(), "KILL");
        worker.kill();
        let journal = place.path.join("runs").join(run(1)).join("journal");
        let text = std::fs::read_to_string(&journal).unwrap();
        let first = text.lines().find(|line| !line.is_empty()).unwrap();
        std::fs::write(&journal, format!("{first}\n")).unwrap();
        let mut next = Worker::start(&place);
        let end = next.end(1);
        let cause = end["completed"].as_str().unwrap();
        assert!(cause.contains("its guardian was killed before it began"), "{end}");
        assert_eq!(end["exit"], json!(null));
        assert_gone(&place, "what was there all the same");
        next.end_by("TERM");
    }
}

/// What its worker has noted already no guardian keeps, be it the first or the one after that.
#[test]
fn a_later_guardian_forgets_what_its_worker_has_noted() {
    let place = Place::new();
    // Where there is no group whose absence tells it.
    let mut worker = Worker::start_with(&place, "tree");
    for number in 1..=3 {
        worker.start_run(&place, number, &["true"], json!({}));
        worker.end(number);
    }
    let before = place.guardian().unwrap();
    signal(before, "KILL");
    wait_until("there is another guardian", LONG, || {
        place.guardian().is_some_and(|guardian| guardian != before)
    });
    let keeps = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", place.guardian().unwrap())).unwrap();
        let open = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        open.filter(|path| path.ends_with("journal")).count()
    };
    wait_until("it keeps nothing of them", Duration::from_secs(5), || keeps() == 0);
    worker.end_by("TERM");
}

/// Whoever is in the process group of a run by its number alone is none of it: the number may have come
/// again since the guardian that gave it was killed.
#[test]
fn a_later_guardian_signals_nobody_but_the_run_by_the_number_of_its_group() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    let (up, hit) = (place.path.join("up"), place.path.join("hit"));
    let stranger = format!(
        "echo $$ >/sys/fs/cgroup/unified/cgroup.procs; trap 'echo x >{}' TERM; echo $$ >{}; \
         while :; do sleep 0.02; done",
        hit.display(),
        up.display()
    );
    let program = "sh -c \"$1\" & trap 'exit 7' TERM; while :; do sleep 0.02; done";
    worker.start_run(&place, 1, &["sh", "-c", program, "sh", &stranger], json!({}));
    let number = || std::fs::read_to_string(&up).ok()?.trim().parse::<i32>().ok();
    wait_until("the other one has left the run", LONG, || number().is_some());
    let before = place.guardian().unwrap();
    signal(before, "KILL");
    wait_until("there is another guardian", LONG, || {
        place.guardian().is_some_and(|guardian| guardian != before)
    });
    worker.tell(&json!({ "stop": { "run": run(1), "grace": "5s" } }));
    assert_eq!(worker.end(1)["exit"], "Code(7)", "the run was asked to end");
    assert!(is_alive(number().unwrap()) && !hit.exists(), "and nobody else");
    signal(number().unwrap(), "KILL");
    worker.end_by("TERM");
}

fn what_is_kept_outlives_its_worker_and_is_taken_over_by_the_next(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        let kept = json!({ "when_worker_exits": KEEP });
        let go = place.path.join("go");
        let waits = format!(
            "echo one; while [ ! -e {} ]; do sleep 0.05; done; echo two; exit 4",
            go.display()
        );
        worker.start_run(&place, 1, &["sh", "-c", &waits], kept.clone());
        worker.start_run(&place, 2, &["sh", "-c", "echo done; exit 3"], kept.clone());
        worker.start_run(&place, 3, &["sleep", "1000"], json!({}));
        worker.start_run(&place, 4, &["sh", "-c", "sleep 1; exit 6"], kept);
        wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("one"));
        worker.end(2);
        worker.wait_for_state(3, "Running");
        worker.wait_for_state(4, "Running");
        worker.kill();
        wait_until("what is not kept is gone", KILL_WAIT + Duration::from_secs(1), || {
            let is_third = |pid: &i32| {
                let path = format!("/proc/{pid}/environ");
                std::fs::read_to_string(path).unwrap_or_default().contains(&run(3))
            };
            !place.marked().iter().any(is_third)
        });
        let mut next = Worker::start_with(&place, isolation);
        assert_eq!(next.life, 2);
        next.wait_for_state(1, "Running");
        // What ended before, meanwhile, and later: each is told.
        assert_eq!(next.end(2)["exit"], "Code(3)", "{isolation}");
        assert_eq!(next.end(3)["completed"], "WorkerExit", "{isolation}");
        assert_eq!(next.end(4)["exit"], "Code(6)", "{isolation}");
        std::fs::write(&go, "").unwrap();
        assert_eq!(next.end(1)["exit"], "Code(4)", "{isolation}");
        assert_eq!(place.output(&run(1), "stdout"), "one\ntwo\n", "{isolation}");
        for number in 1..=4 {
            next.tell(&json!({ "acknowledge": { "run": run(number) } }));
        }
        next.end_by("TERM");
        let mut last = Worker::start_with(&place, isolation);
        last.start_run(&place, 9, &["true"], json!({}));
        last.end(9);
        last.end_by("TERM");
    }
}

fn the_next_worker_tells_why_an_end_was_asked_for(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let program = "trap 'echo heard' TERM; echo up; while :; do sleep 0.05; done";
    let kept = json!({ "when_worker_exits": KEEP });
    worker.start_run(&place, 1, &["sh", "-c", program], kept);
    worker.wait_for_state(1, "Running");
    wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
    worker.tell(&json!({ "stop": { "run": run(1), "grace": "2s" } }));
    wait_until("it was asked", LONG, || place.output(&run(1), "stdout").contains("heard"));
    worker.kill();
    let mut next = Worker::start(&place);
    let end = next.end(1);
    assert_eq!((&end["completed"], &end["exit"]), (&json!("Request"), &json!("Signal(9)")));
    next.end_by("TERM");
}

fn what_a_run_said_of_its_status_outlives_the_worker_that_read_it(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let go = place.path.join("go");
    let program = format!(
        "echo early >&3; printf do >&3; echo said; while [ ! -e {0} ]; do sleep 0.05; done; \
         [ -s {0} ] && echo ne >&3; exit 0",
        go.display()
    );
    let node = json!({ "name": "n", "json": "{}" });
    let kept = json!({ "when_worker_exits": KEEP, "node": node });
    for (number, last) in [(1, "done"), (2, "do")] {
        drop(std::fs::remove_file(&go));
        worker.start_run(&place, number, &["sh", "-c", &program], kept.clone());
        wait_until("it is said", LONG, || place.output(&run(number), "stdout").contains("said"));
        // That what is on one pipe was read does not say so of the other.
        let status = place.path.join("runs").join(run(number)).join("status");
        wait_until("it is kept", LONG, || status.exists());
        worker.kill();
        worker = Worker::start(&place);
        std::fs::write(&go, if last == "done" { "x" } else { "" }).unwrap();
        assert_eq!(worker.end(number)["status"], last);
    }
    worker.end_by("TERM");
}

fn how_a_run_ended_is_known_after_worker_and_guardian_have_gone(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    worker.start_run(
        &place,
        1,
        &["sh", "-c", "trap 'exit 6' TERM; echo up; while :; do sleep 0.02; done"],
        json!({}),
    );
    wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
    worker.kill();
    wait_until("the guardian has gone", LONG, || place.guardian().is_none());
    let mut next = Worker::start(&place);
    let end = next.end(1);
    assert_eq!((&end["completed"], &end["exit"]), (&json!("WorkerExit"), &json!("Code(6)")));
    next.end_by("TERM");
}

fn a_kept_run_goes_at_its_deadline_when_no_worker_comes(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let kept = json!({ "when_worker_exits": KEEP, "stop_after": "1500ms" });
    worker.start_run(&place, 1, &["sh", "-c", "trap '' TERM; sleep 1000"], kept);
    worker.wait_for_state(1, "Running");
    // In an image a process shows its own environment only when the runtime has become its command.
    wait_until("it is there", LONG, || !place.marked().is_empty());
    worker.kill();
    assert!(!place.marked().is_empty());
    let within = Duration::from_millis(1500) + KILL_WAIT + Duration::from_secs(1);
    wait_until("it is gone", within, || place.marked().is_empty());
    wait_until("the guardian has gone", LONG, || place.guardian().is_none());
}

fn the_next_worker_sweeps_what_was_left_when_both_were_killed(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        worker.start_run(&place, 1, &["sh", "-c", "setsid sleep 1000 & sleep 1000"], json!({}));
        worker.wait_for_state(1, "Running");
        // It runs as soon as its runtime has left; the shell that it becomes, and what that makes, come
        // a moment later.
        wait_until("all of it is there", LONG, || place.marked().len() >= 2);
        let guardian = place.guardian().unwrap();
        signal(worker.pid(), "STOP");
        signal(guardian, "KILL");
        worker.kill();
        assert!(place.marked().len() >= 2, "{isolation}: nothing of it has ended by itself");
        let next = Worker::start_with(&place, isolation);
        assert_gone(&place, isolation);
        next.end_by("TERM");
    }
}

/// Each forks the next and ends: whoever kills one after the other comes too late.
#[test]
fn the_next_worker_sweeps_what_runs_away_from_it() {
    for isolation in ["cgroup2", "freezer"] {
        let place = Place::new();
        let script = place.path.join("chain");
        std::fs::write(&script, "#!/bin/sh\n\"$0\" &\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        let mut worker = Worker::start_with(&place, isolation);
        // Of one alone every process might be met.
        let twenty = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20";
        let program = format!("for i in {twenty}; do {} & done; sleep 1000", script.display());
        worker.start_run(&place, 1, &["sh", "-c", &program], json!({}));
        worker.wait_for_state(1, "Running");
        let guardian = place.guardian().unwrap();
        signal(worker.pid(), "STOP");
        signal(guardian, "KILL");
        worker.kill();
        // Its journal is gone, as after a disk was restored: only the groups tell of it.
        std::fs::remove_dir_all(place.path.join("runs").join(run(1))).unwrap();
        let next = Worker::start_with(&place, isolation);
        assert_gone(&place, isolation);
        next.end_by("TERM");
    }
}

#[test]
fn a_second_worker_is_refused_while_the_first_lives() {
    let place = Place::new();
    let worker = Worker::start(&place);
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_worker-loop"))
        .arg(&place.path)
        .output()
        .unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stdout).contains("in use by another worker"));
    worker.end_by("TERM");
}

fn what_was_frozen_goes_on_under_the_next_worker(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        let beats = place.path.join("beats");
        let program = format!("while :; do echo x >> {}; sleep 0.02; done", beats.display());
        let kept = json!({ "when_worker_exits": KEEP });
        worker.start_run(&place, 1, &["sh", "-c", &program], kept);
        let count = || std::fs::read_to_string(&beats).unwrap_or_default().len();
        wait_until("it beats", LONG, || count() > 4);
        worker.tell(&json!({ "freeze": { "is_frozen": true } }));
        worker.tell(&json!({ "ping": { "number": 3 } }));
        worker.hear("that the guardian has heard", |said| said["pong"] == 3);
        worker.kill();
        let mut next = Worker::start_with(&place, isolation);
        let before = count();
        wait_until("it beats again", LONG, || count() > before + 4);
        next.tell(&json!({ "kill": { "run": run(1) } }));
        assert_eq!(next.end(1)["completed"], "Request", "{isolation}");
        next.end_by("TERM");
    }
}

fn a_rebirth_keeps_what_runs(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["sleep", "1000"], json!({}));
    worker.wait_for_state(1, "Running");
    worker.tell(&json!("reborn"));
    worker.tell(&json!({ "ping": { "number": 1 } }));
    worker.hear("that the guardian is well", |said| said["pong"] == 1);
    assert_eq!(place.marked().len(), 1);
    worker.end_by("TERM");
    assert_gone(&place, "after the end");
}

for_each_runtime!(
    a_command_loses_nothing_when_its_guardian_is_killed_as_soon_as_it_has_begun,
    a_command_that_ends_while_it_has_no_guardian_is_over_and_loses_nothing,
    a_run_keeps_its_grace_when_its_guardian_is_killed_meanwhile,
    why_a_run_ends_is_known_after_its_guardian_was_killed_too,
    what_runs_out_of_memory_after_its_guardian_was_killed_is_told_so,
    what_no_guardian_has_let_go_is_told_as_not_started,
    a_guardian_that_is_killed_is_replaced_and_its_runs_live_on_supervised,
    what_is_kept_outlives_its_worker_and_is_taken_over_by_the_next,
    the_next_worker_tells_why_an_end_was_asked_for,
    what_a_run_said_of_its_status_outlives_the_worker_that_read_it,
    how_a_run_ended_is_known_after_worker_and_guardian_have_gone,
    a_kept_run_goes_at_its_deadline_when_no_worker_comes,
    the_next_worker_sweeps_what_was_left_when_both_were_killed,
    what_was_frozen_goes_on_under_the_next_worker,
    a_rebirth_keeps_what_runs,
);
