//! From a field of a row to a column of Arrow and back. What a type is in Arrow stands here and nowhere else.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int64Array, PrimitiveArray, StringArray,
};
use arrow_schema::DataType;

use super::Name;

/// How a column is laid out in Parquet. Chosen by measurement: `benches/parquet.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Differences, bit-packed: times, counters, and what is nearly always the same.
    Delta,
    /// The same and compressed: amounts that are often 0, and of the same few sizes else.
    Amount,
    /// A dictionary: few values that come again and again.
    Dictionary,
    /// The same and compressed: texts of some length.
    Text,
    /// As it is: bits.
    Plain,
}

/// A type that a row's field can have.
pub(crate) trait Cell: Sized {
    /// Gathers values.
    type Column: Column<Self>;
    /// Gives them back.
    type Values: Values<Self>;
    /// Its type in Arrow.
    fn data_type() -> DataType;
    /// Whether it can be missing.
    const NULLABLE: bool = false;
}

/// Values on their way into an array.
pub(crate) trait Column<T>: Default {
    fn push(&mut self, value: &T);
    /// The array; empty again.
    fn finish(&mut self) -> ArrayRef;
}

/// Values on their way out of an array.
pub(crate) trait Values<T>: Sized {
    /// `None` where the array is of another type.
    fn of(array: &ArrayRef) -> Option<Self>;
    /// Within the array's length.
    fn get(&self, row: usize) -> T;
}

macro_rules! number {
    ($rust:ty, $arrow:ty, $data:expr) => {
        impl Cell for $rust {
            type Column = Vec<<$arrow as arrow_array::ArrowPrimitiveType>::Native>;
            type Values = PrimitiveArray<$arrow>;
            fn data_type() -> DataType {
                $data
            }
        }

        impl Column<$rust> for Vec<<$arrow as arrow_array::ArrowPrimitiveType>::Native> {
            fn push(&mut self, value: &$rust) {
                Vec::push(self, *value as _);
            }
            fn finish(&mut self) -> ArrayRef {
                let next = Vec::with_capacity(self.len());
                let values = std::mem::replace(self, next);
                Arc::new(PrimitiveArray::<$arrow>::new(values.into(), None))
            }
        }

        impl Values<$rust> for PrimitiveArray<$arrow> {
            fn of(array: &ArrayRef) -> Option<Self> {
                array.as_primitive_opt::<$arrow>().cloned()
            }
            fn get(&self, row: usize) -> $rust {
                self.value(row) as _
            }
        }
    };
}

// A u64 is kept bit by bit in an i64: SQL engines have no, or odd, unsigned 64-bit integers, and
// no time or size here reaches 2⁶³.
number!(u64, Int64Type, DataType::Int64);
number!(u32, UInt32Type, DataType::UInt32);
number!(u16, UInt16Type, DataType::UInt16);
number!(u8, UInt8Type, DataType::UInt8);
number!(i32, Int32Type, DataType::Int32);
number!(i8, Int8Type, DataType::Int8);

/// `i64` and `u64` are both Int64 in Arrow; a type of its own keeps their traits apart.
#[derive(Default)]
pub(crate) struct Signed(Vec<i64>);

pub(crate) struct SignedValues(Int64Array);

impl Cell for i64 {
    type Column = Signed;
    type Values = SignedValues;
    fn data_type() -> DataType {
        DataType::Int64
    }
}

impl Column<i64> for Signed {
    fn push(&mut self, value: &i64) {
        self.0.push(*value);
    }
    fn finish(&mut self) -> ArrayRef {
        let next = Vec::with_capacity(self.0.len());
        Arc::new(Int64Array::new(
            std::mem::replace(&mut self.0, next).into(),
            None,
        ))
    }
}

impl Values<i64> for SignedValues {
    fn of(array: &ArrayRef) -> Option<Self> {
        array.as_primitive_opt::<Int64Type>().cloned().map(Self)
    }
    fn get(&self, row: usize) -> i64 {
        self.0.value(row)
    }
}

#[derive(Default)]
pub(crate) struct Optional(Vec<Option<i64>>);

pub(crate) struct OptionalValues(Int64Array);

impl Cell for Option<u64> {
    type Column = Optional;
    type Values = OptionalValues;
    fn data_type() -> DataType {
        DataType::Int64
    }
    const NULLABLE: bool = true;
}

impl Column<Option<u64>> for Optional {
    fn push(&mut self, value: &Option<u64>) {
        self.0.push(value.map(|v| v as i64));
    }
    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int64Array::from_iter(self.0.drain(..)))
    }
}

impl Values<Option<u64>> for OptionalValues {
    fn of(array: &ArrayRef) -> Option<Self> {
        array.as_primitive_opt::<Int64Type>().cloned().map(Self)
    }
    fn get(&self, row: usize) -> Option<u64> {
        self.0.is_valid(row).then(|| self.0.value(row) as u64)
    }
}

impl Cell for bool {
    type Column = Vec<bool>;
    type Values = BooleanArray;
    fn data_type() -> DataType {
        DataType::Boolean
    }
}

impl Column<bool> for Vec<bool> {
    fn push(&mut self, value: &bool) {
        Vec::push(self, *value);
    }
    fn finish(&mut self) -> ArrayRef {
        let array = BooleanArray::new(self.as_slice().into(), None);
        self.clear();
        Arc::new(array)
    }
}

impl Values<bool> for BooleanArray {
    fn of(array: &ArrayRef) -> Option<Self> {
        array.as_boolean_opt().cloned()
    }
    fn get(&self, row: usize) -> bool {
        self.value(row)
    }
}

/// Names as keys into the distinct ones, which are told apart by address first and by text never:
/// Parquet's own dictionary merges equal texts.
#[derive(Default)]
pub(crate) struct NameColumn {
    keys: Vec<i32>,
    /// Clones: an address stays that name's as long as it is here.
    distinct: Vec<Name>,
    by_address: HashMap<(usize, usize), i32, BuildHasherDefault<AddressHasher>>,
    last: Option<((usize, usize), i32)>,
}

impl Cell for Name {
    type Column = NameColumn;
    type Values = NameValues;
    fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }
}

impl Column<Name> for NameColumn {
    fn push(&mut self, value: &Name) {
        let address = value.address();
        let key = match self.last {
            Some((last, key)) if last == address => key,
            _ => *self.by_address.entry(address).or_insert_with(|| {
                self.distinct.push(value.clone());
                (self.distinct.len() - 1) as i32
            }),
        };
        self.last = Some((address, key));
        self.keys.push(key);
    }

    fn finish(&mut self) -> ArrayRef {
        let next = Vec::with_capacity(self.keys.len());
        let keys =
            PrimitiveArray::<Int32Type>::new(std::mem::replace(&mut self.keys, next).into(), None);
        let texts = StringArray::from_iter_values(self.distinct.iter().map(Name::as_str));
        self.distinct.clear();
        self.by_address.clear();
        self.last = None;
        // SAFETY: each key was the index of a name in `distinct`, whose texts these are.
        Arc::new(unsafe { DictionaryArray::new_unchecked(keys, Arc::new(texts)) })
    }
}

/// Distinct names, made once, and each row's key. A file without the hint that the column was a
/// dictionary gives strings: both are read.
pub(crate) struct NameValues {
    keys: Vec<usize>,
    distinct: Vec<Name>,
}

impl Values<Name> for NameValues {
    fn of(array: &ArrayRef) -> Option<Self> {
        if let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() {
            let texts = dictionary.values().as_string_opt::<i32>()?;
            let distinct: Vec<Name> = (0..texts.len())
                .map(|i| Name::from(texts.value(i)))
                .collect();
            let keys: Option<Vec<usize>> = dictionary
                .keys()
                .iter()
                .map(|k| {
                    k.and_then(|k| usize::try_from(k).ok())
                        .filter(|k| *k < distinct.len())
                })
                .collect();
            return Some(NameValues {
                keys: keys?,
                distinct,
            });
        }
        let texts = array.as_string_opt::<i32>()?;
        Some(NameValues {
            keys: (0..texts.len()).collect(),
            distinct: (0..texts.len())
                .map(|i| Name::from(texts.value(i)))
                .collect(),
        })
    }

    fn get(&self, row: usize) -> Name {
        self.distinct[self.keys[row]].clone()
    }
}

/// Addresses need mixing, not protection: nobody chooses them.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_usize(usize::from(*b));
        }
    }
    fn write_usize(&mut self, n: usize) {
        // The multiplier of Fibonacci hashing: 2⁶⁴ ÷ φ.
        self.0 = (self.0 ^ n as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(26);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
