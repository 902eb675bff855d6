//! Work that tries to get away. Each says `up` when it is what it is to be.

/// Name, and what a shell runs.
pub(crate) const ESCAPES: [(&str, &str); 9] = [
    ("plain", "echo up; exec sleep 1000"),
    ("forks", "sleep 1000 & echo up; wait"),
    ("double-forks", "(sleep 1000 & ) ; (sh -c 'sleep 1000 & ' & ) ; echo up; sleep 1000"),
    (
        "setsids",
        "setsid sleep 1000 & setsid sh -c 'setsid sleep 1000 & sleep 1000' & echo up; wait",
    ),
    ("ignores TERM", "trap '' TERM INT HUP QUIT; echo up; while :; do sleep 1000; done"),
    ("closes its pipes", "echo up; exec >&- 2>&- <&-; sleep 1000"),
    ("execs", "echo up; exec sh -c 'exec sh -c \"exec sleep 1000\"'"),
    (
        "leaves a background child",
        "setsid sh -c 'trap \"\" TERM; sleep 1000' & echo up; sleep 1000",
    ),
    (
        "forks 200 children",
        "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; echo up; wait",
    ),
];

/// The same, but it ends by itself when there is a file `go`, and leaves behind what it has made.
pub(crate) fn that_ends(name: &str, escape: &str) -> String {
    let ends = "while [ ! -e $GO ]; do sleep 0.02; done; exit 7";
    match name {
        // What does this must be what ends.
        "closes its pipes" => format!("echo up; exec >&- 2>&- <&-; sleep 1000 & {ends}"),
        "execs" => format!("echo up; exec sh -c 'exec sh -c \"sleep 1000 & {ends}\"'"),
        _ => format!("({escape}) & {ends}"),
    }
}
