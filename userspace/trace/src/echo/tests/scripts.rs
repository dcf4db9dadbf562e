//! One key through each kind of multiplexer, as the kernel would tell it.

/// tmux: the server reads and writes the client's terminal itself.
pub(super) const TMUX: &str = "
    0-2        term write outer.m 1
    1-5-8      kw flush outer.s by term
    0-7-10     tmux off flush outer.s
    11-12      tmux read outer.s 1
    14-16      tmux write pane.m 1
    15-20-24   kw flush pane.s by tmux
    18-60-62   tmux off flush pane.m
    0-23-30    vi off flush pane.s
    31-32      vi read pane.s 1
    40-43      vi write log.s 1       # a write that is none of this PTY's
    50-53      vi write pane.s 4
    52-57-61   kw flush pane.m by vi
    64-66      tmux read pane.m 4
    70-75      tmux write outer.s 9
";

/// What becomes of it.
pub(super) const TMUX_CHAIN: &str = "
    1B echoed 4
    TerminalInputFlush kw 1-7: cpu 2 wait 4
    ClientRead tmux 7-12: cpu 2 wait 3
    ServerInput tmux 12-14: cpu 2
    MasterWrite tmux 14-15: cpu 1
    InputFlush kw 15-23: cpu 3 wait 5
    ChildRead vi 23-32: cpu 2 wait 7
    Child vi 32-50: cpu 18
    ChildWrite vi 50-52: cpu 2
    OutputFlush kw 52-60: cpu 3 wait 5
    MasterRead tmux 60-66: cpu 4 wait 2
    ServerOutput tmux 66-70: cpu 4
    ClientWrite tmux 70-75: cpu 5
";

/// phux: client and server, each of several threads.
pub(super) const PHUX: &str = "
    0-2        term write outer.m 1
    1-5-8      kw flush outer.s by term
    0-7-10     client off flush outer.s
    11-12      client read outer.s 1
    14-20      client send c 30
    0-16-22    phux off task client
    23-24      phux recv c 8
    24-25      phux recv c 22
    0-30-33    phux/lane off task phux
    31-36-38   phux off task phux/lane
    0-40-45    phux/writer off task phux
    46-49      phux/writer write pane.m 1
    47-52-56   kw flush pane.s by phux/writer
    0-55-58    cat off flush pane.s
    50-58      cat read pane.s 1      # it sat in the call
    60-62      cat write pane.s 1
    61-64-68   kw flush pane.m by cat
    0-67-70    phux/reader off flush pane.m
    0-71       phux/reader read pane.m 1
    42-73-80   phux off task phux/reader
    90-95      phux send c 51
    21-92-99   client off task phux
    100-101    client recv c 51
    0-110-112  client/stdout off task client
    115-120    client/stdout write outer.s 7
";

/// What becomes of it.
pub(super) const PHUX_CHAIN: &str = "
    1B echoed 1
    TerminalInputFlush kw 1-7: cpu 2 wait 4
    ClientRead client 7-12: cpu 2 wait 3
    ClientSend client 12-16: cpu 4
    ServerReceive phux 16-25: cpu 3 wait 6
    ServerInput phux 25-30: cpu 5
    ServerInput phux/lane 30-36: cpu 3 wait 3
    ServerInput phux 36-40: cpu 2 wait 2
    ServerInput phux/writer 40-46: cpu 1 wait 5
    MasterWrite phux/writer 46-47: cpu 1
    InputFlush kw 47-55: cpu 3 wait 5
    ChildRead cat 55-58: wait 3
    Child cat 58-60: cpu 2
    ChildWrite cat 60-61: cpu 1
    OutputFlush kw 61-67: cpu 3 wait 3
    MasterRead phux/reader 67-71: cpu 1 wait 3
    ServerOutput phux/reader 71-73: cpu 2
    ServerOutput phux 73-92: cpu 12 wait 7
    ClientReceive client 92-101: cpu 2 wait 7
    ClientWrite client 101-110: cpu 9
    ClientWrite client/stdout 110-120: cpu 8 wait 2
";

/// The kernel echoes; the program does not even see it before the line is complete.
pub(super) const KERNEL_ECHO: &str = "
    0-2        term write outer.m 1
    1-5-8      kw flush outer.s by term
    0-7-10     tmux off flush outer.s
    11-12      tmux read outer.s 1
    14-16      tmux write pane.m 1
    15-20-24   kw flush pane.s by tmux
    22-27-29   kw2 flush pane.m by kw
    18-28-31   tmux off flush pane.m
    32-33      tmux read pane.m 1
    35-37      tmux write outer.s 1
";

/// A bare terminal: no client, the program echoes.
pub(super) const BARE: &str = "
    0-2        term write pane.m 1
    1-5-8      kw flush pane.s by term
    0-7-9      sh off flush pane.s
    10-11      sh read pane.s 1
    13-15      sh write pane.s 1
    14-18-21   kw flush pane.m by sh
    3-20-22    term off flush pane.m
    23-24      term read pane.m 1
";
