//! The multiplexers that are known by name, and what each of their processes is.

use super::proc::Process;

/// A terminal multiplexer, or a program that detaches a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Multiplexer {
    /// phux.
    Phux,
    /// tmux; its processes rename themselves to `tmux: server` and `tmux: client`. byobu runs it.
    Tmux,
    /// GNU screen; the server shows `SCREEN` as its command line only.
    Screen,
    /// zellij; the server has `--server` in its command line.
    Zellij,
    /// dtach.
    Dtach,
    /// abduco.
    Abduco,
}

/// What a process of a multiplexer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Holds the masters of the panes.
    Server,
    /// Sits on a user's terminal and talks to the server.
    Client,
}

impl Part {
    /// `server` or `client`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// Name, and every `comm` or executable name of its processes.
const KNOWN: [(Multiplexer, &str, &[&str]); 6] = [
    (
        Multiplexer::Phux,
        "phux",
        &["phux", "phux-server", "phux-client"],
    ),
    (
        Multiplexer::Tmux,
        "tmux",
        &["tmux", "tmux: server", "tmux: client"],
    ),
    (Multiplexer::Screen, "screen", &["screen", "SCREEN"]),
    (Multiplexer::Zellij, "zellij", &["zellij"]),
    (Multiplexer::Dtach, "dtach", &["dtach"]),
    (Multiplexer::Abduco, "abduco", &["abduco"]),
];

impl Multiplexer {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        KNOWN
            .iter()
            .find(|k| k.0 == self)
            .map_or("multiplexer", |k| k.1)
    }

    /// The multiplexer that a user means by `name`.
    pub fn named(name: &str) -> Option<Self> {
        if name == "byobu" {
            return Some(Self::Tmux); // its default backend; byobu itself is a script that execs it
        }
        KNOWN
            .iter()
            .find(|k| k.1 == name || k.2.contains(&name))
            .map(|k| k.0)
    }

    /// The multiplexer that a process belongs to.
    pub fn of(process: &Process) -> Option<Self> {
        let is = |name: &str| KNOWN.iter().find(|k| k.2.contains(&name)).map(|k| k.0);
        // The executable where we may see it: a `comm` is whatever the process says.
        match process.exe_name() {
            Some(exe) => is(&exe).or_else(|| {
                // `screen-4.9.0`, `.tmux-wrapped`: the comm counts where the executable does not
                // contradict.
                is(&process.comm).filter(|m| exe.contains(m.name()))
            }),
            None => is(&process.comm),
        }
    }

    /// Server or client. Who holds a master is a server; `argv` settles it for one without panes.
    pub fn part(process: &Process, holds_master: bool, argv: impl FnOnce() -> Vec<String>) -> Part {
        if holds_master || process.comm == "tmux: server" {
            return Part::Server;
        }
        if process.comm == "tmux: client" {
            return Part::Client;
        }
        let argv = argv();
        let says = |word: &str| argv.iter().any(|w| w == word);
        let server =
            argv.first().is_some_and(|w| w == "SCREEN") || says("server") || says("--server");
        if server { Part::Server } else { Part::Client }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::proc::sample;

    fn process(comm: &str, exe: Option<&str>) -> Process {
        sample(10, comm, exe, 0)
    }

    #[test]
    fn known_processes() {
        let of = |comm: &str, exe| Multiplexer::of(&process(comm, exe));
        assert_eq!(
            of("tmux: server", Some("/usr/bin/tmux")),
            Some(Multiplexer::Tmux)
        );
        assert_eq!(of("tmux: client", None), Some(Multiplexer::Tmux));
        assert_eq!(
            of("screen", Some("/usr/bin/screen-4.9.0")),
            Some(Multiplexer::Screen)
        );
        assert_eq!(
            of("phux", Some("/opt/phux (deleted)")),
            Some(Multiplexer::Phux)
        );
        assert_eq!(
            of("tmux: server", Some("/usr/bin/bash")),
            None,
            "a comm that lies"
        );
        assert_eq!(of("bash", Some("/usr/bin/bash")), None);
        assert_eq!(Multiplexer::named("byobu"), Some(Multiplexer::Tmux));
        assert_eq!(Multiplexer::named("tmux: server"), Some(Multiplexer::Tmux));
        assert_eq!(Multiplexer::named("bash"), None);
    }

    #[test]
    fn parts() {
        let words = |w: &[&str]| w.iter().map(|s| (*s).to_string()).collect::<Vec<_>>();
        let part = |comm: &str, master, argv: &[&str]| {
            Multiplexer::part(&process(comm, None), master, || words(argv))
        };
        assert_eq!(part("zellij", true, &[]), Part::Server);
        assert_eq!(
            part("zellij", false, &["zellij", "--server", "/run/x"]),
            Part::Server
        );
        assert_eq!(part("screen", false, &["SCREEN", "-dm"]), Part::Server);
        assert_eq!(part("screen", false, &["screen", "-x"]), Part::Client);
        assert_eq!(
            part("tmux: client", false, &["tmux", "server"]),
            Part::Client
        );
        assert_eq!(part("phux", false, &["phux", "server"]), Part::Server);
    }
}
