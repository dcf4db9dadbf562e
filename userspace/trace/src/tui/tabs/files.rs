//! Files, sockets and pipes: how much, how long; or the directories that they are in.

use super::super::app::App;
use super::Page;
use super::ranked::{self, BLOCKED, BYTES, CALLS, ERRORS, P50, P99, Ranked, TIME, name};
use crate::syscalls::view::{Kind, Measure};

pub(in super::super) const COLUMNS: [Ranked; 8] = [
    TIME,
    CALLS,
    ERRORS,
    BYTES,
    BLOCKED,
    P50,
    P99,
    name("file", 0),
];

pub(in super::super) fn measure(sort: usize) -> Measure {
    ranked::measure(&COLUMNS, sort)
}

pub(in super::super) fn kind(app: &App) -> Kind {
    if app.by_directory {
        Kind::Directories
    } else {
        Kind::Files
    }
}

pub(super) fn page(app: &App, size: (usize, usize)) -> Page {
    let none = "no file was used by a call that is followed";
    ranked::page(app, kind(app), &COLUMNS, size, none)
}
