//! The table of system calls: what each is called, and what of it the kernel side must know.

use std::collections::HashMap;
use std::sync::LazyLock;

use probe_ebpf::events;

use super::{Family, uring};

#[cfg(target_arch = "x86_64")]
const TABLE: &str = include_str!("x86_64.tbl");
#[cfg(not(target_arch = "x86_64"))]
const TABLE: &str = "";

/// Of three bits: no argument.
const NO_ARG: u32 = 7;

/// A system call, or a kind of io_uring request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syscall {
    /// Its number; of io_uring the opcode and [`events::CALL_URING`].
    pub nr: u32,
    /// Its name.
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// What the kernel side must know of it: `events::SHAPE_*`, without whether it is recorded.
    pub shape: u32,
    /// Argument that is a timeout in milliseconds.
    pub(super) milliseconds: Option<usize>,
    /// Argument that says how many descriptors are polled.
    pub(super) nfds: Option<usize>,
    /// Argument that is a length of address space.
    pub(super) space: Option<usize>,
    /// The time that the kernel side reads is a sleep that was asked for.
    pub(super) sleep: bool,
    /// It is a timeout.
    pub(super) timeout: bool,
    /// `epoll_ctl`.
    pub(super) epoll: bool,
    /// Its first path is a text that starts nowhere: what a symbolic link holds.
    pub(super) verbatim: bool,
}

impl Syscall {
    fn arg(&self, shift: u32) -> Option<usize> {
        let arg = (self.shape >> shift) & 7;
        (arg != NO_ARG).then_some(arg as usize)
    }

    /// Its result is a number of bytes.
    pub fn moves_bytes(&self) -> bool {
        self.shape & events::SHAPE_BYTES != 0
    }

    /// It is given a path.
    pub(super) fn has_path(&self) -> bool {
        self.arg(events::SHAPE_PATH).is_some()
    }

    /// It is given two.
    pub(super) fn has_two_paths(&self) -> bool {
        self.arg(events::SHAPE_PATH2).is_some()
    }

    /// Its result is a descriptor.
    pub(super) fn opens(&self) -> bool {
        self.shape & events::SHAPE_OPENS != 0
    }

    /// It makes a program of another.
    pub(super) fn execs(&self) -> bool {
        self.shape & events::SHAPE_EXECS != 0
    }
}

pub(super) fn plain(nr: u32, name: &'static str, family: Family) -> Syscall {
    Syscall {
        nr,
        name,
        family,
        shape: [
            events::SHAPE_FD,
            events::SHAPE_FD2,
            events::SHAPE_PATH,
            events::SHAPE_PATH2,
            events::SHAPE_EXTRA,
        ]
        .iter()
        .fold(0, |shape, shift| shape | (NO_ARG << shift)),
        milliseconds: None,
        nfds: None,
        space: None,
        sleep: false,
        timeout: false,
        epoll: false,
        verbatim: false,
    }
}

/// One line of the table. `None`: not understood, which a test excludes.
fn line(text: &'static str) -> Option<Syscall> {
    let mut words = text.split_ascii_whitespace();
    let (nr, name) = (words.next()?.parse().ok()?, words.next()?);
    let mut call = plain(nr, name, words.next()?.parse().ok()?);
    for word in words {
        let (word, arg) = match word.split_once('=') {
            Some((word, arg)) => (word, arg.parse::<u32>().ok().filter(|a| *a < 6)?),
            None => (word, NO_ARG),
        };
        let mut set = |shift: u32| {
            call.shape &= !(NO_ARG << shift);
            call.shape |= arg << shift;
        };
        match word {
            "fd" => set(events::SHAPE_FD),
            "fd2" => set(events::SHAPE_FD2),
            "path" => set(events::SHAPE_PATH),
            "path2" => set(events::SHAPE_PATH2),
            "u32" | "u64" | "timespec" => {
                set(events::SHAPE_EXTRA);
                let kind = match word {
                    "u32" => events::EXTRA_U32,
                    "u64" => events::EXTRA_U64,
                    _ => events::EXTRA_TIMESPEC,
                };
                call.shape |= kind << events::SHAPE_EXTRA_KIND;
            }
            "opens" => call.shape |= events::SHAPE_OPENS,
            "alters" => call.shape |= events::SHAPE_ALTERS,
            "bytes" => call.shape |= events::SHAPE_BYTES,
            "execs" => call.shape |= events::SHAPE_EXECS,
            "forks" => call.shape |= events::SHAPE_FORKS,
            "ms" => call.milliseconds = Some(arg as usize),
            "nfds" => call.nfds = Some(arg as usize),
            "space" => call.space = Some(arg as usize),
            "sleep" => call.sleep = true,
            "timeout" => call.timeout = true,
            "epoll" => call.epoll = true,
            "verbatim" => call.verbatim = true,
            _ => return None,
        }
    }
    Some(call)
}

/// All of them, with those of io_uring.
pub struct Table {
    /// By number; of the kernel's numbers that have no name here a place holder.
    calls: Vec<Syscall>,
    requests: Vec<Syscall>,
    other_request: Syscall,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}

static ALL: LazyLock<Table> = LazyLock::new(Table::new);

/// The table.
pub fn table() -> &'static Table {
    &ALL
}

impl Table {
    fn new() -> Table {
        let known = TABLE
            .lines()
            .filter(|l| !l.starts_with('#'))
            .filter_map(line);
        let mut by_nr: HashMap<u32, Syscall> = known.map(|c| (c.nr, c)).collect();
        // A number from a newer kernel is recorded under this; leaked once, a few kilobytes.
        let unknown = |nr: u32| plain(nr, format!("syscall_{nr}").leak(), Family::Misc);
        let calls = (0..events::CALL_NUMBERS)
            .map(|nr| by_nr.remove(&nr).unwrap_or_else(|| unknown(nr)))
            .collect();
        Table {
            calls,
            requests: uring::requests(),
            other_request: plain(events::CALL_URING, "io_uring:other", Family::Aio),
        }
    }

    /// The call of this number.
    pub fn get(&self, nr: u32) -> &Syscall {
        let found = match nr.checked_sub(events::CALL_URING) {
            Some(opcode) => self.requests.get(opcode as usize),
            None => self.calls.get(nr as usize),
        };
        found.unwrap_or(&self.other_request)
    }

    /// The calls, by number, without the requests of io_uring.
    pub fn calls(&self) -> &[Syscall] {
        &self.calls
    }

    /// A call, or a request of io_uring, by its name in a recording; one of a newer program's is the
    /// place holder.
    pub fn recorded(&self, name: &str, request: bool) -> &Syscall {
        let found = match request {
            true => {
                let mut all = self.requests.iter();
                all.find(|c| c.name.strip_prefix("io_uring:") == Some(name))
            }
            false => self.named(name),
        };
        found.unwrap_or(&self.other_request)
    }

    /// A call by its name.
    pub fn named(&self, name: &str) -> Option<&Syscall> {
        self.calls.iter().find(|c| c.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood_and_no_name_or_number_comes_twice() {
        let lines: Vec<&str> = TABLE.lines().filter(|l| !l.starts_with('#')).collect();
        let calls: Vec<Syscall> = lines
            .iter()
            .map(|l| line(l).unwrap_or_else(|| panic!("{l}")))
            .collect();
        let numbers: std::collections::BTreeSet<u32> = calls.iter().map(|c| c.nr).collect();
        let names: std::collections::BTreeSet<&str> = calls.iter().map(|c| c.name).collect();
        assert_eq!((numbers.len(), names.len()), (calls.len(), calls.len()));
        assert!(calls.iter().all(|c| c.nr < events::CALL_NUMBERS));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn numbers_are_those_of_the_c_library() {
        let named = |name: &str| i64::from(table().named(name).expect(name).nr);
        for (name, nr) in [
            ("read", libc::SYS_read),
            ("openat2", libc::SYS_openat2),
            ("newfstatat", libc::SYS_newfstatat),
            ("close_range", libc::SYS_close_range),
            ("io_uring_enter", libc::SYS_io_uring_enter),
            ("copy_file_range", libc::SYS_copy_file_range),
            ("epoll_pwait2", libc::SYS_epoll_pwait2),
        ] {
            assert_eq!(named(name), nr, "{name}");
        }
    }

    #[test]
    fn a_call_that_this_program_does_not_know_has_a_name_all_the_same() {
        assert_eq!(table().get(511).name, "syscall_511");
        assert_eq!(table().get(100_000).name, "io_uring:other");
        assert_eq!(table().get(events::CALL_URING + 22).name, "io_uring:read");
    }
}
