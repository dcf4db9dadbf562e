//! Commands that set what a cgroup may have: of its systemd unit, else of its folder.

use crate::report::model::Cgroup;

pub(super) fn weigh(group: &Cgroup, weight: u32) -> Option<String> {
    match unit(group) {
        Some(unit) => Some(set(&unit, &format!("CPUWeight={weight}"))),
        None => Some(format!("echo {weight} > {}/cpu.weight", folder(group)?)),
    }
}

/// Lifts the quota of the cgroup of this path.
pub(in crate::report::verdict) fn lift(path: &str) -> Option<String> {
    let group = Cgroup {
        path: path.to_owned(),
        ..Cgroup::default()
    };
    match unit(&group) {
        Some(unit) => Some(set(&unit, "CPUQuota=")),
        None => folder(&group).map(|f| format!("echo max > {f}/cpu.max")),
    }
}

/// The folder of a cgroup, if a shell takes it as it is.
pub(super) fn folder(group: &Cgroup) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:/".contains(c);
    let known = group.path.len() > 1 && group.path.chars().all(plain);
    known.then(|| format!("/sys/fs/cgroup{}", group.path))
}

/// A systemd unit, and whether it is one of a user's manager.
pub(super) struct Unit {
    name: String,
    user: bool,
}

/// The unit that a cgroup is the root of.
pub(super) fn unit(group: &Cgroup) -> Option<Unit> {
    let (above, name) = group.path.rsplit_once('/')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:\\".contains(c);
    let known = [".service", ".scope", ".slice"]
        .iter()
        .any(|s| name.ends_with(s));
    let user = above
        .split('/')
        .any(|p| p.starts_with("user@") && p.ends_with(".service"));
    (known && name.chars().all(plain)).then(|| Unit {
        name: name.to_owned(),
        user,
    })
}

pub(super) fn set(unit: &Unit, property: &str) -> String {
    let user = if unit.user { " --user" } else { "" };
    format!(
        "systemctl{user} set-property --runtime {} {property}",
        unit.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_last_folder_of_a_path() {
        let of = |path: &str| {
            let group = Cgroup {
                path: path.into(),
                ..Cgroup::default()
            };
            unit(&group).map(|u| set(&u, "CPUWeight=10"))
        };
        assert_eq!(
            of("/system.slice/build.service").as_deref(),
            Some("systemctl set-property --runtime build.service CPUWeight=10")
        );
        assert_eq!(
            of("/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope").as_deref(),
            Some("systemctl --user set-property --runtime run-1.scope CPUWeight=10")
        );
        assert_eq!(of("/docker/3fa9"), None);
        assert_eq!(of("/"), None);
        assert_eq!(
            of("/a;rm -rf.service"),
            None,
            "a name that a shell would act on"
        );
    }

    #[test]
    fn paths_become_no_commands() {
        let of = |path: &str| {
            folder(&Cgroup {
                path: path.into(),
                ..Cgroup::default()
            })
        };
        assert_eq!(
            of("/docker/3fa9").as_deref(),
            Some("/sys/fs/cgroup/docker/3fa9")
        );
        for path in ["/", "", "/a b", "/$(id)", "/a;id"] {
            assert_eq!(of(path), None);
        }
    }
}
