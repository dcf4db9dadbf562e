//! The program in another pane: prints without end, in pieces of a chosen size. Ends with its terminal.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use clap::Parser;
use rustix::stdio::stdout;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

#[derive(Debug, Parser)]
struct Options {
    /// Bytes of each write.
    #[arg(long, default_value_t = 4096)]
    bytes: usize,
    /// Sleep after each write, µs; 0: none.
    #[arg(long, default_value_t = 0)]
    gap_us: u64,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let mut modes = tcgetattr(stdout())?;
    modes.make_raw();
    tcsetattr(stdout(), OptionalActions::Now, &modes)?;
    // No key that a test types.
    let piece = vec![b'-'; options.bytes];
    loop {
        match rustix::io::write(stdout().as_fd(), &piece) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // The terminal is gone.
            Err(rustix::io::Errno::IO) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        if options.gap_us != 0 {
            std::thread::sleep(Duration::from_micros(options.gap_us));
        }
    }
}
