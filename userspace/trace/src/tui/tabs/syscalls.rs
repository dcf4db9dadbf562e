//! System calls: how many, how long, and where the time went.

use super::super::app::App;
use super::Page;
use super::ranked::{
    self, BLOCKED, BYTES, CALLS, ERRORS, MAX, P50, P95, P99, Ranked, TIME, WAIT, name,
};
use crate::syscalls::view::{Kind, Measure};

pub(in super::super) const COLUMNS: [Ranked; 11] = [
    TIME,
    name("call", 14),
    CALLS,
    ERRORS,
    BYTES,
    BLOCKED,
    WAIT,
    P50,
    P99,
    MAX,
    P95,
];

pub(in super::super) fn measure(sort: usize) -> Measure {
    ranked::measure(&COLUMNS, sort)
}

pub(super) fn page(app: &App, size: (usize, usize)) -> Page {
    let none = "no system call of the families that are followed";
    ranked::page(app, Kind::Syscalls, &COLUMNS, size, none)
}
