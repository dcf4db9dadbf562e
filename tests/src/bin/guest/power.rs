//! The end of the machine.

use std::io::{self, Write};
use std::process::ExitCode;

/// Ends the machine through QEMU's isa-debug-exit, which makes its status 2·`status`+1.
#[cfg(target_arch = "x86_64")]
pub(crate) fn off(status: u8) -> ExitCode {
    /// The port that `scripts/vm/boot` gives the device.
    const PORT: u16 = 0xf4;
    let _ = io::stdout().flush();
    // The device ends QEMU at once: what is still in the serial line would be lost.
    let _ = rustix::termios::tcdrain(io::stdout());
    // SAFETY: asks for one I/O port, at which this machine (see GUEST_MARK) has nothing else;
    // kernels without /dev/port leave no other way.
    if unsafe { libc::ioperm(PORT.into(), 1, 1) } == 0 {
        // SAFETY: the port was granted just now; the write touches no memory.
        unsafe {
            std::arch::asm!("out dx, al", in("dx") PORT, in("al") status, options(nomem, nostack));
        }
    }
    println!("guest: still here");
    ExitCode::FAILURE
}

/// Without that device: the end of init stops the machine.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn off(status: u8) -> ExitCode {
    ExitCode::from(status)
}
