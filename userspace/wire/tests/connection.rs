//! The blocking client against scripted servers: old ones, slow ones, chatty ones, broken ones.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use phux_wire::{
    ClientMessage, Command, CommandOutcome, ConnectionError, Deframer, DetachReason, HelloOk,
    PerfError, Profile, ResultValue, ServerMessage, Version, get_perf,
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs `serve` on each connection until the test ends.
fn server(serve: impl Fn(Peer) + Send + 'static) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("phux.sock");
    let listener = UnixListener::bind(&path).expect("bind");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(Peer {
                stream,
                deframer: Deframer::new(),
            });
        }
    });
    (dir, path)
}

struct Peer {
    stream: UnixStream,
    deframer: Deframer,
}

impl Peer {
    fn receive(&mut self) -> Option<ClientMessage> {
        loop {
            if let Some(frame) = self.deframer.next_frame().expect("bounded") {
                return Some(ClientMessage::decode(frame).expect("valid"));
            }
            let mut buf = [0; 512];
            match self.stream.read(&mut buf) {
                Ok(n) if n > 0 => self.deframer.feed(&buf[..n]),
                _ => return None,
            }
        }
    }

    fn send(&mut self, message: &ServerMessage) {
        let _ = self.stream.write_all(&message.encode());
    }

    /// Answers HELLO as a server of version `minor`; `false` where it does not admit the client.
    fn welcome(&mut self, minor: u16, features: u32) -> bool {
        let Some(ClientMessage::Hello(hello)) = self.receive() else {
            return false;
        };
        let version = Version {
            major: 0,
            minor,
            patch: 0,
        };
        if !version.admits(hello.version) {
            let text = format!("server speaks 0.{minor}");
            self.send(&ServerMessage::Error {
                request: None,
                code: 1,
                text,
            });
            self.send(&ServerMessage::Detached {
                reason: DetachReason::Protocol,
                text: None,
            });
            return false;
        }
        self.send(&ServerMessage::HelloOk(HelloOk {
            version,
            layers: 1,
            features,
            incarnation: [7; 16],
            profile: Profile::Raw,
            max_chunk: 1,
            max_page: 1,
        }));
        true
    }
}

fn json(n: usize) -> String {
    format!("{{\"pad\":\"{}\"}}", "x".repeat(n))
}

#[test]
fn both_versions_are_asked_and_long_answers_arrive_whole() {
    for minor in [8, 9] {
        for len in [10, 200, 20_000, 3_000_000] {
            let (_dir, path) = server(move |mut peer| {
                if !peer.welcome(minor, 0xff0) {
                    return;
                }
                while let Some(message) = peer.receive() {
                    let ClientMessage::Command { request, command } = message else {
                        continue;
                    };
                    assert_eq!(command, Command::GetPerf { reset: true });
                    // Overtaken by other frames: an unknown type, and another request's result.
                    peer.send(&ServerMessage::Other(0xb0));
                    let outcome = CommandOutcome::Ok;
                    peer.send(&ServerMessage::CommandResult {
                        request: request + 1,
                        outcome,
                    });
                    let outcome = CommandOutcome::OkWith(ResultValue::Json(json(len)));
                    peer.send(&ServerMessage::CommandResult { request, outcome });
                }
            });
            let answer = get_perf(&path, "test", true, TIMEOUT).expect("report");
            assert_eq!(answer, json(len));
        }
    }
}

#[test]
fn a_server_without_the_feature_is_told_apart_and_never_asked() {
    let (asked_tx, asked) = std::sync::mpsc::channel();
    let (_dir, path) = server(move |mut peer| {
        if peer.welcome(8, 0x7f0) {
            asked_tx.send(peer.receive()).expect("the test waits");
        }
    });
    let error = get_perf(&path, "test", false, TIMEOUT).expect_err("no GET_PERF");
    assert!(
        matches!(
            error,
            PerfError::NotSupported {
                features: 0x7f0,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().starts_with("server has no GET_PERF"));
    assert_eq!(asked.recv_timeout(TIMEOUT), Ok(None));
}

#[test]
fn each_failure_has_its_kind() {
    let get = |path: &std::path::Path, timeout| get_perf(path, "test", false, timeout);

    let dir = tempfile::tempdir().expect("temporary directory");
    let nowhere = dir.path().join("none");
    let error = get(&nowhere, TIMEOUT).expect_err("nothing there");
    assert!(
        matches!(error, PerfError::Connection(ConnectionError::NoServer(_))),
        "{error}"
    );
    drop(UnixListener::bind(&nowhere).expect("bind"));
    let error = get(&nowhere, TIMEOUT).expect_err("stale");
    assert!(
        matches!(error, PerfError::Connection(ConnectionError::NoServer(_))),
        "{error}"
    );

    let (_dir, path) = server(|mut peer| {
        peer.welcome(7, 0xff0);
    });
    let error = get(&path, TIMEOUT).expect_err("0.7");
    assert!(
        matches!(error, PerfError::Connection(ConnectionError::Version(_))),
        "{error}"
    );

    let (_dir, path) = server(drop);
    let error = get(&path, TIMEOUT).expect_err("closes");
    assert!(
        matches!(error, PerfError::Connection(ConnectionError::Closed)),
        "{error}"
    );

    let (_dir, path) = server(|mut peer| {
        let _ = peer.stream.write_all(&[0, 0, 0, 0, 0]);
        while peer.receive().is_some() {}
    });
    let error = get(&path, TIMEOUT).expect_err("garbage");
    assert!(
        matches!(error, PerfError::Connection(ConnectionError::Malformed(_))),
        "{error}"
    );

    let (_dir, path) = server(|mut peer| {
        if peer.welcome(9, 0x800)
            && let Some(ClientMessage::Command { request, .. }) = peer.receive()
        {
            let outcome = CommandOutcome::Error {
                code: 201,
                text: "not you".into(),
            };
            peer.send(&ServerMessage::CommandResult { request, outcome });
        }
    });
    let error = get(&path, TIMEOUT).expect_err("refuses");
    assert!(
        matches!(error, PerfError::Refused { code: 201, .. }),
        "{error}"
    );
}

#[test]
fn a_server_that_says_nothing_costs_no_more_than_the_deadline() {
    // A listener that never accepts: the connection stays in the backlog.
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("phux.sock");
    let _listener = UnixListener::bind(&path).expect("bind");
    let start = Instant::now();
    let error = get_perf(&path, "test", false, Duration::from_millis(100)).expect_err("silent");
    assert!(
        matches!(error, PerfError::Connection(ConnectionError::Timeout)),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(5));
}
