use phux_trace::probes::{*, trial::*};
use probe_ebpf::events::*;
fn main() {
    for f in Feature::ALL { println!("{:28} {:?}", f.name(), try_feature(f)); }
    let ns = pid_namespace(); println!("{ns:?}");
    let mut p = Probes::load(&Options{namespace: ns.unwrap(), fentry:false, flush:true, uprobe:true, stream:true, cpus_per_ring:None}).unwrap_or_else(|e| panic!("{e}"));
    for a in std::env::args().skip(1) { p.add_target(a.parse().unwrap()).unwrap(); }
    p.attach().unwrap_or_else(|e| panic!("{e}"));
    let h = p.seed().unwrap();
    println!("holders {}", h.len()/std::mem::size_of::<pty_holder>());
    std::thread::sleep(std::time::Duration::from_secs(5));
    p.detach();
    let d = p.dump_threads().unwrap();
    println!("{} bytes, {} each", d.len(), std::mem::size_of::<thread_stats>());
    for c in d.chunks_exact(std::mem::size_of::<thread_stats>()) {
        let t: thread_stats = unsafe { std::ptr::read_unaligned(c.as_ptr().cast()) };
        let comm = |c: &[std::os::raw::c_char]| c.iter().take_while(|c| **c!=0).map(|c| *c as u8 as char).collect::<String>();
        println!("{} {} {} rel {} phase {} on {}ms blocked {}ms vol {} inv {} mig {} wait n {} sum {} max {} | idle {} other {} unk {}", t.tgid, t.tid, comm(&t.comm), t.relation, t.phase, t.on_cpu_ns/1000000, t.blocked_ns/1000000, t.voluntary, t.involuntary, t.migrations, t.wait.count, t.wait.sum, t.wait.max, t.blame.idle_ns, t.blame.other_ns, t.blame.unknown_ns);
        let s: u64 = t.blame.culprits.iter().map(|c| c.ns).sum::<u64>() + t.blame.idle_ns + t.blame.other_ns + t.blame.unknown_ns;
        println!("   blamed {} = {:.4}", s, s as f64 / t.wait.sum.max(1) as f64);
        for c in t.blame.culprits.iter().filter(|c| c.slices>0).take(5) { println!("    {:?} {} {}ns {} slices nice {}", c.pids, comm(&c.comm), c.ns, c.slices, c.sched.nice); }
        for w in t.wakers.by.iter().filter(|c| c.count>0).take(4) { println!("    woken by {} {}", comm(&w.comm), w.count); } println!("    irq {}", t.wakers.interrupt);
    }
    for (n, r, ns) in p.run_times() { println!("{n} {r} {ns}"); }
}
