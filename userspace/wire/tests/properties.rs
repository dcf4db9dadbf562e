//! Properties of the codec: what is written is read back, and whatever is read ends in a message
//! or an error.

use bytes::Bytes;
use phux_wire::{
    Attach, ClientCaps, ClientMessage, Closed, Command, CommandOutcome, Deframer, FocusEvent,
    Hello, KeyEvent, MouseEvent, Output, PaneInfo, PasteEvent, ResourceId, ResultValue,
    ServerMessage, SessionInfo, Snapshot, StreamKey, Target, Version, Viewport,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn resource() -> impl Strategy<Value = ResourceId> {
    prop_oneof![
        any::<u32>().prop_map(ResourceId::Local),
        ("\\PC{0,12}", any::<u32>()).prop_map(|(host, id)| ResourceId::Satellite(host, id)),
    ]
}

fn stream() -> impl Strategy<Value = StreamKey> {
    (resource(), any::<u64>(), any::<u64>()).prop_map(|(resource, stream, bootstrap)| StreamKey {
        resource,
        stream,
        bootstrap,
    })
}

fn viewport() -> impl Strategy<Value = Viewport> {
    (
        any::<u16>(),
        any::<u16>(),
        option::of(any::<u16>()),
        option::of(any::<u16>()),
    )
        .prop_map(|(cols, rows, px_w, px_h)| Viewport {
            cols,
            rows,
            px_w,
            px_h,
        })
}

fn key_event() -> impl Strategy<Value = KeyEvent> {
    let text = option::of("\\PC{0,8}");
    (
        resource(),
        0..3u32,
        any::<u32>(),
        any::<[u16; 2]>(),
        any::<bool>(),
        text,
        option::of(any::<u32>()),
    )
        .prop_map(
            |(resource, action, key, [mods, consumed], composing, text, unshifted)| KeyEvent {
                resource,
                action,
                key,
                mods,
                consumed,
                composing,
                text,
                unshifted,
            },
        )
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        Just(Target::Last),
        "\\PC*".prop_map(Target::Name),
        any::<u32>().prop_map(Target::Id),
        ("\\PC*", option::of(vec("\\PC*", 0..5)), option::of("\\PC*"))
            .prop_map(|(name, argv, cwd)| Target::Create { name, argv, cwd }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        resource().prop_map(Command::Kill),
        Just(Command::GetState),
        key_event().prop_map(Command::RouteInput),
        Just(Command::ShutDown),
        any::<bool>().prop_map(|reset| Command::GetPerf { reset }),
    ]
}

fn client_message() -> impl Strategy<Value = ClientMessage> {
    let data = || vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    prop_oneof![
        (
            "\\PC{0,20}",
            any::<[u16; 3]>(),
            option::of(any::<[u8; 6]>()),
            any::<[u8; 7]>()
        )
            .prop_map(|(name, [major, minor, patch], default_colours, b)| {
                let version = Version {
                    major,
                    minor,
                    patch,
                };
                let caps = ClientCaps {
                    colour: b[0],
                    layers: b[1],
                    images: b[2],
                    keyboard: b[3],
                    hyperlinks: b[4],
                    output_mode: b[5],
                    default_colours,
                    profiles: b[6],
                    ..ClientCaps::default()
                };
                ClientMessage::Hello(Hello {
                    name,
                    version,
                    caps,
                })
            }),
        (
            target(),
            viewport(),
            any::<bool>(),
            any::<u32>(),
            1..u32::MAX
        )
            .prop_map(
                |(target, viewport, want_scrollback, scrollback_limit, attach_id)| {
                    ClientMessage::Attach(Attach {
                        target,
                        viewport,
                        want_scrollback,
                        scrollback_limit,
                        attach_id,
                    })
                }
            ),
        Just(ClientMessage::Detach),
        key_event().prop_map(ClientMessage::Key),
        (resource(), any::<u8>(), data()).prop_map(|(resource, trust, data)| ClientMessage::Paste(
            PasteEvent {
                resource,
                trust,
                data
            }
        )),
        (
            resource(),
            any::<[u32; 2]>(),
            any::<u16>(),
            any::<[u16; 2]>()
        )
            .prop_map(
                |(resource, [action, button], mods, [x, y])| ClientMessage::Mouse(MouseEvent {
                    resource,
                    action,
                    button,
                    mods,
                    x: x.into(),
                    y: y.into()
                })
            ),
        (resource(), any::<bool>())
            .prop_map(|(resource, focused)| ClientMessage::Focus(FocusEvent { resource, focused })),
        viewport().prop_map(ClientMessage::ViewportResize),
        (stream(), any::<u64>()).prop_map(|(key, seq)| ClientMessage::FrameAck { key, seq }),
        (any::<u32>(), command())
            .prop_map(|(request, command)| ClientMessage::Command { request, command }),
        any::<u64>().prop_map(ClientMessage::Ping),
    ]
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let session = (
        "\\PC{0,9}",
        any::<[u32; 2]>(),
        any::<i64>(),
        any::<[u16; 2]>(),
    )
        .prop_map(
            |(name, [id, window], created, [windows, attached])| SessionInfo {
                id,
                name,
                active_window: Some(window),
                created,
                windows,
                attached,
            },
        );
    let pane = (
        resource(),
        any::<u32>(),
        any::<[u16; 2]>(),
        option::of("\\PC{0,9}"),
    )
        .prop_map(|(resource, window, [cols, rows], title)| PaneInfo {
            resource,
            window,
            cols,
            rows,
            cwd: title.clone(),
            title,
        });
    (
        vec(session, 0..4),
        vec(pane, 0..4),
        any::<[u32; 2]>(),
        resource(),
    )
        .prop_map(
            |(sessions, panes, [focused_session, focused_window], focused)| Snapshot {
                sessions,
                windows: vec![],
                panes,
                focused_session,
                focused_window,
                focused,
            },
        )
}

fn server_message() -> impl Strategy<Value = ServerMessage> {
    // Up to past the sizes at which the varint of a length grows to two and to three bytes.
    let data = prop_oneof![0..300usize, 16_300..16_500usize]
        .prop_map(|len| Bytes::from((0..len).map(|i| i as u8).collect::<Vec<_>>()));
    let outcome = prop_oneof![
        Just(CommandOutcome::Ok),
        resource().prop_map(|r| CommandOutcome::OkWith(ResultValue::Resource(r))),
        snapshot().prop_map(|s| CommandOutcome::OkWith(ResultValue::Snapshot(s))),
        (0..40_000usize).prop_map(|n| CommandOutcome::OkWith(ResultValue::Json("x".repeat(n)))),
        (any::<u16>(), "\\PC*").prop_map(|(code, text)| CommandOutcome::Error { code, text }),
    ];
    prop_oneof![
        (stream(), any::<u64>(), data).prop_map(|(key, seq, data)| ServerMessage::Output(Output {
            key,
            seq,
            data
        })),
        stream().prop_map(ServerMessage::BootstrapReady),
        (resource(), option::of(any::<i32>()))
            .prop_map(|(resource, exit)| ServerMessage::Closed(Closed { resource, exit })),
        (option::of(any::<u32>()), any::<u16>(), "\\PC*").prop_map(|(request, code, text)| {
            ServerMessage::Error {
                request,
                code,
                text,
            }
        }),
        (any::<u32>(), outcome)
            .prop_map(|(request, outcome)| ServerMessage::CommandResult { request, outcome }),
    ]
}

proptest! {
    #[test]
    fn client_messages_round_trip(message in client_message()) {
        let mut deframer = Deframer::new();
        deframer.feed(&message.encode());
        let frame = deframer.next_frame().expect("bounded").expect("whole");
        prop_assert_eq!(ClientMessage::decode(frame), Ok(message));
    }

    #[test]
    fn server_messages_round_trip(message in server_message()) {
        let mut deframer = Deframer::new();
        deframer.feed(&message.encode());
        let frame = deframer.next_frame().expect("bounded").expect("whole");
        prop_assert_eq!(ServerMessage::decode(frame), Ok(message));
    }

    #[test]
    fn unknown_fields_at_the_end_change_nothing(message in client_message(), id in 11..200u8, junk in vec(any::<u8>(), 0..100)) {
        prop_assume!(id < 128);
        let mut frame = message.encode();
        frame.extend_from_slice(&[id, 4, junk.len() as u8]);
        frame.extend_from_slice(&junk);
        let len = (frame.len() as u32 - 4).to_be_bytes();
        frame[..4].copy_from_slice(&len);
        let mut deframer = Deframer::new();
        deframer.feed(&frame);
        let frame = deframer.next_frame().expect("bounded").expect("whole");
        // DETACH has no fields to look at; all others must read the same.
        prop_assert_eq!(ClientMessage::decode(frame), Ok(message));
    }

    #[test]
    fn decoding_anything_never_panics(kind in any::<u8>(), payload in vec(any::<u8>(), 0..400)) {
        let frame = phux_wire::RawFrame { kind, payload: &payload };
        let _ = ClientMessage::decode(frame);
        let _ = ServerMessage::decode(frame);
    }

    #[test]
    fn deframing_anything_never_panics_and_keeps_no_more_than_was_fed(parts in vec(vec(any::<u8>(), 0..60), 0..20)) {
        let mut deframer = Deframer::new();
        let mut fed = 0;
        for part in parts {
            deframer.feed(&part);
            fed += part.len();
            while let Ok(Some(_)) = deframer.next_frame() {}
            prop_assert!(deframer.pending() <= fed);
        }
    }
}

#[test]
fn an_output_frame_costs_what_upstream_says() {
    for (len, overhead) in [
        (1, 49),
        (127, 49),
        (128, 50),
        (16_383, 50),
        (16_384, 51),
        (49_140, 51),
    ] {
        let key = StreamKey {
            resource: ResourceId::Local(1),
            stream: 7,
            bootstrap: 1,
        };
        let data = Bytes::from(vec![b'x'; len]);
        let frame = ServerMessage::Output(Output { key, seq: 1, data }).encode();
        assert_eq!(frame.len(), len + overhead, "{len}");
    }
}
