//! Which of the 504 buckets a value belongs to.
//!
//! Values below 32 have a bucket each. Above, every octave `2^e ..= 2^(e+1) - 1` is cut into eight
//! buckets of `2^(e-3)` values, up to the full range of `u64`: 32 + 8 × 59 = 504. The kernel side
//! (`hist.h`) fills the same shape, so a change here is a change there.

/// Number of buckets of every histogram, here and on the kernel side.
pub const BUCKETS: usize = 504;

/// Values below this have a bucket each.
const EXACT: u64 = 32;
/// log2 of [`EXACT`]: the first octave that is cut into eight.
const FIRST_OCTAVE: u32 = 5;
/// log2 of the buckets per octave.
const SUB_BITS: u32 = 3;

/// Index of the bucket that holds `value`; always below [`BUCKETS`].
#[inline(always)]
pub const fn bucket_of(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros();
    // `value >> (octave - 3)` is 8 + the sub-bucket, hence 8 too many.
    let with_leading_one = (value >> (octave - SUB_BITS)) as usize;
    24 + 8 * (octave - FIRST_OCTAVE) as usize + with_leading_one
}

/// Smallest and largest value of bucket `index`, both inclusive.
///
/// An `index` of [`BUCKETS`] or above is answered with the last bucket: indexes arrive from other
/// processes, and a wrong one must not end this one.
pub const fn bucket_bounds(index: usize) -> (u64, u64) {
    let index = if index < BUCKETS { index } else { BUCKETS - 1 };
    if index < EXACT as usize {
        return (index as u64, index as u64);
    }
    let above = index - EXACT as usize;
    let octave = FIRST_OCTAVE + (above / 8) as u32;
    let width = 1u64 << (octave - SUB_BITS);
    let lower = (1u64 << octave) + (above % 8) as u64 * width;
    (lower, lower + (width - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (value, index) in [
            (0, 0),
            (31, 31),
            (32, 32),
            (36, 33),
            (63, 39),
            (64, 40),
            (100, 44),
            (1000, 71),
            (4095, 87),
            (10_000, 97),
            (1 << 31, 32 + 8 * 26),
            (u64::MAX, BUCKETS - 1),
        ] {
            assert_eq!(bucket_of(value), index, "value {value}");
        }
    }

    #[test]
    fn buckets_tile_the_whole_range() {
        let mut next = 0u64;
        for index in 0..BUCKETS {
            let (lower, upper) = bucket_bounds(index);
            assert_eq!(
                lower, next,
                "bucket {index} starts where the one before ended"
            );
            assert_eq!((bucket_of(lower), bucket_of(upper)), (index, index));
            next = upper.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at u64::MAX");
    }

    #[test]
    fn an_index_out_of_range_is_the_last_bucket() {
        assert_eq!(bucket_bounds(usize::MAX), bucket_bounds(BUCKETS - 1));
    }
}
