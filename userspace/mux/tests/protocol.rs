//! The server against hand-made frames: what a foreign client may do, and what it may not.

mod harness;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use harness::{DEADLINE, World, wait_until};
use phux_wire::{
    Attach, ClientCaps, ClientMessage, Command, CommandOutcome, Deframer, DetachReason, Hello,
    HelloOk, KeyEvent, PasteEvent, ResourceId, ResultValue, ServerMessage, Target, Version,
    Viewport, action, key,
};

/// A client that sends what it is told to.
struct Client {
    stream: UnixStream,
    deframer: Deframer,
}

impl Client {
    fn connect(world: &World) -> Self {
        let stream = UnixStream::connect(world.socket()).expect("a server");
        stream.set_read_timeout(Some(DEADLINE)).expect("timeout");
        Self {
            stream,
            deframer: Deframer::new(),
        }
    }

    fn greet(world: &World, version: Version) -> (Self, HelloOk) {
        let mut client = Self::connect(world);
        client.send(&hello(version));
        match client.receive() {
            Some(ServerMessage::HelloOk(hello)) => (client, hello),
            other => panic!("{other:?}"),
        }
    }

    fn send(&mut self, message: &ClientMessage) {
        self.send_bytes(&message.encode());
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// The next message; `None` at the end of the stream.
    fn receive(&mut self) -> Option<ServerMessage> {
        loop {
            if let Some(frame) = self.deframer.next_frame().expect("bounded") {
                return Some(ServerMessage::decode(frame).expect("valid"));
            }
            let mut buf = [0; 4096];
            match self.stream.read(&mut buf).expect("an answer in time") {
                0 => return None,
                n => self.deframer.feed(&buf[..n]),
            }
        }
    }

    /// Skips messages up to one that `pick` takes.
    fn receive_until<T>(&mut self, pick: impl Fn(ServerMessage) -> Option<T>) -> T {
        loop {
            let message = self.receive().expect("the connection stays");
            if let Some(picked) = pick(message) {
                return picked;
            }
        }
    }

    fn request(&mut self, request: u32, command: Command) -> CommandOutcome {
        self.send(&ClientMessage::Command { request, command });
        self.receive_until(|m| match m {
            ServerMessage::CommandResult {
                request: r,
                outcome,
            } if r == request => Some(outcome),
            _ => None,
        })
    }

    /// Expects to be sent away: ERROR without a request, DETACHED 4, end of stream.
    #[track_caller]
    fn expect_farewell(mut self, wanted: u16, part: &str) {
        match self.receive() {
            Some(ServerMessage::Error {
                request: None,
                code,
                text,
            }) => {
                assert_eq!(code, wanted, "{text}");
                assert!(text.contains(part), "{text}");
            }
            other => panic!("{other:?}"),
        }
        match self.receive() {
            Some(ServerMessage::Detached {
                reason: DetachReason::Protocol,
                ..
            }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(self.receive(), None);
    }
}

fn hello(version: Version) -> ClientMessage {
    ClientMessage::Hello(Hello {
        name: "test".into(),
        version,
        caps: ClientCaps::default(),
    })
}

fn attach(target: Target, attach_id: u32) -> ClientMessage {
    ClientMessage::Attach(Attach {
        target,
        viewport: Viewport::cells(80, 24),
        want_scrollback: true,
        scrollback_limit: 0,
        attach_id,
    })
}

fn create(name: &str, script: &str) -> Target {
    let argv = Some(["sh", "-c", script].map(str::to_owned).to_vec());
    Target::Create {
        name: name.into(),
        argv,
        cwd: Some("/".into()),
    }
}

fn press(pane: &ResourceId, key: u32, text: Option<&str>) -> KeyEvent {
    KeyEvent {
        resource: pane.clone(),
        action: action::KEY_PRESS,
        key,
        mods: 0,
        consumed: 0,
        composing: false,
        text: text.map(str::to_owned),
        unshifted: None,
    }
}

#[test]
fn each_version_admits_itself_alone_and_perf_works_with_both() {
    for (flag, version, other) in [
        ("0.8", Version::V0_8, Version::V0_9),
        ("0.9", Version::V0_9, Version::V0_8),
    ] {
        let world = World::with_server(&["--protocol", flag]);
        let patched = Version {
            patch: 77,
            ..version
        };
        let (_client, hello_ok) = Client::greet(&world, patched);
        assert_eq!(hello_ok.version, version);
        assert!(hello_ok.has_get_perf());
        let mut stranger = Client::connect(&world);
        stranger.send(&hello(other));
        stranger.expect_farewell(1, &format!("0.{}", version.minor));
        assert!(world.ok(&["perf"]).contains("pty.read.size"));
        let client = world.shell("any");
        client.line("echo ver''sion");
        client.wait_for_row("version");
    }
}

#[test]
fn an_old_server_drops_the_connection_on_get_perf_and_is_not_asked() {
    let world = World::with_server(&["--old-server", "--protocol", "0.8"]);
    let refused = world.run(&["perf"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("server has no GET_PERF"));
    assert!(
        !world.log().contains("sent away: could not decode"),
        "{}",
        world.log()
    );

    let (mut client, hello_ok) = Client::greet(&world, Version::V0_8);
    assert!(!hello_ok.has_get_perf());
    client.send(&ClientMessage::Command {
        request: 1,
        command: Command::GetPerf { reset: false },
    });
    client.expect_farewell(3, "UnknownEnumValue { field: \"Command\", value: 24 }");
    world.ok(&["ls"]);
}

#[test]
fn reset_empties_what_counts_and_leaves_gauges() {
    let world = World::with_server(&[]);
    let shell = world.shell("r");
    shell.line("echo so''me");
    shell.wait_for_row("some");
    let before = phux_perf::PerfReport::from_json(&world.ok(&["perf", "--json", "--reset"]));
    assert!(harness::count(&before.expect("JSON"), "pty.read.bytes") > 0);
    let after = world.perf();
    assert_eq!(harness::count(&after, "pty.read.bytes"), 0);
    assert_eq!(harness::count(&after, "pty.vt_apply"), 0);
    assert_eq!(harness::count(&after, "proc.panes"), 1);
    assert_eq!(harness::count(&after, "proc.sessions"), 1);
}

#[test]
fn who_does_not_follow_the_rules_is_sent_away_and_nobody_else() {
    let world = World::with_server(&[]);
    let bystander = world.shell("bystander");
    let v = Version::V0_9;

    let mut client = Client::connect(&world);
    client.send(&ClientMessage::Ping(42));
    assert_eq!(client.receive(), Some(ServerMessage::Pong(42)));
    client.send(&ClientMessage::Detach);
    client.expect_farewell(1, "before HELLO");

    let (mut client, _) = Client::greet(&world, v);
    client.send(&hello(v));
    client.expect_farewell(200, "second HELLO");

    let (mut client, _) = Client::greet(&world, v);
    client.send_bytes(&[0, 0, 0, 0, 0]);
    client.expect_farewell(4, "0");

    let (mut client, _) = Client::greet(&world, v);
    client.send_bytes(&[0x01, 0, 0, 1]);
    client.expect_farewell(4, "16777217");

    let (mut client, _) = Client::greet(&world, v);
    client.send_bytes(&[0, 0, 0, 1, 0x42]);
    client.expect_farewell(3, "0x42");

    let (mut client, _) = Client::greet(&world, v);
    client.send_bytes(&[0, 0, 0, 4, 0x31, 1, 4, 9]);
    client.expect_farewell(3, "cut short");

    let mut client = Client::connect(&world);
    let caps = ClientCaps {
        profiles: 0,
        ..ClientCaps::default()
    };
    client.send(&ClientMessage::Hello(Hello {
        name: "x".into(),
        version: v,
        caps,
    }));
    client.expect_farewell(6, "profile");

    bystander.line("echo un''harmed");
    bystander.wait_for_row("unharmed");
}

#[test]
fn an_attach_is_bootstrapped_in_order_and_output_is_numbered() {
    let world = World::with_server(&[]);
    let (mut client, _) = Client::greet(&world, Version::V0_9);
    client.send(&attach(Target::Name("none".into()), 1));
    match client.receive() {
        Some(ServerMessage::Error {
            request: None,
            code: 102,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    client.send(&attach(
        create(
            "seq",
            "stty -echo; echo one; while read x; do echo $x; done",
        ),
        7,
    ));
    let pane = match client.receive() {
        Some(ServerMessage::Attached(attached)) => {
            assert_eq!(attached.attach_id, 7);
            assert_eq!(attached.snapshot.sessions[0].name, "seq");
            attached.snapshot.focused
        }
        other => panic!("{other:?}"),
    };
    let begin = match client.receive() {
        Some(ServerMessage::BootstrapBegin(begin)) => begin,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (begin.cols, begin.rows, begin.codec, begin.mode),
        (80, 24, 0, 0)
    );
    assert_eq!(begin.key.resource, pane);
    let mut number = 0;
    loop {
        match client.receive() {
            Some(ServerMessage::BootstrapChunk(chunk)) => {
                assert_eq!((&chunk.key, chunk.number), (&begin.key, number));
                number += 1;
            }
            Some(ServerMessage::BootstrapReady(key)) => break assert_eq!(key, begin.key),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        client.receive(),
        Some(ServerMessage::AttachReady { attach_id: 7 })
    );

    // A key, a paste and a routed key; then a second client types without being attached.
    let text = press(&pane, key::UNIDENTIFIED, Some("typed"));
    client.send(&ClientMessage::Key(text));
    client.send(&ClientMessage::Key(press(&pane, key::ENTER, None)));
    let data = bytes::Bytes::from_static(b"pasted\n");
    client.send(&ClientMessage::Paste(PasteEvent {
        resource: pane.clone(),
        trust: 0,
        data,
    }));
    let (mut other, _) = Client::greet(&world, Version::V0_9);
    for (n, text) in [(1, Some("routed")), (2, None)] {
        let key = if text.is_some() {
            key::UNIDENTIFIED
        } else {
            key::ENTER
        };
        let outcome = other.request(n, Command::RouteInput(press(&pane, key, text)));
        assert_eq!(outcome, CommandOutcome::Ok);
    }
    let nowhere = press(&ResourceId::Local(9999), key::ENTER, None);
    match other.request(3, Command::RouteInput(nowhere)) {
        CommandOutcome::Error { code: 104, .. } => {}
        outcome => panic!("{outcome:?}"),
    }
    // An acknowledgement is neither needed nor minded.
    client.send(&ClientMessage::FrameAck {
        key: begin.key.clone(),
        seq: 1,
    });
    let mut seen = String::new();
    let mut seq = begin.base_seq;
    while !["typed", "pasted", "routed"]
        .iter()
        .all(|word| seen.contains(word))
    {
        match client.receive() {
            Some(ServerMessage::Output(output)) => {
                seq += 1;
                assert_eq!((&output.key, output.seq), (&begin.key, seq));
                seen.push_str(&String::from_utf8_lossy(&output.data));
            }
            other => panic!("{other:?}"),
        }
    }

    // A resize bootstraps anew: same stream, next bootstrap, and the numbers go on.
    client.send(&ClientMessage::ViewportResize(Viewport::cells(100, 30)));
    let again = client.receive_until(|m| match m {
        ServerMessage::BootstrapBegin(begin) => Some(begin),
        _ => None,
    });
    assert_eq!((again.cols, again.rows), (100, 30));
    assert_eq!(again.key.stream, begin.key.stream);
    assert_eq!(again.key.bootstrap, begin.key.bootstrap + 1);
    assert!(again.base_seq >= seq);

    // Used attach ids are refused; leaving keeps the connection.
    client.send(&attach(Target::Last, 7));
    client.receive_until(|m| match m {
        ServerMessage::Error { code: 3, .. } => Some(()),
        _ => None,
    });
    client.send(&ClientMessage::Detach);
    client.receive_until(|m| match m {
        ServerMessage::Detached {
            reason: DetachReason::Asked,
            ..
        } => Some(()),
        _ => None,
    });
    client.send(&ClientMessage::Ping(1));
    assert_eq!(client.receive(), Some(ServerMessage::Pong(1)));
    client.send(&attach(Target::Last, 8));
    client.receive_until(|m| (m == ServerMessage::AttachReady { attach_id: 8 }).then_some(()));

    // The end of the child.
    assert_eq!(
        other.request(4, Command::Kill(pane.clone())),
        CommandOutcome::Ok
    );
    let closed = client.receive_until(|m| match m {
        ServerMessage::Closed(closed) => Some(closed),
        _ => None,
    });
    assert_eq!((closed.resource, closed.exit), (pane, Some(129)));
    match client.receive() {
        Some(ServerMessage::Detached {
            reason: DetachReason::SessionKilled,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_can_end_the_server() {
    let mut world = World::with_server(&[]);
    let (mut client, _) = Client::greet(&world, Version::V0_9);
    match client.request(1, Command::GetState) {
        CommandOutcome::OkWith(ResultValue::Snapshot(s)) => assert!(s.sessions.is_empty()),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.request(2, Command::ShutDown), CommandOutcome::Ok);
    assert!(world.wait_server().success());
    wait_until("the socket is gone", || !world.socket().exists());
}

/// xorshift64*: the same damage in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

#[test]
fn damaged_frames_harm_only_who_sends_them() {
    let world = World::with_server(&[]);
    let bystander = world.shell("bystander");
    // What is typed there is typed: it has a session of its own.
    world.ok(&["new", "-d", "-s", "victim", "--", "cat"]);
    let pane = ResourceId::Local(world.sessions()[1]["id"].as_u64().expect("an id") as u32);
    let data = bytes::Bytes::from_static(b"# pasted\n");
    let corpus: Vec<Vec<u8>> = [
        ClientMessage::Ping(1),
        attach(Target::Name("victim".into()), 1),
        attach(create("extra", "exit"), 2),
        ClientMessage::Key(press(&pane, key::BACKSPACE, None)),
        ClientMessage::Paste(PasteEvent {
            resource: pane.clone(),
            trust: 0,
            data,
        }),
        ClientMessage::ViewportResize(Viewport::cells(80, 24)),
        ClientMessage::Command {
            request: 1,
            command: Command::GetState,
        },
        ClientMessage::Command {
            request: 2,
            command: Command::GetPerf { reset: false },
        },
        ClientMessage::Detach,
    ]
    .iter()
    .map(ClientMessage::encode)
    .collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..400 {
        let mut client = Client::connect(&world);
        let mut bytes = hello(Version::V0_9).encode();
        for _ in 0..=random.below(6) {
            let mut frame = corpus[random.below(corpus.len())].clone();
            for _ in 0..random.below(4) {
                let at = random.below(frame.len());
                frame[at] = random.below(256) as u8;
            }
            bytes.extend_from_slice(&frame);
        }
        bytes.truncate(bytes.len() - random.below(4));
        // The server may have sent this client away already.
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = client.stream.read_to_end(&mut answer);
        assert!(!answer.is_empty(), "HELLO at least is answered");
    }
    bystander.line("echo un''harmed");
    bystander.wait_for_row("unharmed");
    wait_until("nobody is left over", || {
        world.sessions()[0]["attached"] == 1
    });
}

#[test]
fn nothing_is_left_of_sessions_and_clients_that_are_gone() {
    let world = World::with_server(&[]);
    let held = |what: &str| {
        let dir = format!("/proc/{}/{what}", world.server_pid().as_raw_nonzero());
        std::fs::read_dir(dir).expect("the server lives").count()
    };
    let round = || {
        world.ok(&["new", "-d", "-s", "brief", "--", "sleep", "1000"]);
        let (mut client, _) = Client::greet(&world, Version::V0_9);
        client.send(&attach(Target::Last, 1));
        client.receive_until(|m| (m == ServerMessage::AttachReady { attach_id: 1 }).then_some(()));
        world.ok(&["kill", "brief"]);
        wait_until("the session is gone", || world.sessions().is_empty());
    };
    // The first ones make what is kept for good.
    round();
    round();
    let (files, threads) = (held("fd"), held("task"));
    for _ in 0..15 {
        round();
    }
    wait_until("files are closed", || held("fd") <= files);
    wait_until("threads have ended", || held("task") <= threads);
}
