//! Processes at the other ends of the target's Unix sockets. A client that attaches while we look,
//! or whose server alone was named, is part of the way of each keystroke: it is traced too.

use std::collections::HashSet;

use super::processes::Processes;
use crate::report::model::Relation;
use crate::source::event::Sock;
use crate::target::{proc, pty};

/// So many are looked at, at most; a target with more neighbours is no terminal's server.
const LOOKED_AT: usize = 4096;

/// Who was met so far.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    looked_at: HashSet<u32>,
    new: Vec<u32>,
}

impl Clients {
    /// A send or a receive was seen.
    pub(crate) fn saw(&mut self, sock: &Sock, processes: &Processes) {
        let of_target = || processes.relation(sock.at.pid) == Some(Relation::Target);
        let at_home = sock.peer == 0 || sock.peer == std::process::id();
        if at_home || self.looked_at.len() >= LOOKED_AT || self.looked_at.contains(&sock.peer) {
            return;
        }
        if !of_target() {
            return;
        }
        self.looked_at.insert(sock.peer);
        if processes.relation(sock.peer).is_none() && has_terminal(sock.peer) {
            self.new.push(sock.peer);
        }
    }

    /// Those who are to be traced from now on.
    pub(crate) fn take_new(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new)
    }
}

/// Logs and buses are at the other ends of sockets too; who carries keystrokes has a terminal.
fn has_terminal(pid: u32) -> bool {
    let Ok(process) = proc::process(pid) else {
        return false;
    };
    !pty::scan([(pid, process.comm.as_str())]).ptys.is_empty()
}
