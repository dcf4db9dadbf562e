//! Time of day where the reader is.

/// Seconds east of UTC at a moment, in seconds since the Unix epoch, by `TZ` or `/etc/localtime`;
/// 0 where they cannot be had.
#[must_use]
pub fn local_offset(unix_s: u64) -> i64 {
    let Ok(time) = libc::time_t::try_from(unix_s) else {
        return 0;
    };
    // SAFETY: `tm` is plain data for which zeros are valid (a null `tm_zone` included); both
    // pointers are to live values of the right types, and nobody in this program sets `TZ`.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&raw const time, &raw mut tm).is_null() {
            return 0;
        }
        tm
    };
    tm.tm_gmtoff
}

/// `14:23:05.123+02:00`.
#[must_use]
pub fn time_of_day(unix_ns: u64, offset_s: i64) -> String {
    let sign = if offset_s < 0 { '-' } else { '+' };
    let zone = offset_s.unsigned_abs() / 60;
    let time = time(unix_ns, offset_s);
    format!("{time}{sign}{:02}:{:02}", zone / 60, zone % 60)
}

/// `14:23:05.123`.
#[must_use]
pub fn time(unix_ns: u64, offset_s: i64) -> String {
    let ms = i128::from(unix_ns / 1_000_000) + i128::from(offset_s) * 1000;
    let ms = ms.rem_euclid(86_400_000);
    let (s, ms) = (ms / 1000, ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_move_the_time_of_day() {
        let noon = 1_800_014_400_123_000_000; // 2027-01-15T12:00:00.123Z
        assert_eq!(time_of_day(noon, 0), "12:00:00.123+00:00");
        assert_eq!(time_of_day(noon, 7200), "14:00:00.123+02:00");
        assert_eq!(time_of_day(noon, -16_200), "07:30:00.123-04:30");
        assert_eq!(time_of_day(0, -3600), "23:00:00.000-01:00");
    }

    #[test]
    fn an_offset_is_a_real_one() {
        let offset = local_offset(1_800_000_000);
        assert!((-14 * 3600..=14 * 3600).contains(&offset), "{offset}");
        assert_eq!(offset % 900, 0, "zones are of whole quarters of an hour");
        assert_eq!(local_offset(u64::MAX), 0);
    }
}
