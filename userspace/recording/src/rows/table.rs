//! The macro that makes a table out of a struct: its columns, and the way there and back.

/// Declares a row type. Each field says how its column is laid out in Parquet.
macro_rules! record {
    (
        $(#[$doc:meta])*
        $name:ident in $table:ident, columns $columns:ident {
            $( $(#[$field_doc:meta])* $field:ident: $ty:ty = $encoding:ident, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {
            /// CLOCK_MONOTONIC, ns: when it began.
            pub ts: u64,
            /// Order of arrival among all rows of the recording. Set by the recorder.
            pub seq: u64,
            $( $(#[$field_doc])* pub $field: $ty, )*
        }

        /// Its columns, while they are filled.
        #[doc(hidden)]
        #[derive(Default)]
        pub struct $columns {
            ts: <u64 as $crate::rows::column::Cell>::Column,
            seq: <u64 as $crate::rows::column::Cell>::Column,
            $( $field: <$ty as $crate::rows::column::Cell>::Column, )*
        }

        impl $crate::rows::ColumnSet<$name> for $columns {
            fn push_all<'a>(&mut self, rows: impl Iterator<Item = &'a $name> + Clone) {
                use $crate::rows::column::Column;
                rows.clone().for_each(|r| Column::<u64>::push(&mut self.ts, &r.ts));
                rows.clone().for_each(|r| Column::<u64>::push(&mut self.seq, &r.seq));
                $( rows.clone().for_each(|r| Column::<$ty>::push(&mut self.$field, &r.$field)); )*
            }

            fn finish(&mut self) -> Vec<arrow_array::ArrayRef> {
                use $crate::rows::column::Column;
                vec![
                    Column::<u64>::finish(&mut self.ts),
                    Column::<u64>::finish(&mut self.seq),
                    $( Column::<$ty>::finish(&mut self.$field), )*
                ]
            }
        }

        impl $crate::rows::Record for $name {
            const TABLE: $crate::rows::Table = $crate::rows::Table::$table;
            type Columns = $columns;

            fn columns() -> Vec<$crate::rows::ColumnInfo> {
                use $crate::rows::column::{Cell, Encoding};
                use $crate::rows::ColumnInfo;
                vec![
                    ColumnInfo::new::<u64>("ts", Encoding::Delta),
                    ColumnInfo::new::<u64>("seq", Encoding::Delta),
                    $( ColumnInfo {
                        name: stringify!($field),
                        data_type: <$ty as Cell>::data_type(),
                        nullable: <$ty as Cell>::NULLABLE,
                        encoding: Encoding::$encoding,
                    }, )*
                ]
            }

            fn ts(&self) -> u64 {
                self.ts
            }

            fn seq(&self) -> u64 {
                self.seq
            }

            fn set_seq(&mut self, seq: u64) {
                self.seq = seq;
            }

            fn read(batch: &arrow_array::RecordBatch) -> Result<Vec<Self>, $crate::Error> {
                use $crate::rows::column::{Cell, Values};
                let ts = $crate::rows::values::<u64>(batch, "ts")?;
                let seq = $crate::rows::values::<u64>(batch, "seq")?;
                $( let $field = $crate::rows::values::<$ty>(batch, stringify!($field))?; )*
                fn at<T: Cell + Default>(values: &Option<T::Values>, row: usize) -> T {
                    values.as_ref().map(|v| v.get(row)).unwrap_or_default()
                }
                Ok((0..batch.num_rows())
                    .map(|row| $name {
                        ts: at::<u64>(&ts, row),
                        seq: at::<u64>(&seq, row),
                        $( $field: at::<$ty>(&$field, row), )*
                    })
                    .collect())
            }

            fn inbox(inbox: &mut $crate::rows::Inbox) -> &mut Vec<Self> {
                &mut inbox.$table
            }

            fn into_row(self) -> $crate::rows::Row {
                $crate::rows::Row::$name(self)
            }
        }
    };
}

pub(crate) use record;
