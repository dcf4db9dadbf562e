//! The time of day, as the wall clock beside the reader shows it.

/// `15:04:05.123` in the local time zone; UTC where that is not known.
pub(crate) fn time_of_day(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let millis = unix_ns / 1_000_000 % 1000;
    let (h, m, s) =
        local(seconds).unwrap_or((seconds / 3600 % 24, seconds / 60 % 60, seconds % 60));
    format!("{h:02}:{m:02}:{s:02}.{millis:03}")
}

fn local(seconds: u64) -> Option<(u64, u64, u64)> {
    let seconds = libc::time_t::try_from(seconds).ok()?;
    let mut tm = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to values of ours that live for the call.
    let tm = unsafe {
        if libc::localtime_r(&raw const seconds, tm.as_mut_ptr()).is_null() {
            return None;
        }
        tm.assume_init()
    };
    let part = |n: i32| u64::try_from(n).ok();
    Some((part(tm.tm_hour)?, part(tm.tm_min)?, part(tm.tm_sec)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_and_milliseconds_are_those_of_the_clock() {
        // Zones differ from UTC by quarters of an hour.
        let time = time_of_day(1_800_000_000_123_456_789 + 61_000_000_000);
        assert!(time.ends_with(":01.123"), "{time}");
        let minute: u64 = time[3..5].parse().unwrap();
        assert_eq!(minute % 15, 1, "{time}");
    }
}
