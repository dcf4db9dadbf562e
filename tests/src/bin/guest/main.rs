//! What `scripts/vm/init` starts in a virtual machine, as all that there is to do: checks, and then
//! the machine's end with their status.
//!
//! Prints a line `CHECK name ok 1.5` or `CHECK name FAIL 1.5` (seconds) for each check, and before a
//! failure what was said. `scripts/vm/boot` starts it with `phux_guest=WHAT` on the kernel's command
//! line, `scripts/vm-matrix` reads the lines.

mod check;
mod power;
mod suites;

use std::process::ExitCode;
use std::{fs, io};

use check::Checks;

/// Set by `scripts/vm/boot`: this is a machine that may be switched off, and what to do before.
const MARK: &str = "phux_guest=";

fn main() -> ExitCode {
    let asked = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let Some(what) = asked.split_whitespace().find_map(|w| w.strip_prefix(MARK)) else {
        eprintln!("guest: this is no machine of scripts/vm-matrix");
        return ExitCode::FAILURE;
    };
    // A failure to start something is a failed check like any other.
    let status = match checks(what) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(e) => {
            println!("guest: {e}");
            2
        }
    };
    println!("DONE {status}");
    power::off(status)
}

fn checks(what: &str) -> io::Result<bool> {
    println!("KERNEL {}", check::release()?);
    let mut all = Checks::new();
    suites::run(what, &mut all)?;
    Ok(all.well())
}
