use crate::tidy::{Finding, floors, graph::Graph};

/// How many crates, our own included, a build of the binary may draw in. Each one is somebody
/// else's code that runs with our rights, and time in every build. The shared versions in the
/// root manifest bring in 186, of which PostgreSQL and TLS are 61 (ADR-8), etcd, with the gRPC that
/// links use too, 28 more (ADR-9), searching logs 3 (ADR-5), and the server and its specs 27
/// (ADR-15); the rest is room for small changes of theirs.
const LIMIT: usize = 190;

/// The tree grows only on purpose.
pub(super) fn check(graph: &Graph) -> Vec<Finding> {
    over(LIMIT, graph.binary.len())
}

fn over(limit: usize, count: usize) -> Vec<Finding> {
    if count <= limit {
        return Vec::new();
    }
    let text = format!(
        "{} draws in {count} crates and may draw in {limit}; drop one or its features, or raise \
         LIMIT in xtask/src/tidy/crate_count.rs together with an ADR",
        floors::BINARY
    );
    vec![Finding::error("Cargo.lock", 1, text)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    #[test]
    fn one_too_many_is_found() {
        assert_places(&over(10, 11), &["Cargo.lock:1"]);
    }

    #[test]
    fn as_many_as_allowed_pass() {
        assert_eq!(over(10, 10), []);
    }
}
