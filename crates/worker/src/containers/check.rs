//! Work that can never be: refused before anything is made for it, with the field that is wrong.

use std::collections::BTreeMap;

use sterna_model::{
    Span,
    payload::{Monitor, Network, Probe, Work},
};

use super::ports;

/// Whether a piece of work can be, whatever the machine is.
///
/// # Errors
/// It cannot; the sentence names the field, the reason and the remedy.
pub(super) fn check(work: &Work) -> Result<(), String> {
    for name in work.env.keys() {
        if name.is_empty() || name.contains('=') {
            return Err(format!(
                "env has a variable of the name '{name}': a name is not empty, and has no '='"
            ));
        }
    }
    if work.timeout == Some(Span::ZERO) {
        return Err("timeout is 0, in which nothing can be done: leave it out, or give time".into());
    }
    if work.limits.disk.is_some() && work.directory.is_some() && work.image.is_none() {
        return Err(
            "limits.disk counts what is in the run's own directory, and with directory it \
                    has none: leave out one of them"
                .into(),
        );
    }
    check_ports(work)?;
    let monitors = [("monitor", &work.monitor), ("readiness", &work.readiness)];
    for (field, monitor) in monitors {
        monitor.as_ref().map_or(Ok(()), |monitor| check_monitor(work, field, monitor))?;
    }
    Ok(())
}

fn check_ports(work: &Work) -> Result<(), String> {
    let mut known = BTreeMap::new();
    for name in &work.ports {
        if name.is_empty() {
            return Err("ports has one without a name: name it".into());
        }
        let variable = ports::variable(name);
        if let Some(other) = known.insert(variable.clone(), name) {
            return Err(format!(
                "ports has '{other}' and '{name}', which both become {variable}: name one otherwise"
            ));
        }
    }
    let has_none = work.image.as_ref().is_some_and(|image| image.network == Some(Network::None));
    if has_none && !work.ports.is_empty() {
        return Err("ports are those of the machine, and image.network is none: leave out one of \
                    them"
            .into());
    }
    Ok(())
}

fn check_monitor(work: &Work, field: &str, monitor: &Monitor) -> Result<(), String> {
    let spans = [
        ("starting_every", monitor.starting_every),
        ("healthy_every", monitor.healthy_every),
        ("timeout", monitor.timeout),
        ("start_timeout", monitor.start_timeout.unwrap_or(monitor.timeout)),
    ];
    if let Some((name, _)) = spans.into_iter().find(|(_, span)| *span == Span::ZERO) {
        return Err(format!("{field}.{name} is 0: give it some time, as in 1s"));
    }
    if monitor.failures_max == 0 {
        return Err(format!("{field}.failures_max is 0: one bad answer is the least that counts"));
    }
    match &monitor.probe {
        Probe::Command(command) if command.is_empty() => {
            Err(format!("{field}.probe.command is empty: say what to run"))
        }
        Probe::Command(_) => Ok(()),
        Probe::Tcp(port) | Probe::Http(port, _) if !work.ports.contains(port) => Err(format!(
            "{field}.probe asks at the port '{port}', which ports has not: add it there"
        )),
        Probe::Http(_, path) if !path.starts_with('/') || path.contains(char::is_whitespace) => {
            Err(format!("{field}.probe asks for '{path}': a path begins with / and has no spaces"))
        }
        Probe::Tcp(_) | Probe::Http(..) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_never_be_is_refused_by_its_field() {
        let monitor = |fields: &str| {
            let all =
                r#""starting_every":"1s","healthy_every":"1s","timeout":"1s","failures_max":1"#;
            format!(r#"{{"probe":{{"tcp":"web"}},{all},{fields}}}"#)
        };
        let probe = |probe: &str| {
            let all =
                r#""starting_every":"1s","healthy_every":"1s","timeout":"1s","failures_max":1"#;
            format!(r#"{{"ports":["web"],"readiness":{{"probe":{probe},{all}}}}}"#)
        };
        let zero = |field: &str| {
            let good = format!(r#""{field}":"1s""#);
            let made =
                monitor(r#""start_timeout":"1s""#).replace(&good, &format!(r#""{field}":"0s""#));
            format!(r#"{{"ports":["web"],"monitor":{made}}}"#)
        };
        let cases = [
            (r#"{"env":{"A=B":"c"}}"#.to_owned(), "the name 'A=B'"),
            (r#"{"env":{"":"c"}}"#.to_owned(), "the name ''"),
            (r#"{"timeout":"0s"}"#.to_owned(), "timeout is 0"),
            (r#"{"directory":"/tmp","limits":{"disk":"1MiB"}}"#.to_owned(), "limits.disk counts"),
            (r#"{"ports":["a","b","a"]}"#.to_owned(), "'a' and 'a', which both become PORT_A"),
            (r#"{"ports":["a-b","a_b"]}"#.to_owned(), "which both become PORT_A_B"),
            (r#"{"ports":[""]}"#.to_owned(), "without a name"),
            (
                r#"{"ports":["a"],"image":{"rootfs":"/x","network":"none"}}"#.to_owned(),
                "image.network is none",
            ),
            (zero("starting_every"), "monitor.starting_every is 0"),
            (zero("healthy_every"), "monitor.healthy_every is 0"),
            (zero("timeout"), "monitor.timeout is 0"),
            (zero("start_timeout"), "monitor.start_timeout is 0"),
            (
                format!(r#"{{"monitor":{}}}"#, monitor(r#""start_timeout":null"#)),
                "the port 'web', which ports has not",
            ),
            (probe(r#"{"command":[]}"#), "readiness.probe.command is empty"),
            (probe(r#"{"tcp":"api"}"#), "the port 'api', which ports has not"),
            (probe(r#"{"http":["api","/"]}"#), "the port 'api', which ports has not"),
            (probe(r#"{"http":["web","no-path"]}"#), "begins with /"),
            (probe(r#"{"http":["web","/no path"]}"#), "has no spaces"),
            (
                probe(r#"{"tcp":"web"}"#).replace(r#""failures_max":1"#, r#""failures_max":0"#),
                "readiness.failures_max is 0",
            ),
        ];
        for (text, reason) in cases {
            let work: Work = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let said = check(&work).expect_err(&text);
            assert!(said.contains(reason), "{text}: {said}");
        }
        // With an image it has a directory of its own, wherever it begins.
        let in_an_image =
            r#"{"directory":"/tmp","limits":{"disk":"1MiB"},"image":{"rootfs":"/x"}}"#.to_owned();
        let goods =
            [probe(r#"{"http":["web","/"]}"#), probe(r#"{"command":["true"]}"#), in_an_image];
        for good in goods {
            assert_eq!(check(&serde_json::from_str(&good).unwrap()), Ok(()), "{good}");
        }
    }
}
