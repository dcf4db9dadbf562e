//! The recorder's part of the kernel side: which system calls, of which threads; and what it has summed up.

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{Link, MapCore, MapFlags};
use probe_ebpf::OpenProbeSkel;
use probe_ebpf::events;

use super::load::{LoadError, Probes, run_iterator, step};
use super::system::tracefs;

/// Files of which the kernel side remembers that it has told their names. What it forgets it tells again.
const KNOWN_FILES: u32 = 65_536;
/// Bytes of one ring when single calls are told: in 100 ms, the longest time between two pulls, 8
/// CPUs that make 150,000 calls/s each write 20 MB.
pub(super) const RING_BYTES: u32 = 32 << 20;

/// What to record.
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// By number: `events::SHAPE_*`; 0: not recorded. At most [`events::CALL_NUMBERS`].
    pub shapes: Vec<u32>,
    /// Only threads of this name, as the kernel keeps it.
    pub comm: Option<[u8; 16]>,
    /// Only threads in this cgroup: its id and its depth.
    pub cgroup: Option<(u64, u32)>,
    /// Only these threads; empty: all.
    pub threads: Vec<u32>,
    /// io_uring requests too, where the kernel has tracepoints of them.
    pub uring: bool,
}

/// The tracepoint at which a request is taken from the ring: it has another name from 6.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Submit {
    Req,
    Sqe,
}

fn submit_tracepoint() -> Option<Submit> {
    if tracefs("io_uring/io_uring_submit_req").is_some() {
        Some(Submit::Req)
    } else {
        tracefs("io_uring/io_uring_submit_sqe").map(|_| Submit::Sqe)
    }
}

/// Whether io_uring requests can be seen here.
pub fn sees_uring() -> bool {
    submit_tracepoint().is_some()
}

/// Before load: what is loaded of it. Without options it is nothing, and costs nothing.
pub(super) fn configure(
    open: &mut OpenProbeSkel<'_>,
    options: Option<&CallOptions>,
) -> libbpf_rs::Result<()> {
    let on = options.is_some();
    let submit = options
        .filter(|o| o.uring)
        .and_then(|_| submit_tracepoint());
    let p = &mut open.progs;
    for program in [&mut p.call_begins, &mut p.call_ends, &mut p.dump_calls] {
        program.set_autoload(on);
    }
    p.uring_submit_req.set_autoload(submit == Some(Submit::Req));
    p.uring_submit_sqe.set_autoload(submit == Some(Submit::Sqe));
    p.uring_completes.set_autoload(submit.is_some());
    let m = &mut open.maps;
    for map in [
        &mut m.scratches,
        &mut m.known_files,
        &mut m.only_threads,
        &mut m.call_sums,
        &mut m.requests,
    ] {
        map.set_autocreate(on)?;
    }
    let Some(options) = options else {
        return Ok(());
    };
    m.known_files.set_max_entries(KNOWN_FILES)?;
    if let Some(ro) = m.rodata_data.as_mut() {
        ro.record_calls = true;
        for (to, shape) in ro.call_shapes.iter_mut().zip(&options.shapes) {
            *to = *shape;
        }
        if let Some(comm) = options.comm {
            let (first, second) = comm.split_at(8);
            for (to, half) in ro.only_comm.iter_mut().zip([first, second]) {
                *to = half.try_into().map_or(0, u64::from_ne_bytes);
            }
        }
        if let Some((id, level)) = options.cgroup {
            ro.only_cgroup = id;
            ro.only_cgroup_level = level;
        }
        ro.only_some_threads = !options.threads.is_empty();
    }
    Ok(())
}

impl Probes {
    pub(super) fn name_threads(&self, options: &CallOptions) -> Result<(), LoadError> {
        options.threads.iter().try_for_each(|tid| {
            step("one more thread", || {
                let map = &self.skel.maps.only_threads;
                map.update(&tid.to_ne_bytes(), &[1], MapFlags::ANY)
            })
        })
    }

    /// Attaches the recorder's programs. After [`Probes::attach`] and before [`Probes::seed`].
    pub(super) fn attach_calls(&self) -> Result<Vec<Link>, LoadError> {
        let p = &self.skel.progs;
        let mut links = Vec::new();
        for program in [&p.uring_completes, &p.uring_submit_req, &p.uring_submit_sqe] {
            if program.autoload() {
                links.push(step("to attach to io_uring", || program.attach())?);
            }
        }
        // The enter first: an exit whose enter was not seen is counted as lost.
        for program in [&p.call_begins, &p.call_ends] {
            if program.autoload() {
                links.push(step("to attach to system calls", || {
                    program.attach_trace()
                })?);
            }
        }
        Ok(links)
    }

    /// The calls that are under way: raw [`events::ev_call`] records.
    pub fn calls_under_way(&self) -> Result<Vec<u8>, LoadError> {
        run_iterator(&self.skel.progs.dump_calls)
    }

    /// io_uring requests that were submitted and have not completed.
    pub fn requests_under_way(&self) -> usize {
        self.skel.maps.requests.keys().count()
    }

    /// `call_key` → `call_sums`.
    pub fn call_sums_fd(&self) -> std::io::Result<OwnedFd> {
        self.skel.maps.call_sums.as_fd().try_clone_to_owned()
    }

    /// Losses of the recorder's own: what is missing from its figures, by name.
    pub fn call_losses() -> [(u32, &'static str, &'static str); 5] {
        [
            (
                events::LOSS_CALL_RING,
                "call_ring",
                "system calls are missing: the ring was full",
            ),
            (
                events::LOSS_CALL_START,
                "call_start",
                "system calls that were under way when recording began are missing",
            ),
            (
                events::LOSS_CALL_TABLE,
                "call_table",
                "system calls are missing: the table in the kernel was full",
            ),
            (
                events::LOSS_CALL_COMPAT,
                "call_compat",
                "32-bit system calls are not recorded",
            ),
            (
                events::LOSS_URING_START,
                "uring_start",
                "io_uring requests are missing: their submission was not seen",
            ),
        ]
    }
}
