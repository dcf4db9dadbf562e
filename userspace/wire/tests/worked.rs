//! Upstream's worked examples, byte for byte, in both directions; then the same bytes damaged.

use bytes::Bytes;
use phux_wire::{
    Attach, Attached, BootstrapBegin, BootstrapChunk, ClientCaps, ClientMessage, Command,
    CommandOutcome, Deframer, DetachReason, Hello, HelloOk, KeyEvent, Layout, Output, PaneInfo,
    PasteEvent, Profile, ResourceId, ResultValue, ServerMessage, SessionInfo, Snapshot, StreamKey,
    Target, Version, Viewport, WindowInfo, action, key,
};

const PANE: ResourceId = ResourceId::Local(1);

enum Either {
    Client(ClientMessage),
    Server(ServerMessage),
}

use Either::{Client, Server};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex"))
        .collect()
}

fn stream() -> StreamKey {
    StreamKey {
        resource: PANE,
        stream: 7,
        bootstrap: 1,
    }
}

fn hello(version: Version) -> Either {
    Client(ClientMessage::Hello(Hello {
        name: "phux-trace".into(),
        version,
        caps: ClientCaps::default(),
    }))
}

fn hello_ok(features: u32) -> Either {
    Server(ServerMessage::HelloOk(HelloOk {
        version: Version::V0_8,
        layers: 7,
        features,
        incarnation: std::array::from_fn(|i| i as u8),
        profile: Profile::Raw,
        max_chunk: 262_144,
        max_page: 1_048_576,
    }))
}

fn command(request: u32, command: Command) -> Either {
    Client(ClientMessage::Command { request, command })
}

fn attach(target: Target) -> Either {
    Client(ClientMessage::Attach(Attach {
        target,
        viewport: Viewport::cells(80, 24),
        want_scrollback: false,
        scrollback_limit: 0,
        attach_id: 7,
    }))
}

const UNDECODED: &str = "could not decode client frame";

/// Number in upstream's table, what it is, and its bytes.
fn examples() -> Vec<(u32, Either, &'static str)> {
    let snapshot = Snapshot {
        sessions: vec![SessionInfo {
            id: 1,
            name: "work".into(),
            active_window: Some(1),
            created: 1_800_000_000,
            windows: 1,
            attached: 1,
        }],
        windows: vec![WindowInfo {
            id: 1,
            session: 1,
            index: 0,
            name: "sh".into(),
            active: Some(PANE),
            layout: Some(Layout::Leaf(PANE)),
        }],
        panes: vec![PaneInfo {
            resource: PANE,
            window: 1,
            cols: 80,
            rows: 24,
            title: None,
            cwd: None,
        }],
        focused_session: 1,
        focused_window: 1,
        focused: PANE,
    };
    vec![
        (
            1,
            hello(Version::V0_8),
            "0000003c0101040a706875782d747261636502040200000304020008040402000005041c00050000000000060000000000000000000000000004000000100000",
        ),
        (
            2,
            hello(Version::V0_9),
            "0000003c0101040a706875782d747261636502040200000304020009040402000005041c00050000000000060000000000000000000000000004000000100000",
        ),
        (
            3,
            hello_ok(0xff0),
            "0000003d800104020000020402000803040200000404050700000ff0050410000102030405060708090a0b0c0d0e0f060401010704040004000008040400100000",
        ),
        (
            4,
            hello_ok(0x7f0),
            "0000003d8001040200000204020008030402000004040507000007f0050410000102030405060708090a0b0c0d0e0f060401010704040004000008040400100000",
        ),
        (
            5,
            command(1, Command::GetPerf { reset: false }),
            "0000000d31010404000000010204021800",
        ),
        (
            6,
            command(2, Command::GetPerf { reset: true }),
            "0000000d31010404000000020204021801",
        ),
        (
            7,
            Server(ServerMessage::CommandResult {
                request: 1,
                outcome: CommandOutcome::OkWith(ResultValue::Json("{\"a\":1}".into())),
            }),
            "00000018c20104040000000102040d0103000000077b2261223a317d",
        ),
        (
            9,
            Server(ServerMessage::Error {
                request: None,
                code: 3,
                text: UNDECODED.into(),
            }),
            "00000026c1020402000303041d636f756c64206e6f74206465636f646520636c69656e74206672616d65",
        ),
        (
            10,
            Server(ServerMessage::Detached {
                reason: DetachReason::Protocol,
                text: Some(UNDECODED.into()),
            }),
            "00000025820104010402041d636f756c64206e6f74206465636f646520636c69656e74206672616d65",
        ),
        (
            11,
            attach(Target::Create {
                name: "work".into(),
                argv: None,
                cwd: None,
            }),
            "0000002a0201040b0300000004776f726b0000020406005000180000030401000404040000000005040400000007",
        ),
        (
            12,
            attach(Target::Last),
            "000000200201040100020406005000180000030401000404040000000005040400000007",
        ),
        (
            13,
            Server(ServerMessage::Attached(Attached {
                snapshot,
                client_id: 3,
                attach_id: 7,
            })),
            "0000007481010462000000010000000100000004776f726b0100000001000000006b49d2000001000100000001000000010000000100000000000273680100000000010100000000000100000001000000000100000001005000180000000000010000000100000000010204040000000303040400000007",
        ),
        (
            14,
            Server(ServerMessage::BootstrapBegin(BootstrapBegin {
                key: stream(),
                codec: 0,
                cols: 80,
                rows: 24,
                mode: 0,
                base_seq: 1,
            })),
            "0000003c930104050000000001020408000000000000000703040800000000000000010404010005040200500604020018070401000804080000000000000001",
        ),
        (
            15,
            Server(ServerMessage::BootstrapChunk(BootstrapChunk {
                key: stream(),
                number: 0,
                data: Bytes::from_static(b"\x1b[2J\x1b[H"),
            })),
            "0000003094010405000000000102040800000000000000070304080000000000000001040404000000000504071b5b324a1b5b48",
        ),
        (
            17,
            Server(ServerMessage::AttachReady { attach_id: 7 }),
            "000000088301040400000007",
        ),
        (
            18,
            Server(ServerMessage::Output(Output {
                key: stream(),
                seq: 2,
                data: Bytes::from_static(b"a"),
            })),
            "0000002e90010405000000000102040800000000000000020304016104040800000000000000070504080000000000000001",
        ),
        (
            19,
            Client(ClientMessage::Key(KeyEvent {
                resource: PANE,
                action: action::KEY_PRESS,
                key: key::of_char('a'),
                mods: 0,
                consumed: 0,
                composing: false,
                text: Some("a".into()),
                unshifted: Some('a' as u32),
            })),
            "00000024100104050000000001020418000000010000001400000000000100000001610100000061",
        ),
        (
            20,
            Client(ClientMessage::Paste(PasteEvent {
                resource: PANE,
                trust: 0,
                data: Bytes::from_static(b"hi"),
            })),
            "0000001311010405000000000102040700000000026869",
        ),
        (21, Client(ClientMessage::Detach), "0000000103"),
        (
            21,
            Server(ServerMessage::Detached {
                reason: DetachReason::Asked,
                text: None,
            }),
            "000000058201040100",
        ),
        (
            22,
            command(4, Command::GetState),
            "0000000d31010404000000040204020500",
        ),
        (
            24,
            Client(ClientMessage::Ping(0x2a)),
            "0000000c7f010408000000000000002a",
        ),
        (
            24,
            Server(ServerMessage::Pong(0x2a)),
            "0000000cff010408000000000000002a",
        ),
        (
            25,
            Client(ClientMessage::FrameAck {
                key: stream(),
                seq: 2,
            }),
            "0000002a210104050000000001020408000000000000000203040800000000000000070404080000000000000001",
        ),
    ]
}

#[test]
fn each_example_encodes_to_its_bytes() {
    for (number, message, hex) in examples() {
        let encoded = match message {
            Client(m) => m.encode(),
            Server(m) => m.encode(),
        };
        assert_eq!(encoded, bytes(hex), "example {number}");
    }
}

#[test]
fn each_example_decodes_from_its_bytes() {
    for (number, message, hex) in examples() {
        let mut deframer = Deframer::new();
        deframer.feed(&bytes(hex));
        let frame = deframer.next_frame().expect("bounded").expect("whole");
        match message {
            Client(m) => assert_eq!(ClientMessage::decode(frame), Ok(m), "example {number}"),
            Server(m) => assert_eq!(ServerMessage::decode(frame), Ok(m), "example {number}"),
        }
        assert_eq!(deframer.pending(), 0);
    }
}

#[test]
fn all_examples_in_one_stream_survive_any_split() {
    let all: Vec<u8> = examples()
        .iter()
        .flat_map(|(_, _, hex)| bytes(hex))
        .collect();
    for step in [1, 2, 3, 7, 64, all.len()] {
        let mut deframer = Deframer::new();
        let mut out = Vec::new();
        for part in all.chunks(step) {
            deframer.feed(part);
            while let Some(frame) = deframer.next_frame().expect("bounded") {
                let len = frame.payload.len() as u32 + 1;
                out.extend_from_slice(&len.to_be_bytes());
                out.push(frame.kind);
                out.extend_from_slice(frame.payload);
            }
        }
        assert_eq!(out, all, "step {step}");
    }
}

/// xorshift64*: the same damage in each run, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// Decodes as both sides would and says how many messages there were: no input may do worse
/// than an error.
fn decode_all(input: &[u8]) -> usize {
    let mut deframer = Deframer::new();
    deframer.feed(input);
    let mut decoded = 0;
    while let Ok(Some(frame)) = deframer.next_frame() {
        if let Ok(message) = ClientMessage::decode(frame) {
            // What was understood can be written again.
            assert!(message.encode().len() >= 5);
            decoded += 1;
        }
        if let Ok(message) = ServerMessage::decode(frame) {
            assert!(message.encode().len() >= 5);
            decoded += 1;
        }
    }
    decoded
}

#[test]
fn damaged_examples_never_panic() {
    let corpus: Vec<Vec<u8>> = examples().iter().map(|(_, _, hex)| bytes(hex)).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut decoded = 0;
    for _ in 0..60_000 {
        let mut input = corpus[random.below(corpus.len())].clone();
        if random.below(3) == 0 {
            input.extend_from_slice(&corpus[random.below(corpus.len())]);
        }
        for _ in 0..=random.below(4) {
            let at = random.below(input.len());
            match random.below(5) {
                0 => input[at] ^= 1 << random.below(8),
                1 => input[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                2 => input.truncate(at + 1),
                3 => input.insert(at, random.below(256) as u8),
                _ => drop(input.remove(at)),
            }
            if input.is_empty() {
                break;
            }
        }
        if random.below(2) == 0 && input.len() > 4 {
            // Repair the length word, so that the damage reaches the decoders behind it.
            let len = (input.len() as u32 - 4).to_be_bytes();
            input[..4].copy_from_slice(&len);
        }
        decoded += decode_all(&input);
    }
    assert!(
        decoded > 10_000,
        "the damage is so heavy that nothing is decoded: {decoded}"
    );
}
