//! Where a server's socket is, by upstream's rules.
//!
//! In this order: a path that was asked for, `$PHUX_SOCKET`, `<runtime dir>/phux.sock`. The
//! runtime directory is `$XDG_RUNTIME_DIR/phux[-profile]`, or `/tmp/phux-$USER[-profile]` where
//! that variable is not set; the profile is `$PHUX_PROFILE`, by default none for release builds
//! and `dev` for debug builds.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The longest path of a Unix socket on Linux, in bytes.
pub const MAX_PATH: usize = 107;

/// The name of the socket in its runtime directory.
const FILE_NAME: &str = "phux.sock";

/// The variables that decide where a socket is: those of this process or of another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Env {
    /// `$PHUX_SOCKET`.
    pub socket: Option<OsString>,
    /// `$PHUX_PROFILE`.
    pub profile: Option<String>,
    /// `$XDG_RUNTIME_DIR`.
    pub xdg_runtime_dir: Option<OsString>,
    /// `$USER`.
    pub user: Option<String>,
}

impl Env {
    /// The variables of this process.
    pub fn current() -> Self {
        Self::from_vars(|name| std::env::var_os(name))
    }

    /// Takes each variable from `var`; an empty one counts as not set.
    pub fn from_vars(var: impl Fn(&str) -> Option<OsString>) -> Self {
        let get = |name| var(name).filter(|v| !v.is_empty());
        let text = |name| get(name).and_then(|v| v.into_string().ok());
        Self {
            socket: get("PHUX_SOCKET"),
            profile: text("PHUX_PROFILE"),
            xdg_runtime_dir: get("XDG_RUNTIME_DIR"),
            user: text("USER"),
        }
    }

    /// The path that a server with these variables binds and a client connects to.
    pub fn path(&self, explicit: Option<&Path>) -> PathBuf {
        match (explicit, &self.socket) {
            (Some(path), _) => path.to_owned(),
            (None, Some(path)) => PathBuf::from(path),
            (None, None) => self.runtime_dir().join(FILE_NAME),
        }
    }

    fn runtime_dir(&self) -> PathBuf {
        let (base, name) = self.base();
        match self
            .profile
            .as_deref()
            .or(cfg!(debug_assertions).then_some("dev"))
        {
            Some(profile) => base.join(format!("{name}-{profile}")),
            None => base.join(name),
        }
    }

    /// The directory that holds the runtime directories of all profiles, and their common prefix.
    fn base(&self) -> (PathBuf, String) {
        match &self.xdg_runtime_dir {
            Some(dir) => (PathBuf::from(dir), "phux".to_owned()),
            None => (
                PathBuf::from("/tmp"),
                format!("phux-{}", self.user.as_deref().unwrap_or("unknown")),
            ),
        }
    }

    /// The sockets that are there, for a tool that looks for a server of any profile: the path
    /// that was asked for or set alone; else the default profile's first, then the others by name.
    pub fn discover(&self, explicit: Option<&Path>) -> Vec<PathBuf> {
        let first = self.path(explicit);
        let mut found = Vec::new();
        if explicit.is_none() && self.socket.is_none() {
            let (base, name) = self.base();
            let prefix = format!("{name}-");
            found.extend(
                std::fs::read_dir(base)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .filter(|entry| {
                        let dir = entry.file_name();
                        dir.to_str()
                            .is_some_and(|dir| dir == name || dir.starts_with(&prefix))
                    })
                    .map(|entry| entry.path().join(FILE_NAME))
                    .filter(|path| *path != first),
            );
            found.sort();
        }
        found.insert(0, first);
        found.retain(|path| path.metadata().is_ok_and(|m| m.file_type().is_socket()));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(vars: &[(&str, &str)]) -> Env {
        Env::from_vars(|name| {
            vars.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| OsString::from(v))
        })
    }

    #[test]
    fn the_order_is_asked_for_then_variable_then_runtime_dir() {
        let vars = [("PHUX_SOCKET", "/a/s"), ("XDG_RUNTIME_DIR", "/run/user/7")];
        assert_eq!(env(&vars).path(Some(Path::new("/x/y"))), Path::new("/x/y"));
        assert_eq!(env(&vars).path(None), Path::new("/a/s"));
        let suffix = if cfg!(debug_assertions) { "-dev" } else { "" };
        assert_eq!(
            env(&vars[1..]).path(None),
            PathBuf::from(format!("/run/user/7/phux{suffix}/phux.sock"))
        );
        assert_eq!(
            env(&[
                ("USER", "ann"),
                ("PHUX_PROFILE", "w"),
                ("XDG_RUNTIME_DIR", "")
            ])
            .path(None),
            Path::new("/tmp/phux-ann-w/phux.sock")
        );
    }

    #[test]
    fn discovery_lists_live_sockets_of_all_profiles() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut listeners = Vec::new();
        for name in ["phux", "phux-zz", "phux-aa", "other"] {
            std::fs::create_dir(dir.path().join(name)).expect("mkdir");
            let path = dir.path().join(name).join("phux.sock");
            listeners.push(std::os::unix::net::UnixListener::bind(path).expect("bind"));
        }
        std::fs::create_dir(dir.path().join("phux-empty")).expect("mkdir");
        let base = dir.path().to_str().expect("utf-8");
        let found = env(&[("XDG_RUNTIME_DIR", base), ("PHUX_PROFILE", "zz")]).discover(None);
        let names: Vec<_> = found
            .iter()
            .map(|p| p.parent().and_then(|p| p.file_name()).expect("dir"))
            .collect();
        assert_eq!(names, ["phux-zz", "phux", "phux-aa"]);
    }
}
