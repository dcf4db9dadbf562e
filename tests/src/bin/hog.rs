//! Keeps a CPU busy: all the time, or by turns.
//!
//!     hog [BUSY_US IDLE_US]
//!
//! Prints `ready <pid>`, and spins until it is killed.

use std::io;
use std::time::{Duration, Instant};

fn main() -> io::Result<()> {
    let mut given = std::env::args().skip(1).map(|us| us.parse());
    let mut next = || given.next().transpose().map_err(io::Error::other);
    let busy = Duration::from_micros(next()?.unwrap_or(1_000_000));
    let idle = Duration::from_micros(next()?.unwrap_or(0));
    println!("ready {}", std::process::id());
    loop {
        let until = Instant::now() + busy;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        if !idle.is_zero() {
            std::thread::sleep(idle);
        }
    }
}
