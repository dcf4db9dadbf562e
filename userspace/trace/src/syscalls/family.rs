//! Families of system calls.

/// What a system call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the field's own names")]
pub enum Family {
    Fs,
    Network,
    Polling,
    Memory,
    Ipc,
    Process,
    Signals,
    Time,
    Sched,
    Security,
    Aio,
    Misc,
}

impl Family {
    /// All, in the order of their declaration.
    pub const ALL: [Family; 12] = [
        Family::Fs,
        Family::Network,
        Family::Polling,
        Family::Memory,
        Family::Ipc,
        Family::Process,
        Family::Signals,
        Family::Time,
        Family::Sched,
        Family::Security,
        Family::Aio,
        Family::Misc,
    ];

    /// Its name, as the command line and the recording have it.
    pub fn name(self) -> &'static str {
        match self {
            Family::Fs => "fs",
            Family::Network => "network",
            Family::Polling => "polling",
            Family::Memory => "memory",
            Family::Ipc => "ipc",
            Family::Process => "process",
            Family::Signals => "signals",
            Family::Time => "time",
            Family::Sched => "sched",
            Family::Security => "security",
            Family::Aio => "aio",
            Family::Misc => "misc",
        }
    }
}

impl std::str::FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Family, String> {
        let wanted = match text {
            "net" => "network",
            "mem" => "memory",
            "poll" => "polling",
            "signal" => "signals",
            other => other,
        };
        let known = Family::ALL.into_iter().find(|f| f.name() == wanted);
        known.ok_or_else(|| {
            let all: Vec<&str> = Family::ALL.iter().map(|f| f.name()).collect();
            format!("no such family; there are {}, and all", all.join(", "))
        })
    }
}
