//! Process, file and call at once: what a flame graph is drawn of, in any order of levels.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Figures;
use crate::syscalls::table::table;
use crate::syscalls::{Call, Name};

/// Leaves that are kept, and for a while twice as many.
const MOST: usize = 16_384;

/// Sums of the calls of one process, file and number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leaf {
    /// Calls.
    pub count: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Their time, ns.
    pub time_ns: u64,
    /// Of that: slept.
    pub blocked_ns: u64,
}

impl Leaf {
    fn merge(&mut self, other: &Leaf) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
    }

    fn of(self, metric: Metric) -> u64 {
        match metric {
            Metric::Count => self.count,
            Metric::Bytes => self.bytes,
            Metric::Time => self.time_ns,
            Metric::Blocked => self.blocked_ns,
        }
    }
}

/// A level of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A node for each process.
    Process,
    /// A node for each directory of the path, and one for the file.
    Path,
    /// A node for each system call.
    Syscall,
}

/// How large a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Calls.
    Count,
    /// Bytes.
    Bytes,
    /// Time in calls.
    Time,
    /// Of that the time asleep.
    Blocked,
}

/// A node with all that is below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Its size, which those below sum up to if there are any.
    pub size: u64,
    /// By label.
    pub below: BTreeMap<String, Node>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    pid: u32,
    nr: u32,
    file: File,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum File {
    None,
    Named(Name),
    /// Those that were let go.
    Others,
}

/// All leaves.
#[derive(Debug, Default)]
pub struct Leaves {
    by_key: FxHashMap<Key, Leaf>,
    /// How often the files of some leaves were let go.
    pub let_go: u64,
}

impl Leaves {
    /// One more call; whether its process, file and number had not been seen together.
    pub fn add(&mut self, call: &Call) -> bool {
        let leaf = Leaf {
            count: 1,
            bytes: call.bytes,
            time_ns: call.dur,
            blocked_ns: call.blocked_ns,
        };
        let file = match &call.file {
            Some(name) => File::Named(name.clone()),
            None => File::None,
        };
        let key = Key {
            pid: call.pid,
            nr: call.nr,
            file,
        };
        if let Some(known) = self.by_key.get_mut(&key) {
            known.merge(&leaf);
            return false;
        }
        if self.by_key.len() >= 2 * MOST {
            self.shrink();
        }
        self.by_key.insert(key, leaf);
        true
    }

    /// Calls that the kernel has summed up.
    pub fn add_summed(&mut self, pid: u32, nr: u32, figures: &Figures) {
        let key = Key {
            pid,
            nr,
            file: File::None,
        };
        self.by_key.entry(key).or_default().merge(&Leaf {
            count: figures.count(),
            bytes: figures.bytes,
            time_ns: figures.time_ns(),
            blocked_ns: figures.blocked_ns,
        });
    }

    /// The smaller half lose their files; their sums stay with process and call.
    fn shrink(&mut self) {
        let mut times: Vec<u64> = self.by_key.values().map(|l| l.time_ns).collect();
        let middle = times.len() / 2;
        let limit = *times.select_nth_unstable(middle).1;
        let mut may_go = middle;
        let mut folded: Vec<(Key, Leaf)> = Vec::new();
        self.by_key.retain(|key, leaf| {
            if leaf.time_ns > limit || may_go == 0 {
                return true;
            }
            may_go -= 1;
            let file = File::Others;
            folded.push((
                Key {
                    file,
                    ..key.clone()
                },
                *leaf,
            ));
            false
        });
        self.let_go += folded.len() as u64;
        for (key, leaf) in folded {
            self.by_key.entry(key).or_default().merge(&leaf);
        }
    }

    /// The tree with these levels from the top.
    pub fn tree(
        &self,
        order: &[Level],
        metric: Metric,
        process_name: impl Fn(u32) -> String,
    ) -> Node {
        let mut root = Node::default();
        for (key, leaf) in &self.by_key {
            let size = leaf.of(metric);
            if size == 0 {
                continue;
            }
            root.size += size;
            let mut node = &mut root;
            for level in order {
                for label in labels(*level, key, &process_name) {
                    node = node.below.entry(label).or_default();
                    node.size += size;
                }
            }
        }
        root
    }

    /// Each process that has used this file, with the calls that it used it by.
    pub fn users(&self, file: &Name) -> impl Iterator<Item = (u32, &'static str)> {
        let named = File::Named(file.clone());
        self.by_key
            .keys()
            .filter(move |k| k.file == named)
            .map(|k| (k.pid, table().get(k.nr).name))
    }
}

fn labels(level: Level, key: &Key, process_name: impl Fn(u32) -> String) -> Vec<String> {
    match level {
        Level::Process => vec![process_name(key.pid)],
        Level::Syscall => vec![table().get(key.nr).name.to_owned()],
        Level::Path => match &key.file {
            File::None => vec!["(no file)".into()],
            File::Others => vec!["(other files)".into()],
            File::Named(name) if name.starts_with('/') => {
                let parts = name.split('/').filter(|p| !p.is_empty());
                let parts: Vec<String> = parts.map(|p| format!("/{p}")).collect();
                match parts.is_empty() {
                    true => vec!["/".into()],
                    false => parts,
                }
            }
            File::Named(name) => vec![name.to_string()],
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::syscalls::{End, Names};

    pub(crate) fn call(pid: u32, file: Option<Name>, nr: u32, end: u64, dur: u64) -> Call {
        let name = Names::default().get("x");
        Call {
            start: end.saturating_sub(dur),
            dur,
            wait_ns: dur / 4,
            blocked_ns: dur / 4,
            gap: 0,
            gap_off_ns: 0,
            pid,
            tid: pid,
            cpu: 0,
            nr,
            fd: -1,
            fd2: -1,
            ret: 1,
            bytes: 3,
            address_space_bytes: 0,
            requested_sleep_ns: 0,
            timeout_ns: -1,
            nfds: 0,
            epoll_op: 0,
            epoll_events: 0,
            end: End::Returned,
            fixed: false,
            file,
            file2: None,
            comm: name.clone(),
            process: name,
        }
    }

    #[test]
    fn every_order_of_levels_has_the_same_sum_and_directories_sum_their_files() {
        let (mut names, mut leaves) = (Names::default(), Leaves::default());
        let (a, b) = (names.get("/tmp/a"), names.get("/tmp/b"));
        leaves.add(&call(1, Some(a.clone()), 0, 50, 40));
        leaves.add(&call(1, Some(b), 1, 50, 8));
        leaves.add(&call(2, Some(a.clone()), 0, 50, 4));
        leaves.add(&call(2, None, 24, 50, 2));
        use Level::{Path, Process, Syscall};
        for order in [
            [Process, Path, Syscall],
            [Path, Process, Syscall],
            [Syscall, Path, Process],
        ] {
            assert_eq!(leaves.tree(&order, Metric::Time, name).size, 54);
            assert_eq!(leaves.tree(&order, Metric::Count, name).size, 4);
            assert_eq!(leaves.tree(&order, Metric::Bytes, name).size, 12);
        }
        let tree = leaves.tree(&[Path, Syscall, Process], Metric::Time, name);
        let tmp = &tree.below["/tmp"];
        assert_eq!((tmp.size, tmp.below["/a"].size), (52, 44));
        assert_eq!(tmp.below["/a"].below["read"].below["pid 2"].size, 4);
        assert_eq!(tree.below["(no file)"].size, 2);
        let mut users: Vec<_> = leaves.users(&a).collect();
        users.sort_unstable();
        assert_eq!(users, [(1, "read"), (2, "read")]);
    }

    fn name(pid: u32) -> String {
        format!("pid {pid}")
    }

    #[test]
    fn many_files_are_summed_and_not_kept() {
        let (mut names, mut leaves) = (Names::default(), Leaves::default());
        let calls = 200_000;
        for i in 0..calls {
            let file = names.get(&format!("/tmp/{i}"));
            leaves.add(&call(1, Some(file), 0, 10_000, 10 + i % 7));
        }
        assert!(
            leaves.by_key.len() <= 2 * MOST + 1,
            "{}",
            leaves.by_key.len()
        );
        let tree = leaves.tree(&[Level::Path], Metric::Count, name);
        assert_eq!(tree.size, calls);
        assert!(tree.below["(other files)"].size > calls / 2);
        assert!(names.len() < 100_000, "{}", names.len());
    }
}
