//! Loads the kernel side and attaches it. libbpf-rs does both; what was refused is named.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use libbpf_rs::libbpf_sys::{bpf_prog_get_info_by_fd, bpf_prog_info};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, UsdtOpts};
use probe_ebpf::events;
use probe_ebpf::{ProbeSkel, ProbeSkelBuilder};
use thiserror::Error;

use super::calls::{self, CallOptions};
use super::trial::{PidNamespace, explain};
use super::{log, percpu, system};

/// CPUs that share one ring: more, and one consumer cannot keep up with one ring.
const CPUS_PER_RING: u32 = 8;
/// Bytes of one ring. In 100 ms, the longest time between two pulls, 8 CPUs at
/// 100,000 events/s each write about 6 MB.
const RING_BYTES: u32 = 8 << 20;

/// What to load.
#[derive(Debug, Clone)]
pub struct Options {
    /// Own pid namespace, from [`super::trial::try_required`].
    pub namespace: PidNamespace,
    /// fentry works here: see [`super::trial::try_features`].
    pub fentry: bool,
    /// The tracepoints of single system calls are here: see [`super::system::tracefs`]. Counts without fentry only.
    pub tracefs: bool,
    /// `flush_to_ldisc` can be found here.
    pub flush: bool,
    /// Uprobes work here.
    pub uprobe: bool,
    /// What the target starts is the target too, whatever it becomes by exec.
    pub follow_exec: bool,
    /// Emit an event for each PTY read and write, flush and hop.
    pub stream: bool,
    /// Tell of each time off CPU, of each use of a stream socket, and of what `stream` tells.
    pub follow_echoes: bool,
    /// fentry works on the functions of stream sockets: see [`super::trial::try_feature`]. Counts when following echoes only.
    pub sock_fentry: bool,
    /// CPUs per ring, rounded up to a power of two; `None` for the default of 8.
    pub cpus_per_ring: Option<u32>,
    /// Record system calls.
    pub calls: Option<CallOptions>,
}

impl Options {
    /// Stream sockets are seen by their system calls.
    fn sock_by_call(&self) -> bool {
        self.follow_echoes && !self.sock_fentry
    }

    /// Something is seen by its system calls.
    fn by_call(&self) -> bool {
        !self.fentry || self.sock_by_call()
    }
}

/// A USDT probe to attach to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HopProbe {
    /// The ELF file, as phux-trace can open it.
    pub path: PathBuf,
    /// Provider (`phux`).
    pub provider: String,
    /// Name (`pty__read__size`).
    pub name: String,
}

/// Why the kernel side is not there.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The kernel refused to load or to attach a part without which nothing works.
    #[error("the kernel refused {what}: {why}. `phux-trace doctor` says what is missing")]
    Refused {
        /// The step.
        what: &'static str,
        /// The kernel's, or libbpf's, reason.
        why: String,
    },
}

/// The loaded kernel side. Dropping it detaches and unloads everything.
pub struct Probes {
    // Links first: fields are dropped in this order, programs must be detached before they go.
    links: Vec<Link>,
    hops: Vec<Link>,
    rings: Vec<MapHandle>,
    pub(super) skel: ProbeSkel<'static>,
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probes")
            .field("links", &self.links.len())
            .finish_non_exhaustive()
    }
}

/// Rings for so many CPUs: `(rings, shift)`, where a CPU's ring is `cpu >> shift`.
fn ring_layout(cpus: u32, cpus_per_ring: u32) -> (u32, u32) {
    let shift = cpus_per_ring.max(1).next_power_of_two().trailing_zeros();
    (((cpus.max(1) - 1) >> shift) + 1, shift)
}

pub(super) fn step<T>(
    what: &'static str,
    f: impl FnOnce() -> Result<T, libbpf_rs::Error>,
) -> Result<T, LoadError> {
    let (result, said) = log::listening(f);
    result.map_err(|e| LoadError::Refused {
        what,
        why: explain(&e, &said),
    })
}

impl Probes {
    /// Loads all programs that these options allow; attaches none.
    pub fn load(options: &Options) -> Result<Probes, LoadError> {
        let cpus = libbpf_rs::num_possible_cpus()
            .ok()
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(1);
        let ring_bytes = match options.calls {
            Some(_) => calls::RING_BYTES,
            None => RING_BYTES,
        };
        let (n_rings, shift) = ring_layout(cpus, options.cpus_per_ring.unwrap_or(CPUS_PER_RING));

        // The skeleton borrows its object for as long as it lives. This cell holds
        // no kernel object; leaking its few bytes spares a self-referential struct.
        let cell = Box::leak(Box::new(MaybeUninit::uninit()));
        let skel = step("the BPF programs", || {
            let mut open = ProbeSkelBuilder::default().open(cell)?;
            if let Some(ro) = open.maps.rodata_data.as_mut() {
                ro.ns_level = options.namespace.level;
                ro.ns_addr = options.namespace.addr;
                ro.self_tgid = std::process::id();
                ro.rq_to_preempt_count = percpu::rq_to_preempt_count().unwrap_or(0);
                ro.interrupt_bits = percpu::interrupt_bits().unwrap_or(ro.interrupt_bits);
                ro.stream_events = options.stream;
                ro.follow_exec = options.follow_exec;
                ro.follow_echoes = options.follow_echoes;
                ro.cpu_on_v1 = system::cpu_controller_on_v1();
                ro.conn_key = conn_key();
                ro.tty_by_call = !options.fentry;
                ro.sock_by_call = options.sock_by_call();
                ro.ring_shift = shift;
                ro.ring_wake_bytes = ring_bytes / 4;
            }
            open.maps.cpus.set_max_entries(cpus)?;
            open.maps.rings.set_max_entries(n_rings)?;
            let p = &mut open.progs;
            for program in [
                &mut p.tty_read_begins,
                &mut p.tty_read_ends,
                &mut p.tty_write_begins,
                &mut p.tty_write_ends,
            ] {
                program.set_autoload(options.fentry);
            }
            for program in [
                &mut p.enter_read,
                &mut p.exit_read,
                &mut p.enter_readv,
                &mut p.exit_readv,
                &mut p.enter_write,
                &mut p.exit_write,
                &mut p.enter_writev,
                &mut p.exit_writev,
            ] {
                program.set_autoload(options.by_call() && options.tracefs);
            }
            for program in [
                &mut p.enter_recvfrom,
                &mut p.exit_recvfrom,
                &mut p.enter_recvmsg,
                &mut p.exit_recvmsg,
                &mut p.enter_sendto,
                &mut p.exit_sendto,
                &mut p.enter_sendmsg,
                &mut p.exit_sendmsg,
            ] {
                program.set_autoload(options.sock_by_call() && options.tracefs);
            }
            for program in [&mut p.sys_enter, &mut p.sys_exit] {
                program.set_autoload(options.by_call() && !options.tracefs);
            }
            for program in [
                &mut p.unix_stream_sendmsg_begins,
                &mut p.unix_stream_sendmsg_ends,
                &mut p.unix_stream_recvmsg_begins,
                &mut p.unix_stream_recvmsg_ends,
                &mut p.unix_seqpacket_sendmsg_begins,
                &mut p.unix_seqpacket_sendmsg_ends,
                &mut p.unix_seqpacket_recvmsg_begins,
                &mut p.unix_seqpacket_recvmsg_ends,
                &mut p.tcp_sendmsg_begins,
                &mut p.tcp_sendmsg_ends,
                &mut p.tcp_recvmsg_begins,
                &mut p.tcp_recvmsg_ends,
            ] {
                program.set_autoload(options.follow_echoes && options.sock_fentry);
            }
            for program in [&mut p.flush_queued, &mut p.flush_starts, &mut p.flush_ends] {
                program.set_autoload(options.flush);
            }
            p.hop.set_autoload(options.uprobe);
            calls::configure(&mut open, options.calls.as_ref())?;
            open.load()
        })?;

        let mut rings = Vec::new();
        for i in 0..n_rings {
            let ring = step("a ring buffer", || new_ring(ring_bytes))?;
            step("a ring buffer", || {
                let fd = ring.as_fd().as_raw_fd() as u32;
                skel.maps
                    .rings
                    .update(&i.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            })?;
            rings.push(ring);
        }
        let probes = Probes {
            links: Vec::new(),
            hops: Vec::new(),
            rings,
            skel,
        };
        if let Some(calls) = &options.calls {
            probes.name_threads(calls)?;
        }
        Ok(probes)
    }

    /// Names a process to trace before [`Probes::seed`], or one whose exec must not end its being the target.
    pub fn add_target(&self, pid: u32) -> Result<(), LoadError> {
        self.add(pid, events::REL_TARGET)
    }

    /// Names a process that talks to the target by a socket, and has a terminal that is to be traced as the target's are.
    /// [`Probes::seed`] has to follow.
    pub fn add_client(&self, pid: u32) -> Result<(), LoadError> {
        self.add(pid, events::REL_CLIENT)
    }

    fn add(&self, pid: u32, relation: u32) -> Result<(), LoadError> {
        step("one more process", || {
            self.skel.maps.processes.update(
                &pid.to_ne_bytes(),
                &relation.to_ne_bytes(),
                MapFlags::ANY,
            )
        })
    }

    /// Attaches the scheduler, lifecycle and PTY programs.
    pub fn attach(&mut self) -> Result<(), LoadError> {
        let p = &self.skel.progs;
        // Forks first: whoever is born while we seed inherits.
        let all = [
            &p.sched_process_fork,
            &p.sched_process_exec,
            &p.sched_wakeup_new,
            &p.sched_waking,
            &p.sched_migrate_task,
            &p.sched_switch,
            &p.flush_queued,
            &p.flush_starts,
            &p.flush_ends,
            &p.tty_read_ends,
            &p.tty_write_ends,
            &p.tty_read_begins,
            &p.tty_write_begins,
            &p.unix_stream_sendmsg_ends,
            &p.unix_stream_recvmsg_ends,
            &p.unix_seqpacket_sendmsg_ends,
            &p.unix_seqpacket_recvmsg_ends,
            &p.tcp_sendmsg_ends,
            &p.tcp_recvmsg_ends,
            &p.unix_stream_sendmsg_begins,
            &p.unix_stream_recvmsg_begins,
            &p.unix_seqpacket_sendmsg_begins,
            &p.unix_seqpacket_recvmsg_begins,
            &p.tcp_sendmsg_begins,
            &p.tcp_recvmsg_begins,
            &p.sys_exit,
            &p.sys_enter,
        ];
        for program in all {
            if !program.autoload() {
                continue;
            }
            self.links
                .push(step("to attach a program", || program.attach_trace())?);
        }
        let by_call = [
            &p.exit_read,
            &p.exit_readv,
            &p.exit_write,
            &p.exit_writev,
            &p.exit_recvfrom,
            &p.exit_recvmsg,
            &p.exit_sendto,
            &p.exit_sendmsg,
            &p.enter_read,
            &p.enter_readv,
            &p.enter_write,
            &p.enter_writev,
            &p.enter_recvfrom,
            &p.enter_recvmsg,
            &p.enter_sendto,
            &p.enter_sendmsg,
        ];
        for program in by_call {
            if program.autoload() {
                self.links
                    .push(step("to attach to a system call", || program.attach())?);
            }
        }
        self.links.push(step("to attach to thread ends", || {
            // The better one needs tracefs: see life.c.
            p.sched_process_exit
                .attach()
                .or_else(|_| p.process_exit_btf.attach_trace())
        })?);
        let calls = self.attach_calls()?;
        self.links.extend(calls);
        Ok(())
    }

    /// Attaches one USDT probe at all its sites in whatever process runs that file; `id` comes back as `hop_key.hop`.
    pub fn attach_hop(&mut self, id: u32, hop: &HopProbe) -> Result<(), LoadError> {
        let program = &self.skel.progs.hop;
        let link = step("a USDT probe", || {
            program.attach_usdt_with_opts(
                -1,
                &hop.path,
                &hop.provider,
                &hop.name,
                UsdtOpts {
                    cookie: u64::from(id),
                    ..UsdtOpts::default()
                },
            )
        })?;
        self.hops.push(link);
        Ok(())
    }

    /// Starts to trace: the PTYs of the target, whoever is at their other ends, and all their threads.
    /// Returns the raw [`events::pty_holder`] records.
    pub fn seed(&self) -> Result<Vec<u8>, LoadError> {
        let p = &self.skel.progs;
        run_iterator(&p.seed_ptys)?;
        let holders = run_iterator(&p.seed_holders)?;
        // Twice: a thread whose parent was seeded only after it was born is found by the second pass.
        run_iterator(&p.seed_threads)?;
        run_iterator(&p.seed_threads)?;
        Ok(holders)
    }

    /// Who holds the traced PTYs now: raw [`events::pty_holder`] records.
    pub fn holders(&self) -> Result<Vec<u8>, LoadError> {
        run_iterator(&self.skel.progs.seed_holders)
    }

    /// Raw [`events::thread_stats`] records of all traced threads that live.
    pub fn dump_threads(&self) -> Result<Vec<u8>, LoadError> {
        run_iterator(&self.skel.progs.dump_threads)
    }

    /// Ends the window, for all programs at one moment; what was measured stays readable.
    pub fn stop(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            bss.stopped = true;
        }
    }

    /// From now on nothing is told one by one: sums only.
    pub fn tell_sums_only(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            bss.thinned = true;
        }
    }

    /// Ends an epoch: nothing is measured until the next one begins. `now_ns` is CLOCK_MONOTONIC.
    pub fn pause(&mut self, now_ns: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            bss.stopped = true;
            bss.epoch_ended = now_ns;
        }
    }

    /// Begins one. What was under way when the last one ended is closed at that moment.
    pub fn resume(&mut self, now_ns: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            bss.epoch = bss.epoch.wrapping_add(1);
            bss.epoch_since = now_ns;
            // All of it is there before the programs see that they may.
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            bss.stopped = false;
        }
    }

    /// Takes all programs out of the kernel's ways; the maps stay readable.
    pub fn detach(&mut self) {
        self.hops.clear();
        // The other way round than attached: a switch seen without its wake-up would look like a long wait.
        while self.links.pop().is_some() {}
    }

    /// The rings, for whoever drains them.
    pub fn ring_fds(&self) -> std::io::Result<Vec<OwnedFd>> {
        self.rings
            .iter()
            .map(|r| r.as_fd().try_clone_to_owned())
            .collect()
    }

    /// A map by the kernel side's name for it.
    pub fn map_fds(&self) -> std::io::Result<MapFds> {
        let m = &self.skel.maps;
        Ok(MapFds {
            pty_io: m.pty_io.as_fd().try_clone_to_owned()?,
            pty_flush: m.pty_flush.as_fd().try_clone_to_owned()?,
            hop_stats: m.hop_stats.as_fd().try_clone_to_owned()?,
            losses: m.losses.as_fd().try_clone_to_owned()?,
        })
    }

    /// Run-time statistics of the own programs: `(name, runs, ns)`. They count only
    /// while somebody holds the descriptor of `aya::sys::enable_stats`.
    pub fn run_times(&self) -> Vec<(String, u64, u64)> {
        self.infos()
            .map(|(name, info)| (name, info.run_cnt, info.run_time_ns))
            .collect()
    }

    /// How often one of the own programs could not run, because it ran on that CPU already.
    pub fn missed(&self) -> u64 {
        self.infos().map(|(_, info)| info.recursion_misses).sum()
    }

    /// Memory that the kernel accounts to the own maps and programs, bytes. A hash that grows is in it as
    /// far as it has grown; the state of each traced thread is not, on kernels that do not account it.
    pub fn kernel_bytes(&self) -> Option<u64> {
        use libbpf_rs::skel::Skel;
        let object = self.skel.object();
        let maps = object
            .maps()
            .filter(|m| m.autocreate())
            .map(|m| locked(m.as_fd()));
        let programs = object
            .progs()
            .filter(|p| p.autoload())
            .map(|p| locked(p.as_fd()));
        let rings = self.rings.iter().map(|r| locked(r.as_fd()));
        maps.chain(programs).chain(rings).sum()
    }

    /// What the kernel tells of the own programs. By their descriptors: to look one up by its id would
    /// take CAP_SYS_ADMIN.
    fn infos(&self) -> impl Iterator<Item = (String, bpf_prog_info)> {
        use libbpf_rs::skel::Skel;
        let own = self.skel.object().progs().filter(|p| p.autoload());
        own.filter_map(|p| Some((p.name().to_string_lossy().into_owned(), info(p.as_fd())?)))
    }
}

/// Descriptors of the maps that user space reads.
#[derive(Debug)]
pub struct MapFds {
    /// `io_key` → `io_stats`.
    pub pty_io: OwnedFd,
    /// `flush_key` → `flush_stats`.
    pub pty_flush: OwnedFd,
    /// `hop_key` → `hist`.
    pub hop_stats: OwnedFd,
    /// `loss` → count, per CPU.
    pub losses: OwnedFd,
}

fn info(program: BorrowedFd<'_>) -> Option<bpf_prog_info> {
    let mut info = bpf_prog_info::default();
    let mut size = size_of::<bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `size` bytes to `info`, which holds plain numbers and, since it is
    // zero now, asks for none of the arrays that some of them could point to.
    let error = unsafe { bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut size) };
    (error == 0).then_some(info)
}

/// The `memlock` of a map or a program.
fn locked(object: BorrowedFd<'_>) -> Option<u64> {
    let path = format!("/proc/self/fdinfo/{}", object.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("memlock:"))?;
    line.trim().parse().ok()
}

/// What the identity of a connection is hashed with, of this run only: a number in the output tells
/// nothing of where the kernel has its sockets.
fn conn_key() -> [u64; 2] {
    use std::hash::{BuildHasher, RandomState};
    // The hasher of std takes its own key from the system's random numbers.
    let random = RandomState::new();
    [random.hash_one(0), random.hash_one(1)]
}

fn new_ring(bytes: u32) -> libbpf_rs::Result<MapHandle> {
    let opts = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: std::mem::size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as u64,
        ..Default::default()
    };
    MapHandle::create(MapType::RingBuf, Some("phux_ring"), 0, 0, bytes, &opts)
}

pub(super) fn run_iterator(program: &libbpf_rs::ProgramMut<'_>) -> Result<Vec<u8>, LoadError> {
    use std::io::Read;
    step("a task iterator", || {
        let link = program.attach()?;
        let mut all = Vec::new();
        libbpf_rs::Iter::new(&link)?.read_to_end(&mut all)?;
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_has_a_ring() {
        for cpus in 1..300 {
            for per_ring in 1..20 {
                let (rings, shift) = ring_layout(cpus, per_ring);
                assert!(
                    (cpus - 1) >> shift < rings,
                    "{cpus} CPUs, {per_ring} a ring"
                );
                assert!(1 << shift >= per_ring);
            }
        }
        assert_eq!(ring_layout(192, 8), (24, 3));
    }
}
