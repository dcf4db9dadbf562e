//! Where the kernel keeps per-CPU variables, from its BTF.

use libbpf_rs::btf::types::{DataSec, MemberAttr, Var};

use libbpf_rs::btf::{Btf, ReferencesType as _, TypeId};

/// Bytes from a CPU's run queue to its `preempt_count`, on x86, where many
/// kernels do not give the addresses of either. `None`: not known.
pub(crate) fn rq_to_preempt_count() -> Option<i64> {
    let btf = Btf::from_vmlinux().ok()?;
    let (mut rq, mut count) = (None, None);
    for section in btf.type_by_kind::<DataSec<'_>>() {
        for at in section.iter() {
            let Some(var) = btf.type_by_id::<Var<'_>>(at.ty) else {
                continue;
            };
            let offset = i64::from(at.offset);
            match var.name().and_then(|n| n.to_str()) {
                Some("runqueues") => rq = Some(offset),
                Some("__preempt_count") => count = Some(offset),
                // Between 6.2 and 6.14 it shared a cache line with others.
                Some("pcpu_hot") => {
                    count = preempt_count_in(&btf, at.ty).map(|within| offset + within);
                }
                _ => {}
            }
        }
    }
    Some(count? - rq?)
}

/// The bits of `preempt_count` by which a kernel that counts `local_interrupt_disable()` (seen in
/// 7.3) is known to be in an interrupt: that count took the place of the hard interrupts', which,
/// with the NMIs', are 8 bits further up. `None`: where they always were.
pub(super) fn interrupt_bits() -> Option<u32> {
    let btf = Btf::from_vmlinux().ok()?;
    btf.type_by_name::<Var<'_>>("local_interrupt_disable_state")?;
    Some(0x7f00_0100)
}

/// Whether this kernel measures its time in interrupts, and so tells how much of a slice they had.
pub(crate) fn tells_interrupt_time() -> bool {
    use libbpf_rs::btf::types::Struct;
    let Ok(btf) = Btf::from_vmlinux() else {
        return false;
    };
    let queue = btf.type_by_name::<Struct<'_>>("rq");
    queue.is_some_and(|q| member(&btf, q.type_id(), "prev_irq_time", 0).is_some())
}

fn preempt_count_in(btf: &Btf<'_>, var: TypeId) -> Option<i64> {
    let pcpu_hot = btf
        .type_by_id::<Var<'_>>(var)?
        .referenced_type()
        .skip_mods_and_typedefs();
    member(btf, pcpu_hot.type_id(), "preempt_count", 0)
}

/// The member may stand in anonymous unions and structs.
fn member(btf: &Btf<'_>, composite: TypeId, name: &str, depth: u32) -> Option<i64> {
    use libbpf_rs::btf::types::Composite;
    if depth > 4 {
        return None;
    }
    let composite = btf.type_by_id::<Composite<'_>>(composite)?;
    for m in composite.iter() {
        let MemberAttr::Normal { offset } = m.attr else {
            continue;
        };
        let at = i64::from(offset / 8);
        match m.name.and_then(|n| n.to_str()) {
            Some(found) if found == name => return Some(at),
            None | Some("") => {
                if let Some(within) = member(btf, m.ty, name, depth + 1) {
                    return Some(at + within);
                }
            }
            Some(_) => {}
        }
    }
    None
}
