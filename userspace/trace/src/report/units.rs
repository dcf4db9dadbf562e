//! Numbers as a person reads them: three significant digits, at most seven columns.

/// What stands where there is no figure.
pub const NONE: &str = "-";

/// A time in ns, at most 6 columns: `312µs`, `14.8ms`, `1.20s`, `16.7m`, `3.42h`.
#[must_use]
pub fn duration(ns: u64) -> String {
    let units = [
        (1e3, "µs"),
        (1e6, "ms"),
        (1e9, "s"),
        (6e10, "m"),
        (3.6e12, "h"),
        (8.64e13, "d"),
        (3.15576e16, "y"),
    ];
    match ns {
        0 => "0".to_owned(),
        1..1000 => format!("{ns}ns"),
        _ => scaled(ns as f64, &units),
    }
}

/// A size in bytes, at most 7 columns: `512B`, `4.0KiB`, `48.0KiB`, `999KiB`.
#[must_use]
pub fn bytes(n: u64) -> String {
    if n < 1024 {
        return format!("{n}B");
    }
    let mut value = n as f64 / 1024.0;
    for unit in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 99.95 {
            return format!("{value:.1}{unit}");
        }
        if value < 999.5 {
            return format!("{value:.0}{unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1}EiB")
}

/// A number of things, at most 6 columns: exact with separators below 100,000, then `128k`, `1.28M`.
#[must_use]
pub fn count(n: u64) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..100_000 => format!("{},{:03}", n / 1000, n % 1000),
        _ => {
            let units = [
                (1e3, "k"),
                (1e6, "M"),
                (1e9, "G"),
                (1e12, "T"),
                (1e15, "P"),
                (1e18, "E"),
            ];
            scaled(n as f64, &units)
        }
    }
}

/// `part` of `whole` in percent, without the sign, at most 4 columns: `0.31`, `26.1`, `100`.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return NONE.to_owned();
    }
    let p = part as f64 * 100.0 / whole as f64;
    match p {
        _ if part == 0 => "0".to_owned(),
        _ if p < 0.005 => "<.01".to_owned(),
        _ if p < 9.995 => format!("{p:.2}"),
        _ if p < 99.95 => format!("{p:.1}"),
        _ if p < 999.5 => format!("{p:.0}"),
        _ => ">999".to_owned(),
    }
}

/// `value` in the first unit that shows it with at most three digits before the point.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    for (size, unit) in units {
        let v = value / size;
        // The next unit begins where rounding would give four digits, so that the
        // units' ratios (60 s in a minute) need no rule of their own.
        let text = match v {
            _ if v < 9.995 => format!("{v:.2}{unit}"),
            _ if v < 99.95 => format!("{v:.1}{unit}"),
            _ if v < 999.5 => format!("{v:.0}{unit}"),
            _ => continue,
        };
        return text;
    }
    units.last().map_or_else(String::new, |(size, unit)| {
        format!("{:.0}{unit}", value / size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn durations_have_three_digits_and_carry() {
        let cases = [
            (0, "0"),
            (1, "1ns"),
            (999, "999ns"),
            (1_000, "1.00µs"),
            (4_120, "4.12µs"),
            (312_000, "312µs"),
            (999_499, "999µs"),
            (999_500, "1.00ms"),
            (14_800_000, "14.8ms"),
            (1_200_000_000, "1.20s"),
            (999_000_000_000, "999s"),
            (1_000_000_000_000, "16.7m"),
            (u64::MAX, "585y"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn sizes_and_counts_keep_their_columns() {
        let sizes = [
            (0, "0B"),
            (1023, "1023B"),
            (4095, "4.0KiB"),
            (49_140, "48.0KiB"),
            (1_048_575, "1.0MiB"),
            (500 << 10, "500KiB"),
            (u64::MAX, "16.0EiB"),
        ];
        for (n, text) in sizes {
            assert_eq!(bytes(n), text, "{n}");
        }
        for (n, text) in [
            (999, "999"),
            (1_284, "1,284"),
            (99_999, "99,999"),
            (128_400, "128k"),
        ] {
            assert_eq!(count(n), text);
        }
        assert_eq!(count(u64::MAX), "18.4E");
    }

    #[test]
    fn shares() {
        let cases = [
            (0, "0"),
            (1, "<.01"),
            (310, "0.31"),
            (26_100, "26.1"),
            (100_000, "100"),
        ];
        for (part, text) in cases {
            assert_eq!(percent(part, 100_000), text);
        }
        assert_eq!(percent(1, 0), NONE);
        assert_eq!(percent(u64::MAX, 1), ">999");
    }

    proptest! {
        #[test]
        fn no_figure_is_wider_than_its_column(n in any::<u64>(), shift in 0u32..64, whole in any::<u64>()) {
            let n = n >> shift;
            prop_assert!(duration(n).width() <= 6, "{}", duration(n));
            prop_assert!(bytes(n).width() <= 7, "{}", bytes(n));
            prop_assert!(count(n).width() <= 6, "{}", count(n));
            prop_assert!(percent(n, whole).width() <= 4, "{}", percent(n, whole));
        }
    }
}
