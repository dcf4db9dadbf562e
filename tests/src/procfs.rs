//! What `/proc` says of a thread: the truth that no tracer is needed for.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// True while process `pid` is there and not a zombie.
pub fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| {
            stat.rsplit(')')
                .next()
                .map(|rest| !rest.trim_start().starts_with('Z'))
        })
        .unwrap_or(false)
}

/// The kernel's own account of one thread since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Time on a CPU, ns.
    pub on_cpu_ns: u64,
    /// Time runnable but not on a CPU, ns.
    pub run_delay_ns: u64,
    /// How often it got a CPU.
    pub slices: u64,
    /// Switches because it blocked.
    pub voluntary: u64,
    /// Switches because it was preempted or yielded.
    pub involuntary: u64,
}

impl Account {
    /// Account of thread `tid` of process `pid`.
    pub fn of(pid: u32, tid: u32) -> io::Result<Account> {
        let dir = format!("/proc/{pid}/task/{tid}");
        let schedstat = fs::read_to_string(format!("{dir}/schedstat"))?;
        let status = fs::read_to_string(format!("{dir}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name));
            number(line.map(str::trim))
        };
        let mut stat = schedstat.split_whitespace();
        Ok(Account {
            on_cpu_ns: number(stat.next())?,
            run_delay_ns: number(stat.next())?,
            slices: number(stat.next())?,
            voluntary: field("voluntary_ctxt_switches:")?,
            involuntary: field("nonvoluntary_ctxt_switches:")?,
        })
    }

    /// What came since `earlier`.
    pub fn since(self, earlier: Account) -> Account {
        Account {
            on_cpu_ns: self.on_cpu_ns.saturating_sub(earlier.on_cpu_ns),
            run_delay_ns: self.run_delay_ns.saturating_sub(earlier.run_delay_ns),
            slices: self.slices.saturating_sub(earlier.slices),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

fn number(text: Option<&str>) -> io::Result<u64> {
    text.and_then(|t| t.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no number where /proc has one"))
}

/// True when thread `tid` of `pid` sleeps (state `S`), waiting for something.
pub fn sleeps(pid: u32, tid: u32) -> bool {
    state(pid, tid) == Some('S')
}

/// True when no unbound worker of the kernel has anything to do: work that was queued has ended.
pub fn workers_rest() -> bool {
    kworkers()
        .into_iter()
        .all(|tid| state(tid, tid) != Some('R'))
}

fn state(pid: u32, tid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// True when the main thread of `pid` waits in system call `number` (`libc::SYS_…`).
pub fn waits_in(pid: u32, number: i64) -> bool {
    fs::read_to_string(format!("/proc/{pid}/syscall"))
        .is_ok_and(|s| s.split_whitespace().next().and_then(|n| n.parse().ok()) == Some(number))
}

/// Thread ids of process `pid`; empty when it is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// Child processes of process `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    threads(pid)
        .into_iter()
        .filter_map(|tid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .flat_map(str::parse)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Process `pid`'s name.
pub fn comm(pid: u32) -> Option<String> {
    Some(
        fs::read_to_string(format!("/proc/{pid}/comm"))
            .ok()?
            .trim_end()
            .to_owned(),
    )
}

/// The kernel's unbound workers.
pub fn kworkers() -> Vec<u32> {
    numbers_in("/proc")
        .into_iter()
        .filter(|pid| comm(*pid).is_some_and(|c| c.starts_with("kworker/u")))
        .collect()
}

/// Processes whose name is `name`.
pub fn named(name: &str) -> Vec<u32> {
    numbers_in("/proc")
        .into_iter()
        .filter(|pid| comm(*pid).as_deref() == Some(name))
        .collect()
}

fn numbers_in(dir: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_this_thread_grows() {
        let pid = std::process::id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let before = Account::of(pid, tid).expect("own account");
        std::thread::sleep(std::time::Duration::from_millis(1));
        let since = Account::of(pid, tid).expect("own account").since(before);
        assert!(
            since.voluntary >= 1 && since.slices >= 1 && since.on_cpu_ns > 0,
            "{since:?}"
        );
        assert!(threads(pid).contains(&tid));
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(Account::of(u32::MAX, 1).is_err());
        assert!(!is_alive(u32::MAX));
        assert!(threads(u32::MAX).is_empty());
    }
}
