//! Users and groups by name, as the files of the machine, or of an image, have them.

use std::fs;

/// As whom a run's processes run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub(super) struct Who {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) groups: Vec<u32>,
    pub(super) name: Option<String>,
    pub(super) home: Option<String>,
}

/// Finds a user and a group in the files that `read` gives; `None` when neither is asked for.
///
/// # Errors
/// One of them is not known here.
pub(super) fn find(
    user: Option<&str>,
    group: Option<&str>,
    read: impl Fn(&str) -> String,
) -> Result<Option<Who>, String> {
    if user.is_none() && group.is_none() {
        return Ok(None);
    }
    let (users, groups) = (read("/etc/passwd"), read("/etc/group"));
    let own = rustix::process::getuid().as_raw().to_string();
    who(user.unwrap_or(&own), group, &users, &groups).map(Some)
}

/// The machine's own files.
pub(super) fn of_machine(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn who(user: &str, group: Option<&str>, users: &str, groups: &str) -> Result<Who, String> {
    let entry = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut entry = entry.filter(|fields| fields.len() >= 7);
    let found = entry.find(|fields| fields[0] == user || fields[2] == user);
    let (id, own_group, name, home) = match &found {
        Some(fields) => (
            fields[2].parse().ok(),
            fields[3].parse().ok(),
            Some(fields[0].to_owned()),
            Some(fields[5].to_owned()),
        ),
        // A number needs no name.
        None => (user.parse().ok(), user.parse().ok(), None, None),
    };
    let (Some(id), Some(own_group)) = (id, own_group) else {
        return Err(format!("user unknown: no '{user}' in /etc/passwd; make it, or give a number"));
    };
    let main = group.map_or(Ok(own_group), |group| group_id(group, groups))?;
    if id == u32::MAX || main == u32::MAX {
        // To the kernel it means: leave it as it is, which is root.
        return Err(format!("no user and no group has the number {}: give another", u32::MAX));
    }
    let member = name.as_deref().unwrap_or_default();
    let others = groups.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_member = !member.is_empty() && fields.get(3)?.split(',').any(|name| name == member);
        is_member.then(|| fields.get(2)?.parse().ok()).flatten()
    });
    let mut all: Vec<u32> = others.chain([main]).collect();
    all.sort_unstable();
    all.dedup();
    Ok(Who { user: id, group: main, groups: all, name, home })
}

fn group_id(group: &str, groups: &str) -> Result<u32, String> {
    let found = groups.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (*fields.first()? == group).then(|| fields.get(2)?.parse().ok()).flatten()
    });
    found.or_else(|| group.parse().ok()).ok_or_else(|| {
        format!("group unknown: no '{group}' in /etc/group; make it, or give a number")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:33:web:/srv:/bin/false\n";
    const GROUPS: &str = "root:x:0:\nweb:x:33:\nlogs:x:40:web,root\n";

    #[test]
    fn users_have_their_groups() {
        let web = who("web", None, USERS, GROUPS).unwrap();
        assert_eq!((web.user, web.group, web.groups), (33, 33, vec![33, 40]));
        let other = who("33", Some("logs"), USERS, GROUPS).unwrap();
        assert_eq!((other.user, other.group, other.home.as_deref()), (33, 40, Some("/srv")));
    }

    #[test]
    fn a_number_needs_no_name_and_a_name_must_be_known() {
        let nobody = who("4711", None, USERS, GROUPS).unwrap();
        assert_eq!((nobody.user, nobody.group, nobody.groups), (4711, 4711, vec![4711]));
        assert!(who("nobody-here", None, USERS, GROUPS).unwrap_err().contains("user unknown"));
        assert!(who("web", Some("none"), USERS, GROUPS).unwrap_err().contains("group unknown"));
        for (user, group) in [("4294967295", "0"), ("0", "4294967295")] {
            let refused = who(user, Some(group), USERS, GROUPS).unwrap_err();
            assert!(refused.contains("no user and no group has the number"), "{refused}");
        }
    }
}
