//! Privileges that are not needed any more are given up, and files belong to whoever asked for them.

use std::io;
use std::sync::mpsc::{Sender, channel};

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
};

/// First kernel with one link for many uprobes, of which it asks CAP_PERFMON alone.
const UPROBE_MULTI: (u32, u32) = (6, 6);

/// What a run that has begun may still have to do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Need {
    /// The kernel's version, where it is known.
    pub kernel: Option<(u32, u32)>,
    /// Connect to the socket of a server that belongs to another user.
    pub others_sockets: bool,
    /// End a command that may have become another user.
    pub end_command: bool,
    /// Load more programs: find `flush_to_ldisc`, switch on the kernel's run-time statistics.
    pub load: bool,
}

impl Need {
    /// Run iterators and attach to what the target execs, read other users' `/proc`: and no more.
    fn capabilities(self) -> CapabilitySet {
        let mut keep = CapabilitySet::BPF
            | CapabilitySet::PERFMON
            | CapabilitySet::SYS_PTRACE
            | CapabilitySet::DAC_READ_SEARCH;
        if self.kernel.is_some_and(|k| k < UPROBE_MULTI) {
            keep |= CapabilitySet::SYS_ADMIN;
        }
        if self.load {
            keep |= CapabilitySet::SYSLOG | CapabilitySet::SYS_ADMIN;
        }
        if self.others_sockets {
            keep |= CapabilitySet::DAC_OVERRIDE;
        }
        if self.end_command {
            keep |= CapabilitySet::KILL;
        }
        keep
    }
}

/// Gives up, for good, every capability of this thread that is not needed. To be called while there is no
/// other thread, but for those of [`unprivileged`] and [`Filer`].
///
/// # Errors
/// The kernel refuses, which it does for no reason known.
pub fn keep(need: Need) -> io::Result<()> {
    keep_only(need.capabilities())
}

fn keep_only(keep: CapabilitySet) -> io::Result<()> {
    let has = capabilities(None)?;
    let kept = has.permitted & keep;
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: has.effective & kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

/// Whose the files are that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// Of the user who called sudo, if that is how we were started.
    Callers,
    /// Ours: a daemon's.
    Ours,
}

/// Runs `f` on a thread without any capability, in the name of that user as far as files go. Threads
/// that `f` starts stay so: a recorder's writer, which opens files for as long as it records.
///
/// # Errors
/// The thread cannot be started, or keeps what it is to give up.
pub fn unprivileged<T: Send>(files: Files, f: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            let _invoker = (files == Files::Callers).then(AsInvoker::begin);
            keep_only(CapabilitySet::empty())?;
            Ok(f())
        })?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// While it lives, files that this thread makes or opens are made and opened by the user who called
/// sudo: they are his, and a link that he may not follow leads nowhere.
#[derive(Debug)]
pub struct AsInvoker {
    /// What the file system took us for before.
    was: Option<(libc::uid_t, libc::gid_t)>,
}

impl AsInvoker {
    /// Begins. Without sudo (or pkexec) nothing changes.
    #[must_use]
    pub fn begin() -> AsInvoker {
        let number = |key: &str| std::env::var(key).ok()?.parse::<u32>().ok();
        let by_sudo = number("SUDO_UID").zip(number("SUDO_GID"));
        let root = rustix::process::getuid().is_root();
        let was = by_sudo.filter(|_| root).map(|(uid, gid)| switch(uid, gid));
        AsInvoker { was }
    }
}

impl Drop for AsInvoker {
    fn drop(&mut self) {
        if let Some((uid, gid)) = self.was {
            switch(uid, gid);
        }
    }
}

/// Sets the ids that the file system goes by, for this thread; gives those before.
fn switch(uid: libc::uid_t, gid: libc::gid_t) -> (libc::uid_t, libc::gid_t) {
    // SAFETY: both take a number and return the one before; they cannot fail for root, and for others
    // change nothing. The group first on the way down; on the way up root's right to do it is not of
    // the file system's ids.
    let (gid, uid) = unsafe { (libc::setfsgid(gid), libc::setfsuid(uid)) };
    (uid.cast_unsigned(), gid.cast_unsigned())
}

/// A thread for whatever is done with files while privileges are given up elsewhere: it is the user who
/// called sudo for the file system, for good, and has no privilege of its own. Threads that it starts
/// are the same.
#[derive(Debug)]
pub struct Filer(Sender<Box<dyn FnOnce() + Send>>);

impl Filer {
    /// Starts it: before [`keep`], after which nobody can become another user any more.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn begin() -> io::Result<Filer> {
        let (jobs, to_do) = channel::<Box<dyn FnOnce() + Send>>();
        std::thread::Builder::new()
            .name("files".into())
            .spawn(move || {
                let _for_good = AsInvoker::begin();
                // With anything left nothing is done there.
                if keep_only(CapabilitySet::empty()).is_ok() {
                    to_do.iter().for_each(|job| job());
                }
            })?;
        Ok(Filer(jobs))
    }

    /// Has it done there, and waits.
    ///
    /// # Errors
    /// It panicked.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (done, answer) = channel();
        let gone = || io::Error::other("the thread for files is gone");
        let job = Box::new(move || {
            // Nobody waits any more: then nobody wants it.
            let _ = done.send(job());
        });
        self.0.send(job).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_kept() {
        let new = Need {
            kernel: Some((6, 12)),
            ..Need::default()
        };
        assert!(!new.capabilities().contains(CapabilitySet::SYS_ADMIN));
        assert!(!new.capabilities().contains(CapabilitySet::DAC_OVERRIDE));
        let old = Need {
            kernel: Some((6, 1)),
            ..new
        };
        assert!(old.capabilities().contains(CapabilitySet::SYS_ADMIN));
        let wrapped = Need {
            end_command: true,
            ..new
        };
        assert!(wrapped.capabilities().contains(CapabilitySet::KILL));
    }

    #[test]
    fn what_an_unprivileged_thread_starts_has_nothing_and_we_keep_ours() {
        let before = capabilities(None).expect("ours");
        let theirs = unprivileged(Files::Callers, || {
            let started = std::thread::spawn(|| capabilities(None).expect("its"));
            [
                capabilities(None).expect("its"),
                started.join().expect("ends"),
            ]
        });
        for has in theirs.expect("a thread") {
            assert!(has.permitted.is_empty() && has.effective.is_empty());
        }
        assert_eq!(
            capabilities(None).expect("ours").permitted,
            before.permitted
        );
    }

    #[test]
    fn the_thread_for_files_has_no_privileges() {
        let files = Filer::begin().expect("a thread");
        let has = files
            .run(|| capabilities(None))
            .expect("an answer")
            .expect("capabilities");
        assert_eq!(has.permitted, CapabilitySet::empty());
        let caller = capabilities(None).expect("capabilities");
        let root = rustix::process::geteuid().is_root();
        assert_eq!(!caller.permitted.is_empty(), root, "only there");
    }

    #[test]
    fn the_file_system_ids_come_back() {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        drop(AsInvoker::begin());
        let (now, group) = switch(uid.as_raw(), gid.as_raw());
        assert_eq!((now, group), (uid.as_raw(), gid.as_raw()));
    }
}
