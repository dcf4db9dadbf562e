//! A person at a tmux whose pane runs `echoer`, for tests that make its echo slow.

use crate::bins::{bin, library};
use crate::classes::Class;
use crate::muxers::Tmux;
use crate::terminal::Terminal;

/// A tmux, its client in a terminal, and the program in its pane. All end on drop.
#[derive(Debug)]
pub struct Session {
    /// The server.
    pub tmux: Tmux,
    /// The client's.
    pub terminal: Terminal,
    /// Process id of the program in the pane.
    pub child: u32,
    class: Class,
}

impl Session {
    /// `echoer` with these options, and more in the environment of the server; the server and the
    /// program are of this class.
    pub fn start(class: Class, options: &str, environment: &[(String, String)]) -> Session {
        let tmux = Tmux::start_with(&program("echoer", options), environment);
        let mut terminal = tmux.attach();
        terminal.wait_for_text("ready");
        class.set(tmux.pid()).expect("a class of the server");
        let mut session = Session {
            tmux,
            terminal,
            child: 0,
            class,
        };
        session.find_child();
        session
    }

    /// The server is late at each of these, see `phux-trace-delay`.
    pub fn with_late_server(class: Class, what: &str, options: &str) -> Session {
        let variable = |name: &str, value: String| (name.to_owned(), value);
        Session::start(
            class,
            options,
            &[
                variable(
                    "LD_PRELOAD",
                    library("phux-trace-delay").display().to_string(),
                ),
                variable("PHUX_DELAY", format!("tmux: server:{what}")),
            ],
        )
    }

    /// Starts the program again, with these options.
    pub fn restart_child(&mut self, options: &str) {
        self.terminal.settle();
        let command = program("echoer", options);
        self.tmux.run(&["respawn-pane", "-k", &command]);
        self.terminal.wait_for_text("ready");
        self.find_child();
    }

    fn find_child(&mut self) {
        let pid = self.tmux.run(&["display-message", "-p", "#{pane_pid}"]);
        self.child = pid.trim().parse().expect("a pid");
        self.class.set(self.child).expect("a class of the program");
    }

    /// Another pane, not shown, that prints without end; gives the pid of what prints.
    pub fn flood(&self, options: &str) -> u32 {
        let command = program("flood", options);
        let new = ["new-window", "-d", "-P", "-F", "#{pane_pid}", &command];
        self.tmux.run(&new).trim().parse().expect("a pid")
    }
}

/// The shell command of one of the test programs, which is not late itself.
fn program(name: &str, options: &str) -> String {
    let path = bin(name);
    format!("exec env -u LD_PRELOAD {} {options}", path.display())
}
