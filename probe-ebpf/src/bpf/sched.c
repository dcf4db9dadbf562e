/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Run-queue latency, on-CPU and blocked time of the traced threads, and who ran instead. */
#include "blame.h"
#include "offcpu.h"
#include "tty.h"

/*
 * Bits of preempt_count: NMI, hard interrupt, or serving a soft one; soft interrupts merely
 * off do not count. The loader has others where the kernel's are elsewhere.
 */
const volatile __u32 interrupt_bits = 0x00ff0100;

/*
 * x86 keeps preempt_count in a per-CPU variable whose address many kernels hide
 * (no KALLSYMS_ALL). The run queue is another one, and a task points to it: the
 * loader sets the distance between the two, from BTF. 0: not known.
 */
const volatile __s64 rq_to_preempt_count = 0;

static __always_inline bool in_interrupt(struct task_struct *me)
{
	int count = 0;

#ifdef __TARGET_ARCH_x86
	void *rq;

	if (!rq_to_preempt_count)
		return false;
	rq = me->se.cfs_rq->rq;
	bpf_probe_read_kernel(&count, sizeof(count), rq + rq_to_preempt_count);
#else
	count = me->thread_info.preempt_count;
#endif
	return count & interrupt_bits;
}

static __always_inline void wait_begins(struct thread *t, __u64 now)
{
	t->s.phase = PHASE_WAITING;
	t->s.phase_since = now;
	t->segment = now;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *p)
{
	struct thread *t = thread_of(p);
	struct flush_key flush = {};
	bool slept, interrupt;
	struct task_struct *me;
	__u64 now;

	if (!t)
		return 0;
	/*
	 * A thread that still runs and is woken has not waited. One that is switched
	 * out at this very moment is caught when it comes back: see unseen_wake().
	 */
	slept = t->s.phase == PHASE_BLOCKED || (t->s.phase == PHASE_UNKNOWN && !p->on_cpu);
	if (!slept && !following())
		return 0;
	me = bpf_get_current_task_btf();
	now = bpf_ktime_get_ns();
	/* The interrupted task is not the waker. */
	interrupt = in_interrupt(me);
	if (!interrupt && (me->flags & PF_WQ_WORKER))
		flush_under_way(&flush, me);
	if (following())
		off_waking(t, me, interrupt, &flush, now);
	if (!slept)
		return 0;
	/* One that was not seen yet has slept since it is traced. */
	t->s.blocked_ns += elapsed(t->s.phase == PHASE_BLOCKED ? t->s.phase_since : t->s.traced_since, now);
	wait_begins(t, now);
	if (following())
		throttling_begins(t, p, now);
	t->reader_of = flush;
	if (interrupt)
		t->s.wakers.interrupt++;
	else
		wakers_add(&t->s.wakers, me->group_leader->comm);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *p)
{
	struct thread *t = thread_of(p);

	if (!t)
		return 0;
	wait_begins(t, bpf_ktime_get_ns());
	if (following())
		off_new(t, p, t->s.phase_since);
	return 0;
}

/* A time of the run queue's clock, which stops while the queue is idle, as one of ours. */
static __always_inline __u64 from_rq_clock(struct task_struct *p, __u64 time, __u64 now)
{
	__u64 clock = BPF_CORE_READ(p, se.cfs_rq, rq, clock);

	return time && time <= clock && clock - time <= now ? now - (clock - time) : now;
}

static __always_inline __u64 run_delay_of(struct task_struct *p)
{
	return bpf_core_field_exists(p->sched_info.run_delay) ? p->sched_info.run_delay : 0;
}

/*
 * The kernel does not tell of every switch: away from a task that it preempts where
 * it does not trace, the next one comes unseen (1 in 1,000 under load). Its own
 * account tells when that was, but not who had the CPU before.
 */
static __always_inline void unseen_arrival(struct thread *t, struct task_struct *p, __u64 now)
{
	__u64 arrived = now, waited, since = t->s.phase_since;

	if (bpf_core_field_exists(p->sched_info.last_arrival))
		arrived = from_rq_clock(p, p->sched_info.last_arrival, now);
	if (arrived < since)
		arrived = since;
	if (t->s.phase == PHASE_BLOCKED) {
		waited = run_delay_of(p) - t->run_delay;
		if (waited > arrived - since)
			waited = arrived - since;
		t->s.blocked_ns += arrived - since - waited;
		wait_begins(t, arrived - waited);
	}
	if (arrived < t->segment)
		arrived = t->segment;
	hist_add(&t->s.wait, arrived - t->s.phase_since);
	t->s.blame.unknown_ns += arrived - t->segment;
	if (following()) {
		t->off.blame.unknown_ns += arrived - t->segment;
		off_ends(t, p, t->s.phase_since, arrived);
	}
	t->s.phase = PHASE_RUNNING;
	t->s.phase_since = arrived;
}

static __always_inline void switched_out(struct thread *t, struct task_struct *p, bool runnable,
					 unsigned int state, __u64 now)
{
	if (t->s.phase == PHASE_BLOCKED || t->s.phase == PHASE_WAITING)
		unseen_arrival(t, p, now);
	t->run_delay = run_delay_of(p);
	if (t->s.phase == PHASE_RUNNING)
		t->s.on_cpu_ns += elapsed(t->s.phase_since, now);
	else if (t->s.phase == PHASE_UNKNOWN) /* it has run since it was first seen */
		t->s.on_cpu_ns += elapsed(t->s.traced_since, now);
	t->reader_of.pty.devpts = 0;
	if (following())
		off_leaves(t, p, runnable, state, now);
	if (runnable) {
		t->s.involuntary++;
		wait_begins(t, now);
	} else {
		t->s.voluntary++;
		t->s.phase = PHASE_BLOCKED;
		t->s.phase_since = now;
	}
}

/*
 * When a thread that was blocked until now became runnable. Its waker came between
 * the decision to sleep and the switch, or its wake-up was not seen; the kernel's own
 * account of when it was queued, in the run queue's clock, tells in both cases.
 */
static __always_inline __u64 unseen_wake(struct thread *t, struct task_struct *p, __u64 now)
{
	__u64 since = t->s.phase_since, queued;

	if (!bpf_core_field_exists(p->sched_info.last_queued) || !p->sched_info.last_queued)
		return since;
	queued = from_rq_clock(p, p->sched_info.last_queued, now);
	return queued < since ? since : queued;
}

static __always_inline void switched_in(struct thread *t, struct task_struct *p,
					struct cpu_slices *cpu, __u64 now)
{
	if (t->s.phase == PHASE_BLOCKED) {
		__u64 woken = unseen_wake(t, p, now);

		t->s.blocked_ns += woken - t->s.phase_since;
		wait_begins(t, woken);
	}
	if (t->s.phase == PHASE_WAITING) {
		__u64 wait = elapsed(t->s.phase_since, now);

		hist_add(&t->s.wait, wait);
		blame_wait(&t->s.blame, &t->off.blame, t->s.tgid, cpu, t->segment, now, false, NULL);
		if (t->reader_of.pty.devpts)
			reader_waited(&t->reader_of, wait);
	}
	if (following()) {
		off_ends(t, p, t->s.phase == PHASE_WAITING ? t->s.phase_since : now, now);
		t->interrupts = interrupts_of(p);
	}
	t->s.phase = PHASE_RUNNING;
	t->s.phase_since = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct cpu_slices *cpu;
	struct thread *t;
	__u64 now;

	if (*(volatile bool *)&stopped)
		return 0;
	cpu = slices_of(bpf_get_smp_processor_id());
	now = bpf_ktime_get_ns();
	if (cpu)
		slice_switch(cpu, prev, next, now);
	t = thread_of(prev);
	if (t)
		switched_out(t, prev, preempt || prev_state == TASK_RUNNING, prev_state, now);
	t = thread_of(next);
	if (t)
		switched_in(t, next, cpu, now);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *p, int dest_cpu)
{
	struct thread *t = thread_of(p);
	__u64 now;

	if (!t)
		return 0;
	t->s.migrations++;
	/* At a wake-up the CPU is only being chosen: it has queued nowhere yet. */
	if (t->s.phase != PHASE_WAITING || p->__state == TASK_WAKING)
		return 0;
	now = bpf_ktime_get_ns();
	blame_wait(&t->s.blame, &t->off.blame, t->s.tgid, slices_of(p->thread_info.cpu), t->segment, now,
		   true, NULL);
	t->off.migrations++;
	t->segment = now;
	return 0;
}
