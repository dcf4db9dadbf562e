//! The program in the pane: reads keys as they come and prints each back, late by a known time.
//!
//! Prints `ready` when its terminal is raw. Ends with its terminal.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

#[derive(Debug, Parser)]
struct Options {
    /// Sleep between reading and printing, µs.
    #[arg(long, default_value_t = 0)]
    sleep_us: u64,
    /// Compute between reading and printing, µs of wall time.
    #[arg(long, default_value_t = 0)]
    spin_us: u64,
    /// Read this many pages of --file, which are dropped from memory before, after each key.
    #[arg(long, default_value_t = 0)]
    faults: usize,
    /// File whose pages are read with --faults.
    #[arg(long, requires = "faults")]
    file: Option<PathBuf>,
    /// Print nothing.
    #[arg(long)]
    silent: bool,
    /// Write a line with the real length of each delay, ns, there.
    #[arg(long)]
    log: Option<PathBuf>,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    // Appended, so that whoever reads the lines can empty the file meanwhile.
    let append = |path| File::options().append(true).create(true).open(path);
    let mut log = options.log.as_ref().map(append).transpose()?;
    let cold = options.file.as_deref().map(cold::Pages::of).transpose()?;
    let mut modes = tcgetattr(stdin())?;
    modes.make_raw();
    tcsetattr(stdin(), OptionalActions::Now, &modes)?;
    // Without std's buffers, but through the C library, so that a preloaded one sees each call.
    let mut terminal = File::from(stdin().try_clone_to_owned()?);
    terminal.write_all(b"ready\r\n")?;
    let mut keys = [0; 4096];
    loop {
        let fd = stdin();
        let mut ready = [PollFd::new(&fd, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        let len = match terminal.read(&mut keys) {
            // The terminal is gone.
            Ok(0) => return Ok(()),
            Err(e) if e.raw_os_error() == Some(Errno::IO.raw_os_error()) => return Ok(()),
            Ok(len) => len,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let began = Instant::now();
        nap(options.sleep_us);
        let until = Duration::from_micros(options.spin_us);
        while began.elapsed() < until {
            std::hint::spin_loop();
        }
        if let Some(pages) = &cold {
            pages.touch(options.faults)?;
        }
        let delay = began.elapsed();
        if let Some(log) = &mut log {
            writeln!(log, "{}", delay.as_nanos())?;
        }
        if !options.silent {
            terminal.write_all(&keys[..len])?;
        }
    }
}

fn nap(us: u64) {
    if us != 0 {
        std::thread::sleep(Duration::from_micros(us));
    }
}

/// Pages of a file that have to come from the disk each time.
mod cold {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use rustix::fs::{Advice, fadvise};
    use rustix::mm::{Advice as Use, MapFlags, ProtFlags, madvise, mmap};

    const PAGE: usize = 4096;

    pub(super) struct Pages {
        file: File,
        start: *mut std::ffi::c_void,
        len: usize,
    }

    impl Pages {
        pub(super) fn of(path: &Path) -> io::Result<Pages> {
            let file = File::open(path)?;
            let len = usize::try_from(file.metadata()?.len()).unwrap_or(0);
            let null = std::ptr::null_mut();
            // SAFETY: a new mapping at a place of the kernel's choice; it stays until the end.
            let start = unsafe { mmap(null, len, ProtFlags::READ, MapFlags::SHARED, &file, 0) }?;
            // SAFETY: the mapping just made. Without it one fault brings many pages.
            unsafe { madvise(start, len, Use::Random) }?;
            Ok(Pages { file, start, len })
        }

        /// Drops the file from memory, then reads one byte of each of `count` pages of it.
        pub(super) fn touch(&self, count: usize) -> io::Result<()> {
            // SAFETY: the mapping is read only and of a file: dropped pages come back from there.
            unsafe { madvise(self.start, self.len, Use::LinuxDontNeed) }?;
            fadvise(&self.file, 0, None, Advice::DontNeed)?;
            let pages = self.len / PAGE;
            for page in (0..count).map(|n| n * 7 % pages.max(1)) {
                // SAFETY: within the mapping.
                let byte = unsafe { self.start.cast::<u8>().add(page * PAGE).read_volatile() };
                std::hint::black_box(byte);
            }
            Ok(())
        }
    }
}
