//! A process that may have no more memory.

use std::fs;
use std::path::{Path, PathBuf};

/// A memory cgroup that a process is in; gone when this is dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    dir: PathBuf,
    back: PathBuf,
}

impl MemoryLimit {
    /// Moves the process into a cgroup that may take so many bytes from now on; `None`, said, where there is
    /// no memory controller.
    pub fn of(pid: u32, bytes: u64) -> Option<MemoryLimit> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (root, file) = match v1.join("cgroup.procs").exists() {
            true => (v1, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        if root != v1 {
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
        }
        let dir = root.join(format!("phux-trace-test-{}", std::process::id()));
        let made = fs::create_dir(&dir);
        if made.is_err() || !dir.join(file).exists() {
            let _ = fs::remove_dir(&dir);
            assert!(
                std::env::var_os("CI").is_none(),
                "CI must not skip: no memory cgroups"
            );
            println!("skipped: no memory cgroups here");
            return None;
        }
        let limit = MemoryLimit {
            back: root.join("cgroup.procs"),
            dir,
        };
        // v2: no swap either; v1 may not have that file.
        let _ = fs::write(limit.dir.join("memory.swap.max"), "0");
        fs::write(limit.dir.join(file), bytes.to_string()).expect("a limit");
        fs::write(limit.dir.join("cgroup.procs"), pid.to_string()).expect("moved");
        Some(limit)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let left = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        for pid in left.lines() {
            let _ = fs::write(&self.back, pid);
        }
        let _ = crate::wait_for(std::time::Duration::from_secs(5), || {
            fs::remove_dir(&self.dir).ok()
        });
    }
}
