//! What a thread does, from the process it is in and the name that it carries.

use super::multiplexer::{Multiplexer, Part};

/// Threads of phux by name: the server's and the client's.
const PHUX: [(&str, &str); 7] = [
    ("phux-pty-reader", "pty reader"),
    ("phux-pty-writer", "pty writer"),
    ("phux-pty-park", "quiet ptys"),
    ("phux-input-lane", "input lane"),
    ("phux-input-ack", "input acks"),
    ("phux-stdout", "stdout writer"),
    ("tokio-rt-worker", "blocking pool"),
];

/// Threads of zellij by name (`comm` cuts them to 15 bytes).
const ZELLIJ: [(&str, &str); 9] = [
    ("screen", "screen"),
    ("pty", "pty control"),
    ("async-std/runti", "pty readers"),
    ("pty_writer", "pty writer"),
    ("wasm", "plugins"),
    ("server_router", "client router"),
    ("server_listener", "listener"),
    ("stdin_handler", "keyboard"),
    ("background_jobs", "background jobs"),
];

/// Units of the histograms that a phux client has and no server tells (a client answers no GET_PERF).
const CLIENT_UNITS: [(&str, &str); 20] = [
    ("echo.rtt", "micros"),
    ("vt_apply", "micros"),
    ("paint.full", "micros"),
    ("paint.chrome", "micros"),
    ("paint.pane", "micros"),
    ("paint.prepare", "micros"),
    ("paint.rows", "micros"),
    ("paint.submit", "micros"),
    ("loop.input_wall", "micros"),
    ("loop.frames_wall", "micros"),
    ("loop.burst_frames", "count"),
    ("frames.received", "count"),
    ("stdout.backlog", "bytes"),
    ("stdout.bytes", "bytes"),
    ("stdout.queue_wait", "micros"),
    ("stdout.write", "micros"),
    ("stdout.flush", "micros"),
    ("stdout.written", "bytes"),
    ("pacer.hold", "micros"),
    ("pacer.late", "micros"),
];

/// Unit of a metric of a phux client, `None` where it is not one.
pub fn client_unit(metric: &str) -> Option<&'static str> {
    CLIENT_UNITS
        .iter()
        .find(|(name, _)| *name == metric)
        .map(|(_, unit)| *unit)
}

/// Role of a thread, `None` where nothing is known.
///
/// `owner` is the multiplexer and the part of it that the process is. `leader`: the thread is the
/// process's main thread (its tid is the pid).
pub fn thread_role(
    owner: Option<(Multiplexer, Part)>,
    comm: &str,
    leader: bool,
) -> Option<&'static str> {
    let (multiplexer, part) = owner?;
    if leader {
        return Some(match (multiplexer, part) {
            // One thread does everything in these: that is worth knowing.
            (Multiplexer::Tmux | Multiplexer::Screen, Part::Server) => "server, only thread",
            (Multiplexer::Dtach | Multiplexer::Abduco, Part::Server) => "server, only thread",
            (_, Part::Server) => "server main loop",
            (_, Part::Client) => "client main loop",
        });
    }
    let table: &[(&str, &'static str)] = match multiplexer {
        Multiplexer::Phux => &PHUX,
        Multiplexer::Zellij => &ZELLIJ,
        _ => return None,
    };
    table
        .iter()
        .find(|(name, _)| *name == comm)
        .map(|(_, role)| *role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_by_owner_and_name() {
        let phux = Some((Multiplexer::Phux, Part::Server));
        assert_eq!(
            thread_role(phux, "phux-pty-reader", false),
            Some("pty reader")
        );
        assert_eq!(thread_role(phux, "phux", true), Some("server main loop"));
        assert_eq!(thread_role(phux, "something", false), None);
        let tmux = Some((Multiplexer::Tmux, Part::Server));
        assert_eq!(
            thread_role(tmux, "tmux: server", true),
            Some("server, only thread")
        );
        assert_eq!(
            thread_role(None, "phux-pty-reader", false),
            None,
            "a name proves nothing alone"
        );
    }

    #[test]
    fn names_fit_into_a_comm() {
        for (name, _) in PHUX.iter().chain(&ZELLIJ) {
            assert!(
                name.len() <= 15,
                "{name} can never match: a comm has 15 bytes"
            );
        }
    }
}
