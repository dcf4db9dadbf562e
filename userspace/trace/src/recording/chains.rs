//! Echoes as rows.

use phux_recording::{Cgroup as CgroupRow, Echo, EchoLink, Names};

use super::Put;
use crate::echo::{self, Chain};
use crate::report::model::{Cgroup, ChainRow, LinkRow, SleepKind};

/// Gives the rows of an echo that has ended.
pub fn write(chain: &Chain, known: &dyn echo::Names, names: &mut Names, out: &mut impl Put) {
    let row: ChainRow = echo::rows::chain(chain, known);
    let slowest = row.links.iter().max_by_key(|l| l.length_ns);
    out.put(Echo {
        ts: chain.begin,
        echo: chain.id,
        dur: row.length_ns,
        devpts: chain.pty.devpts,
        pty: chain.pty.index,
        pid: row.links.first().map_or(0, |l| l.actor.pid),
        bytes: row.bytes,
        end: names.get(&plain(&row.end)),
        links: row.links.len() as u32,
        slowest: names.get(&slowest.map(|l| plain(&l.link)).unwrap_or_default()),
        ..Default::default()
    });
    for (nth, l) in row.links.iter().enumerate() {
        let link = link(chain, nth as u32, l, names);
        out.put(link);
    }
}

fn link(chain: &Chain, nth: u32, l: &LinkRow, names: &mut Names) -> EchoLink {
    let worst = l.ran_instead.first();
    let slept = l.blocked_on.first().map(|s| match s.what {
        SleepKind::PageFault => "page fault".to_owned(),
        _ => s.syscall.clone().unwrap_or_default(),
    });
    let place = &l.actor.place;
    EchoLink {
        ts: chain.begin.saturating_add(l.from_ns),
        echo: chain.id,
        link: nth,
        dur: l.length_ns,
        name: names.get(&plain(&l.link)),
        pid: l.actor.pid,
        tid: l.actor.tid,
        comm: names.get(&l.actor.name),
        on_cpu_ns: l.parts.on_cpu_ns,
        runq_ns: l.parts.run_queue_ns,
        blocked_ns: l.parts.blocked_ns,
        interrupt_ns: l.parts.interrupt_ns,
        throttled_ns: l.parts.throttled_ns,
        blocked_in: names.get(&slept.unwrap_or_default()),
        instead: names.get(worst.map_or("", |r| &r.name)),
        instead_pid: worst.and_then(|r| r.pids.first().copied()).unwrap_or(0),
        instead_ns: worst.map_or(0, |r| r.ns),
        policy: chain
            .links
            .get(nth as usize)
            .map_or(0, |l| l.actor.place.class.policy),
        nice: chain
            .links
            .get(nth as usize)
            .map_or(0, |l| l.actor.place.class.nice),
        rt_priority: chain
            .links
            .get(nth as usize)
            .map_or(0, |l| l.actor.place.class.rt_priority),
        cgroup: names.get(place.cgroup.as_ref().map_or("", |c| &c.path)),
        ..Default::default()
    }
}

/// The word that JSON has for it.
fn plain(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// A cgroup as a row.
pub fn cgroup(c: &Cgroup, ts: u64, names: &mut Names) -> CgroupRow {
    let weights: Vec<String> = c.weights.iter().map(u32::to_string).collect();
    CgroupRow {
        ts,
        id: c.id,
        path: names.get(&c.path),
        version_1: c.version_1,
        weight: c.weight.map(u64::from),
        weights: names.get(&weights.join(",")),
        quota_us: c.quota_us,
        period_us: c.period_us,
        quota_path: names.get(c.quota_path.as_deref().unwrap_or_default()),
        cpus: names.get(c.cpus.as_deref().unwrap_or_default()),
        ..Default::default()
    }
}

/// And back.
pub fn cgroup_of(r: &CgroupRow) -> Cgroup {
    let text = |n: &str| (!n.is_empty()).then(|| n.to_owned());
    Cgroup {
        id: r.id,
        path: r.path.to_string(),
        version_1: r.version_1,
        weight: r.weight.and_then(|w| u32::try_from(w).ok()),
        weights: r
            .weights
            .split(',')
            .filter_map(|w| w.parse().ok())
            .collect(),
        quota_us: r.quota_us,
        period_us: r.period_us,
        quota_path: text(&r.quota_path),
        cpus: text(&r.cpus),
    }
}
