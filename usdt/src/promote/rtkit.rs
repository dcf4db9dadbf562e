//! RTKit: a service of the desktop that raises a thread of an ordinary user for it.
//!
//! Asked for a nice value and never for a real-time policy. The call goes through `busctl`, which
//! comes with systemd wherever RTKit is: a D-Bus library would be the largest thing that a traced
//! process links, for one call.

use super::{Promotion, linux};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the system bus listens unless `DBUS_SYSTEM_BUS_ADDRESS` says otherwise.
const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";

/// The kernel's id of the calling thread, for [`promote_by_rtkit`].
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and returns an integer.
    unsafe { libc::gettid() }
}

/// Asks RTKit to give a thread of this process the nice value that [`promote_current_thread`]
/// would, and returns what the thread has then. Where there is no RTKit, or it refuses (policy, or
/// too many threads raised), that is what it had before.
///
/// Waits for the answer, which takes milliseconds, and up to 25 seconds where the service hangs:
/// call it from another thread than that of the hot path.
///
/// [`promote_current_thread`]: super::promote_current_thread
pub fn promote_by_rtkit(thread: i32) -> Promotion {
    if std::env::var_os("DBUS_SYSTEM_BUS_ADDRESS").is_some() || Path::new(SYSTEM_BUS).exists() {
        // Refused or not there: the thread tells.
        let _ = call(Command::new("busctl"), thread);
    }
    linux::has(thread)
}

/// `MakeThreadHighPriorityWithPID(t process, t thread, i nice)`: it is busctl that calls.
fn call(mut busctl: Command, thread: i32) -> io::Result<bool> {
    const SERVICE: &str = "org.freedesktop.RealtimeKit1";
    const OBJECT: &str = "/org/freedesktop/RealtimeKit1";
    let status = busctl
        .args(["--system", "--quiet", "call", SERVICE, OBJECT, SERVICE])
        .args(["MakeThreadHighPriorityWithPID", "tti"])
        .arg(std::process::id().to_string())
        .arg(thread.to_string())
        // What begins with a dash is no option behind this.
        .arg("--")
        .arg(linux::NICE.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::Child;
    use std::time::{Duration, Instant};

    struct Killed(Child);

    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn what_is_asked_arrives_on_the_bus() {
        let dir = std::env::temp_dir().join(format!("rtkit-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temporary directory");
        let address = format!("unix:path={}/bus", dir.display());
        let config = format!(
            "<busconfig><listen>{address}</listen><policy context=\"default\"><allow user=\"*\"/>\
             <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/></policy>\
             </busconfig>"
        );
        std::fs::write(dir.join("conf"), config).expect("written");
        let bus = Command::new("dbus-daemon")
            .arg("--nofork")
            .arg("--config-file")
            .arg(dir.join("conf"))
            .stderr(Stdio::null())
            .spawn();
        let has_busctl = Command::new("busctl").arg("--version").output().is_ok();
        let (Ok(bus), true) = (bus, has_busctl) else {
            assert!(std::env::var_os("CI").is_none(), "needs D-Bus and busctl");
            println!("skipped: needs D-Bus and busctl");
            return;
        };
        let _bus = Killed(bus);
        let busctl = || {
            let mut command = Command::new("busctl");
            command.env("DBUS_SYSTEM_BUS_ADDRESS", &address);
            command
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !dir.join("bus").exists() {
            assert!(Instant::now() < deadline, "the bus does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let monitor = busctl()
            .args(["--system", "monitor"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut monitor = Killed(monitor.expect("busctl runs"));
        let seen = BufReader::new(monitor.0.stdout.take().expect("piped"));
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in seen.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        // Nobody serves that name here, so it is refused; and the monitor may not listen yet.
        let mut text = String::new();
        let wanted = [
            "Path=/org/freedesktop/RealtimeKit1  Interface=org.freedesktop.RealtimeKit1  \
             Member=MakeThreadHighPriorityWithPID"
                .to_owned(),
            "MESSAGE \"tti\"".to_owned(),
            format!("UINT64 {};", std::process::id()),
            format!("UINT64 {};", thread_id()),
            "INT32 -10;".to_owned(),
        ];
        while !wanted.iter().all(|part| text.contains(part)) {
            assert!(Instant::now() < deadline, "not all of {wanted:?} in {text}");
            assert!(!call(busctl(), thread_id()).expect("busctl runs"));
            while let Ok(line) = lines.recv_timeout(Duration::from_millis(200)) {
                text += &line;
                text.push('\n');
            }
        }
        let _ = std::fs::remove_dir_all(&dir);
    }

    #[test]
    fn without_the_service_a_thread_keeps_what_it_has() {
        let (before, after) = std::thread::spawn(|| {
            let before = linux::promote();
            (before, promote_by_rtkit(thread_id()))
        })
        .join()
        .expect("no panic");
        if !Path::new(SYSTEM_BUS).exists() {
            assert_eq!(before, after);
        }
    }
}
