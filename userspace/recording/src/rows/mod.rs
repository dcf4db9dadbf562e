//! What is recorded: one struct a table. Who fills them needs to know nothing of Arrow or Parquet.

pub(crate) mod column;
mod life;
mod name;
mod sched;
mod sums;
mod syscall;
mod table;
mod terminal;

pub use column::Encoding;
pub use life::{Drain, Loss, Run, Task};
pub use name::{Name, Names};
pub use sched::{Cgroup, Off, Rival, Slice};
pub use sums::{Blame, Bucket, Metric, Thread};
pub use syscall::Syscall;
pub use terminal::{Echo, EchoLink, Flush, Hop, PtyIo, Sock};

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use crate::Error;
use column::{Cell, Values};

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: &'static str,
    /// Its type in Arrow.
    pub data_type: DataType,
    /// Whether values can be missing.
    pub nullable: bool,
    /// How it is laid out in Parquet.
    pub encoding: Encoding,
}

impl ColumnInfo {
    pub(crate) fn new<T: Cell>(name: &'static str, encoding: Encoding) -> ColumnInfo {
        ColumnInfo {
            name,
            data_type: T::data_type(),
            nullable: T::NULLABLE,
            encoding,
        }
    }
}

/// A set of columns that is filled from rows.
#[doc(hidden)]
pub trait ColumnSet<T: 'static>: Default {
    /// Appends rows, column by column: give it as many as the cache holds.
    fn push_all<'a>(&mut self, rows: impl Iterator<Item = &'a T> + Clone);
    /// The arrays in the order of [`Record::columns`]; empty again.
    fn finish(&mut self) -> Vec<arrow_array::ArrayRef>;
}

/// A row of one table.
pub trait Record: Sized + Clone + Default + Send + 'static {
    /// Where it belongs.
    const TABLE: Table;
    #[doc(hidden)]
    type Columns: ColumnSet<Self> + Send;
    /// Its columns, in order.
    fn columns() -> Vec<ColumnInfo>;
    /// CLOCK_MONOTONIC, ns: when it began.
    fn ts(&self) -> u64;
    /// Order of arrival among all rows of its recording.
    fn seq(&self) -> u64;
    #[doc(hidden)]
    fn set_seq(&mut self, seq: u64);
    /// The rows of a batch. A column that the batch lacks gives defaults: files of older versions
    /// stay readable.
    fn read(batch: &RecordBatch) -> Result<Vec<Self>, Error>;
    #[doc(hidden)]
    fn inbox(inbox: &mut Inbox) -> &mut Vec<Self>;
    /// As a row of any table.
    fn into_row(self) -> Row;
}

pub(crate) fn values<T: Cell>(
    batch: &RecordBatch,
    name: &'static str,
) -> Result<Option<T::Values>, Error> {
    match batch.column_by_name(name) {
        None => Ok(None),
        Some(array) => match T::Values::of(array) {
            Some(values) => Ok(Some(values)),
            None => Err(Error::Column {
                column: name,
                found: array.data_type().to_string(),
            }),
        },
    }
}

macro_rules! tables {
    ($( $(#[$doc:meta])* $table:ident: $record:ident, )*) => {
        /// The tables; the names are those of the folders and of SQL.
        #[allow(non_camel_case_types)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Table { $( $(#[$doc])* $table, )* }

        impl Table {
            /// All of them.
            pub const ALL: &'static [Table] = &[ $( Table::$table, )* ];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $( Table::$table => stringify!($table), )* }
            }

            /// Its columns, in order. Each file has besides these `run`, the id of its recording.
            pub fn columns(self) -> Vec<ColumnInfo> {
                match self { $( Table::$table => $record::columns(), )* }
            }
        }

        /// A row of any table.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Row { $( $(#[$doc])* $record($record), )* }

        impl Row {
            /// Where it belongs.
            pub fn table(&self) -> Table {
                match self { $( Row::$record(_) => Table::$table, )* }
            }

            /// CLOCK_MONOTONIC, ns: when it began.
            pub fn ts(&self) -> u64 {
                match self { $( Row::$record(r) => r.ts, )* }
            }

            /// Order of arrival among all rows of its recording.
            pub fn seq(&self) -> u64 {
                match self { $( Row::$record(r) => r.seq, )* }
            }
        }

        /// Rows that wait for the writer, by table.
        #[doc(hidden)]
        #[derive(Debug, Default)]
        pub struct Inbox { $( pub(crate) $table: Vec<$record>, )* }

        /// Does something with each table, in order.
        pub(crate) fn each_table<V: Visit>(visit: &mut V) -> Result<(), Error> {
            $( visit.table::<$record>()?; )*
            Ok(())
        }
    };
}

/// What [`each_table`] calls: a closure cannot be generic.
pub(crate) trait Visit {
    /// Called once for each table.
    fn table<T: Record>(&mut self) -> Result<(), Error>;
}

tables! {
    /// Calls, enter and exit paired.
    syscalls: Syscall,
    /// Slices: a traced thread had a CPU.
    sched: Slice,
    /// Times off CPU.
    off: Off,
    /// Who ran meanwhile.
    rivals: Rival,
    /// Control groups.
    cgroups: Cgroup,
    /// Reads and writes of PTYs.
    pty: PtyIo,
    /// Flush work of PTYs.
    flush: Flush,
    /// Sends and receives on stream sockets.
    sockets: Sock,
    /// USDT probes that fired.
    hops: Hop,
    /// Keystrokes and what became of them.
    echoes: Echo,
    /// The links of each echo.
    echo_links: EchoLink,
    /// Forks, execs, exits.
    tasks: Task,
    /// Threads, by interval.
    threads: Thread,
    /// Histograms, by interval.
    buckets: Bucket,
    /// Who ran instead and who woke, by interval.
    blame: Blame,
    /// Figures that the target keeps of itself, by interval.
    metrics: Metric,
    /// How far the analysis had come.
    drains: Drain,
    /// What was lost.
    losses: Loss,
    /// The recording itself.
    run: Run,
}
