//! Programs look the same inside as outside, cell by cell and attribute by attribute.

mod harness;

use std::process::Command;

use harness::{Terminal, World, text, wait_until};

/// A program to look at, what to type, and what shows that it is done.
struct Look {
    name: &'static str,
    argv: &'static [&'static str],
    steps: &'static [(&'static str, &'static str)],
}

const LOOKS: &[Look] = &[
    Look {
        name: "vim",
        argv: &[
            "vim",
            "-u",
            "NONE",
            "-N",
            "-n",
            "-i",
            "NONE",
            "--cmd",
            "set noesckeys ttimeoutlen=50 t_RV= t_u7=",
            "text",
        ],
        steps: &[
            ("", "line 1"),
            (":syntax off\r:set number hlsearch\r/line 3\r", "/line 3"),
            ("Onew line 日本語\x1b", "new line 日本語"),
            ("\x06\x06", "line 50"),
        ],
    },
    Look {
        name: "less",
        argv: &["less", "-N", "text"],
        steps: &[
            ("", "line 1"),
            (" ", "line 30"),
            ("/line 77\r", "line 77"),
            ("b", "line 60"),
        ],
    },
    Look {
        name: "bash",
        // Each step waits for the next prompt: what is typed before it is echoed by the kernel and
        // not by the shell, or not, as it happens.
        argv: &["bash", "--norc", "--noprofile"],
        steps: &[
            ("PS1='\\#> '; clear\r", "2>"),
            ("cat te\t", "2> cat text"),
            ("\x01echo \x05| tail -n 2\r", "3>"),
            (
                "printf '\\033[4;38;5;208morange\\033[0m \\033[7mreverse\\033[0m\\n'\r",
                "4>",
            ),
            ("printf '\\033(0lqqk\\033(B \\033[5bx\\n'; seq 30\r", "5>"),
        ],
    },
    Look {
        name: "regions",
        argv: &[
            "sh",
            "-c",
            "printf '\\033[2J\\033[5;10r\\033[10;1H'; seq 20; printf '\\033[r\\033[20;5Hend'; exec cat",
        ],
        steps: &[("", "end")],
    },
];

fn program(world: &World, look: &Look) -> Vec<String> {
    let dir = world.dir.path().to_str().expect("UTF-8");
    let script = format!("cd {dir}; exec \"$0\" \"$@\"");
    let argv = look.argv.iter().map(|s| (*s).to_owned());
    ["sh".to_owned(), "-c".to_owned(), script]
        .into_iter()
        .chain(argv)
        .collect()
}

fn installed(name: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {name}")])
        .output();
    let found = found.is_ok_and(|out| out.status.success());
    assert!(
        found || std::env::var_os("CI").is_none(),
        "{name} is not installed"
    );
    if !found {
        println!("skipped: {name} is not installed");
    }
    found
}

#[test]
fn programs_look_the_same_inside_as_outside() {
    let world = World::with_server(&[]);
    let lines: String = (1..=100).map(|n| format!("line {n}\tof text\n")).collect();
    std::fs::write(world.dir.path().join("text"), lines).expect("write");
    for look in LOOKS {
        if !installed(look.argv[0]) {
            continue;
        }
        let argv = program(&world, look);
        let mut outside = world.command(&[]);
        let path = outside
            .get_envs()
            .find(|(k, _)| *k == "PATH")
            .and_then(|(_, v)| v)
            .map(ToOwned::to_owned);
        outside = Command::new(&argv[0]);
        outside
            .args(&argv[1..])
            .env_clear()
            .env("PATH", path.expect("PATH"));
        outside
            .env("LANG", "C.UTF-8")
            .env("HOME", world.dir.path())
            .env("COLORTERM", "truecolor");
        let outside = Terminal::start(outside, 80, 24);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let mut new = vec!["new", "-s", look.name, "--"];
        new.extend(&argv);
        let inside = world.client(&new);
        for (keys, shown) in look.steps {
            for terminal in [&outside, &inside] {
                terminal.keys(keys);
                terminal.wait(shown, |term| {
                    text(term).iter().any(|row| row.contains(shown))
                });
            }
            wait_until(
                &format!("{} looks the same after {keys:?}", look.name),
                || {
                    let same = inside.cells() == outside.cells();
                    same || differs(look.name, &inside, &outside)
                },
            );
        }
        // And to one that comes later, from a bootstrap.
        let later = world.client(&["attach", look.name]);
        wait_until("a later client sees the same", || {
            later.cells() == outside.cells() || differs(look.name, &later, &outside)
        });
        world.ok(&["kill", look.name]);
    }
}

/// Tells what differs, if asked to; `false`.
fn differs(name: &str, inside: &Terminal, outside: &Terminal) -> bool {
    if std::env::var_os("SHOW_DIFFERENCES").is_some() {
        let (inside, outside) = (inside.cells(), outside.cells());
        println!("{name}: cursor {:?} and {:?}", inside.1, outside.1);
        for (n, (a, b)) in inside.0.iter().zip(&outside.0).enumerate() {
            if let Some(column) = (0..a.len()).find(|c| a[*c] != b[*c]) {
                println!(
                    "row {n} column {column}: {:?} and {:?}",
                    a[column], b[column]
                );
            }
        }
    }
    false
}

#[test]
fn htop_looks_the_same_where_it_stands_still() {
    if !installed("htop") {
        return;
    }
    let world = World::with_server(&[]);
    let rc = "fields=0 48 17 18 38 39 40 2 46 47 49 1\nhide_kernel_threads=1\ncolor_scheme=0\n";
    std::fs::write(world.dir.path().join("htoprc"), rc).expect("write");
    let script = "HTOPRC=$HOME/htoprc exec htop -d 100";
    let mut outside = world.command(&[]);
    outside = {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env_clear();
        shell.envs(
            outside
                .get_envs()
                .filter_map(|(k, v)| v.map(|v| (k.to_owned(), v.to_owned()))),
        );
        shell.env("COLORTERM", "truecolor");
        shell
    };
    let outside = Terminal::start(outside, 80, 24);
    let inside = world.client(&["new", "-s", "htop", "--", "sh", "-c", script]);
    for terminal in [&outside, &inside] {
        terminal.wait_for("F10Quit");
        terminal.wait_for("PID USER");
    }
    let fixed = |terminal: &Terminal| {
        let (rows, _) = terminal.cells();
        let shown = terminal.screen();
        let of = |part: &str| shown.iter().position(|row| row.contains(part));
        (
            of("PID USER").map(|n| rows[n].clone()),
            of("F10Quit").map(|n| rows[n].clone()),
        )
    };
    wait_until("head and foot look the same", || {
        fixed(&inside) == fixed(&outside)
    });
}

#[test]
fn the_outer_terminal_gets_title_bell_and_cursor_shape() {
    let world = World::with_server(&[]);
    let client = world.shell("chrome");
    client.line("printf '\\033]2;a title\\007\\033[5 q\\007'; echo se''t");
    client.wait_for_row("set");
    let has = |bytes: &[u8]| client.raw().windows(bytes.len()).any(|w| w == bytes);
    wait_until("title", || has(b"\x1b]2;a title\x1b\\"));
    wait_until("cursor", || has(b"\x1b[5 q"));
    wait_until("bell", || has(b"\x07"));
    assert_eq!(world.sessions()[0]["title"], "a title");
}

#[test]
fn queries_of_the_program_are_answered() {
    let world = World::with_server(&[]);
    let client = world.shell("query");
    client.line("stty -icanon -echo; printf '\\033[6n\\033[c\\033[18t'; dd bs=1 count=24 2>/dev/null | cat -v; stty sane");
    client.wait_for("R^[[?6c^[[8;24;80t");
}
