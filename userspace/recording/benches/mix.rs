//! The mix of the baseline: 2,000 enter/exit pairs from 10 threads, nine kinds of call in equal
//! weight, a fixed seed; as rows, which is what the join hands over.

use phux_recording::{Name, Syscall};

const KINDS: [(&str, bool, bool); 9] = [
    // name, about a descriptor, about a path
    ("openat", false, true),
    ("read", true, true),
    ("sync", false, false),
    ("newfstatat", false, true),
    ("rename", false, true),
    ("fcntl", true, true),
    ("dup3", true, true),
    ("open_by_handle_at", false, true),
    ("close", true, true),
];

/// A linear congruential generator (Knuth, MMIX): the same rows each time.
pub(crate) struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// So many calls.
pub(crate) fn calls(count: usize) -> Vec<Syscall> {
    let mut random = Random(7);
    let comms: Vec<Name> = (0..10).map(|i| format!("worker-{i}").into()).collect();
    let paths: Vec<Name> = (0..200)
        .map(|i| format!("/srv/data/shard-{:02}/segment-{i:06}.log", i % 16).into())
        .collect();
    let mut ended = [0_u64; 10];
    let mut now = 1_000_000_000_000;
    (0..count)
        .map(|_| {
            let thread = random.below(10) as usize;
            let (name, by_fd, by_path) = KINDS[random.below(9) as usize];
            now += 200 + random.below(6_000);
            // Most calls are short, some wait.
            let scale = 1 << random.below(8);
            let dur = 200 + random.below(300 * scale);
            let gap = now.saturating_sub(ended[thread]);
            ended[thread] = now + dur;
            let failed = random.below(20) == 0;
            let fd = random.below(30) as i32 + 3;
            let bytes = if name == "read" {
                random.below(4096)
            } else {
                0
            };
            let path = &paths[random.below(200) as usize];
            Syscall {
                ts: now,
                dur,
                gap,
                tid: 2_000 + thread as u32,
                pid: 1_000 + thread as u32,
                comm: comms[thread].clone(),
                name: Name::fixed(name),
                family: Name::fixed("fs"),
                cpu: random.below(2) as u16,
                fd: if by_fd { fd } else { -1 },
                ret: if failed { -2 } else { bytes as i64 },
                errno: if failed { 2 } else { 0 },
                bytes,
                blocked_ns: if scale > 64 { dur / 2 } else { 0 },
                path: if by_path {
                    path.clone()
                } else {
                    Name::default()
                },
                timeout_ns: -1,
                epoll_target_fd: -1,
                ..Syscall::default()
            }
        })
        .collect()
}
