//! The kernel's own account of one thread, which every user may read: CPU time and waits from
//! `schedstat`, switches from `status`.

use std::io;

use super::proc::ProcDir;

/// What a thread has used and waited since it was born. Times in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// On a CPU.
    pub on_cpu_ns: u64,
    /// Runnable and waiting for one, ended waits only.
    pub wait_ns: u64,
    /// Times that it got one.
    pub slices: u64,
    /// Switches because it blocked.
    pub voluntary: u64,
    /// Switches because it was preempted or yielded.
    pub involuntary: u64,
}

impl Account {
    /// Reads that of thread `tid`.
    ///
    /// # Errors
    /// The thread has ended, or this kernel keeps no such account.
    pub fn read(process: &ProcDir, tid: u32) -> io::Result<Account> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "schedstat is not understood");
        let schedstat = process.read(&format!("task/{tid}/schedstat"))?;
        let status = process.read(&format!("task/{tid}/status"))?;
        Account::parse(&schedstat, &status).ok_or_else(bad)
    }

    /// From the bytes of both files.
    pub fn parse(schedstat: &[u8], status: &[u8]) -> Option<Account> {
        let mut numbers = std::str::from_utf8(schedstat)
            .ok()?
            .split_ascii_whitespace();
        let mut next = || numbers.next()?.parse().ok();
        let status = String::from_utf8_lossy(status);
        let switches = |key| {
            let line = status.lines().find_map(|l| l.strip_prefix(key))?;
            line.trim().parse().ok()
        };
        Some(Account {
            on_cpu_ns: next()?,
            wait_ns: next()?,
            slices: next()?,
            voluntary: switches("voluntary_ctxt_switches:")?,
            involuntary: switches("nonvoluntary_ctxt_switches:")?,
        })
    }

    /// What came since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Account) -> Account {
        Account {
            on_cpu_ns: self.on_cpu_ns.saturating_sub(earlier.on_cpu_ns),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            slices: self.slices.saturating_sub(earlier.slices),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Account) -> Account {
        Account {
            on_cpu_ns: self.on_cpu_ns.saturating_add(other.on_cpu_ns),
            wait_ns: self.wait_ns.saturating_add(other.wait_ns),
            slices: self.slices.saturating_add(other.slices),
            voluntary: self.voluntary.saturating_add(other.voluntary),
            involuntary: self.involuntary.saturating_add(other.involuntary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_understood() {
        let status = b"Name:\tvoluntary_ctxt_switches: 9\nvoluntary_ctxt_switches:\t7\n\
                       nonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(
            Account::parse(b"1000 200 12\n", status),
            Some(Account {
                on_cpu_ns: 1000,
                wait_ns: 200,
                slices: 12,
                voluntary: 7,
                involuntary: 3
            })
        );
        assert_eq!(Account::parse(b"1000 200\n", status), None);
        assert_eq!(Account::parse(b"", b""), None);
        assert_eq!(Account::parse(b"1 2 99999999999999999999", status), None);
    }

    #[test]
    fn the_own_account_grows() {
        let me = ProcDir::open(std::process::id()).expect("ourselves");
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let before = Account::read(&me, tid).expect("own thread");
        std::thread::sleep(std::time::Duration::from_millis(1));
        let since = Account::read(&me, tid).expect("own thread").since(before);
        assert!(since.voluntary >= 1 && since.slices >= 1, "{since:?}");
        assert!(Account::read(&me, u32::MAX).is_err());
    }
}
